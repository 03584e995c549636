"""Free the shared memory that DeepSpeed's CPU communication leaves behind.

Each rank makes a segment of about 64 MB in /dev/shm, named after the user, the master's address and port, and the
rank; DeepSpeed 0.19.8 never unlinks it, killed or not. A machine that trains every night would run full: 240 segments
held 15 of 24 GB here. `free` removes those of one launch when it has ended; `free_orphans` those of launches whose
owner was killed before it could.

ref   deepspeed/ops/csrc/cpu/comm/shm.cpp, shm_initialize
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
PREFIX = f"deepspeed_allreduce_buffer_{os.getuid()}_"
YOUNG_SECONDS = 60.0  # a segment is created a moment before it is mapped


def free(port: int) -> int:
    """Remove the segments of the launch with this master port; returns how many there were."""
    return sum(unlink(path) for path in FOLDER.glob(f"{PREFIX}*_{port}_*"))


def free_orphans() -> int:
    """Remove this user's segments that no process maps; returns how many there were."""
    before = time.time() - YOUNG_SECONDS
    segments = [path for path in FOLDER.glob(f"{PREFIX}*") if path.stat().st_mtime < before]
    if not segments:
        return 0
    mapped = mapped_segments()
    return sum(unlink(path) for path in segments if str(path) not in mapped)


def mapped_segments() -> set[str]:
    """The segments that some process of this user has mapped."""
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:  # it ended, or is another user's
            continue
        found.update(line[line.index("/") :] for line in lines if PREFIX in line)
    return found


def unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
