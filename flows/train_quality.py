"""`danlu train-quality`: a quality classifier from examples of good and bad documents.

Examples are files, folders, or documents that a store holds (kept, or dropped for a reason), or those labelled with
`danlu review`. The model file goes with a card of the same name and ".json": what it was made from, and how well it
tells documents apart that it has not seen.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from flows import terminal
from flows.options import DEFAULT_STORE, JsonOption, NameOption, StoreOption, guarded, open_dataset
from tasks.clean.language.quality_training import Example, QualityTrainingConfig, Trained, example, train

LINES = (".jsonl", ".ndjson", ".json")
TABLES = (".parquet",)
PLAIN = (".txt", ".md", ".text")
PACKED = (".gz", ".zst", ".bz2", ".xz")
NOTE_EVERY = 10_000  # documents

Text = tuple[str, str | None]  # text, language where the record names it


def train_quality(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write; its card gets .json.")],
    positive: Annotated[
        list[str] | None, typer.Option("--positive", help="Good examples: file, folder, or STAGE. May be repeated.")
    ] = None,
    negative: Annotated[
        list[str] | None, typer.Option("--negative", help="Bad ones: also STAGE/removed or STAGE/removed/REASON.")
    ] = None,
    labels: Annotated[
        list[str] | None, typer.Option("--labels", help="STAGE whose documents were labelled with `danlu review`.")
    ] = None,
    eval_fraction: Annotated[float, typer.Option(help="Share of the documents held out to measure.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the split and of training.")] = 1,
    epochs: Annotated[int, typer.Option(help="Passes over the examples.")] = 10,
    max_documents: Annotated[int, typer.Option(help="Use at most so many of each class.")] = 100_000,
    quantize: Annotated[bool, typer.Option("--quantize", help="A model about a fifth as large.")] = False,
    text_field: Annotated[str, typer.Option(help="Field of JSON lines and Parquet that holds the text.")] = "text",
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a classifier that tells good documents from bad ones, and measure it on documents held out.

    danlu train-quality --positive filter --negative filter/removed --output quality.bin

    danlu train-quality --positive books.jsonl.zst --negative spam/ --labels filter --output quality.bin

    JSON lines (.gz, .zst too), Parquet and text files are read; a STAGE is its current dataset. Then filter by it:

    danlu run ... --set language.quality_model=quality.bin --set filter.min_quality=0.3
    """

    def action() -> None:
        config = QualityTrainingConfig(
            eval_fraction=eval_fraction, seed=seed, epochs=epochs, max_documents=max_documents, quantize=quantize
        )
        reader = Reader(store, name, text_field)
        given = {"positive": list(positive or ()), "negative": list(negative or ()), "labels": list(labels or ())}
        if not given["labels"] and not (given["positive"] and given["negative"]):
            raise ValueError("give --positive and --negative examples, or --labels of a reviewed stage")
        texts = {
            good: reader.texts(given["positive" if good else "negative"], given["labels"], good)
            for good in (True, False)
        }
        made = train(examples(texts[True], "good", seed), examples(texts[False], "bad", seed), config, say)
        write(made, output)
        if as_json:
            print(json.dumps(made.card, ensure_ascii=False))
        else:
            show(made.card, output)

    guarded(action)


def say(note: str) -> None:
    terminal.console.print(terminal.escape(note), soft_wrap=True)


def examples(texts: Iterator[Text], kind: str, seed: int) -> Iterator[Example]:
    """Of each text with its language, identified where the record names none."""
    from tasks.clean.language.identify import identify

    number = 0
    for number, (text, language) in enumerate(texts, start=1):
        yield example(text, language or identify(text).language, seed)
        if number % NOTE_EVERY == 0:
            say(f"{number:,} {kind} documents read")
    say(f"{number:,} {kind} documents read")


