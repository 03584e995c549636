"""The vocabulary experiment: tokenizers of several sizes, each fitted to two samples that share no document.

Documents fall by their ids into `num_samples` samples and a part that is held out; both samples are measured on the
same held-out text, so what differs between them is the error of sampling. The list of characters that must be pieces is
that of the whole corpus, as in the tokenizer stage, so byte fallback is what this corpus meets, not another one. Each
size and sample is a part of its own: after Ctrl-C the finished ones stay. A size for which the sample has not enough
text is named and left out.

in    Document of the mix stage
out   comparison.json (figures), models/<size>-<sample>.model, timings.json (log: seconds differ from run to run)
ref   report 000 section 3.2: sizes compared by unknown characters, token length, coverage, memory
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import sampling
from tasks.stage import Part, PartResult, PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store, sha256_file
from tasks.tokenizer import measures, published
from tasks.tokenizer.characters import FOLDER, CharacterCounter, add_up
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.recommend import Rule, recommend
from tasks.tokenizer.sample import group_of, rates
from tasks.tokenizer.train import fit
from tasks.tokenizer.vocabulary import Row

SPLIT_SEED = 1_000_003  # apart from the draw that chooses within a sample
HELD_OUT = "held_out"
TOO_SMALL = "too_small"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareConfig:
    """Settings of the vocabulary experiment."""

    sizes: tuple[int, ...] = (32_000, 64_000, 85_000, 128_000)
    num_samples: int = 2
    held_out_fraction: float = 0.2  # of the documents
    eval_chars: int = 2_000_000  # of held-out text, by the language shares
    hidden_size: int = 2048  # of the model whose embedding is counted
    rule: Rule = field(default_factory=Rule)
    published: dict[str, str] = field(default_factory=dict)  # name: file of a tokenizer to compare with
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)

    def __post_init__(self) -> None:
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes: expected vocabulary sizes in rising order, found {list(self.sizes)}")
        for size in self.sizes:
            replace(self.tokenizer, vocab_size=size)  # raises for one that is too small for the symbols
        if not 0 < self.held_out_fraction < 1:
            raise ValueError(f"held_out_fraction: expected above 0 and below 1, found {self.held_out_fraction}")
        for name in ("num_samples", "eval_chars", "hidden_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, found {getattr(self, name)}")

    def key_settings(self) -> dict[str, Any]:
        """Without the paths of published tokenizers: their digests are part of the key (`raw_inputs`)."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "published"}
        return values | {"rule": asdict(self.rule), "tokenizer": asdict(self.tokenizer)}


def raw_inputs(config: CompareConfig) -> dict[str, str]:
    return {f"tokenizer {name}": sha256_file(path) for name, path in published_files(config).items()}


def published_files(config: CompareConfig) -> dict[str, Path]:
    """Name → file: what installed packages ship, and what the config names. Raises ValueError for a missing file."""
    given = {name: Path(path) for name, path in config.published.items()}
    for name, path in given.items():
        if not path.is_file():
            raise ValueError(f"published.{name}: no file {path}")
    return published.shipped() | given


def slot_of(document_id: str, config: CompareConfig) -> str:
    """Held out, or the number of the sample it may enter."""
    value = sampling.draw(config.tokenizer.seed + SPLIT_SEED, document_id)
    if value < config.held_out_fraction:
        return HELD_OUT
    return str(int((value - config.held_out_fraction) / (1 - config.held_out_fraction) * config.num_samples))


def count_part(payload: Any, config: CompareConfig, writer: PartWriter) -> dict[str, Any]:
    """Characters per slot, language group and slice of the draw."""
    histograms: dict[str, dict[str, list[int]]] = {}
    characters = CharacterCounter()
    for slot, group, identity, text in documents(payload, config):
        value = sampling.draw(config.tokenizer.seed, identity)
        sampling.count(histograms.setdefault(slot, {}), group, value, len(text))
        characters.add({group: [text]})
    writer.table(FOLDER, characters.table())
    return {"chars": histograms}


