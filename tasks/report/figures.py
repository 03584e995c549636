"""The tables of the report, from manifests alone.

The decay rate is usable / raw. Raw counts every record that ingest read, under the last language it was known by:
a record lost before the language stage counts under "und" (undetermined), one dropped later under its language.
So the rows of either table add up to all raw records. Usable is what `decontaminate` lets through: `mix` chooses
shares, which says nothing about the quality of a source, and is shown apart.

in    manifests by stage name
out   plain rows, in an order that depends on the numbers and names alone
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.store.account import Account, Counts

STAGES = (
    "ingest", "decode", "extract", "language", "filter", "exact_dedup", "minhash_dedup", "semantic_dedup",
    "decontaminate", "mix", "tokenizer", "shards", "train", "evaluate", "export", "report",
)  # fmt: skip
BESIDE = ("tokenizer_compare",)  # no stage of the pipeline, but shown where a store has it
CLEANING = STAGES[: STAGES.index("mix")]  # the stages whose losses are decay

Axis = Literal["source", "language"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of an account table: a whole stage, or one source or language of it."""

    name: str
    counts: Counts
    dropped: list[tuple[str, int]]  # (reason, records), most first
    quarantined: list[tuple[str, int]]

    @property
    def balanced(self) -> bool:
        return self.counts.balance == 0

    def share(self, part: Literal["kept", "dropped", "quarantined"]) -> float:
        """Percent of the records read, for the width of a bar."""
        value = getattr(self.counts, part)
        return 100 * (value if isinstance(value, int) else value.total()) / max(self.counts.read, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decay:
    """What of one source or language is left after cleaning."""

    name: str
    raw: int
    usable: int
    losses: list[tuple[str, int]]  # (stage, records), in stage order
    raw_bytes: int | None = None  # None where it was not measured
    usable_bytes: int | None = None

    @property
    def rate(self) -> float | None:
        return self.usable / self.raw if self.raw else None


def line(name: str, counts: Counts) -> Line:
    return Line(
        name=name,
        counts=counts,
        dropped=most_first(counts.dropped),
        quarantined=most_first(counts.quarantined),
    )


def lines(groups: Mapping[str, Counts]) -> list[Line]:
    """One line per source or language, most records read first."""
    return sorted(
        (line(name, counts) for name, counts in groups.items()), key=lambda item: (-item.counts.read, item.name)
    )


def decay(
    accounts: Mapping[str, Account],
    axis: Axis,
    raw_bytes: Mapping[str, int] | None = None,
    usable_bytes: Mapping[str, int] | None = None,
) -> list[Decay]:
    """Decay per source or per language over the cleaning stages that ran, most raw records first."""
    stages = [stage for stage in CLEANING if stage in accounts]
    if not stages:
        return []
    groups = {stage: by_axis(accounts[stage], axis) for stage in stages}
    usable = {name: counts.kept for name, counts in groups[stages[-1]].items()}
    names = {name for group in groups.values() for name, counts in group.items() if counts.kept + lost(counts)}
    result = []
    for name in names:
        losses = [(stage, lost(groups[stage][name])) for stage in stages if name in groups[stage]]
        losses = [(stage, n) for stage, n in losses if n]
        raw = usable.get(name, 0) + sum(n for _, n in losses)
        if raw:  # "und" before the language stage: all of it moved on under another name
            result.append(
                Decay(
                    name=name,
                    raw=raw,
                    usable=usable.get(name, 0),
                    losses=losses,
                    raw_bytes=raw_bytes.get(name, 0) if raw_bytes is not None else None,
                    usable_bytes=usable_bytes.get(name, 0) if usable_bytes is not None else None,
                )
            )
    return sorted(result, key=lambda item: (-item.raw, item.name))


def by_axis(account: Account, axis: Axis) -> dict[str, Counts]:
    return account.by_source() if axis == "source" else account.by_language()


def lost(counts: Counts) -> int:
    return counts.dropped.total() + counts.quarantined.total()


def token_lines(groups: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Rows of the token table with their share of all tokens, most tokens first."""
    total = sum(counts["tokens"] for counts in groups.values())
    rows = [{"name": name, **counts, "share": counts["tokens"] / max(total, 1)} for name, counts in groups.items()]
    return sorted(rows, key=lambda row: (-row["tokens"], row["name"]))


def find(values: Mapping[str, Any], name: str) -> Any:
    """The first value called `name` at any depth of nested mappings, or None."""
    if name in values:
        return values[name]
    nested = (find(value, name) for value in values.values() if isinstance(value, Mapping))
    return next((value for value in nested if value is not None), None)


def order(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    """A config as (dotted key, value) rows, keys in their order."""
    if isinstance(value, Mapping) and value:
        return [row for key in value for row in flatten(value[key], f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        return [row for i, item in enumerate(value) for row in flatten(item, f"{path}[{i}]")]
    if isinstance(value, list | tuple):
        return [(path, ", ".join(map(str, value)) or "(empty)")]
    return [(path, "(empty)" if value == {} or value == "" else str(value))]


def readable(value: Any) -> Any:
    """The same nested value with its numbers as a person reads them: 1,234,567 and 0.931235."""
    if isinstance(value, Mapping):
        return {key: readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [readable(item) for item in value]
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def plain(view: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a view that are a function of content alone: no time, no throughput, no page."""
    rows = {
        stage: {"by_source": [account_row(r) for r in sources], "by_language": [account_row(r) for r in languages]}
        for stage, sources, languages in view["account_details"]
    }
    result = {
        "account": [{"stage": row.name, **row.counts.to_row(), **rows[row.name]} for row in view["account"]],
        "tokens_by_source": view["tokens_by_source"],
        "tokens_by_language": view["tokens_by_language"],
        "evaluation": view["evaluation"],
        "vocabulary_sizes": view["vocabulary_sizes"],
    }
    for name in ("decay_by_source", "decay_by_language"):
        result[name] = [{**dataclasses.asdict(row), "rate": row.rate} for row in view[name]]
    return result


def account_row(row: Line) -> dict[str, Any]:
    return {"name": row.name, **row.counts.to_row()}
