"""Which vocabulary size to take, by a stated rule.

Of the sizes that were measured: the smallest whose next step is not worth its memory (it saves less than
`min_gain_per_doubling` of the tokens, scaled to a doubling of the vocabulary) and which spells few enough characters
in bytes in each language group that has a bound. A size whose embedding is larger than allowed is out, and so is one
for whose shares of the languages the sample has not enough text: it would be filled up with pieces of the others, and
is not what a larger sample would give. Every sample gives a recommendation of its own; they should agree.

in    rows of the comparison
out   the size, the reason in a sentence, and what each sample says alone
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """When a larger vocabulary is not worth it."""

    min_gain_per_doubling: float = 0.03  # of the tokens; the embedding doubles for it
    max_byte_fallback: dict[str, float] = field(default_factory=lambda: {"zh": 0.0005})  # by group, of the tokens
    max_embedding_bytes: int | None = None  # in bf16, one table
    max_share_error: float = 0.03  # of the pieces, by group

    def __post_init__(self) -> None:
        if not 0 < self.min_gain_per_doubling < 1:
            raise ValueError(f"rule.min_gain_per_doubling: expected 0 to 1, found {self.min_gain_per_doubling}")


def recommend(rows: Sequence[Mapping[str, Any]], rule: Rule) -> dict[str, Any]:
    """{"size", "reason", "by_sample", "samples_agree"}; size None where nothing was measured."""
    measured = [row for row in rows if row["status"] == "measured"]
    if not measured:
        return {"size": None, "reason": "no size could be fitted", "by_sample": {}, "samples_agree": None}
    by_sample = {
        sample: decide([row for row in measured if row["sample"] == sample], rule)[0]
        for sample in sorted({row["sample"] for row in measured})
    }
    size, reason = decide(averaged(measured), rule)
    return {
        "size": size,
        "reason": reason,
        "by_sample": by_sample,
        "samples_agree": len(set(by_sample.values())) == 1 if len(by_sample) > 1 else None,
    }


def averaged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a size: means over its samples of what the rule looks at."""
    result = []
    for size in sorted({row["size"] for row in rows}):
        same = [row for row in rows if row["size"] == size]
        groups = {
            group: {"byte_fallback_rate": mean([row["groups"][group]["byte_fallback_rate"] for row in same])}
            for group in same[0]["groups"]
        }
        tokens = mean([row["num_tokens"] for row in same])
        worst = max(same, key=share_error)
        result.append({**worst, "groups": groups, "num_tokens": tokens})
    return result


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def decide(rows: Sequence[Mapping[str, Any]], rule: Rule) -> tuple[int, str]:
    """The size that the rule takes of rows of rising size, and why."""
    ordered = sorted(rows, key=lambda row: row["size"])
    limit = rule.max_embedding_bytes
    possible = [row for row in ordered if limit is None or row["embedding_bytes"]["bf16"] <= limit] or ordered[:1]
    fitting = [row for row in possible if share_error(row) <= rule.max_share_error] or possible
    largest = "the largest that "
    if len(fitting) < len(possible):
        largest += f"has its shares of the languages ({possible[len(fitting)]['size']:,} needs a larger sample)"
    else:
        largest += "fits the memory" if len(possible) < len(ordered) else "was measured"
    for row, larger in zip(fitting, [*fitting[1:], None], strict=True):
        if over := beyond(row, rule):
            if larger is None:
                return row["size"], f"{largest}; it misses the bound all the same ({over})"
            continue
        if larger is None:
            return row["size"], (
                f"{largest}; the step to it still saved at "
                f"least {100 * rule.min_gain_per_doubling:g} % of the tokens per doubling, or smaller ones spell too "
                "many characters in bytes"
            )
        gain = gain_per_doubling(row, larger)
        if gain < rule.min_gain_per_doubling:
            return row["size"], (
                f"{larger['size']:,} would save only {100 * gain:.1f} % of the tokens per doubling of the embedding "
                f"(the rule asks {100 * rule.min_gain_per_doubling:g} %), and {bounds(row, rule)}"
            )
    raise AssertionError("the last row always decides")


def share_error(row: Mapping[str, Any]) -> float:
    """How far the pieces are from the shares they should have, in the worst group."""
    return max((abs(group["share"] - group["target"]) for group in row.get("vocabulary", {}).values()), default=0.0)


def gain_per_doubling(smaller: Mapping[str, Any], larger: Mapping[str, Any]) -> float:
    """Share of the tokens that a doubling saves, from a step of any width."""
    doublings = math.log2(larger["size"] / smaller["size"])
    return 1 - float((larger["num_tokens"] / smaller["num_tokens"]) ** (1 / doublings))


def beyond(row: Mapping[str, Any], rule: Rule) -> str:
    """The groups over their bound of byte fallback, in words; empty where all keep to it."""
    over = [
        f"{group} {100 * row['groups'][group]['byte_fallback_rate']:.3f} % in bytes, bound {100 * bound:g} %"
        for group, bound in sorted(rule.max_byte_fallback.items())
        if group in row["groups"] and row["groups"][group]["byte_fallback_rate"] >= bound
    ]
    return ", ".join(over)


def bounds(row: Mapping[str, Any], rule: Rule) -> str:
    kept = [
        f"{group} has {100 * row['groups'][group]['byte_fallback_rate']:.3f} % in bytes (bound {100 * bound:g} %)"
        for group, bound in sorted(rule.max_byte_fallback.items())
        if group in row["groups"]
    ]
    return ", ".join(kept) or "no bound of byte fallback applies"
