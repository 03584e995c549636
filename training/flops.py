"""What training costs in floating-point operations, from the shapes alone, and the share of a device's peak in use.

    a token     6 x M  +  12 x L x T' x N x H

M counts the parameters that are multiplied with a token: every matrix of the blocks and the output matrix, tied or not;
the lookup of the embedding and the norms are not in it. A multiplication and its addition are 2 operations, forward;
backward costs twice that: 6. Attention is two products of T' x H for each head, 4 operations forward, 12 with backward.
T' is seq_len / 2 where `causal`, since a token sees half of the row on average, and seq_len where not: the second is
the usual one in reports and gives the higher figure. What is computed again (activation checkpointing, the attention
of flash kernels in backward) is not counted: it is no progress.

in    ModelConfig, seq_len; tokens/s and the peak of the device in operations/s
out   operations per token, model FLOPs utilisation (MFU) between 0 and 1
ref   Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; Kaplan et al. 2020, arXiv:2001.08361, section 2.1

Symbols: L num_layers, N num_heads, H head_dim, M parameters in matrices.
"""

from __future__ import annotations

from training.config import ModelConfig

# Dense bf16, from the makers' data sheets (without sparsity), by a part of the name that the driver reports.
PEAK_BF16 = {"H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12}


def matrix_parameters(config: ModelConfig) -> int:
    """M: what a token is multiplied with."""
    heads = 2 * config.num_heads + 2 * config.num_kv_heads
    layer = config.hidden_size * config.head_dim * heads + 3 * config.hidden_size * config.intermediate_size
    return config.num_layers * layer + config.vocab_size * config.hidden_size


def flops_per_token(config: ModelConfig, seq_len: int, *, causal: bool = True) -> float:
    """Forward and backward."""
    seen = seq_len / 2 if causal else seq_len
    attention = 12 * config.num_layers * seen * config.num_heads * config.head_dim
    return 6 * matrix_parameters(config) + attention


def peak_flops(device_name: str) -> float:
    """Of one device in bf16. ValueError for one that is not in the table."""
    for part, peak in PEAK_BF16.items():
        if part in device_name:
            return peak
    raise ValueError(
        f"device {device_name!r}: expected one of {sorted(PEAK_BF16)}; add its dense bf16 peak to PEAK_BF16"
    )


def utilisation(
    config: ModelConfig, seq_len: int, tokens_per_second: float, peak: float, *, causal: bool = True
) -> float:
    """MFU of one device."""
    return flops_per_token(config, seq_len, causal=causal) * tokens_per_second / peak
