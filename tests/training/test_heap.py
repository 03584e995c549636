"""What glibc does with large freed blocks, seen from the page faults of a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from training.heap import keep_freed_memory
assert sys.argv[1] == "no" or keep_freed_memory()
np.ones(4 << 20)  # 32 MiB, freed at once: the first use is not counted
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(4 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, keep], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no mallopt")
def test_a_kept_block_is_used_again_without_page_faults() -> None:
    assert faults("yes") < 100 < faults("no")
