"""Checkpoints that are whole or absent: written aside, hashed, renamed; verified before they are trusted.

    checkpoints/step-00000100/
        model.safetensors       fp32 master weights by name: what evaluation and export read
        optimizer.safetensors   AdamW moments, "exp_avg/<name>" and "exp_avg_sq/<name>", fp32
        rng-00000.pt            python, numpy and torch generators of each rank
        state.json              step, samples consumed, tokens, config, digests: a pure function of the run's inputs
        environment.json        versions and hardware, for the reader; not verified on resume
        manifest.json           size and SHA-256 of every other file, written last

All ranks call `save`. Weights are stored by parameter name and whole, so neither the ZeRO stage nor the number of
ranks is in the format; the price is one gather per tensor and that rank 0 writes alone. A folder without a valid
manifest is a fault to report, never a reason to start over: when none verifies, loading raises.

in    Engine.named_state(), Progress
out   the folder above; load_newest() -> Checkpoint
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from training.config import ModelConfig, RunSpec, identity
from training.data.config import DataConfig
from training.data.history import conflict
from training.engine import Engine, ParameterState
from training.environment import describe_environment
from training.schedule.config import ScheduleConfig
from training.schedule.staged import ScheduleState, from_checkpoint, to_checkpoint

logger = logging.getLogger(__name__)
FORMAT, VERSION = "danlu-checkpoint", 1
# what checkpoints from before these keys stand for
NEW_KEYS = {"bad_samples": "report", "document_masks": False, "schedule": asdict(ScheduleConfig()), "z_loss": 0.0}


class CheckpointError(RuntimeError):
    """Checkpoints exist but cannot be used: none verifies, or they belong to other data or another model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a run stands. The data cursor is `samples`: sequences consumed, whatever the batch or the ranks."""

    step: int
    samples: int
    tokens: int
    optimizer_step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A verified folder with what its state.json says."""

    folder: Path
    progress: Progress
    state: dict[str, Any]

    def schedule(self) -> ScheduleState:
        return from_checkpoint(self.state["schedule"])

    def weights(self) -> dict[str, torch.Tensor]:
        return load_file(self.folder / "model.safetensors")

    def parameter_states(self) -> dict[str, ParameterState]:
        moments = load_file(self.folder / "optimizer.safetensors")
        return {
            name: ParameterState(weight, moments[f"exp_avg/{name}"], moments[f"exp_avg_sq/{name}"])
            for name, weight in self.weights().items()
        }


def root(work_dir: Path) -> Path:
    return work_dir / "checkpoints"


def folders(work_dir: Path) -> list[Path]:
    """Finished-looking checkpoints, newest first."""
    return sorted(root(work_dir).glob("step-*"), reverse=True) if root(work_dir).is_dir() else []


def barrier() -> None:
    if dist.is_initialized():
        dist.barrier()


def rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def save(spec: RunSpec, engine: Engine, progress: Progress, schedule: ScheduleState) -> Path:
    """Write the checkpoint of `progress.step` and thin out the older ones. Collective."""
    rank, _ = rank_and_size()
    final = root(Path(spec.work_dir)) / f"step-{progress.step:08d}"
    partial = final.with_name(f".partial-{final.name}")
    if rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    barrier()
    write_tensors(partial, engine, keep=rank == 0)
    torch.save(rng_state(), partial / f"rng-{rank:05d}.pt")
    fsync(partial / f"rng-{rank:05d}.pt")
    if rank == 0:
        write_json(partial / "state.json", state_values(spec, progress, schedule))
        write_json(partial / "environment.json", describe_environment())
    barrier()  # every rank's file is on disk before any is hashed
    if rank == 0:
        commit(partial, final)
        retain(Path(spec.work_dir), spec.train.keep_checkpoints)
    barrier()
    return final


def state_values(spec: RunSpec, progress: Progress, schedule: ScheduleState) -> dict[str, Any]:
    digests = {"dataset_digest": spec.dataset_digest, "tokenizer_digest": spec.tokenizer_digest}
    return {
        "format": FORMAT,
        "version": VERSION,
        **asdict(progress),
        **digests,
        "config": spec.train.key_settings(),
        "schedule": to_checkpoint(schedule, progress.step, spec.train),
    }


