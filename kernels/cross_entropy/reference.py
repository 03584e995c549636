"""Linear cross-entropy with all logits in memory: three tensors of N x V at the peak of the backward pass.

    loss = sum over counted tokens of (lse - logit of the target + z_loss * lse^2) / their number

where lse is the log of the sum of the exponentials of a token's logits, in fp32 whatever the inputs.
`loss_and_gradient_` does the same for the logits of a chunk of tokens, and makes their gradient by the formula.

in    hidden_ND and weight_VD of one dtype (autocast may change it), targets_N int64; `mask_N` bool: which targets count
out   the mean over targets that are not `ignore_index` and not masked out; 0 where none is left (F.cross_entropy: nan)
ref   z-loss: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, section 5

Shapes: N tokens, C tokens of a chunk, D hidden size, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORE = -100


def cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    *,
    mask_N: Tensor | None = None,
    ignore_index: int = IGNORE,
    z_loss: float = 0.0,
) -> Tensor:
    if mask_N is not None:
        targets_N = targets_N.masked_fill(~mask_N, ignore_index)
    logits_NV = F.linear(hidden_ND, weight_VD)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    counted_N = targets_N != ignore_index
    loss = F.cross_entropy(logits_NV, targets_N, ignore_index=ignore_index, reduction="sum")
    if z_loss:
        loss = loss + z_loss * (logits_NV.logsumexp(1).square() * counted_N).sum()
    return loss / counted_N.sum().clamp(min=1)


def loss_and_gradient_(
    logits_CV: Tensor, targets_C1: Tensor, counted_C1: Tensor, z_loss: float, gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Each token's term of the loss, fp32, 0 where not counted; and, if `gradient`, that of the terms' sum by the
    logits, in the dtype and, where that is fp32, in the memory of `logits_CV`. Targets must lie in the vocabulary."""
    dtype = logits_CV.dtype
    logits_CV = logits_CV.to(torch.promote_types(dtype, torch.float32))
    target_C1 = logits_CV.gather(1, targets_C1)
    highest_C1 = logits_CV.amax(1, keepdim=True)
    logits_CV.sub_(highest_C1).exp_()  # from here on the exponentials, and then the gradient
    sum_C1 = logits_CV.sum(1, keepdim=True)
    lse_C1 = sum_C1.log() + highest_C1
    terms_C1 = (lse_C1 - target_C1 + z_loss * lse_C1.square()) * counted_C1
    if not gradient:
        return terms_C1, None
    logits_CV.mul_((1 + 2 * z_loss * lse_C1) * counted_C1 / sum_C1)
    logits_CV.scatter_add_(1, targets_C1, -counted_C1.to(logits_CV.dtype))
    return terms_C1, logits_CV.to(dtype)
