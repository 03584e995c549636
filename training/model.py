"""A LLaMA-style decoder in plain torch: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Parameter names and the rotary layout (first half, second half) are those of LlamaForCausalLM in `transformers`, so an
export renames nothing (training/hugging_face.py). Attention goes through scaled_dot_product_attention, which picks the
machine's fused kernel. What the parameters begin as is training/initial.py's.

in    tokens_BT int64, targets_BT for the loss, and documents_BT where packed documents shall not see each other
out   logits_BTV, or the mean next-token cross-entropy in fp32
ref   Touvron et al. 2023 (LLaMA), arXiv:2302.13971; Su et al. 2021 (RoPE), arXiv:2104.09864; Shazeer 2020 (SwiGLU),
      arXiv:2002.05202; Ainslie et al. 2023 (GQA), arXiv:2305.13245

Shapes: B batch, T tokens, D hidden_size, N num_heads, K num_kv_heads, H head_dim, F intermediate_size, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from kernels import cross_entropy
from kernels.rms_norm import rms_norm
from kernels.rotary import rotate
from kernels.swiglu import swiglu
from training.config import ModelConfig


class RMSNorm(nn.Module):
    """x / rms(x) * weight, the statistics in fp32 (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x_BTD: Tensor) -> Tensor:
        return rms_norm(x_BTD, self.weight, self.eps)


def rotary_table(num_tokens: int, config: ModelConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos_TH and sin_TH in fp32. Computed, not stored: a buffer would be cast to bf16 with the module."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=device) / config.head_dim
    inverse_frequency = 1.0 / (config.rope_theta**exponent)
    angle = torch.outer(torch.arange(num_tokens, dtype=torch.float32, device=device), inverse_frequency)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def documents_in(tokens_BT: Tensor, eos_id: int) -> Tensor:
    """int64 (B, T), ascending along a row: which document a token is of. EOS begins a document, as it does when one
    is scored alone (tasks/evaluate.py), so the first token of a text is predicted from EOS and from nothing else."""
    return (tokens_BT == eos_id).long().cumsum(1)


def document_mask(documents_BT: Tensor) -> Tensor:
    """bool (B, 1, T, T): whether a token (row) sees another (column): of its own document and not after it."""
    return (documents_BT.unsqueeze(2) == documents_BT.unsqueeze(1)).tril().unsqueeze(1)


def document_positions(documents_BT: Tensor) -> Tensor:
    """int64 (B, T): the place of each token in its document, from 0."""
    places_BT = torch.arange(documents_BT.shape[1], device=documents_BT.device).expand_as(documents_BT)
    begins_BT = torch.ones_like(documents_BT, dtype=torch.bool)
    begins_BT[:, 1:] = documents_BT[:, 1:] != documents_BT[:, :-1]
    return places_BT - (places_BT * begins_BT).cummax(1).values


class Attention(nn.Module):
    """Causal self-attention with num_kv_heads key and value heads shared by groups of query heads."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.head_dim = config.head_dim
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else None

    def forward(self, x_BTD: Tensor, cos_TH: Tensor, sin_TH: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        batch, tokens, _ = x_BTD.shape
        q_BTNH = self.q_proj(x_BTD).view(batch, tokens, -1, self.head_dim)
        k_BTKH = self.k_proj(x_BTD).view(batch, tokens, -1, self.head_dim)
        v_BTKH = self.v_proj(x_BTD).view(batch, tokens, -1, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q_BTNH, k_BTKH = self.q_norm(q_BTNH), self.k_norm(k_BTKH)
        q_BNTH = rotate(q_BTNH.transpose(1, 2), cos_TH, sin_TH)
        k_BKTH = rotate(k_BTKH.transpose(1, 2), cos_TH, sin_TH)
        y_BNTH = F.scaled_dot_product_attention(
            q_BNTH,
            k_BKTH,
            v_BTKH.transpose(1, 2),
            attn_mask=mask_B1TT,
            is_causal=mask_B1TT is None,
            enable_gqa=q_BNTH.shape[1] != k_BKTH.shape[1],
        )
        return self.o_proj(y_BNTH.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down_proj(swiglu(self.gate_proj(x_BTD), self.up_proj(x_BTD)))


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and added to the residual stream.

    A part named in `checkpointed` keeps, in training, its input alone and is run again in the backward pass (Chen et
    al. 2016, arXiv:1604.06174): the same bits, for a second forward pass of it. Nothing here draws random numbers."""

    def __init__(self, config: ModelConfig, checkpointed: Sequence[str] = ()):
        super().__init__()
        self.checkpointed = tuple(checkpointed)
        self.input_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x_BTD: Tensor, cos_TH: Tensor, sin_TH: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        x_BTD = x_BTD + self.part("attention", self.attention, x_BTD, cos_TH, sin_TH, mask_B1TT)
        return x_BTD + self.part("feed_forward", self.feed_forward, x_BTD)

    def attention(self, x_BTD: Tensor, cos_TH: Tensor, sin_TH: Tensor, mask_B1TT: Tensor | None) -> Tensor:
        return self.self_attn(self.input_layernorm(x_BTD), cos_TH, sin_TH, mask_B1TT)

    def feed_forward(self, x_BTD: Tensor) -> Tensor:
        return self.mlp(self.post_attention_layernorm(x_BTD))

    def part(self, name: str, run: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
        if name in self.checkpointed and self.training and torch.is_grad_enabled():
            return checkpoint(run, *inputs, use_reentrant=False, preserve_rng_state=False)
        return run(*inputs)


class Trunk(nn.Module):
    """Embedding, blocks and the last norm; named `model` inside Decoder, as in transformers."""

    def __init__(self, config: ModelConfig, checkpointed: Sequence[str] = ()):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, checkpointed) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)

    def forward(self, tokens_BT: Tensor, documents_BT: Tensor | None = None) -> Tensor:
        x_BTD = self.embed_tokens(tokens_BT)
        cos_TH, sin_TH = rotary_table(tokens_BT.shape[1], self.config, tokens_BT.device)
        cos_TH, sin_TH = cos_TH.to(x_BTD.dtype), sin_TH.to(x_BTD.dtype)
        mask_B1TT = None
        if documents_BT is not None:
            mask_B1TT = document_mask(documents_BT)
            positions_BT = document_positions(documents_BT)
            # (B, 1, T, H): broadcast over the heads
            cos_TH, sin_TH = cos_TH[positions_BT].unsqueeze(1), sin_TH[positions_BT].unsqueeze(1)
        for layer in self.layers:
            x_BTD = layer(x_BTD, cos_TH, sin_TH, mask_B1TT)
        return self.norm(x_BTD)


