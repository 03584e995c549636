"""The gate of a SwiGLU feed-forward layer in Triton: one pass forward, one backward, in fp32.

Kept for backward: gate and up, which backward makes silu(gate) from again; plain PyTorch keeps silu(gate) as well. (The
product is kept by the linear layer that reads it; only checkpointing the whole layer frees it.) With s = sigmoid(gate)

    dgate = dy * up * s * (1 + gate * (1 - s))       dup = dy * gate * s

in/out/ref   as `reference.py`; what is not contiguous is copied
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024  # elements a program: 8 of each of 128 threads, 16 bytes in 16-bit types, the widest load


@triton.jit
def _forward(gate_ptr, up_ptr, y_ptr, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    gate = tl.load(gate_ptr + place, mask=inside, other=0).to(tl.float32)
    up = tl.load(up_ptr + place, mask=inside, other=0).to(tl.float32)
    tl.store(y_ptr + place, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def _backward(gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    gate = tl.load(gate_ptr + place, mask=inside, other=0).to(tl.float32)
    up = tl.load(up_ptr + place, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + place, mask=inside, other=0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    tl.store(dgate_ptr + place, dy * up * sigmoid * (1 + gate * (1 - sigmoid)), mask=inside)
    tl.store(dup_ptr + place, dy * gate * sigmoid, mask=inside)


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        y = torch.empty(gate.shape, dtype=torch.promote_types(gate.dtype, up.dtype), device=gate.device)
        with torch.cuda.device_of(gate):
            _forward[(triton.cdiv(y.numel(), BLOCK),)](gate, up, y, y.numel(), BLOCK=BLOCK)
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        with torch.cuda.device_of(dy):
            grid = (triton.cdiv(dy.numel(), BLOCK),)
            _backward[grid](gate, up, dy.contiguous(), dgate, dup, dy.numel(), BLOCK=BLOCK)
        return dgate, dup


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    if gate.shape != up.shape:
        raise ValueError(f"swiglu: gate and up must have one shape, found {tuple(gate.shape)} and {tuple(up.shape)}")
    return _SwiGLU.apply(gate, up)
