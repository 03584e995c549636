"""Whether a checkpoint belongs to this run: same data, same model, same function, unless the config says otherwise.

in    Checkpoint, RunSpec
out   nothing, or CheckpointError naming what changed and the setting that allows it
"""

from __future__ import annotations

import json
from dataclasses import asdict

from training.checkpoint.folder import CheckpointError
from training.checkpoint.loading import Checkpoint
from training.config import ModelConfig, RunSpec, identity
from training.data.config import DataConfig
from training.data.history import conflict
from training.schedule.config import ScheduleConfig

# what checkpoints from before these keys stand for
NEW_KEYS = {"bad_samples": "report", "document_masks": False, "schedule": asdict(ScheduleConfig()), "z_loss": 0.0}


def check_same_run(checkpoint: Checkpoint, spec: RunSpec) -> None:
    """Refuse to go on with other data or another function than the checkpoint's, unless the config allows it."""
    where = checkpoint.folder.name
    if not spec.train.resume_on_changed_data:
        for key in ("dataset_digest", "tokenizer_digest"):
            if checkpoint.state[key] != getattr(spec, key):
                raise CheckpointError(
                    f"{where}: trained on {key} {checkpoint.state[key]}, this run has {getattr(spec, key)}. Use "
                    "another work folder, or set resume_on_changed_data to true to go on with the new data"
                )
    saved, ours = checkpoint.state["config"], identity(spec.train)
    saved = {**json.loads(json.dumps(saved)), "model": asdict(ModelConfig(**saved["model"]))}
    ours = json.loads(json.dumps(ours))
    changed = [key for key in ours if saved.get(key, NEW_KEYS.get(key)) != ours[key]]
    if "model" in changed or (changed and not spec.train.resume_on_changed_config):
        pairs = ", ".join(f"{key}: {saved.get(key)} -> {ours[key]}" for key in changed)
        advice = "" if "model" in changed else ", or set resume_on_changed_config to true"
        raise CheckpointError(f"{where}: the config changed ({pairs}). Use another work folder{advice}")
    if not (spec.train.resume_on_changed_data or spec.train.resume_on_changed_config):
        check_same_samples(checkpoint, spec)


def check_same_samples(checkpoint: Checkpoint, spec: RunSpec) -> None:
    """Other data settings are those of the same run only if they begin to differ after the checkpoint."""
    saved = checkpoint.state["config"].get("data")
    reason = conflict(
        DataConfig.from_dict(saved) if saved else DataConfig(),
        spec.train.data,
        samples=checkpoint.progress.samples,
        global_batch_size=spec.train.global_batch_size,
        seq_len=spec.train.seq_len,
    )
    if reason:
        raise CheckpointError(f"{checkpoint.folder.name}: the data settings changed: {reason}. Or use another folder")
