"""Which checkpoints go: recent ones lie densely, old ones ever more sparsely, archives stay.

The newest `keep` stay, whatever their level. Of the older ones the light go; a full one stays while its step is a
multiple of interval x thinning^j, where thinning^j is the largest power within its age in intervals. With thinning 2
and a full one every 1,000 steps, at step 64,000 these are left: 63,000 62,000 60,000 56,000 48,000 32,000.
So their number grows with the logarithm of the run, and what has gone is never missed later: a multiple of a higher
power is one of every lower.

in    steps and levels of the checkpoints that are there, the newest of them verified
out   the steps to delete
"""

from __future__ import annotations

from collections.abc import Mapping

from training.checkpoint.folder import Level


def to_delete(saved: Mapping[int, Level], *, keep: int, full_interval_steps: int, thinning: int) -> list[int]:
    """Steps whose checkpoints go, oldest first; never one of the newest `keep`. Interval 0: no full one goes."""
    newest_first = sorted(saved, reverse=True)
    kept = set(newest_first[:keep])
    for step in newest_first[keep:]:
        stays_full = saved[step] == "full" and stands(step, newest_first[0], full_interval_steps, thinning)
        if saved[step] == "archive" or stays_full:
            kept.add(step)
    return sorted(saved.keys() - kept)


def stands(step: int, newest: int, interval: int, thinning: int) -> bool:
    """Whether an old full checkpoint is one of those that stay at its age."""
    if interval == 0 or thinning == 1:
        return True
    spacing = interval
    while spacing * thinning <= newest - step:
        spacing *= thinning
    return step % spacing == 0
