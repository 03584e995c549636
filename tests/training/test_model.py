"""The decoder: equal to transformers', causal, and blind across packed documents where it is asked to be."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from kernels.cross_entropy import chunks
from training.config import ModelConfig
from training.hugging_face import from_hugging_face, hugging_face_config, to_hugging_face
from training.initial import initialise
from training.model import Decoder, documents_in

SHAPE = {"vocab_size": 101, "hidden_size": 48, "num_layers": 3, "num_heads": 6, "num_kv_heads": 2}


def build(seed: int = 3, **changes) -> Decoder:
    return initialise(Decoder(ModelConfig(**(SHAPE | {"intermediate_size": 100} | changes))), seed)


@pytest.mark.parametrize(
    "changes", [{}, {"tie_embeddings": False}, {"num_kv_heads": 6}, {"qk_norm": True}, {"rope_theta": 500_000.0}]
)
def test_logits_equal_those_of_the_transformers_twin(changes, tmp_path):
    model = build(**changes)
    settings = hugging_face_config(model.config)
    twin = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32).eval()
    missing, unexpected = twin.load_state_dict(to_hugging_face(model.state_dict(), model.config), strict=False)
    assert unexpected == []
    assert missing == (["lm_head.weight"] if model.config.tie_embeddings else [])
    twin.tie_weights()
    tokens = torch.randint(0, 101, (2, 37), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = (model(tokens) - twin(tokens).logits).abs().max().item()
    assert difference <= 1e-4
    back = from_hugging_face(dict(twin.state_dict()), model.config)
    assert set(back) == set(model.state_dict())


def test_a_token_never_sees_the_ones_after_it():
    model, tokens = build(), torch.randint(0, 101, (1, 20))
    changed = tokens.clone()
    changed[0, 12:] = (changed[0, 12:] + 1) % 101
    with torch.no_grad():
        assert torch.allclose(model(tokens)[0, :12], model(changed)[0, :12], atol=1e-6)
        assert not torch.allclose(model(tokens)[0, 12], model(changed)[0, 12], atol=1e-4)


def test_a_shape_that_cannot_be_is_refused_by_its_key():
    with pytest.raises(ValueError, match="num_kv_heads"):
        ModelConfig(num_heads=6, num_kv_heads=4)
    with pytest.raises(ValueError, match="hidden_size"):
        ModelConfig(hidden_size=50, num_heads=6)


@pytest.mark.parametrize("changes", [{}, {"num_kv_heads": 6}])
def test_packed_documents_with_masks_have_the_logits_that_each_has_alone(changes):
    eos, generator = 2, torch.Generator().manual_seed(1)
    texts = [torch.randint(3, 101, (length,), generator=generator) for length in (9, 1, 17)]
    alone = [torch.cat((torch.tensor([eos]), text)) for text in texts]
    packed = torch.cat(alone)[None]
    model = build(**changes)
    with torch.no_grad():
        whole = model(packed, documents_BT=documents_in(packed, eos))[0]
        parts = torch.cat([model(text[None])[0] for text in alone])
        seen = model(packed)[0]
    assert torch.allclose(whole, parts, atol=1e-5)
    assert not torch.allclose(seen[10:], parts[10:], atol=1e-3), "without masks the second document sees the first"


def test_a_row_of_one_document_has_the_same_loss_with_and_without_masks():
    tokens = torch.randint(3, 101, (2, 21), generator=torch.Generator().manual_seed(1))
    model = build()
    with torch.no_grad():
        plain = model(tokens[:, :-1], tokens[:, 1:])
        masked = model(tokens[:, :-1], tokens[:, 1:], documents_in(tokens[:, :-1], eos_id=2))
    assert torch.allclose(plain, masked, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": False}])
def test_the_loss_by_chunks_and_its_gradients_equal_the_plain_ones(changes, monkeypatch):
    monkeypatch.setattr(chunks, "MIN_CHUNK_TOKENS", 1)
    monkeypatch.setitem(chunks.CHUNK_LOGITS, "cpu", 7 * 101)
    tokens = torch.randint(0, 101, (3, 22), generator=torch.Generator().manual_seed(1))
    plain, chunked = build(**changes), Decoder(build(**changes).config, chunked_loss=True)
    chunked.load_state_dict(plain.state_dict())
    losses = [model(tokens[:, :-1], tokens[:, 1:]) for model in (plain, chunked)]
    for loss in losses:
        loss.backward()
    assert torch.allclose(*losses, rtol=1e-6, atol=0)
    for one, other in zip(plain.parameters(), chunked.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("chunked", [False, True])
def test_z_loss_is_added_in_training_and_left_out_in_evaluation(chunked):
    tokens = torch.randint(0, 101, (3, 22), generator=torch.Generator().manual_seed(1))
    plain = build()
    weighed = Decoder(plain.config, chunked_loss=chunked, z_loss=0.5)
    weighed.load_state_dict(plain.state_dict())
    with torch.no_grad():
        loss, squares = plain(tokens[:, :-1], tokens[:, 1:]), plain(tokens[:, :-1]).logsumexp(-1).square().mean()
        assert torch.allclose(weighed(tokens[:, :-1], tokens[:, 1:]), loss + 0.5 * squares, rtol=1e-5)
        assert torch.allclose(weighed.eval()(tokens[:, :-1], tokens[:, 1:]), loss, rtol=1e-6)
