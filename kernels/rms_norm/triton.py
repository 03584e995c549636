"""Root-mean-square normalisation in Triton: one read of x forward, one of x and of the gradient backward.

Kept for backward: x, the weight and 1 / rms(x), one fp32 a row; plain PyTorch keeps x twice more, in fp32. All
arithmetic is fp32, rounded once at the end. With h = x / rms(x) and g = weight * dy

    dx = (g - h * mean(g * h)) / rms(x)              dweight = sum over rows of dy * h

Each program sums dweight over its own rows in fp32, and torch sums the programs: the same bits in every run.

in/out/ref   as `reference.py`; rows may lie at any stride, but where the last dimension is not dense x is copied
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE = 4096  # elements that a program holds at once: 16 of each of 256 threads
PROGRAMS_PER_UNIT = 4  # of a GPU's multiprocessors, in backward: each writes one row of partial sums


@triton.jit
def _forward(x_ptr, w_ptr, y_ptr, inverse_ptr, x_stride, rows, width, eps, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = (row < rows) & (column < width)
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0).to(tl.float32)
    w = tl.load(w_ptr + column, mask=column < width, other=0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x, 1, keep_dims=True) / width + eps)
    tl.store(y_ptr + row * width + column, x * inverse * w, mask=inside)
    tl.store(inverse_ptr + row, inverse, mask=row < rows)


@triton.jit
def _backward(
    x_ptr,
    w_ptr,
    inverse_ptr,
    dy_ptr,
    dx_ptr,
    dw_ptr,
    x_stride,
    dy_stride,
    rows,
    width,
    tiles,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)[None, :]
    w = tl.load(w_ptr + column, mask=column < width, other=0).to(tl.float32)
    dw = tl.zeros([1, WIDTH], dtype=tl.float32)
    for tile in range(tiles):
        row = (program * tiles + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (column < width)
        inverse = tl.load(inverse_ptr + row, mask=row < rows, other=0)
        scaled = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0).to(tl.float32) * inverse
        dy = tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0).to(tl.float32)
        dw += tl.sum(dy * scaled, 0, keep_dims=True)
        wdy = w * dy
        dx = (wdy - scaled * (tl.sum(wdy * scaled, 1, keep_dims=True) / width)) * inverse
        tl.store(dx_ptr + row * width + column, dx, mask=inside)
    tl.store(dw_ptr + program * width + column, dw, mask=column < width)


def _rows(x: Tensor) -> Tensor:
    """(rows, D), a view wherever the last dimension is dense and the others have one stride."""
    x = x.reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 else x.contiguous()


def _blocks(width: int) -> dict[str, int]:
    columns = triton.next_power_of_2(width)
    rows = max(1, TILE // columns)
    return {"ROWS": rows, "WIDTH": columns, "num_warps": min(16, max(4, rows * columns // 512))}


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
        x_RD = _rows(x)
        rows, width = x_RD.shape
        y_RD = torch.empty((rows, width), dtype=torch.promote_types(x.dtype, weight_D.dtype), device=x.device)
        inverse_R = torch.empty(rows, dtype=torch.float32, device=x.device)
        blocks = _blocks(width)
        with torch.cuda.device_of(x):
            grid = (triton.cdiv(rows, blocks["ROWS"]),)
            weight = weight_D.contiguous()
            _forward[grid](x_RD, weight, y_RD, inverse_R, x_RD.stride(0), rows, width, eps, **blocks)
        # The weight itself and no view of it: ZeRO 3 takes its values away meanwhile and puts them back for backward.
        ctx.save_for_backward(x_RD, weight_D, inverse_R)
        return y_RD.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x_RD, weight_D, inverse_R = ctx.saved_tensors
        dy_RD = _rows(dy)
        rows, width = x_RD.shape
        blocks = _blocks(width)
        units = torch.cuda.get_device_properties(dy.device).multi_processor_count if dy.is_cuda else 2
        tiles = triton.cdiv(triton.cdiv(rows, blocks["ROWS"]), units * PROGRAMS_PER_UNIT)
        programs = triton.cdiv(rows, max(1, tiles) * blocks["ROWS"])
        dx_RD = torch.empty((rows, width), dtype=x_RD.dtype, device=dy.device)
        dw_PD = torch.empty((programs, width), dtype=torch.float32, device=dy.device)
        strides = x_RD.stride(0), dy_RD.stride(0)
        with torch.cuda.device_of(dy):
            _backward[(programs,)](
                x_RD, weight_D.contiguous(), inverse_R, dy_RD, dx_RD, dw_PD, *strides, rows, width, tiles, **blocks
            )
        return dx_RD.view(dy.shape), dw_PD.sum(0).to(weight_D.dtype), None


def rms_norm(x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    return _RMSNorm.apply(x, weight_D, eps)