class Decoder(nn.Module):
    """Logits of tokens, or, given targets, the mean cross-entropy. Tied embeddings are one parameter, kept once.

    `chunked_loss`: the loss is made without ever holding the logits of all tokens (kernels/cross_entropy). `z_loss`
    weighs the square of the log of the softmax's sum in the loss of a module in training; in `eval` it is left out.
    `checkpointed` names the parts of a block that are run again in the backward pass: "attention", "feed_forward"."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        chunked_loss: bool = False,
        z_loss: float = 0.0,
        checkpointed: Sequence[str] = (),
    ):
        super().__init__()
        if config.vocab_size <= 0:
            raise ValueError("vocab_size: 0 stands for the tokenizer's; resolve the config before building the model")
        self.config, self.z_loss = config, z_loss
        self.linear_cross_entropy = cross_entropy.chunked if chunked_loss else cross_entropy.plain
        self.model = Trunk(config, checkpointed)
        self.lm_head = None if config.tie_embeddings else nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor | None = None, documents_BT: Tensor | None = None
    ) -> Tensor:
        """`documents_BT` numbers the document of each token (see `documents_in`); without it all tokens of a row are
        one text."""
        x_BTD = self.model(tokens_BT, documents_BT)
        head = self.model.embed_tokens.weight if self.lm_head is None else self.lm_head.weight
        if targets_BT is None:
            return F.linear(x_BTD, head)
        z_loss = self.z_loss if self.training else 0.0
        return self.linear_cross_entropy(x_BTD.flatten(0, 1), head, targets_BT.flatten(), z_loss=z_loss)

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())
