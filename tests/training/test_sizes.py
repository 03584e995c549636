"""Sizes: what a name promises, counted by formula and by building the model without memory."""

from __future__ import annotations

import math

import pytest
import torch

from training.config import ModelConfig
from training.model import Decoder
from training.sizes import SIZES, USUAL_VOCABULARY, count_parameters, state_bytes

PROMISED = {"1m": 1e6, "10m": 1e7, "125m": 125e6, "1b": 1e9, "7b": 7e9, "13b": 13e9}


def config_of(size: str, **changes: object) -> ModelConfig:
    return ModelConfig(**({**SIZES[size], "vocab_size": USUAL_VOCABULARY[size]} | changes))


@pytest.mark.parametrize("size", SIZES)
def test_a_size_has_the_parameters_its_name_promises(size):
    assert math.isclose(count_parameters(config_of(size)), PROMISED[size], rel_tol=0.26 if size == "1m" else 0.05)


@pytest.mark.parametrize("changes", [{}, {"qk_norm": True}, {"tie_embeddings": False}, {"vocab_size": 12_345}], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_the_formula_counts_what_is_built(size, changes):
    config = config_of(size, **changes)
    with torch.device("meta"):
        model = Decoder(config)
    assert model.num_parameters() == count_parameters(config)
    assert all(parameter.is_meta for parameter in model.parameters())


def test_thirteen_billion_is_forty_layers_of_5120():
    assert (SIZES["13b"]["num_layers"], SIZES["13b"]["hidden_size"]) == (40, 5120)


@pytest.mark.parametrize(
    ("stage", "gigabytes"),
    [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)],  # ZeRO, arXiv:1910.02054, figure 1
)
def test_states_take_what_the_zero_paper_says_for_7_5_billion_on_64_ranks(stage, gigabytes):
    assert math.isclose(state_bytes(7_500_000_000, stage, 64) / 1e9, gigabytes, rel_tol=0.02)


def test_full_precision_needs_no_second_copy_of_the_weights():
    assert state_bytes(1000, 0, 1, "fp32") == 16_000
    assert state_bytes(1000, 3, 4, "fp16") == state_bytes(1000, 3, 4, "fp32")  # fp16 keeps fp32 weights
    assert state_bytes(1000, 3, 4, "fp32") == 4_000
    assert state_bytes(1000, 1, 4, "fp32") == 10_000
