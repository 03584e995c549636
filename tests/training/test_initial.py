"""What a model begins as: by which scheme, from what alone, and when that is refused."""

from __future__ import annotations

import math

import pytest
import torch

from training.config import LayerBounds, ModelConfig
from training.initial import faults, initialise
from training.model import Decoder
from training.train import TrainingError, build_engine

SCHEMES = ("scaled_normal", "orthogonal")
SHAPE = {"vocab_size": 4000, "num_layers": 3, "num_heads": 6, "num_kv_heads": 2, "intermediate_size": 100}


def build(seed: int = 3, **changes) -> Decoder:
    return initialise(Decoder(ModelConfig(**(SHAPE | {"hidden_size": 48} | changes))), seed)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("width", [48, 192, 384])
def test_the_first_loss_is_ln_of_the_vocabulary_and_no_layer_is_out_of_bounds(scheme, tied, width):
    model = build(hidden_size=width, intermediate_size=width * 8 // 3, init=scheme, tie_embeddings=tied)
    tokens = torch.randint(0, 4000, (4, 65), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        loss = model(tokens[:, :-1], tokens[:, 1:]).item()
    assert abs(loss / math.log(4000) - 1) < 0.015
    assert faults(model, LayerBounds()) == []
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_depend_on_seed_and_name_alone(scheme):
    one, two, deeper = build(init=scheme), build(init=scheme), build(num_layers=4, init=scheme)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert torch.equal(one.model.layers[0].mlp.gate_proj.weight, deeper.model.layers[0].mlp.gate_proj.weight)
    assert not torch.equal(one.model.embed_tokens.weight, build(seed=4, init=scheme).model.embed_tokens.weight)


def test_orthogonal_matrices_are_orthogonal_up_to_their_scale():
    model, expected = build(init="orthogonal", tie_embeddings=False), {"self_attn": 1.0, "mlp": 1 / (2 * 48)}
    for name, matrix in model.named_parameters():
        if matrix.dim() == 1:
            continue
        scale = next((value for part, value in expected.items() if part in name), 0.32**2 * 4000 / 48)
        scale /= 6 if "o_proj" in name else 1  # 2 x 3 layers
        small = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
        assert torch.allclose(small, scale * torch.eye(len(small)), atol=1e-5 * scale), name


def test_queries_keys_and_values_begin_apart():
    attention = build(init="orthogonal", num_kv_heads=6).model.layers[0].self_attn
    matrices = [layer.weight.flatten() for layer in (attention.q_proj, attention.k_proj, attention.v_proj)]
    similarities = torch.corrcoef(torch.stack(matrices))[~torch.eye(3, dtype=torch.bool)]
    assert similarities.abs().max() < 0.1


def test_scales_that_the_first_loss_does_not_betray_are_named_by_layer():
    model = build(num_layers=8, linear_init_scale=5.0, hidden_size=192, intermediate_size=512)
    tokens = torch.randint(0, 4000, (4, 65), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert abs(model(tokens[:, :-1], tokens[:, 1:]).item() / math.log(4000) - 1) < 0.03
    activation, gradient = faults(model, LayerBounds())
    assert activation.startswith("activation RMS: expected 0.001 to 20, found layer 0: ")
    assert gradient.startswith("gradient norm: expected layers within a factor of 20, found layer 7: ")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_layer_that_is_no_number_is_named(value):
    model = build()
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.fill_(value)
    activation, _gradient = faults(model, LayerBounds())
    assert "layer 1: nan" in activation and "layer 0" not in activation


def test_training_does_not_begin_with_layers_out_of_bounds(make_spec):
    bad = {"linear_init_scale": 50.0}
    with pytest.raises(TrainingError, match=r"before the first step, activation RMS: .* or set check_layers to false"):
        build_engine(make_spec(backend="torch", model=bad), torch.device("cpu"), None)
    build_engine(make_spec(backend="torch", model=bad, check_layers=False), torch.device("cpu"), None)
