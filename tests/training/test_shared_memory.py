"""What DeepSpeed leaves in shared memory goes, and what a living process uses stays."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from training import shared_memory

pytestmark = pytest.mark.skipif(not shared_memory.FOLDER.is_dir(), reason="/dev/shm is Linux")


def segment(port: int, age_seconds: float) -> Path:
    path = shared_memory.FOLDER / f"{shared_memory.PREFIX}127.0.0.1_{port}_0"
    path.write_bytes(bytes(4096))
    then = time.time() - age_seconds
    os.utime(path, (then, then))
    return path


def test_the_segments_of_one_port_go_when_its_launch_ends():
    mine, other = segment(99901, 0.0), segment(99902, 0.0)
    try:
        assert shared_memory.free(99901) == 1
        assert (mine.exists(), other.exists()) == (False, True)
    finally:
        other.unlink()


def test_an_orphan_goes_and_a_mapped_or_young_segment_stays():
    orphan, mapped, young = segment(99903, 120.0), segment(99904, 120.0), segment(99905, 0.0)
    try:
        with mapped.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            assert shared_memory.free_orphans() >= 1
            assert [p.exists() for p in (orphan, mapped, young)] == [False, True, True]
    finally:
        mapped.unlink()
        young.unlink()