def sample_part(payload: Any, config: CompareConfig, writer: PartWriter) -> None:
    """The chosen documents of one shard, as the sidecar sample/<shard>.parquet."""
    chosen: list[tuple[str, str, str, int]] = []
    for slot, group, identity, text in documents(payload, config):
        rate = payload["rates"][slot].get(group)
        if rate and (times := rate.of(sampling.draw(config.tokenizer.seed, identity))):
            chosen.append((slot, group, text, times))
    kinds = {"slot": pa.string(), "group": pa.string(), "text": pa.large_string(), "times": pa.int32()}
    columns = [pa.array([row[i] for row in chosen], kind) for i, kind in enumerate(kinds.values())]
    writer.table("sample", pa.table(columns, names=list(kinds)))


def documents(payload: Any, config: CompareConfig) -> Any:
    """(slot, group, id, text) of one shard."""
    shares = config.tokenizer.language_shares
    for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], ["id", "text", "language"]):
        for row in batch.to_pylist():
            yield slot_of(row["id"], config), group_of(row["language"], shares), row["id"], row["text"]


def rows_of(store: Store, folder: str, names: Sequence[str], slot: str) -> list[Row]:
    """The sample of one slot, in the order of the shards."""
    rows: list[Row] = []
    for name in names:
        with store.open(f"{folder}/{name}") as file:
            table = pq.read_table(file, filters=[("slot", "=", slot)], columns=["group", "text", "times"])
        rows += [(row["group"], row["text"], row["times"]) for row in table.to_pylist()]
    return rows


