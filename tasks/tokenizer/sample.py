"""The training sample of the tokenizer: a language-balanced choice of documents, by a hash of (seed, id).

The language groups get their shares of `sample_chars` (or of all there is, if that is less). A group with less text
than its share enters up to `max_repeats` times over; a group without any leaves its share to the others. What was
reached is in the facts.

in    characters per group and slice of the draw (tasks/sampling.py)
out   how often each document enters the sample
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tasks import sampling
from tasks.tokenizer.config import OTHER, TokenizerConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Of one group: every document enters `times` times, those with a draw below `bound` once more."""

    times: int
    bound: float

    def of(self, draw: float) -> int:
        return self.times + (draw < self.bound)


def group_of(language: str, shares: Mapping[str, float]) -> str:
    """The group of a language: itself, the language without its script (zh of zh-Hans), or "other"."""
    for candidate in (language, language.split("-")[0]):
        if candidate in shares:
            return candidate
    return OTHER


def target_chars(chars: Mapping[str, int], config: TokenizerConfig) -> dict[str, float]:
    """Characters that each group should have in the sample. Raises ValueError when no group has text and a share."""
    shares = {g: config.language_shares.get(g, 0.0) for g, n in chars.items() if n}
    if not sum(shares.values()):
        raise ValueError(
            f"language_shares: none of {', '.join(sorted(config.language_shares))} has text; the input has "
            f"{', '.join(sorted(chars)) or 'no documents'}"
        )
    total = min(config.sample_chars, sum(n for g, n in chars.items() if shares.get(g)))
    return {group: total * share / sum(shares.values()) for group, share in sorted(shares.items())}


def rates(histograms: Mapping[str, list[int]], config: TokenizerConfig) -> dict[str, Rate]:
    """How often the documents of each group enter."""
    chars = {group: sum(slices) for group, slices in histograms.items()}
    chosen = {}
    for group, target in target_chars(chars, config).items():
        times, rest = divmod(target, chars[group])
        if times >= config.max_repeats:
            chosen[group] = Rate(times=config.max_repeats, bound=0.0)
        else:
            chosen[group] = Rate(times=int(times), bound=sampling.bound_for(histograms[group], rest))
    return chosen
