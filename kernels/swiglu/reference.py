"""The gate of a SwiGLU feed-forward layer in plain PyTorch.

    y = silu(gate) * up                              silu(g) = g * sigmoid(g)

in    gate and up of one shape: two linear maps of the layer's input
out   as gate; of the wider dtype where the two differ
ref   Shazeer 2020, arXiv:2002.05202, equation 6
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up
