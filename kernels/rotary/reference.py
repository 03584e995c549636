"""Rotary positions in plain PyTorch: each head's halves (a, b) turn by an angle for each position and pair.

    y = (a, b) * cos + (-b, a) * sin                 the layout of LlamaForCausalLM in `transformers`

in    x_BNTH with an even H; cos and sin (T, H), or (B, 1, T, H) where rows have positions of their own
out   as x; of the wider dtype where x and the tables differ
ref   Su et al. 2021 (RoFormer), arXiv:2104.09864, section 3.2.2

Shapes: B batch, N heads, T tokens, H head dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(x_BNTH: Tensor, cos_TH: Tensor, sin_TH: Tensor) -> Tensor:
    first, second = x_BNTH.chunk(2, dim=-1)
    return x_BNTH * cos_TH + torch.cat((-second, first), dim=-1) * sin_TH
