"""Whether a run may go on with other data settings than it began with.

It may, when every sample up to where it stands would have been the same: then what changes begins at a later step that
the new settings name (`changes`, `skip`, a later phase), and a run that had them from its start ends at the same
weights. Anything else is another run.

in    the settings of the checkpoint and ours, samples consumed
out   None, or what would have been read otherwise
"""

from __future__ import annotations

import dataclasses

from training.data.config import DataConfig
from training.data.schedule import Schedule

FIXED = ("components", "curriculum", "frequency")  # they decide every sample, from the first on


def conflict(saved: DataConfig, ours: DataConfig, *, samples: int, global_batch_size: int, seq_len: int) -> str | None:
    """Why `ours` would have read other samples than `saved` before sample `samples`, or None."""
    for name in FIXED:
        if getattr(saved, name) != getattr(ours, name):
            return f"data.{name} decides every sample from the first on"
    if saved.curriculum.fraction and saved.initial_phases != ours.initial_phases:
        return "data.phases decides the order of the curriculum; put other shares under data.changes"
    settings = {"global_batch_size": global_batch_size, "seq_len": seq_len, "key": b""}
    step = samples // global_batch_size
    if not Schedule(saved, **settings).same_until(Schedule(ours, **settings), samples):  # type: ignore[arg-type]
        return f"the shares before step {step} differ; put the new ones under data.changes with from_step >= {step}"
    before = [
        [dataclasses.replace(e, reason="") for e in config.skip if e.first_step * global_batch_size < samples]
        for config in (saved, ours)
    ]
    if before[0] != before[1]:
        return f"data.skip differs before step {step}; let the new entries begin at step {step} or later"
    return None