def write_tensors(folder: Path, engine: Engine, *, keep: bool) -> None:
    """Gather parameter by parameter; only rank 0 keeps copies."""
    weights: dict[str, torch.Tensor] = {}
    moments: dict[str, torch.Tensor] = {}
    for name, held in engine.named_state():
        if keep:
            weights[name] = held.weight.detach().to("cpu", torch.float32, copy=True).contiguous()
            moments[f"exp_avg/{name}"] = held.exp_avg.to("cpu", torch.float32, copy=True).contiguous()
            moments[f"exp_avg_sq/{name}"] = held.exp_avg_sq.to("cpu", torch.float32, copy=True).contiguous()
    if keep:
        for file_name, tensors in (("model.safetensors", weights), ("optimizer.safetensors", moments)):
            save_file(tensors, folder / file_name)
            fsync(folder / file_name)


def commit(partial: Path, final: Path) -> None:
    """Hash, write the manifest, fsync, rename. A re-saved step replaces the old folder, which was of the same bytes."""
    entries = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(partial.iterdir())
        if path.name != "manifest.json"
    }
    write_json(partial / "manifest.json", {"format": FORMAT, "version": VERSION, "files": entries})
    fsync(partial)
    if final.exists():
        stale = final.with_name(f".stale-{final.name}")
        shutil.rmtree(stale, ignore_errors=True)
        final.rename(stale)
    partial.rename(final)
    fsync(final.parent)
    for stale in final.parent.glob(".stale-*"):
        shutil.rmtree(stale)


def retain(work_dir: Path, keep: int) -> None:
    """Delete all but the newest `keep`, once the newest is proven good."""
    present = folders(work_dir)
    if len(present) <= keep:
        return
    fault = find_fault(present[0])
    if fault:
        logger.error("%s: just written, yet %s; older checkpoints are kept", present[0].name, fault)
        return
    for old in present[keep:]:
        shutil.rmtree(old)


def find_fault(folder: Path) -> str | None:
    """Why `folder` cannot be trusted, or None. Reads every byte."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "manifest.json is missing: the save was cut off"
    except (OSError, ValueError) as error:
        return f"manifest.json cannot be read: {error}"
    if (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        return f"manifest.json is {manifest.get('format')} version {manifest.get('version')}, not {FORMAT} {VERSION}"
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{name} holds {path.stat().st_size:,} bytes, the manifest says {entry['bytes']:,}"
        if sha256(path) != entry["sha256"]:
            return f"{name} differs from its SHA-256: its bytes changed after it was written"
    return None


def load_newest(work_dir: Path) -> Checkpoint | None:
    """The newest checkpoint that verifies; None if there never was one. Raises CheckpointError if none is good."""
    faults = []
    for folder in folders(work_dir):
        fault = find_fault(folder)
        if fault is None:
            return read(folder)
        faults.append(f"{folder.name}: {fault}")
        logger.error("checkpoint %s; falling back to the one before", faults[-1])
    if faults:
        raise CheckpointError(
            f"{root(work_dir)}: {len(faults)} checkpoint(s), none verifies ({'; '.join(faults)}). Restore one from a "
            "copy, or move the folder away to start from scratch on purpose"
        )
    return None


def read(folder: Path) -> Checkpoint:
    """A checkpoint whose files are taken as good (see find_fault)."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    progress = Progress(**{key: state[key] for key in ("step", "samples", "tokens", "optimizer_step")})
    return Checkpoint(folder=folder, progress=progress, state=state)


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


def rng_state() -> dict[str, Any]:
    kind, keys, position, has_gauss, cached = np.random.get_state()
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": [kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def restore_rng(folder: Path, seed: int) -> None:
    """This rank's generators. A rank that had none (more ranks than before) is seeded by (seed, rank)."""
    rank, _ = rank_and_size()
    path = folder / f"rng-{rank:05d}.pt"
    if not path.exists():
        logger.warning("%s: no generator state for rank %d, seeding it anew: other ranks than saved", folder.name, rank)
        seed_rng(seed)
        return
    held = torch.load(path, weights_only=True)
    version, internal, gauss = held["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = held["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(held["torch"])
    if held["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(held["cuda"])


def seed_rng(seed: int) -> None:
    mixed = (seed * 1_000_003 + rank_and_size()[0]) % 2**32
    random.seed(mixed)
    np.random.seed(mixed)
    torch.manual_seed(mixed)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    fsync(path)


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verified(work_dir: Path) -> Iterator[Path]:
    """Every checkpoint folder that verifies, oldest first."""
    return (folder for folder in reversed(folders(work_dir)) if find_fault(folder) is None)
