"""The same decoder in one file of obvious torch, with nanoGPT's loop around it; for benchmarks/train.py.

The function is that of training/model.py (RMSNorm, rotary halves, grouped queries, SwiGLU), its parameters have the
same names, and nothing of ours runs: all logits at once, F.cross_entropy, AdamW as torch sets it up.

ref   Karpathy, nanoGPT (MIT): the form of model.py and of the loop in train.py, not their text
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from training.config import ModelConfig, TrainConfig


class Norm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads, self.kv_heads, self.size = config.num_heads, config.num_kv_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q = turn(self.q_proj(x).view(batch, tokens, self.heads, self.size).transpose(1, 2), cos, sin)
        k = turn(self.k_proj(x).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2)
        grouped = self.heads != self.kv_heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.o_proj(y.transpose(1, 2).contiguous().view(batch, tokens, -1))


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.input_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, config: ModelConfig, seq_len: int):
        super().__init__()
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size),
                "layers": nn.ModuleList(Block(config) for _ in range(config.num_layers)),
                "norm": Norm(config.hidden_size, config.norm_eps),
            }
        )
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.lm_head.weight = self.model["embed_tokens"].weight
        frequency = config.rope_theta ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
        angle = torch.outer(torch.arange(seq_len), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.model["embed_tokens"](tokens)
        for block in self.model["layers"]:
            x = block(x, self.cos, self.sin)
        logits = self.lm_head(self.model["norm"](x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def stepper(weights: Mapping[str, Tensor], config: TrainConfig) -> Callable[[Tensor, float], float]:
    """A function of (tokens int64 (B, T + 1), lr) that makes one step and returns the loss before it."""
    model = Model(config.model, config.seq_len)
    model.load_state_dict(dict(weights), strict=not config.model.tie_embeddings)
    matrices, vectors = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=config.betas, eps=config.adam_eps)

    def step(tokens: Tensor, lr: float) -> float:
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step
