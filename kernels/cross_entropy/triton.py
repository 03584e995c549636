"""The loss of a chunk's logits and its gradient in Triton: logits read twice, the gradient written over them.

The first pass keeps a row's running maximum and sum of exponentials (online softmax), the second makes the gradient.
All in fp32 without an fp32 copy of the logits, which plain PyTorch makes for inputs of 16 bits: a chunk costs its own
logits and no more. A target beyond the vocabulary makes the loss nan.

in/out   as `reference.loss_and_gradient_`, whose rows must be dense
ref      Milakov and Gimelshein 2018 (online softmax), arXiv:1805.02867, section 3
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_BLOCK = 8192  # logits of a row at once: 16 of each of 512 threads


@triton.jit
def _loss_and_gradient(
    logits_ptr, targets_ptr, terms_ptr, stride, vocab, z_loss, GRADIENT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)  # -1: not counted
    logits_ptr += row * stride
    known = (target >= 0) & (target < vocab)
    target_logit = tl.load(logits_ptr + target, mask=known, other=float("nan")).to(tl.float32)
    block = tl.arange(0, BLOCK)
    highest = -float("inf")
    total = 0.0
    for first in range(0, vocab, BLOCK):
        column = first + block
        x = tl.load(logits_ptr + column, mask=column < vocab, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(x, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), 0)
        highest = higher
    lse = tl.log(total) + highest
    tl.store(terms_ptr + row, tl.where(target >= 0, lse - target_logit + z_loss * lse * lse, 0.0))
    if GRADIENT:
        scale = (1 + 2 * z_loss * lse) / total
        for first in range(0, vocab, BLOCK):
            column = first + block
            x = tl.load(logits_ptr + column, mask=column < vocab, other=0).to(tl.float32)
            gradient = tl.exp(x - highest) * scale - tl.where(column == target, 1.0, 0.0)
            tl.store(logits_ptr + column, tl.where(target >= 0, gradient, 0.0), mask=column < vocab)


def loss_and_gradient_(
    logits_CV: Tensor, targets_C1: Tensor, counted_C1: Tensor, z_loss: float, gradient: bool
) -> tuple[Tensor, Tensor | None]:
    tokens, vocab = logits_CV.shape
    targets_C = targets_C1.where(counted_C1, -1).flatten()
    terms_C1 = torch.empty((tokens, 1), dtype=torch.float32, device=logits_CV.device)
    block = min(MAX_BLOCK, triton.next_power_of_2(vocab))
    blocks = {"GRADIENT": gradient, "BLOCK": block, "num_warps": min(16, max(4, block // 512))}
    with torch.cuda.device_of(logits_CV):
        _loss_and_gradient[(tokens,)](
            logits_CV, targets_C, terms_C1, logits_CV.stride(0), vocab, float(z_loss), **blocks
        )
    return terms_C1, logits_CV if gradient else None
