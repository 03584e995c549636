"""Linear cross-entropy that holds the logits of one chunk of tokens at a time.

A chunk's logits are made, turned in place into their own gradient (`loss_and_gradient_`, in Triton on a CUDA device,
else in plain PyTorch), and multiplied into the gradients of the hidden states and of the output matrix before the next
chunk begins. So the gradients are ready when the forward pass ends and the logits are made once: the arithmetic is the
plain one's. The peak is the fp32 gradients (N x D and V x D) and about two chunks of logits, where the plain form holds
3 x N x V.

Inputs of 16 bits: the logits are rounded as F.linear rounds them; softmax, loss, and the sums over chunks are fp32.
The 1/N of the mean and the scale of the loss are applied after these sums, so nothing underflows in fp16.

in    as kernels/cross_entropy/reference.py; under autocast the products are taken in its dtype
out   the same mean; backward may run once (it scales the gradients in place) and has no second derivative
ref   Wijmans et al. 2024 (Cut Your Losses), arXiv:2411.09009; Hsu et al. 2024 (Liger), arXiv:2410.10989, section 3.2

Shapes: N tokens, C tokens of a chunk, D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels.choosing import form
from kernels.cross_entropy.reference import IGNORE

# Logits of a chunk. CPU: 2^24 x 4 bytes = 64 MiB. A GPU needs more tokens at a time to fill its matrix units: 512 MiB.
CHUNK_LOGITS = {"cpu": 1 << 24, "cuda": 1 << 27}
# But never so few tokens: each chunk reads and writes V x D. At V 85,000 on a CPU, 12 tokens a chunk took 2.4 times as
# long as 197, and 3 tokens 14 times.
MIN_CHUNK_TOKENS = 128


def cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    *,
    mask_N: Tensor | None = None,
    ignore_index: int = IGNORE,
    z_loss: float = 0.0,
    chunk_tokens: int = 0,
) -> Tensor:
    """`chunk_tokens` 0: as many as CHUNK_LOGITS holds, in even parts."""
    if mask_N is not None:
        targets_N = targets_N.masked_fill(~mask_N, ignore_index)
    device = hidden_ND.device.type
    autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if autocast else hidden_ND.dtype
    most = max(MIN_CHUNK_TOKENS, CHUNK_LOGITS.get(device, CHUNK_LOGITS["cuda"]) // len(weight_VD))
    tokens = chunk_tokens or even_chunks(len(hidden_ND), most)
    wanted = torch.is_grad_enabled()
    with torch.autocast(device, enabled=False):
        return _Chunked.apply(hidden_ND, weight_VD, targets_N, dtype, ignore_index, z_loss, tokens, wanted)


def even_chunks(num_tokens: int, most: int) -> int:
    """Tokens of a chunk, at most `most` but at least 1, so that the last chunk is not a small rest."""
    num_chunks = -(-num_tokens // max(1, most))
    return max(1, -(-num_tokens // max(1, num_chunks)))


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        targets_N: Tensor,
        dtype: torch.dtype,
        ignore_index: int,
        z_loss: float,
        tokens: int,
        wanted: bool,
    ) -> Tensor:
        wide = torch.promote_types(dtype, torch.float32)
        for_hidden, for_weight = (wanted and needed for needed in ctx.needs_input_grad[:2])
        grad_ND = torch.empty_like(hidden_ND, dtype=wide) if for_hidden else None
        grad_VD = torch.zeros_like(weight_VD, dtype=wide) if for_weight else None
        used_VD = weight_VD.to(dtype)
        total = torch.zeros((), dtype=wide, device=hidden_ND.device)
        for first in range(0, len(hidden_ND), tokens):
            rows = slice(first, first + tokens)
            hidden_CD, targets_C1 = hidden_ND[rows].to(dtype), targets_N[rows].unsqueeze(1)
            counted_C1 = targets_C1 != ignore_index
            targets_C1 = targets_C1.where(counted_C1, 0)
            terms_C1, gradient_CV = form("cross_entropy", hidden_CD).loss_and_gradient_(
                F.linear(hidden_CD, used_VD), targets_C1, counted_C1, z_loss, for_hidden or for_weight
            )
            total += terms_C1.sum()
            if grad_ND is not None:
                grad_ND[rows] = gradient_CV @ used_VD
            if grad_VD is not None and dtype == wide:
                grad_VD.addmm_(gradient_CV.T, hidden_CD)
            elif grad_VD is not None:
                grad_VD += gradient_CV.T @ hidden_CD
        ctx.scale = 1 / (targets_N != ignore_index).sum().clamp(min=1).to(wide)
        ctx.gradients = grad_ND, grad_VD
        ctx.dtypes = hidden_ND.dtype, weight_VD.dtype
        return total * ctx.scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError(
                "chunked cross-entropy: backward ran twice; its gradients were handed over the first time"
            )
        gradients, ctx.gradients = ctx.gradients, None
        scale = upstream * ctx.scale
        scaled = [g if g is None else g.mul_(scale).to(kind) for g, kind in zip(gradients, ctx.dtypes, strict=True)]
        return (*scaled, None, None, None, None, None, None)
