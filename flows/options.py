"""What the commands share: common options, how an error becomes one message, finding a dataset by a short name."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flows import terminal
from flows.engine import MissingInput, stage_name
from flows.order import STAGES
from tasks.settings import ConfigError
from tasks.spread import WorkerDied
from tasks.store.account import AccountError
from tasks.store.dataset import Dataset, current
from tasks.store.filesystem import Store, StoreError
from tasks.train import TrainingStopped
from training.launch import LaunchError

USER_ERRORS = (ConfigError, MissingInput, StoreError, AccountError, WorkerDied, LaunchError, ValueError, OSError)
INTERRUPTED = 130  # the shell's code for a program that SIGINT ended

StoreOption = Annotated[str, typer.Option("--store", help="Folder or fsspec URL that holds the datasets.")]
RecipeOption = Annotated[
    str | None, typer.Option("--config", "-c", help="Recipe: a YAML file of sources and stage settings.")
]
InputOption = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="File or folder to read instead of the recipe's sources.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="One setting, such as filter.min_chars=100. May be repeated.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", "-w", min=0, help="Ray workers; default all processors, 0 runs without Ray.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Pipeline name: whose current datasets are meant. Default: the recipe's.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line on standard output.")]
DEFAULT_STORE = "out/store"


def guarded(action: Callable[[], Any]) -> None:
    """Run `action`; an expected error becomes one clear message and exit code 1, Ctrl-C a hint how to go on."""
    logging.basicConfig(
        level=os.environ.get("DANLU_LOG_LEVEL", "WARNING"),
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
    )
    try:
        action()
    except KeyboardInterrupt:
        terminal.console.print(
            "[yellow]stopped.[/yellow] What is finished stays; the same command, or `danlu resume`, goes on from there."
        )
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except TrainingStopped as stop:
        terminal.console.print(f"[yellow]stopped.[/yellow] {terminal.escape(str(stop))}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    except USER_ERRORS as error:
        if os.environ.get("DANLU_LOG_LEVEL") == "DEBUG":
            raise
        terminal.console.print(f"[red]error:[/red] {terminal.escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None


def latest_pipeline(store: Store, name: str | None = None) -> tuple[str, dict[str, Any]]:
    """Name and record of the pipeline that ran last in the store. Raises MissingInput when there was none."""
    names = [name] if name else store.names("runs")
    records = {n: store.read_json(f"runs/{n}/latest.json") for n in names if store.exists(f"runs/{n}/latest.json")}
    if not records:
        raise MissingInput(f"store {store.url}: no run is recorded{f' under the name {name!r}' if name else ''}")
    return max(records.items(), key=lambda item: item[1]["at"])


def open_dataset(store: str, given: str, name: str | None) -> Dataset:
    """A dataset by stage name, by key (the first digits will do), or by path."""
    opened = Store(store)
    if (Path(given) / "manifest.json").exists():
        path = Path(given).absolute()
        return Dataset.open_folder(Store(str(path.parent)), path.name)
    try:
        stage = stage_name(STAGES, given)
    except ValueError:
        for folder in opened.names("datasets"):
            for key in opened.names(f"datasets/{folder}"):
                if key.startswith(given):
                    return Dataset.open_folder(opened, f"datasets/{folder}/{key}")
        raise
    for pipeline in [name] if name else opened.names("refs"):
        if dataset := current(opened, pipeline, stage):
            return dataset
    raise MissingInput(f"store {opened.url}: stage {stage!r} has no current dataset; run `danlu run --until {stage}`")
