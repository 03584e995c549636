"""The command line: `danlu run`, one command per stage, and the questions one asks of a store.

`run` and the stage commands work with no server. When a Prefect API is configured (`PREFECT_API_URL`, or a profile),
they run as Prefect flow runs and show up there.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from flows import terminal
from flows.config import to_yaml
from flows.engine import Request, Run, stage_name, upto
from flows.forget import forget
from flows.lengths import lengths
from flows.options import (
    DEFAULT_STORE,
    InputOption,
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
from flows.order import STAGES
from flows.review import review
from flows.shards import verify
from flows.sizes import sizes
from flows.tokenizer import compare
from flows.train_quality import train_quality
from tasks.settings import ConfigError
from tasks.stage import Stage
from tasks.store.collect import collect, garbage
from tasks.store.dataset import Dataset, current, references
from tasks.store.filesystem import Store

app = typer.Typer(
    help="danlu: raw text to checkpoint. Every stage is cached by content and accounts for every document.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def has_prefect_api() -> bool:
    """Whether a Prefect server is configured (the environment, or the active profile).

    Raises ConfigError when one is and does not answer.
    """
    from prefect.settings import PREFECT_API_URL

    from flows.serve import is_up

    api = os.environ.get("PREFECT_API_URL") or PREFECT_API_URL.value()
    if api and not is_up(api):
        raise ConfigError(
            f"PREFECT_API_URL is {api}, and no Prefect server answers there. Start one (`make serve`), or unset the "
            "variable to run without."
        )
    return bool(api)


def execute(request: Request, stages: list[Stage], as_json: bool) -> None:
    """Run `stages` in this process, under Prefect where a server is configured."""
    watcher = terminal.TerminalWatcher(as_json)

    def run_stages() -> None:
        with Run(request, watcher) as run:
            run.remember()
            terminal.console.print(
                f"pipeline {run.config.name}  store {run.store.url}  workers {run.workers}", soft_wrap=True
            )
            logging.getLogger(__name__).info("resolved settings:\n%s", to_yaml(run.config))
            for stage in stages:
                run.step(stage)
            show_products(run)

    try:
        run_stages() if not has_prefect_api() else as_prefect_flow(request, stages, watcher)
    finally:
        watcher.close()


def as_prefect_flow(request: Request, stages: list[Stage], watcher: terminal.TerminalWatcher) -> None:
    """The same as a Prefect flow run: the server shows progress, account and artifacts."""
    from prefect import flow

    from flows.artifacts import Both, PrefectWatcher, publish_summary
    from flows.pretrain import run_stage_task

    def body() -> None:
        with Run(request, Both(watcher, PrefectWatcher())) as run:
            run.remember()
            for stage in stages:
                run_stage_task(run, stage)
            publish_summary(run)
            show_products(run)

    flow(name="pretrain" if len(stages) > 1 else stages[0].name, persist_result=False)(body)()


def show_products(run: Run) -> None:
    """Where the things a person wants next are."""
    for stage, file, label in (
        ("train", "", "checkpoint"),
        ("export", "", "Hugging Face model"),
        ("report", "report.html", "report"),
    ):
        if stage in run.results:
            url = run.results[stage].dataset.url
            terminal.console.print(f"{label + ':':<20}{url}/{file}".rstrip("/"), soft_wrap=True)


@app.command()
def run(
    store: StoreOption = DEFAULT_STORE,
    inputs: InputOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    until: Annotated[str | None, typer.Option(help="Last stage to run, such as filter or minhash-dedup.")] = None,
    workers: WorkersOption = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the pipeline from raw files to checkpoint and report. Stages whose key is in the store are not run again.

    danlu run --input books/ --store out/books

    danlu run --config recipes/sample.yaml --store out/sample --set filter.min_chars=100 --until mix
    """
    request = Request(
        store=store,
        recipe=recipe,
        inputs=tuple(inputs or ()),
        settings=tuple(settings or ()),
        until=until,
        workers=workers,
        name=name,
    )
    guarded(lambda: execute(request, upto(STAGES, until), as_json))


def latest_request(store: str, name: str | None) -> Request:
    """What the latest run in this store was asked. Raises MissingInput when there was none."""
    request = latest_pipeline(Store(store), name)[1]["request"]
    tuples = {key: tuple(request[key]) for key in ("inputs", "settings")}
    return Request(**{**request, **tuples})


