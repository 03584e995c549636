"""The vocabulary experiment (`danlu tokenizer compare`) as a table and plots.

in    the dataset of `tokenizer_compare`, where there is one
out   rows of the table, panels for `plots.draw`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.report.plots import Panel, Point

STAGE = "tokenizer_compare"
SIZE = "pieces in the vocabulary"


def rows(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a size and sample, then the published tokenizers."""
    found = []
    for row in comparison["rows"]:
        name = f"{row['size']:,} (sample {row['sample']})"
        if row["status"] == "measured":
            found.append(table_row(name, row) | {"embedding_bytes": row["embedding_bytes"]})
        else:
            found.append({"name": name, "note": f"the sample has text for {row['vocab_size']:,} pieces only"})
    return found + [table_row(f"{row['name']} ({row['vocab_size']:,})", row) for row in comparison["published"]]


def table_row(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "note": "",
        "groups": row["groups"],
        "renyi_efficiency": row["renyi_efficiency"],
        "used_share": 1 - row["unused_share"],
        "embedding_bytes": None,
    }


def groups(comparison: Mapping[str, Any]) -> list[str]:
    """The language groups of the held-out text."""
    return sorted({group for row in measured(comparison) for group in row["groups"]})


def measured(comparison: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in comparison["rows"] if row["status"] == "measured"]


def panels(comparison: Mapping[str, Any]) -> list[Panel]:
    """Plots over the size, and how much of the text the most frequent pieces cover; none when nothing was measured."""
    found = measured(comparison)
    if not found:
        return []
    by_group = {
        name: {group: means(found, lambda row, g=group, n=name: row["groups"][g][n]) for group in groups(comparison)}  # type: ignore[misc]
        for name in ("bytes_per_token", "byte_fallback_rate")
    }
    # A logarithmic axis has no place for 0: sizes without bytes have no point.
    percent = {g: [(x, 100 * y) for x, y in points if y] for g, points in by_group["byte_fallback_rate"].items()}
    percent = {g: points for g, points in percent.items() if points}
    samples = sorted({row["sample"] for row in found})
    renyi = {f"sample {s}": points(found, s, lambda row: row["renyi_efficiency"]) for s in samples}
    first = [row for row in found if row["sample"] == samples[0]]
    coverage = {f"{row['size']:,}": [(k, 100 * share) for k, share in row["coverage"]] for row in first}
    return [
        Panel(title="Bytes per token", series=by_group["bytes_per_token"], x_label=SIZE, log_x=True),
        Panel(
            title="Tokens that are bytes (percent)", series=percent, x_label=SIZE, log_x=True, log_scale=True,
            reference=0.05, reference_label="bound for zh: 0.05 %",
        ),
        Panel(title="Rényi efficiency (alpha 2.5)", series=renyi, x_label=SIZE, log_x=True),
        Panel(
            title="Tokens covered by the most frequent pieces (percent)", series=coverage, x_label="pieces, most "
            "frequent first", log_x=True,
        ),
    ]  # fmt: skip


def points(found: Sequence[Mapping[str, Any]], sample: str, value: Any) -> list[Point]:
    return [(row["size"], value(row)) for row in found if row["sample"] == sample]


def means(found: Sequence[Mapping[str, Any]], value: Any) -> list[Point]:
    """(size, mean over the samples)."""
    sizes = sorted({row["size"] for row in found})
    values = {size: [value(row) for row in found if row["size"] == size] for size in sizes}
    return [(size, sum(values[size]) / len(values[size])) for size in sizes]
