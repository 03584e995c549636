"""Models by size, from 1 million parameters to 13 billion, and what they need of a machine's memory.

A recipe names one (`train.model.size: 1b`) and may change any of its numbers. Shapes follow LLaMA's: head_dim 128 from
7b on (64 below), feed-forward 8/3 of the width, output matrix of its own from 7b on. What a name promises holds at the
size's usual vocabulary.

    parameters  V x D x (1 if tied else 2) + L x (D x H x (2 N + 2 K) + 3 x D x F + 2 D [+ 2 H with qk_norm]) + D

Memory is that of model states alone: weights, gradients and AdamW in bf16 take 2 + 2 + 12 bytes a parameter (fp32 and
fp16: 4 + 4 + 8, the weights being their own master; training/deepspeed_engine.py), of which a ZeRO stage keeps a share
on each rank: 1 splits the optimizer's, 2 the gradients too, 3 the weights too. On top come activations, communication
buckets, the logits, with bf16 up to 2 bytes for each gradient that a rank holds, since they are accumulated in fp32,
and with fp32 and fp16 at ZeRO 1 and 2 a copy of this rank's share of the weights, which DeepSpeed takes as masters.

ref   Touvron et al. 2023 (LLaMA), arXiv:2302.13971, table 2; Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054,
      sections 3.1 and 5; the 13b (40 layers of 5120) is field report 000's and 001's

Symbols: V vocab_size, D hidden_size, L num_layers, N num_heads, K num_kv_heads, H head_dim, F intermediate_size.
"""

from __future__ import annotations

from typing import Any, Literal

from training.config import ModelConfig


def _shape(
    hidden: int, layers: int, heads: int, kv_heads: int, feed_forward: int, tokens: int, tied: bool = True
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "intermediate_size": feed_forward,
        "max_seq_len": tokens,
        "tie_embeddings": tied,
    }


SIZES: dict[str, dict[str, Any]] = {
    "1m": _shape(128, 4, 4, 2, 344, 512),
    "10m": _shape(256, 8, 4, 2, 688, 1024),
    "125m": _shape(768, 12, 12, 4, 2048, 2048),
    "1b": _shape(2048, 18, 32, 8, 5632, 2048),
    "7b": _shape(4096, 32, 32, 32, 11008, 4096, tied=False),
    "13b": _shape(5120, 40, 40, 40, 13824, 4096, tied=False),
}
USUAL_VOCABULARY = {"1m": 4_096, "10m": 16_384, "125m": 64_000, "1b": 85_000, "7b": 85_000, "13b": 85_000}


def count_parameters(config: ModelConfig) -> int:
    """By the formula above; nothing is built."""
    width, heads = config.hidden_size, 2 * config.num_heads + 2 * config.num_kv_heads
    layer = width * config.head_dim * heads + 3 * width * config.intermediate_size + 2 * width
    if config.qk_norm:
        layer += 2 * config.head_dim
    return config.vocab_size * width * (1 if config.tie_embeddings else 2) + config.num_layers * layer + width


def state_bytes(
    num_parameters: int, zero_stage: int, num_ranks: int, precision: Literal["fp32", "bf16", "fp16"] = "bf16"
) -> int:
    """Bytes of model states on each rank, even shares."""
    whole = (2, 2, 12) if precision == "bf16" else (4, 4, 8)  # weights, gradients, optimizer
    split_from = (3, 2, 1)
    a_parameter = sum(n / num_ranks if zero_stage >= stage else n for n, stage in zip(whole, split_from, strict=True))
    return round(num_parameters * a_parameter)
