"""How the kernels are compiled: Numba with its on-disk cache where one can be written.

Compiled code is cached beside each kernel, or in the user's cache folder where an install is read-only; where neither
can be written, it is compiled anew in each process (some seconds) and the log says so. Numba replaces cache files
atomically, so processes may start together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba

logger = logging.getLogger(__name__)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`numba.njit` with the on-disk cache where one can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:  # "cannot cache function": no writable folder
        logger.warning("%s: compiled without a cache (%s); set NUMBA_CACHE_DIR to a folder", function.__name__, error)
        return numba.njit(nogil=True)(function)
