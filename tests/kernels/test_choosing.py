"""The choice between Triton and plain PyTorch, and a whole decoder on either."""

from __future__ import annotations

import logging
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from kernels import choosing
from training.config import ModelConfig, RunSpec, TrainConfig
from training.initial import initialise
from training.model import Decoder
from training.train import build_engine

NAMES = choosing.OPERATIONS


@pytest.fixture(autouse=True)
def forgotten():
    choosing.prefer("auto")
    yield
    choosing.prefer("auto")


def test_off_cuda_the_plain_form_is_chosen_once_and_said_once(caplog):
    caplog.set_level(logging.INFO, logger="kernels.choosing")
    for name in NAMES * 2:
        assert choosing.form(name, torch.ones(1)).__name__ == f"kernels.{name}.reference"
    assert [record.getMessage() for record in caplog.records] == [f"{name} on cpu: plain PyTorch" for name in NAMES]


def test_cuda_without_triton_warns_and_runs_plain(caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    for name in [f"kernels.{name}.triton" for name in NAMES]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert choosing._choose("swiglu", "cuda", False).__name__ == "kernels.swiglu.reference"
    assert "swiglu on cuda runs in plain PyTorch, slower: Triton cannot be imported" in caplog.text
    choosing.prefer("triton")
    with pytest.raises(ImportError):
        choosing._choose("swiglu", "cuda", False)


def test_cuda_takes_triton_but_for_fp64_or_where_plain_is_preferred():
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton==3.7.1")
    for name in NAMES:
        assert choosing._choose(name, "cuda", False).__name__ == f"kernels.{name}.triton"
        assert choosing._choose(name, "cuda", True).__name__ == f"kernels.{name}.reference"
    choosing.prefer("plain")
    assert choosing._choose("rotary", "cuda", False).__name__ == "kernels.rotary.reference"


def test_the_compiler_takes_a_block_whole_once_the_choices_are_made():
    config = ModelConfig(vocab_size=11, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8)
    model, tokens = Decoder(config), torch.arange(10)[None]
    expected = model(tokens)
    choosing.prefer("auto")  # forgets the choices
    choosing.choose_now("cpu")
    model.model.layers[0].compile(backend="eager", fullgraph=True)  # a graph that has to be split is an error
    assert torch.equal(model(tokens), expected)


def test_a_run_s_config_can_keep_triton_out(tmp_path):
    model = ModelConfig(vocab_size=11, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8)
    config = TrainConfig(model=model, backend="torch", kernels="plain", steps=1, check_layers=False)
    folder = str(tmp_path)
    spec = RunSpec(
        train=config,
        work_dir=folder,
        data_folder=folder,
        train_stems=(),
        validation_stems=(),
        dataset_digest="",
        tokenizer_digest="",
    )
    build_engine(spec, torch.device("cpu"), None)
    assert choosing._choose("swiglu", "cuda", False).__name__ == "kernels.swiglu.reference"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_decoder_on_triton_has_the_loss_and_gradients_of_the_plain_one(triton_device, assert_near, checkpointed):
    """Grouped queries, normalised queries and keys, packed documents, chunked loss; blocks computed once or twice."""
    config = ModelConfig(
        vocab_size=101,
        hidden_size=36,
        num_layers=2,
        num_heads=6,
        num_kv_heads=2,
        intermediate_size=50,
        qk_norm=True,
    )
    model = initialise(Decoder(config, chunked_loss=True, z_loss=1e-3), 3).to(triton_device)
    if checkpointed:
        for block in model.model.layers:
            block.forward = lambda *inputs, run=block.forward: checkpoint(run, *inputs, use_reentrant=False)
    tokens = torch.randint(101, (2, 7), generator=torch.Generator().manual_seed(1)).to(triton_device)
    documents = torch.tensor([[0] * 3 + [1] * 4, [0] * 7]).to(triton_device)
    outcomes = []
    for preference in ("triton", "plain"):
        choosing.prefer(preference)
        model.zero_grad()
        loss = model(tokens, tokens.roll(-1, 1), documents)
        loss.backward()
        outcomes.append({"loss": loss.detach()} | {name: p.grad for name, p in model.named_parameters()})
    for name, expected in outcomes[1].items():
        assert_near(name, outcomes[0][name], expected, 1e-5)
