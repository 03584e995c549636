"""The random generators of each rank: python's, numpy's and torch's, as bytes for a checkpoint and back.

in    rng-00000.pt of a checkpoint, or a seed
out   generators set; the bytes of such a file
"""

from __future__ import annotations

import io
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

logger = logging.getLogger(__name__)


def rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def file_name(rank: int) -> str:
    return f"rng-{rank:05d}.pt"


def rng_bytes() -> bytes:
    """This rank's generators as the content of their file."""
    buffer = io.BytesIO()
    torch.save(rng_state(), buffer)
    return buffer.getvalue()


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
    path = folder / file_name(rank)
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
