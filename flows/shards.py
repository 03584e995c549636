"""`danlu shards verify`: are the token shards what was written, and if not, whose tokens are damaged.

`danlu shards` alone runs the stage (flows/cli.py).
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from flows import terminal
from flows.options import DEFAULT_STORE, JsonOption, NameOption, StoreOption, guarded, open_dataset


def verify(
    dataset: Annotated[str, typer.Argument(help="Which: `shards` for the current one, a key, or a path.")] = "shards",
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hash every file of a shards dataset again; name each damaged file and the documents whose tokens it holds.

    danlu shards verify --store out/sample

    Exits with 1 when a file is damaged or missing. --json prints one object a fault: file, message, documents.
    """

    def action() -> None:
        from tasks.shards.verify import verify as find_faults

        opened = open_dataset(store, dataset, name)
        if opened.stage != "shards":
            raise ValueError(f"{opened.url} is a dataset of stage {opened.stage!r}; expected one of stage 'shards'")
        faults = find_faults(opened)
        for fault in faults:
            print(json.dumps(dataclasses.asdict(fault), ensure_ascii=False)) if as_json else print(fault)
        files = len(opened.manifest.files)
        terminal.console.print(f"{opened.url}: {files} files, {len(faults)} damaged", soft_wrap=True)
        if faults:
            raise typer.Exit(1)

    guarded(action)
