"""silu(gate) * up, the middle of a SwiGLU feed-forward layer: Triton on a CUDA device, else plain PyTorch."""

from torch import Tensor

from kernels.choosing import form


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return form("swiglu", gate).swiglu(gate, up)
