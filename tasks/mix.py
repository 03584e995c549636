"""Bring the sources to their shares of the mix by dropping documents of those that have too much.

Shares are of characters of the kept text. Without any, all is kept (the natural mix). A source with a share gets it;
the sources without one divide what is left over, each in proportion to what it has. Nothing is repeated here (that
is the loader's work), so the scarcest source bounds the whole: with shares met exactly, kept = min(have / share).
`min_kept_fraction` puts a floor under that; scarce sources then fall short of their share, which the facts show.

in    Document            of the decontaminate stage
out   Document            a subset, order kept; dropped for `over_share`, by a hash of (seed, id)
facts target and realised share by source, realised share by language
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks import sampling
from tasks.document import Document, Dropped, Kept
from tasks.stage import PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class MixConfig:
    """Settings of the mix stage."""

    shares: dict[str, float] = field(default_factory=dict)  # source → share of the kept characters; empty: keep all
    min_kept_fraction: float = 0.0  # keep at least this part of all characters, even where shares are then missed
    seed: int = 0

    def __post_init__(self) -> None:
        for source, share in self.shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"shares.{source}: expected a share from 0 to 1, found {share}")
        if (total := sum(self.shares.values())) > 1 + 1e-9:
            raise ValueError(f"shares: expected a sum of at most 1, found {total:g}; lower some of them")
        if not 0 <= self.min_kept_fraction <= 1:
            raise ValueError(f"min_kept_fraction: expected 0 to 1, found {self.min_kept_fraction}")


def target_shares(chars: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, float]:
    """The share that each source of `chars` should have; they add up to 1.

    When every source has a share they are scaled to the sum 1. Raises ValueError for a share of a source that is
    not there, and when nothing is left for the sources without one.
    """
    for source in shares:
        if source not in chars:
            raise ValueError(f"shares.{source}: no such source in the input; it has {', '.join(sorted(chars))}")
    declared = sum(shares.values())
    others = {source: n for source, n in chars.items() if source not in shares}
    if others and declared > 1 - 1e-9:
        raise ValueError(
            f"shares: they add up to 1, and {', '.join(sorted(others))} have none; give each a share (0 drops it)"
        )
    if not others and declared <= 0:
        raise ValueError("shares: every source has the share 0; nothing would be kept")
    scale = 1.0 if others else 1 / declared
    rest = (1 - declared) / max(sum(others.values()), 1)
    return {source: shares[source] * scale if source in shares else n * rest for source, n in sorted(chars.items())}


def wanted_chars(chars: Mapping[str, int], targets: Mapping[str, float], min_kept_fraction: float) -> dict[str, float]:
    """How many characters of each source to keep."""
    bounding = [chars[source] / share for source, share in targets.items() if share > 0]
    total, floor = min(bounding), min_kept_fraction * sum(n for s, n in chars.items() if targets[s] > 0)

    def kept(total: float) -> dict[str, float]:
        return {source: min(float(chars[source]), share * total) for source, share in targets.items()}

    low, high = total, max(bounding)
    if sum(kept(low).values()) < floor:
        for _ in range(60):  # bisection: what is kept grows with the total
            middle = (low + high) / 2
            low, high = (middle, high) if sum(kept(middle).values()) < floor else (low, middle)
        total = high
    return kept(total)


def count_part(payload: Any, config: Any, writer: PartWriter) -> dict[str, Any]:
    """Characters per source and slice of the draw."""
    dataset = Dataset.load(payload["dataset"])
    histograms: dict[str, list[int]] = {}
    for batch in dataset.batches(payload["shard"], ["id", "text", "source"]):
        for row in batch.to_pylist():
            value = sampling.draw(payload["seed"], row["id"])
            sampling.count(histograms, row["source"], value, len(row["text"]))
    return {"chars": histograms}


def apply_part(payload: Any, config: Any, writer: PartWriter) -> dict[str, Any]:
    """Keep the documents whose draw is below the bound of their source."""
    kept: dict[str, Counter[str]] = {"source": Counter(), "language": Counter()}
    for document in Dataset.load(payload["dataset"]).documents(payload["shard"]):
        assert isinstance(document, Document)  # only ingest writes raw records
        value = sampling.draw(payload["seed"], document.id)
        bound = payload["bounds"].get(document.source, 1.0)
        if value >= bound:
            evidence = {"draw": value, "bound": bound, "target_share": payload["targets"][document.source]}
            writer.put(Dropped(document=document, reason="over_share", evidence=evidence))
            continue
        writer.put(Kept(document=document))
        kept["source"][document.source] += len(document.text)
        kept["language"][document.language] += len(document.text)
    return {name: dict(sorted(counter.items())) for name, counter in kept.items()}


def run(run: StageRun) -> None:
    config: MixConfig = run.config
    bounds: dict[str, float] = {}
    targets: dict[str, float] = {}
    work: dict[str, Any] = {"seed": config.seed, "bounds": bounds, "targets": targets}
    if config.shares:
        counting = run.shard_parts("count", config.seed, **work)
        histograms = sampling.merge([r.result["chars"] for r in run.parts(count_part, counting)])
        chars = {source: sum(slices) for source, slices in histograms.items()}
        targets |= target_shares(chars, config.shares)
        wanted = wanted_chars(chars, targets, config.min_kept_fraction)
        bounds |= {source: sampling.bound_for(histograms[source], wanted[source]) for source in chars}
    settings = {"seed": config.seed, "bounds": bounds, "targets": targets}
    applying = run.shard_parts("apply", settings, **work)
    results = run.parts(apply_part, applying)
    run.output.facts = facts([r.result for r in results], targets)


def facts(results: list[dict[str, dict[str, int]]], targets: Mapping[str, float]) -> dict[str, Any]:
    """What the report shows of the mix."""
    sums: dict[str, Counter[str]] = {"source": Counter(), "language": Counter()}
    for result in results:
        for name, counter in sums.items():
            counter.update(result[name])
    total = max(sums["source"].total(), 1)
    sources = sorted(sums["source"].keys() | targets.keys())
    return {
        "num_chars": sums["source"].total(),
        "sources": {
            s: {"num_chars": sums["source"][s], "share": sums["source"][s] / total, "target": targets.get(s)}
            for s in sources
        },
        "languages": {k: {"num_chars": n, "share": n / total} for k, n in sorted(sums["language"].items())},
    }


STAGE = Stage(
    name="mix",
    module=__name__,
    config=MixConfig,
    inputs=("decontaminate",),
    run=run,
    summary="Bring the sources to their shares of the mix (by characters), dropping what is over.",
)
