"""`danlu tokenizer compare`: which vocabulary size, by figures.

`danlu tokenizer` alone runs the stage (flows/cli.py).
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from flows import terminal
from flows.options import (
    DEFAULT_STORE,
    JsonOption,
    NameOption,
    RecipeOption,
    SetOption,
    StoreOption,
    WorkersOption,
    guarded,
    latest_pipeline,
    open_dataset,
)

MIN_WIDTH = 190
SHARE_ERROR = 0.03  # of the pieces; beyond it the table says so
SIZES = "32000,64000,85000,128000"


def compare(
    sizes: Annotated[str, typer.Option(help="Vocabulary sizes, separated by commas.")] = SIZES,
    hidden_size: Annotated[int, typer.Option(help="Of the model, for the memory of its embedding.")] = 2048,
    samples: Annotated[int, typer.Option(help="Samples without a common document that each size is fitted to.")] = 2,
    min_gain: Annotated[float, typer.Option(help="Share of the tokens that a doubling should save.")] = 0.03,
    max_embedding_mb: Annotated[float | None, typer.Option(help="Largest embedding table allowed, in bf16.")] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE of a tokenizer to compare with: .model, .json or .tiktoken. May be repeated."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    workers: WorkersOption = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit tokenizers of several sizes to the current mix, compare them on held-out text, and recommend one.

    danlu tokenizer compare --sizes 8000,16000,32000 --store out/store

    danlu tokenizer compare --set tokenizer.sample_chars=3000000 --published qwen=qwen.tiktoken

    The settings are those of the recipe's tokenizer stage; --set changes them. Stopped with Ctrl-C, the same command
    goes on with the sizes that are not done. `danlu report` shows the result with plots.
    """

    def action() -> None:
        from flows.config import load_config
        from tasks.store.filesystem import Store
        from tasks.tokenizer.compare import CompareConfig
        from tasks.tokenizer.recommend import Rule

        pipeline, record = latest_pipeline(Store(store), name)
        request = record["request"]
        asked = load_config(
            recipe or request["recipe"],
            settings=(*request["settings"], *(settings or ())),
            inputs=() if recipe else request["inputs"],
            name=pipeline,
        )
        limit = None if max_embedding_mb is None else int(max_embedding_mb * 1e6)
        config = CompareConfig(
            rule=Rule(min_gain_per_doubling=min_gain, max_embedding_bytes=limit),
            sizes=numbers(sizes),
            hidden_size=hidden_size,
            num_samples=samples,
            published=dict(pair(given) for given in published or ()),
            tokenizer=asked.tokenizer,
        )
        dataset = compared(store, pipeline, config, workers)
        show(read(dataset), as_json, str(dataset.url))

    guarded(action)


def compared(store: str, pipeline: str, config: Any, workers: int | None) -> Any:
    """The dataset of the experiment on the current mix, run where it is not in the store."""
    from flows.engine import default_workers
    from tasks import spread
    from tasks.stage import run_stage
    from tasks.store.filesystem import Store
    from tasks.tokenizer.compare import STAGE

    watcher = terminal.TerminalWatcher()
    watcher.stage_started(STAGE)
    try:
        result = run_stage(
            STAGE,
            store=Store(store),
            pipeline=pipeline,
            config=config,
            inputs={"mix": open_dataset(store, "mix", pipeline)},
            workers=default_workers() if workers is None else workers,
            progress=watcher.progress,
        )
    finally:
        watcher.close()
        spread.shutdown()
    watcher.stage_finished(STAGE, result)
    return result.dataset


def numbers(given: str) -> tuple[int, ...]:
    """`8000,16000` as rising numbers."""
    try:
        return tuple(sorted({int(part.replace("_", "")) for part in given.split(",") if part.strip()}))
    except ValueError as error:
        raise ValueError(f"--sizes {given}: expected numbers separated by commas, such as {SIZES}") from error


def pair(given: str) -> tuple[str, str]:
    name, separator, path = given.partition("=")
    if not (name and separator and path):
        raise ValueError(f"--published {given}: expected NAME=FILE, such as qwen=qwen.tiktoken")
    return name, path


