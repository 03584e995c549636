"""Checkpoints that are whole or absent: written aside, hashed, read back, renamed; verified before they are trusted.

    checkpoints/step-00000100/
        model.safetensors       fp32 master weights by name: what evaluation and export read
        optimizer.safetensors   AdamW moments, "exp_avg/<name>" and "exp_avg_sq/<name>", fp32
        rng-00000.pt            python, numpy and torch generators of each rank
        state.json              step, samples consumed, tokens, schedule, config, digests: a pure function of the inputs
        environment.json        versions and hardware, for the reader; not verified on resume
        manifest.json           level, and size and SHA-256 of every other file; written last

There are three levels. Each holds all that an exact resume needs; they differ in form and in how long they are kept:

    light     model.planes.lz4, optimizer.planes.lz4: quick to write, gone once newer ones are there
    full      model.planes.zst, optimizer.planes.zst: smaller; kept ever more sparsely with age
    archive   as above, uncompressed, with metrics.jsonl and events.jsonl up to its step; kept for ever

The last step's checkpoint is an archive. No file points to the newest one: names and manifests say it. Weights are
stored by parameter name and whole, so neither the ZeRO stage nor the number of ranks is in the format; the price is
one gather per tensor and that rank 0 writes alone. Training waits for the gather and a copy, not for the writing
(writer.py). A folder without a valid manifest is a fault to report, never a reason to start over: when none verifies,
loading raises.
"""

from training.checkpoint.folder import CheckpointError, Level, find_fault, folders, root, verified
from training.checkpoint.generators import rank_and_size, restore_rng, seed_rng
from training.checkpoint.identity import check_same_run
from training.checkpoint.loading import Checkpoint, Progress, fresh_start_reason, load_newest, read
from training.checkpoint.saver import Saver, level_at

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Level",
    "Progress",
    "Saver",
    "check_same_run",
    "find_fault",
    "folders",
    "fresh_start_reason",
    "level_at",
    "load_newest",
    "rank_and_size",
    "read",
    "restore_rng",
    "root",
    "seed_rng",
    "verified",
]