def request_for(
    store: str,
    recipe: str | None,
    inputs: list[str] | None,
    settings: list[str] | None,
    workers: int | None,
    name: str | None,
) -> Request:
    """A request for one stage or a question: what is not given is as the latest run of the store had it."""
    if recipe is None and not inputs:
        latest = latest_request(store, name)
        merged = (*latest.settings, *(settings or ()))
        return dataclasses.replace(latest, store=store, settings=merged, workers=workers, until=None)
    return Request(
        store=store,
        recipe=recipe,
        inputs=tuple(inputs or ()),
        settings=tuple(settings or ()),
        workers=workers,
        name=name,
    )


@app.command()
def resume(
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with the latest run of a store, with the settings it was given."""

    def action() -> None:
        request = dataclasses.replace(latest_request(store, name), store=store, workers=workers)
        execute(request, upto(STAGES, request.until), as_json)

    guarded(action)


@app.command()
def status(store: StoreOption = DEFAULT_STORE, name: NameOption = None, as_json: JsonOption = False) -> None:
    """Which dataset of each stage is current, and what it holds."""

    def action() -> None:
        opened = Store(store)
        rows = []
        for (pipeline, stage), record in sorted(references(opened).items(), key=lambda item: stage_order(item[0])):
            if name in (None, pipeline):
                dataset = current(opened, pipeline, stage)
                total = dataset.manifest.account.total() if dataset else None
                size = sum(f.bytes for f in dataset.manifest.files) if dataset else 0
                rows.append({"pipeline": pipeline, "stage": stage, "digest": record["digest"], "at": record["at"],
                             "dataset": f"{opened.url}/{record['folder']}", "present": dataset is not None,
                             "kept": total.kept if total else 0, "bytes": size})  # fmt: skip
        if as_json:
            for row in rows:
                print(json.dumps(row))
            return
        table = Table(title=f"store {opened.url}")
        for column in ("pipeline", "stage", "kept", "MB", "digest", "current since", "state"):
            table.add_column(column)
        for row in rows:
            table.add_row(row["pipeline"], row["stage"], f"{row['kept']:,}", f"{row['bytes'] / 1e6:.1f}",
                          row["digest"][:12], row["at"], "ok" if row["present"] else "deleted, runs again")  # fmt: skip
        terminal.console.print(table if rows else f"store {opened.url}: no stage has run")

    guarded(action)


def stage_order(key: tuple[str, str]) -> tuple[str, int]:
    order = [stage.name for stage in STAGES]
    return key[0], order.index(key[1]) if key[1] in order else len(order)


@app.command()
def why(
    stage: Annotated[str, typer.Argument(help="Stage name, such as filter.")],
    store: StoreOption = DEFAULT_STORE,
    inputs: InputOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Would this stage run again, and which part of its key changed (input, setting, code, library)?"""

    def action() -> None:
        wanted = stage_name(STAGES, stage)
        with Run(request_for(store, recipe, inputs, settings, None, name), terminal.TerminalWatcher()) as run:
            reasons = run.why(STAGES, wanted)
        if as_json:
            print(
                json.dumps({"stage": wanted, "runs": bool(reasons[wanted]), "why": reasons[wanted], "before": reasons})
            )
            return
        own = reasons.pop(wanted)
        changed = {before: lines for before, lines in reasons.items() if lines}
        print(f"{wanted}: " + ("would run, because" if own else "cached: its key is in the store"))
        for line in own:
            print(f"  {line}")
        for before, lines in changed.items():
            print(f"{before}, before it, would run, because\n  " + "\n  ".join(lines))

    guarded(action)


@app.command()
def show(
    dataset: Annotated[str, typer.Argument(help="Stage name, first digits of a key, or path of a dataset.")],
    store: StoreOption = DEFAULT_STORE,
    rows: Annotated[int, typer.Option(help="Sample rows of each kind.")] = 3,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """The account of a dataset and sample rows: kept, dropped with evidence, quarantined with bytes."""

    def action() -> None:
        found = open_dataset(store, dataset, name)
        if as_json:
            print(json.dumps(found.manifest.to_json(), ensure_ascii=False))
            return
        print(f"{found.stage}  {found.url}\nkey {found.key}\ndigest {found.digest}\nmade {found.manifest.created}")
        if found.manifest.account.rows:
            terminal.Console().print(terminal.account_table(found.manifest.account, f"account of {found.stage}"))
        for fact, value in sorted(found.manifest.facts.items()):
            print(f"{fact}: {str(value)[:200]}")
        for role in ("shard", "removed", "quarantine"):
            for entry in found.files(role)[: max(1, rows)]:
                print(f"\n{entry.name}  {entry.rows:,} rows  {entry.bytes:,} bytes")
                for row in sample_rows(found, entry.name, rows):
                    print("  " + row)

    guarded(action)


def sample_rows(dataset: Dataset, name: str, count: int) -> list[str]:
    """The first rows of a Parquet file, each as one short line."""
    lines: list[str] = []
    for batch in dataset.batches(name):
        for row in batch.to_pylist()[: count - len(lines)]:
            text = row.get("text") if row.get("text") is not None else repr(row.get("content", b"")[:200])
            extra = " ".join(str(row[k]) for k in ("reason", "evidence", "detail") if row.get(k))
            lines.append(f"{row['id'][:12]} {row['source']} {row.get('language') or ''} {extra} {text[:160]!r}")
        if len(lines) >= count:
            break
    return lines


@app.command()
def trace(
    step: Annotated[int | None, typer.Option(help="Training step, from 1: which documents are in its batch?")] = None,
    document: Annotated[str | None, typer.Option(help="Document id: which shards, steps, checkpoints?")] = None,
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """From a training step to its documents, or from a document to the shards, steps and checkpoints it went into."""
    from flows.trace import documents_of_step, journey_of_document

    def action() -> None:
        if (step is None) == (document is None):
            raise ValueError("give either --step N or --document ID")
        opened = Store(store)
        pipeline = name or latest_pipeline(opened)[0]
        if step is not None:
            for row in documents_of_step(opened, pipeline, step):
                line = f"sample {row['sample']:>7}  {row['document']}  {row['source']:<20} {row['language']:<8}"
                print(json.dumps(row) if as_json else f"{line} tokens {row['tokens'][0]}–{row['tokens'][1]}")
            return
        journey = journey_of_document(opened, pipeline, STAGES, str(document))
        if as_json:
            print(json.dumps(journey, ensure_ascii=False))
            return
        for place in journey["stages"]:
            more = {k: v for k, v in place.items() if k not in ("stage", "fate", "file")}
            print(f"{place['stage']:<15} {place['fate']:<12} {place['file']} {more or ''}")
        print(f"steps: {', '.join(map(str, journey['steps'])) or 'none'}")
        print(f"checkpoints: {', '.join(journey['checkpoints']) or 'none'}")

    guarded(action)


@app.command()
def gc(
    store: StoreOption = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    unfinished_hours: Annotated[float, typer.Option(help="Keep unfinished folders younger than this.")] = 24.0,
) -> None:
    """Delete datasets that no pipeline's current state leads to. What a checkpoint was made from always stays."""

    def action() -> None:
        opened = Store(store)
        act = garbage if dry_run else collect
        gone = act(opened, unfinished_hours=unfinished_hours)
        for item in gone:
            print(f"{'would delete' if dry_run else 'deleted'} {item.folder}  {item.bytes / 1e6:.1f} MB  {item.why}")
        print(f"{len(gone)} datasets, {sum(item.bytes for item in gone) / 1e6:.1f} MB")

    guarded(action)


# Commands below a stage's own: stage -> {command: function}, so `danlu tokenizer compare`
BELOW_STAGES: dict[str, dict[str, Callable[..., None]]] = {
    "tokenizer": {"compare": compare},
    "shards": {"verify": verify},
}


def add_stage_command(stage: Stage) -> None:
    """`danlu <stage>`: run it alone on the current datasets of the stages before it."""

    def command(
        context: typer.Context,
        store: StoreOption = DEFAULT_STORE,
        inputs: InputOption = None,
        recipe: RecipeOption = None,
        settings: SetOption = None,
        workers: WorkersOption = None,
        name: NameOption = None,
        as_json: JsonOption = False,
    ) -> None:
        def action() -> None:
            execute(request_for(store, recipe, inputs, settings, workers, name), [stage], as_json)

        if context.invoked_subcommand is None:
            guarded(action)

    reads = ", ".join(stage.inputs) or "the raw sources"
    command.__doc__ = f"Stage alone: {stage.summary}\n\nReads {reads} as it is now in the store."
    place: dict[str, Any] = {"name": stage.name.replace("_", "-"), "rich_help_panel": "Stages, each alone"}
    if below := BELOW_STAGES.get(stage.name):
        group = typer.Typer(invoke_without_command=True, help=command.__doc__)
        group.callback()(command)
        for name, function in below.items():
            group.command(name=name)(function)
        app.add_typer(group, **place)
    else:
        app.command(**place)(command)


for _stage in STAGES:
    add_stage_command(_stage)

# Commands with a module of their own: app.command(name="…")(function)
app.command(name="review")(review)
app.command(name="lengths")(lengths)
app.command(name="sizes")(sizes)
app.command(name="forget")(forget)
app.command(name="train-quality")(train_quality)


def main() -> None:
    """Entry point of the `danlu` command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is started with SIGINT ignored
    app()


if __name__ == "__main__":
    main()
