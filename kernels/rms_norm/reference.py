"""Root-mean-square normalisation in plain PyTorch.

    y = weight * x / sqrt(mean(x^2) + eps)          the mean over the last dimension, in fp32

In 16 bits the normalised x is rounded before the weight multiplies it, as LlamaRMSNorm in `transformers` does.

in    x (..., D), weight_D
out   as x; of the wider dtype where the two differ
ref   Zhang and Sennrich 2019, arXiv:1910.07467, equation 4
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight_D * scaled.to(x.dtype)
