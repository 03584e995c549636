"""Keep freed memory in the process, for training on a CPU.

A step makes and frees hundreds of megabytes of activations and gradients. glibc takes blocks of that size from the
kernel and hands each back when it is freed, so the kernel clears the same pages anew at every step: 35,000 page faults
and a fifth of the CPU time of a `1m` model. Kept blocks are found again by the next step. The price is fragmentation:
the process' peak grew by a tenth to a quarter on the sizes of benchmarks/train.py. Results do not change.

ref   mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD; glibc's malloc.h for their numbers
"""

from __future__ import annotations

import ctypes
import logging

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1  # both take an int


def keep_freed_memory() -> bool:
    """Whether the C library took both settings; they hold for what is allocated from now on."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not all([mallopt(key, LARGEST) for key in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)]):
        logger.warning("this C library cannot be told to keep freed memory: steps take up to a quarter longer")
        return False
    return True