def held_out_texts(store: Store, folder: str, names: Sequence[str]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for group, text, _ in rows_of(store, folder, names, HELD_OUT):
        texts.setdefault(group, []).append(text)
    return texts


def fit_part(payload: Any, config: CompareConfig, writer: PartWriter) -> dict[str, Any]:
    """One size on one sample: fit, measure on the held-out text."""
    size, slot, names = payload["size"], payload["slot"], payload["samples"]
    rows = rows_of(writer.store, writer.folder, names, slot)
    started = time.monotonic()
    settings = replace(config.tokenizer, vocab_size=size, hard_vocab_limit=False)
    fitted = fit(rows, add_up(writer.store, writer.folder, payload["characters"]), settings)
    fit_seconds = time.monotonic() - started
    row = {"size": size, "sample": slot, "vocab_size": fitted.tokenizer.vocab_size}
    if fitted.tokenizer.vocab_size < size:
        return {"figures": row | {"status": TOO_SMALL}, "seconds": {"fit": fit_seconds}}
    writer.file(f"models/{writer.name}.model", fitted.tokenizer.model)
    texts = held_out_texts(writer.store, writer.folder, names)
    started = time.monotonic()
    is_byte, begins = measures.byte_pieces(fitted.tokenizer)
    figures = measures.measure(fitted.tokenizer, texts, is_byte, begins)
    encoding = time.monotonic() - started
    num_bytes = sum(group["num_bytes"] for group in figures["groups"].values())
    row |= {"status": "measured", "vocabulary": fitted.shares, "num_compounds": len(fitted.compounds)}
    return {
        "figures": figures | row | memory(size, config.hidden_size),
        "seconds": {"fit": fit_seconds, "encode": encoding, "encode_mb_per_second": num_bytes / 1e6 / encoding},
    }


def memory(vocab_size: int, hidden_size: int) -> dict[str, dict[str, int]]:
    """Bytes of one embedding table (tied with the output layer; twice that untied)."""
    cells = vocab_size * hidden_size
    return {"embedding_bytes": {"fp32": 4 * cells, "bf16": 2 * cells}}


def published_part(payload: Any, config: CompareConfig, writer: PartWriter) -> dict[str, Any]:
    """A tokenizer of others on the same held-out text."""
    tokenizer = published.Published(Path(payload["path"]))
    texts = held_out_texts(writer.store, writer.folder, payload["samples"])
    started = time.monotonic()
    figures = measures.measure(tokenizer, texts, tokenizer.unknown, tokenizer.unknown)
    return {"figures": figures | {"name": payload["name"]}, "seconds": {"encode": time.monotonic() - started}}


def run(run: StageRun) -> None:
    config: CompareConfig = run.config
    counted, sampled = sample(run)
    characters = [entry.name for result in counted for entry in result.files]
    names = [entry.name for result in sampled for entry in result.files]
    digests = tuple(entry.sha256 for result in (*counted, *sampled) for entry in result.files)
    fits = [
        Part(
            name=f"{size:06d}-{slot}",
            step="fit",
            inputs=digests,
            payload={"size": size, "slot": str(slot), "samples": names, "characters": characters},
            settings={"tokenizer": asdict(config.tokenizer), "size": size, "hidden": config.hidden_size},
        )
        for size in config.sizes
        for slot in range(config.num_samples)
    ]
    measured = run.parts(fit_part, fits)
    others = [
        Part(
            name=f"published-{number}",
            step="published",
            inputs=(*digests, sha256_file(path)),
            payload={"name": name, "path": str(path), "samples": names},
            settings={"name": name},
        )
        for number, (name, path) in enumerate(published_files(config).items())
    ]
    theirs = run.parts(published_part, others)
    finish(run, measured, theirs)


def sample(run: StageRun) -> tuple[list[PartResult], list[PartResult]]:
    """Count, choose the rates, write the samples and the held-out text; what was counted, and what was written."""
    config: CompareConfig = run.config
    tokenizer = config.tokenizer
    splitting = {
        "seed": tokenizer.seed,
        "groups": sorted(tokenizer.language_shares),
        "samples": config.num_samples,
        "held_out": config.held_out_fraction,
    }
    counted = run.parts(count_part, run.shard_parts("count", splitting))
    chosen = {}
    for slot in (HELD_OUT, *map(str, range(config.num_samples))):
        histograms = sampling.merge([result.result["chars"].get(slot, {}) for result in counted])
        is_eval = slot == HELD_OUT
        sized = replace(tokenizer, sample_chars=config.eval_chars, max_repeats=1) if is_eval else tokenizer
        chosen[slot] = rates(histograms, sized)
    settings = splitting | {"rates": {slot: {g: asdict(r) for g, r in found.items()} for slot, found in chosen.items()}}
    return counted, run.parts(sample_part, run.shard_parts("sample", settings, rates=chosen))


def finish(run: StageRun, measured: list[PartResult], theirs: list[PartResult]) -> None:
    """Write the figures and the recommendation."""
    config: CompareConfig = run.config
    rows = [result.result["figures"] for result in measured]
    comparison = {
        "hidden_size": config.hidden_size,
        "rows": rows,
        "published": [result.result["figures"] for result in theirs],
        "recommendation": recommend(rows, config.rule),
        "sampling_error": sampling_error(rows),
    }
    seconds = {result.name: result.result["seconds"] for result in (*measured, *theirs)}
    run.output.add_file("comparison.json", json.dumps(comparison, ensure_ascii=False, indent=1).encode() + b"\n")
    run.output.add_file("timings.json", json.dumps(seconds, indent=1).encode() + b"\n", role="log")
    run.output.facts = {"recommendation": comparison["recommendation"], "sampling_error": comparison["sampling_error"]}


def sampling_error(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Largest difference between the samples of a size, relative to their mean, in bytes per token by group."""
    found: dict[str, list[float]] = {}
    for size in sorted({row["size"] for row in rows}):
        same = [row for row in rows if row["size"] == size and row["status"] == "measured"]
        for group in same[0]["groups"] if len(same) > 1 else ():
            values = [row["groups"][group]["bytes_per_token"] for row in same]
            found.setdefault(group, []).append((max(values) - min(values)) / (sum(values) / len(values)))
    return {"bytes_per_token": {group: max(values) for group, values in sorted(found.items())}}


STAGE = Stage(
    name="tokenizer_compare",
    module=__name__,
    config=CompareConfig,
    inputs=("mix",),
    run=run,
    raw_inputs=raw_inputs,
    summary="Fit tokenizers of several sizes to two samples and compare them.",
)
