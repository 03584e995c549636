"""Rotary positions in Triton: one read and one write, no rotated copy, nothing kept for backward but the tables.

A program takes one token and some heads, so a token's cos and sin are read once for all of them. Backward is the same
kernel with the transposed rotation: da = cos_a * dya + sin_b * dyb, db = cos_b * dyb - sin_a * dya.

in/out/ref   as `reference.py`; x at any strides, and y at x's where x is dense; the tables get no gradient
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE = 2048  # pairs of a program: 16 of each of 128 threads


@triton.jit
def _rotate(
    x_ptr,
    y_ptr,
    cos_ptr,
    sin_ptr,
    x_batch,
    x_head,
    x_token,
    x_dim,
    y_batch,
    y_head,
    y_token,
    y_dim,
    cos_batch,
    cos_token,
    cos_dim,
    sin_batch,
    sin_token,
    sin_dim,
    num_heads,
    num_tokens,
    half,
    BACKWARD: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    batch, token = program // num_tokens, program % num_tokens
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, HALF)[None, :]
    inside = (head < num_heads) & (pair < half)
    x_ptr += batch * x_batch + token * x_token + head * x_head + pair * x_dim
    y_ptr += batch * y_batch + token * y_token + head * y_head + pair * y_dim
    cos_ptr += batch * cos_batch + token * cos_token + pair * cos_dim
    sin_ptr += batch * sin_batch + token * sin_token + pair * sin_dim
    a = tl.load(x_ptr, mask=inside, other=0).to(tl.float32)
    b = tl.load(x_ptr + half * x_dim, mask=inside, other=0).to(tl.float32)
    cos_a = tl.load(cos_ptr, mask=pair < half, other=0).to(tl.float32)
    cos_b = tl.load(cos_ptr + half * cos_dim, mask=pair < half, other=0).to(tl.float32)
    sin_a = tl.load(sin_ptr, mask=pair < half, other=0).to(tl.float32)
    sin_b = tl.load(sin_ptr + half * sin_dim, mask=pair < half, other=0).to(tl.float32)
    if BACKWARD:
        tl.store(y_ptr, a * cos_a + b * sin_b, mask=inside)
        tl.store(y_ptr + half * y_dim, b * cos_b - a * sin_a, mask=inside)
    else:
        tl.store(y_ptr, a * cos_a - b * sin_a, mask=inside)
        tl.store(y_ptr + half * y_dim, b * cos_b + a * sin_b, mask=inside)


def _launch(x_BNTH: Tensor, y_BNTH: Tensor, cos: Tensor, sin: Tensor, backward: bool) -> Tensor:
    batch, heads, tokens, dim = x_BNTH.shape
    tables = [table.broadcast_to((batch, 1, tokens, dim)) for table in (cos, sin)]
    strides = [*x_BNTH.stride(), *y_BNTH.stride()]
    for table in tables:
        strides += [table.stride(0), table.stride(2), table.stride(3)]
    columns = triton.next_power_of_2(max(1, dim // 2))
    rows = min(triton.next_power_of_2(heads), max(1, TILE // columns))
    blocks = {"HEADS": rows, "HALF": columns, "num_warps": min(8, max(1, rows * columns // 256))}
    with torch.cuda.device_of(x_BNTH):
        grid = (batch * tokens, triton.cdiv(heads, rows))
        _rotate[grid](x_BNTH, y_BNTH, *tables, *strides, heads, tokens, dim // 2, BACKWARD=backward, **blocks)
    return y_BNTH


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BNTH: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        y_BNTH = torch.empty_like(x_BNTH, dtype=torch.promote_types(x_BNTH.dtype, cos.dtype))
        ctx.layout = x_BNTH.dtype, y_BNTH.stride()
        return _launch(x_BNTH, y_BNTH, cos, sin, backward=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_BNTH: Tensor) -> tuple[Tensor | None, ...]:
        dtype, strides = ctx.layout  # x's own, so that the view of it which the projection made takes the gradient
        dx_BNTH = torch.empty_strided(dy_BNTH.shape, strides, dtype=dtype, device=dy_BNTH.device)
        cos, sin = ctx.saved_tensors
        return _launch(dy_BNTH, dx_BNTH, cos, sin, backward=True), None, None


def rotate(x_BNTH: Tensor, cos_TH: Tensor, sin_TH: Tensor) -> Tensor:
    if x_BNTH.shape[-1] % 2:
        raise ValueError(f"rotary: the head dimension must be even, found {x_BNTH.shape[-1]}")
    if cos_TH.requires_grad or sin_TH.requires_grad:
        raise ValueError("rotary: the tables get no gradient from the Triton kernel; detach cos and sin")
    return _Rotary.apply(x_BNTH, cos_TH, sin_TH)
