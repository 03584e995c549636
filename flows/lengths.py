"""`danlu lengths`: how long documents are, per language, and what each least length would drop."""

from __future__ import annotations

import json
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from flows.engine import MissingInput
from flows.options import DEFAULT_STORE, JsonOption, NameOption, StoreOption, guarded, open_dataset

MIN_WIDTH = 150


def lengths(store: StoreOption = DEFAULT_STORE, name: NameOption = None, as_json: JsonOption = False) -> None:
    """What each least length (filter.min_chars) would drop of the documents that reach the filter, per language.

    Read from the filter's dataset; no text is read again.
    """

    def action() -> None:
        dataset = open_dataset(store, "filter", name)
        facts = dataset.manifest.facts.get("lengths")
        if facts is None:
            raise MissingInput(f"{dataset.url}: holds no lengths; rerun the filter stage")
        if as_json:
            print(json.dumps(facts, ensure_ascii=False))
            return
        console = Console()
        console.width = max(console.width, MIN_WIDTH)  # a narrower table would show no figures
        console.print(length_table(facts))

    guarded(action)


def length_table(facts: dict[str, Any]) -> Table:
    """Percent of each language's documents below each threshold, and the quantiles of their lengths."""
    table = Table(
        title="percent of documents below a length, and quantiles, in characters", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    for column in ("language", "documents"):
        table.add_column(column)
    for threshold in facts["thresholds"]:
        table.add_column(f"<{threshold:,}", justify="right")
    for q in facts["quantiles"]:
        table.add_column(f"{100 * q:g} %", justify="right", style="cyan")
    for row in facts["rows"]:
        shares = [f"{100 * below / row['documents']:.1f}" for below in row["below"]]
        table.add_row(row["language"], f"{row['documents']:,}", *shares, *(f"{q:,}" for q in row["quantiles"]))
    return table
