"""Begin a run from a checkpoint of an earlier one that read the same samples up to there.

A changed setting is another run with a folder of its own. Where only the data settings differ, and only from a later
step on (a new mixture, documents to skip), the two runs are the same until that step; then the newer one takes over
the checkpoint and the rows of the metrics before it, and ends at the weights that a start from scratch gives.

in    the work folders beside this run's, each with the key of its run
out   a checkpoint linked into this run's folder, or nothing
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from training.config import RunSpec
from training.metrics import append, read_rows

KEY_FILE = "key.json"
log = logging.getLogger(__name__)


def take_over(work_dir: Path, key_parts: Mapping[str, Any], spec: RunSpec) -> Path | None:
    """Link the newest checkpoint that this run would have made itself; None without one, or with own checkpoints."""
    from training import checkpoint as checkpoints  # loads torch: the command line answers without it

    parts = json.loads(json.dumps(key_parts))
    (work_dir / KEY_FILE).write_text(json.dumps(parts, indent=1, sort_keys=True), encoding="utf-8")
    if checkpoints.folders(work_dir):
        return None
    found = max(candidates(work_dir, parts, spec), key=lambda folder: folder.name, default=None)
    if found is None:
        return None
    origin, step = found.parent.parent, int(found.name.rsplit("-", 1)[-1])
    partial = checkpoints.root(work_dir) / f".partial-{found.name}"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(found, partial, copy_function=os.link)  # checkpoints are never written to again
    partial.rename(partial.with_name(found.name))
    for row in read_rows(origin / "metrics.jsonl"):
        if row["step"] <= step:
            append(work_dir / "metrics.jsonl", row)
    append(work_dir / "events.jsonl", {"kind": "continued", "step": step, "from": origin.name})
    log.info("train: the run in %s read the same until step %d; going on from there", origin.name, step)
    return partial.with_name(found.name)


def candidates(work_dir: Path, parts: dict[str, Any], spec: RunSpec) -> Iterator[Path]:
    """The newest fit checkpoint of each run beside this one that differs in its data settings alone."""
    from training import checkpoint as checkpoints

    for other in sorted(work_dir.parent.iterdir()):
        if other == work_dir or not (other / KEY_FILE).is_file():
            continue
        if without_data(json.loads((other / KEY_FILE).read_text(encoding="utf-8"))) != without_data(parts):
            continue
        for folder in checkpoints.folders(other):
            if checkpoints.find_fault(folder) is None and fits(folder, spec):
                yield folder
                break


def fits(folder: Path, spec: RunSpec) -> bool:
    from training import checkpoint as checkpoints

    try:
        checkpoints.check_same_run(checkpoints.read(folder), spec)
    except checkpoints.CheckpointError:
        return False
    return True


def without_data(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {**parts, "config": {key: value for key, value in parts["config"].items() if key != "data"}}
