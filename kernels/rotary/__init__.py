"""Rotary positions applied to queries or keys: Triton on a CUDA device, else plain PyTorch."""

from torch import Tensor

from kernels.choosing import form


def rotate(x_BNTH: Tensor, cos_TH: Tensor, sin_TH: Tensor) -> Tensor:
    return form("rotary", x_BNTH).rotate(x_BNTH, cos_TH, sin_TH)
