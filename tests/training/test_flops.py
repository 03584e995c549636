"""The formula of operations against what torch counts while a model runs forward and backward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from training.config import ModelConfig
from training.flops import flops_per_token, matrix_parameters, peak_flops, utilisation
from training.model import Decoder
from training.sizes import SIZES

SMALL = ModelConfig(
    vocab_size=97, hidden_size=32, num_layers=3, num_heads=4, num_kv_heads=2, intermediate_size=67, max_seq_len=32
)


@pytest.mark.parametrize("change", [{}, {"tie_embeddings": False, "num_kv_heads": 4, "qk_norm": True}], ids=str)
def test_formula_is_what_torch_counts(change: dict[str, Any]) -> None:
    config, batch, tokens = replace(SMALL, **change), 2, 24
    model = Decoder(config)
    ids = torch.randint(97, (batch, tokens + 1))
    # The plain form of attention is made of products that are counted one by one; it makes the masked half as well.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous()).backward()
    assert counter.get_total_flops() == batch * tokens * flops_per_token(config, tokens, causal=False)


def test_causal_attention_costs_half() -> None:
    whole, causal = (flops_per_token(SMALL, 24, causal=causal) for causal in (False, True))
    matrices = 6 * matrix_parameters(SMALL)
    assert causal - matrices == (whole - matrices) / 2 > 0


def test_one_billion_by_hand() -> None:
    config = ModelConfig(vocab_size=85_000, **SIZES["1b"])
    # A layer: 2048 x 64 x (2 x 32 + 2 x 8) + 3 x 2048 x 5632 = 45,088,768.
    assert matrix_parameters(config) == 18 * 45_088_768 + 85_000 * 2048
    assert flops_per_token(config, 2048) == 6 * 985_677_824 + 12 * 18 * 1024 * 2048


def test_utilisation_is_operations_by_peak() -> None:
    config = ModelConfig(vocab_size=85_000, **SIZES["1b"])
    assert utilisation(config, 2048, 45_000.0, peak_flops("NVIDIA H200")) == pytest.approx(0.2897, abs=1e-4)


def test_unknown_device_is_refused() -> None:
    with pytest.raises(ValueError, match="PEAK_BF16"):
        peak_flops("NVIDIA T4")