class Reader:
    """Finds and reads what the options name."""

    def __init__(self, store: str, name: str | None, text_field: str):
        self.store, self.name, self.text_field = store, name, text_field

    def texts(self, sources: list[str], labelled: list[str], good: bool) -> Iterator[Text]:
        """All texts of `sources`, and the good or bad ones of labelled stages."""
        for source in sources:
            yield from self.source(source)
        for stage in labelled:
            yield from self.labelled(stage, good)

    def source(self, given: str) -> Iterator[Text]:
        """Raises ValueError or MissingInput when nothing has that name, or it holds nothing readable."""
        path = Path(given)
        if path.is_dir() and not (path / "manifest.json").exists():
            files = [each for each in sorted(path.rglob("*")) if each.is_file() and form_of(each)]
            if not files:
                raise ValueError(f"{given}: no file in it ends in {', '.join((*LINES, *TABLES, *PLAIN))}")
            for each in files:
                yield from self.file(each)
        elif path.is_file():
            if not form_of(path):
                raise ValueError(f"{given}: expected a name that ends in {', '.join((*LINES, *TABLES, *PLAIN))}")
            yield from self.file(path)
        else:
            yield from self.dataset(given)

    def file(self, path: Path) -> Iterator[Text]:
        import fsspec

        form = form_of(path)
        if form in TABLES:
            yield from self.parquet(path)
            return
        with fsspec.open(str(path), "rb", compression="infer") as binary:
            stream = io.TextIOWrapper(binary, encoding="utf-8", errors="surrogateescape", newline="\n")
            if form in PLAIN:
                yield stream.read(), None
                return
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield self.row(line, f"{path}: line {number}")

    def row(self, line: str, where: str) -> Text:
        """One JSON line. Raises ValueError, naming the place, for what has no text."""
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{where}: expected a JSON object, found {error}") from error
        if not isinstance(record, dict) or not isinstance(record.get(self.text_field), str):
            known = ", ".join(record) if isinstance(record, dict) else type(record).__name__
            raise ValueError(
                f"{where}: no text in the field {self.text_field!r}; it has {known}. Name it: --text-field"
            )
        language = record.get("language")
        return record[self.text_field], language if isinstance(language, str) else None

    def parquet(self, path: Path) -> Iterator[Text]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as table:
            names = table.schema_arrow.names
            if self.text_field not in names:
                raise ValueError(
                    f"{path}: no column {self.text_field!r}; it has {', '.join(names)}. Name it: --text-field"
                )
            columns = [self.text_field, *(["language"] if "language" in names else [])]
            for batch in table.iter_batches(batch_size=1_000, columns=columns):
                for row in batch.to_pylist():
                    if row[self.text_field] is not None:
                        yield row[self.text_field], row.get("language")

    def dataset(self, given: str) -> Iterator[Text]:
        """`STAGE`: what it kept; `STAGE/removed`, `STAGE/removed/REASON`: what it dropped."""
        stage, _, rest = given.partition("/removed") if "/removed" in given else (given, "", None)
        try:
            dataset = open_dataset(self.store, stage, self.name)
        except ValueError as error:
            raise ValueError(f"{given}: no such file or folder, and no stage: {error}") from error
        files = dataset.files("shard") if rest is None else dataset.files("removed")
        reason = (rest or "").strip("/")
        chosen = [entry for entry in files if not reason or entry.name.split("/")[1] == reason]
        if not chosen:
            reasons = sorted({entry.name.split("/")[1] for entry in dataset.files("removed")})
            raise ValueError(f"{given}: no documents; {stage} dropped some for: {', '.join(reasons) or 'no reason'}")
        for entry in chosen:
            for batch in dataset.batches(entry, ["text", "language"]):
                for row in batch.to_pylist():
                    yield row["text"], row["language"]

    def labelled(self, given: str, good: bool) -> Iterator[Text]:
        """Documents that a reviewer found good: rightly kept, or wrongly dropped; or bad: the reverse."""
        from tasks.review import labels

        dataset = open_dataset(self.store, given, self.name)
        known = labels.load(dataset).by_key.values()
        ids = {each.id for each in known if verdict_is_good(each.decision, each.verdict) is good}
        if not known:
            raise ValueError(f"--labels {given}: nothing of it is labelled yet; run `danlu review {given} --label`")
        for entry in [*dataset.files("shard"), *dataset.files("removed")]:
            for batch in dataset.batches(entry, ["id", "text", "language"]):
                for row in batch.to_pylist():
                    if row["id"] in ids:
                        yield row["text"], row["language"]


def verdict_is_good(decision: str, verdict: str) -> bool | None:
    """Whether a labelled document is a good one; None where the reviewer was unsure."""
    if verdict not in ("right", "wrong"):
        return None
    return (decision == "kept") is (verdict == "right")


def form_of(path: Path) -> str | None:
    """The suffix that says how to read a file, compression taken off; None for any other."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    last = suffixes[-1] if suffixes else None
    packed_table = last in TABLES and path.suffix in PACKED
    return last if last in (*LINES, *TABLES, *PLAIN) and not packed_table else None


def write(made: Trained, output: Path) -> None:
    """Model and card; each is whole or not there."""
    output.parent.mkdir(parents=True, exist_ok=True)
    card = json.dumps(made.card, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    for path, data in ((output, made.model), (card_of(output), card.encode())):
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(data)
        temporary.replace(path)


def card_of(output: Path) -> Path:
    return output.with_name(output.name + ".json")


def show(card: dict[str, Any], output: Path) -> None:
    """The held-out figures as two tables."""
    table = Table(title="held-out documents")
    for column in ("language", "positive", "negative", "precision", "recall", "AUC", "AUC of length alone"):
        table.add_column(column, justify="left" if column == "language" else "right")
    for language, row in (("all", card["held_out"]), *card["held_out_by_language"].items()):
        table.add_row(language, *("–" if value is None else f"{value:,}" for value in row.values()))
    limits = Table(title="what filter.min_quality would keep")
    for column in ("min_quality", "of the good", "of the bad"):
        limits.add_column(column, justify="right")
    for row in card["thresholds"]:
        limits.add_row(*(f"{value:g}" for value in row.values()))
    terminal.console.print(table)
    terminal.console.print(limits)
    say(f"model: {output}\ncard:  {card_of(output)}")
    say(f"use:   danlu run … --set language.quality_model={output} --set filter.min_quality=…")
