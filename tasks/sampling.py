"""Choose documents by a hash of their id, so that a wanted number of characters stays, whatever the worker count.

A document's draw is a number in [0, 1) that depends on the seed and its id alone; those below a bound are chosen. The
bound comes from one counting pass: characters per group in 256 equal slices of the draw, so that it hits the wanted
characters more closely than a fraction of the documents would (long documents weigh what they weigh). Raising a bound
only adds documents: a sample grows, it is not redrawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

NUM_SLICES = 256


def draw(seed: int, document_id: str) -> float:
    """Uniform in [0, 1), the same in every process."""
    digest = hashlib.blake2b(f"{seed}:{document_id}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53  # 53 bits: what a float holds exactly


def count(histograms: dict[str, list[int]], group: str, value: float, num_chars: int) -> None:
    """Add a document of `group` with draw `value` to the histograms."""
    slices = histograms.setdefault(group, [0] * NUM_SLICES)
    slices[int(value * NUM_SLICES)] += num_chars


def merge(many: Sequence[dict[str, list[int]]]) -> dict[str, list[int]]:
    """The sum of histograms of several shards, groups in order of name."""
    total: dict[str, list[int]] = {}
    for histograms in many:
        for group, slices in histograms.items():
            total[group] = [a + b for a, b in zip(total.get(group, [0] * NUM_SLICES), slices, strict=True)]
    return dict(sorted(total.items()))


def bound_for(slices: Sequence[int], wanted: float) -> float:
    """The bound below which about `wanted` characters lie; 1.0 when there are no more than that."""
    if wanted >= sum(slices):
        return 1.0
    before = 0
    for index, chars in enumerate(slices):
        if before + chars > wanted:
            return (index + (wanted - before) / chars) / NUM_SLICES
        before += chars
    return 1.0
