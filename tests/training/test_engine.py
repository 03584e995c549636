"""The plain loop's step in fp32, bf16 and fp16: masters in fp32, and a gradient of inf or nan that moves nothing."""

from __future__ import annotations

import dataclasses
from math import inf, nan
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from training.config import ModelConfig, TrainConfig
from training.engine import TorchEngine
from training.initial import initialise
from training.model import Decoder
from training.precision import LossScaleConfig, LossScaleError
from training.train import TrainingError, train

SHAPE = {"vocab_size": 97, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2}
SETTINGS = {"backend": "torch", "seq_len": 16, "global_batch_size": 4, "micro_batch_size": 2, "steps": 20}


@pytest.fixture(autouse=True)
def one_thread():
    """These matrices are too small to share: two threads on a busy machine take up to 200 times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def build(precision: str, **changes) -> TorchEngine:
    config = TrainConfig(
        model=ModelConfig(**SHAPE, intermediate_size=67, qk_norm=True), precision=precision, **(SETTINGS | changes)
    )
    model = initialise(Decoder(config.model, checkpointed=config.checkpointed_parts), 3)
    engine = TorchEngine(model, config, torch.device("cpu"))
    engine.install_state(None, 0)
    return engine


def batches(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randint(0, 97, (2, 17), generator=generator) for _ in range(2)]


def held(engine: TorchEngine) -> list[Tensor]:
    return [t.clone() for _, s in engine.named_state() for t in (s.weight, s.exp_avg, s.exp_avg_sq)]


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("value", [inf, nan])
def test_an_injected_overflow_moves_no_bit_and_the_run_goes_on(precision, value):
    engine = build(precision)
    for step in range(3):
        assert not engine.train_step(batches(step), 1e-2).skipped
    before, taken = held(engine), engine.optimizer_step()
    weight = engine.module.model.layers[1].mlp.up_proj.weight
    with_fault = weight.register_hook(lambda gradient: gradient.clone().index_fill_(0, torch.tensor([5]), value))
    result = engine.train_step(batches(3), 1e-2)
    with_fault.remove()
    assert result.skipped and engine.optimizer_step() == taken and same(before, held(engine))
    if precision == "fp16":
        assert (result.loss_scale, engine.extra_state()["loss_scale"]) == (65_536, 32_768)
    else:
        assert result.loss_scale is None and engine.extra_state() == {}
    assert not engine.train_step(batches(4), 1e-2).skipped
    assert engine.optimizer_step() == taken + 1 and not same(before, held(engine))


def test_fp16_overflows_by_itself_at_too_high_a_scale_and_comes_down():
    """No injection: 2^24 times these gradients is beyond 65,504."""
    engine = build("fp16", loss_scale=LossScaleConfig(initial=2.0**24))
    skipped = [engine.train_step(batches(step), 1e-2).skipped for step in range(12)]
    assert skipped[0] and not skipped[-1] and skipped == sorted(skipped, reverse=True)


def test_weights_gradients_moments_and_norms_are_fp32_while_the_products_are_fp16():
    engine, seen = build("fp16"), {}
    layer = engine.module.model.layers[0]
    for name, part in (("product", layer.mlp.gate_proj), ("norm", layer.input_layernorm)):
        part.register_forward_hook(lambda _, given, out, name=name: seen.update({name: (given[0].dtype, out.dtype)}))
    engine.train_step(batches(0), 1e-2)
    assert seen["product"][1] == torch.float16 and seen["norm"] == (torch.float32, torch.float32)
    assert {p.grad.dtype for p in engine.module.parameters()} == {torch.float32}
    assert {t.dtype for t in held(engine)} == {torch.float32}


def test_a_step_is_the_same_at_any_loss_scale_that_neither_over_nor_underflows():
    """Powers of two are exact in every product; what is subnormal in fp16 at the lower scale is the difference left."""
    engines = [build("fp16", loss_scale=LossScaleConfig(initial=scale)) for scale in (2.0**14, 2.0**16)]
    norms = [engine.train_step(batches(0), 1e-2).grad_norm for engine in engines]
    assert abs(norms[0] / norms[1] - 1) < 1e-5


def test_fp16_learns_as_fp32_does():
    losses = {}
    for precision in ("fp32", "fp16"):
        engine = build(precision)
        losses[precision] = [engine.train_step(batches(step % 4), 1e-2).loss for step in range(40)]
    gaps = [abs(a - b) for a, b in zip(losses["fp32"], losses["fp16"], strict=True)]
    assert losses["fp16"][-1] < 0.6 * losses["fp16"][0] and max(gaps) < 0.1, max(gaps)


def test_the_loss_scale_goes_on_where_the_checkpoint_left_it():
    changes = {"loss_scale": LossScaleConfig(growth_interval_steps=3)}
    whole, first, second = (build("fp16", **changes) for _ in range(3))
    scales = [whole.train_step(batches(step), 1e-3).loss_scale for step in range(8)]
    assert scales == [2.0**16] * 3 + [2.0**17] * 3 + [2.0**18] * 2
    for step in range(5):
        first.train_step(batches(step), 1e-3)
    second.install_state({name: state for name, state in first.named_state()}, first.optimizer_step())
    second.install_extra_state(first.extra_state())
    assert [second.train_step(batches(step), 1e-3).loss_scale for step in range(5, 8)] == scales[5:]
    assert same(held(whole), held(second))


def test_a_tiny_gradient_doubles_the_scale():
    engine = build("fp16")
    for parameter in engine.module.parameters():
        parameter.register_hook(lambda gradient: gradient * 1e-8)
    assert engine.train_step(batches(0), 1e-3).grad_norm < 1e-6
    assert engine.extra_state() == {"loss_scale": 2.0**17, "good_steps": 0, "overflows": 0}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["feed_forward", "attention", "both"])
def test_activation_checkpointing_keeps_less_and_changes_no_bit(kind, precision):
    def trained(kind: str) -> tuple[list[float], list[Tensor], int]:
        engine, kept = build(precision, activation_checkpointing=kind), {}
        with saved_tensors_hooks(lambda t: kept.update({t.data_ptr(): t.nbytes}) or t, lambda t: t):
            losses = [engine.train_step(batches(0), 1e-2).loss]
        losses.append(engine.train_step(batches(1), 1e-2).loss)
        return losses, held(engine), sum(kept.values())

    (losses, state, size), (plain_losses, plain_state, plain_size) = trained(kind), trained("none")
    assert losses == plain_losses and same(state, plain_state)
    assert size < 0.9 * plain_size


def test_nothing_is_run_twice_where_no_gradient_is_wanted(monkeypatch):
    monkeypatch.setattr("training.model.checkpoint", None)
    engine = build("fp32", activation_checkpointing="both")
    assert engine.evaluate(batches(0)[0]) > 0


def test_overflow_without_end_stops_the_run_and_names_step_and_checkpoint(make_spec, monkeypatch):
    spec = make_spec(backend="torch", precision="fp16", checkpoint_interval_steps=2, world_size=1)
    low = LossScaleConfig(initial=2.0, max_overflows_at_min=2)
    spec = dataclasses.replace(spec, train=dataclasses.replace(spec.train, loss_scale=low))
    Path(spec.work_dir).mkdir()
    step = TorchEngine.train_step

    def diverging(self, batches, lr):
        if self.optimizer_step() == 2:
            self.module.model.norm.weight.register_hook(lambda gradient: gradient * inf)
        return step(self, batches, lr)

    monkeypatch.setattr(TorchEngine, "train_step", diverging)
    with pytest.raises(
        TrainingError, match=r"step 5: 2 steps in a row .* The last checkpoint is step-0000000"
    ) as caught:
        train(spec, torch.device("cpu"))
    assert isinstance(caught.value.__cause__, LossScaleError)