def read(dataset: Any) -> dict[str, Any]:
    """The comparison, each row with the seconds it took."""
    with dataset.open("comparison.json") as file:
        comparison = json.load(file)
    with dataset.open("timings.json") as file:
        timings = json.load(file)
    for row in comparison["rows"]:
        row["seconds"] = timings[f"{row['size']:06d}-{row['sample']}"]
    return comparison


def show(comparison: dict[str, Any], as_json: bool, url: str) -> None:
    if as_json:
        print(json.dumps(comparison, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.width = max(console.width, MIN_WIDTH)  # a narrower table would show no figures
    for row in comparison["rows"]:
        if row["status"] == "too_small":
            console.print(
                f"{row['size']:,}: sample {row['sample']} has text for {row['vocab_size']:,} pieces only; not measured"
            )
        elif short := [
            g for g, pieces in row["vocabulary"].items() if pieces["target"] - pieces["share"] > SHARE_ERROR
        ]:
            pieces = [row["vocabulary"][group] for group in short]
            lacks = ", ".join(
                f"{group} {100 * p['share']:.1f} of {100 * p['target']:.1f} %"
                for group, p in zip(short, pieces, strict=True)
            )
            console.print(f"{row['size']:,}: sample {row['sample']} has not the text for all shares of pieces: {lacks}")
    console.print(compare_table(comparison))
    if not comparison["published"]:
        console.print("no installed package ships a tokenizer to compare with (give --published NAME=FILE)")
    advice = comparison["recommendation"]
    if advice["size"] is not None:
        console.print(f"[bold]recommended: {advice['size']:,}[/bold]  {terminal.escape(advice['reason'])}")
    agree = {True: "both conclude the same", False: "they conclude differently", None: "nothing to compare"}
    each = ", ".join(f"{sample}: {size:,}" for sample, size in advice["by_sample"].items())
    errors = comparison["sampling_error"]["bytes_per_token"]
    spread = ", ".join(f"{group} {100 * value:.2f} %" for group, value in errors.items())
    console.print(
        f"by sample {each} ({agree[advice['samples_agree']]}); bytes per token differ by at most {spread or '–'}"
    )
    console.print(f"[dim]{url}[/dim]", soft_wrap=True)


def compare_table(comparison: dict[str, Any]) -> Table:
    """One row a size and sample, then the published ones."""
    rows = [row for row in comparison["rows"] if row["status"] == "measured"]
    groups = sorted({group for row in (*rows, *comparison["published"]) for group in row["groups"]})
    table = Table(title="bytes per token by language, on held-out text", box=SIMPLE, padding=(0, 1, 0, 0))
    heads = [*groups, *(f"{g} in bytes" for g in groups), "tokens/char zh", "tokens/word en", "Rényi 2.5"]
    for column in ("vocabulary", *heads, "used", f"bf16 MB ({comparison['hidden_size']})", "fit s", "encode MB/s"):
        table.add_column(column, justify="left" if column == "vocabulary" else "right", no_wrap=column == "vocabulary")
    for row in rows:
        seconds = row["seconds"]
        table.add_row(
            f"{row['size']:,} / {row['sample']}",
            *cells(row, groups),
            f"{row['embedding_bytes']['bf16'] / 1e6:,.0f}",
            f"{seconds['fit']:.0f}",
            f"{seconds['encode_mb_per_second']:.1f}",
        )
    table.add_section()
    for row in comparison["published"]:
        table.add_row(terminal.escape(f"{row['name']} ({row['vocab_size']:,})"), *cells(row, groups), "", "", "")
    return table


def cells(row: dict[str, Any], groups: list[str]) -> list[str]:
    """What sizes and published tokenizers share."""
    found = [row["groups"].get(group) for group in groups]
    per_token = ["–" if g is None else f"{g['bytes_per_token']:.3f}" for g in found]
    unknown = ["–" if g is None else f"{100 * g['byte_fallback_rate']:.3f} %" for g in found]
    zh, en = row["groups"].get("zh"), row["groups"].get("en")
    of_zh = f"{zh['tokens_per_char']:.3f}" if zh else "–"
    of_en = f"{en['tokens_per_word']:.2f}" if en and en["tokens_per_word"] else "–"
    return [
        *per_token,
        *unknown,
        of_zh,
        of_en,
        f"{row['renyi_efficiency']:.3f}",
        f"{100 * (1 - row['unused_share']):.0f} %",
    ]
