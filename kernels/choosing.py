"""Which form of an operation runs: Triton's on a CUDA device, plain PyTorch elsewhere. Chosen once, and logged.

The two agree up to rounding, not bit for bit. fp64 stays plain anywhere, since the Triton kernels compute in fp32.
A CUDA device without Triton (torch's CUDA builds bring it) runs the plain form, and a warning says why.

in    the operation's folder in kernels/ and a tensor that it works on
out   its module, `reference` or `triton`, which have functions of the same signatures
"""

from __future__ import annotations

import importlib
import logging
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

OPERATIONS = ("rms_norm", "rotary", "swiglu", "cross_entropy")
Preference = Literal["auto", "plain", "triton"]

_preference: Preference = "auto"
_chosen: dict[tuple[str, str, bool], ModuleType] = {}


def prefer(preference: Preference) -> None:
    """For this process, from its next call on: `plain` takes PyTorch on any device, `triton` takes Triton off CUDA
    too, where it needs TRITON_INTERPRET=1."""
    global _preference
    _preference = preference
    _chosen.clear()


def choose_now(device: str) -> None:
    """For all operations on `device`. Before torch.compile: a choice (and its line in the log) made while the compiler
    traces splits its graph at each of them."""
    for operation in OPERATIONS:
        form(operation, torch.empty(0, device=device))


def form(operation: str, x: Tensor) -> ModuleType:
    key = operation, x.device.type, x.dtype == torch.float64
    if key not in _chosen:
        _chosen[key] = _choose(*key)
    return _chosen[key]


def _choose(operation: str, device: str, fp64: bool) -> ModuleType:
    what = f"{operation} on {device}{' in fp64' if fp64 else ''}"
    if not fp64 and (_preference == "triton" or (_preference == "auto" and device == "cuda")):
        try:
            module = importlib.import_module(f"kernels.{operation}.triton")
        except ImportError as error:
            if _preference == "triton":
                raise
            logger.warning("%s runs in plain PyTorch, slower: Triton cannot be imported (%s)", what, error)
        else:
            logger.info("%s: Triton", what)
            return module
    else:
        logger.info("%s: plain PyTorch", what)
    return importlib.import_module(f"kernels.{operation}.reference")
