"""One optimizer step, in two forms with one interface: a plain torch loop, and a DeepSpeed engine on many ranks.

Both give up and take back their state by parameter name, in fp32, whole (`named_state`, `install_state`). So a
checkpoint does not depend on the ZeRO stage or the number of ranks, and exactness can be tested tensor by tensor.

A gradient that holds inf or nan moves nothing: the step is skipped in every precision, and in fp16 the loss scale is
halved (training/precision.py).

in    micro batches of int64 (B, seq_len + 1), the learning rate of this step
out   StepResult: the loss before the step and the gradient norm before clipping
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from training.config import TrainConfig
from training.model import Decoder, documents_in
from training.precision import LossScale, updated

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}  # the products' dtype where the weights are fp32


@dataclass(frozen=True, slots=True)
class StepResult:
    loss: float  # this rank's mean over its micro batches
    grad_norm: float  # global, before clipping
    skipped: bool  # the gradient held inf or nan and the weights did not move
    loss_scale: float | None = None  # of this step, in fp16


@dataclass(frozen=True, slots=True)
class ParameterState:
    """fp32 master weight and AdamW moments of one whole parameter."""

    weight: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor


class Engine(Protocol):
    module: Decoder
    device: torch.device

    def train_step(self, batches: Sequence[Tensor], lr: float) -> StepResult: ...

    def evaluate(self, batch: Tensor) -> float: ...

    def named_state(self) -> Iterator[tuple[str, ParameterState]]:
        """Every parameter in module order. Collective: all ranks must consume it in step."""
        ...

    def optimizer_step(self) -> int:
        """Updates applied so far (AdamW's own count; skipped steps are not in it)."""
        ...

    def install_state(self, state: Mapping[str, ParameterState] | None, optimizer_step: int) -> None:
        """Put `state` in place before the first step; None means zero moments for the weights already there."""
        ...

    def extra_state(self) -> dict[str, float | int]:
        """What else a resumed run needs, alike on every rank: the dynamic loss scale of fp16. Empty without one."""
        ...

    def install_extra_state(self, state: Mapping[str, float | int]) -> None:
        """Put back what `extra_state` gave, after `install_state`."""
        ...


def split(batch: Tensor) -> tuple[Tensor, Tensor]:
    """(inputs, targets) of a batch of seq_len + 1 tokens."""
    return batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


def model_inputs(batch: Tensor, config: TrainConfig) -> tuple[Tensor, ...]:
    """What `Decoder.forward` takes for a batch of seq_len + 1 tokens: inputs, targets and, with `document_masks`, the
    document of each input."""
    tokens_BT, targets_BT = split(batch)
    if not config.document_masks:
        return tokens_BT, targets_BT
    return tokens_BT, targets_BT, documents_in(tokens_BT, config.eos_id)


def build_optimizer(module: Decoder, config: TrainConfig, *, fused: bool = False) -> torch.optim.AdamW:
    """AdamW with decay on matrices only. lr 0: the loop sets it before each step, and until then nothing may move.

    `fused`: one pass over the state instead of nine, 3 % of a step on a CPU; it rounds otherwise."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=config.betas, eps=config.adam_eps, fused=fused or None)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr


def fresh_state(parameter: Tensor, step: int) -> dict[str, Tensor]:
    """What AdamW would create at its first step."""
    return {
        "step": torch.tensor(float(step), dtype=torch.float32),
        "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
    }


def first_loss_scale(config: TrainConfig) -> LossScale | None:
    """Where the loss scale of fp16 begins; None in the other precisions."""
    return LossScale(config.loss_scale.initial) if config.precision == "fp16" else None


def unscale(parameters: Iterable[Tensor], scale: float) -> None:
    """Divide the gradients by a power of two: exact, but for what it makes subnormal in fp32."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(1.0 / scale)


def loss_scale_values(loss_scale: LossScale | None) -> dict[str, float | int]:
    return loss_scale.to_checkpoint() if loss_scale else {}


def loss_scale_from(state: Mapping[str, float | int], config: TrainConfig) -> LossScale | None:
    """The checkpoint's loss scale; the first one where it has none because it was saved in another precision."""
    first = first_loss_scale(config)
    if first is None or not state:
        return first
    return LossScale.from_checkpoint(state)


class TorchEngine:
    """One process, no DeepSpeed: the oracle for the ZeRO stages and the way to train without a compiler.

    In bf16 and fp16 the weights and their gradients stay fp32 and autocast lowers the products: norms, residuals and
    the sum over micro batches are fp32."""

    def __init__(self, module: Decoder, config: TrainConfig, device: torch.device):
        self.module, self.config, self.device = module.to(device), config, device
        self.optimizer = build_optimizer(module, config, fused=True)
        self.loss_scale = first_loss_scale(config)

    def train_step(self, batches: Sequence[Tensor], lr: float) -> StepResult:
        self.optimizer.zero_grad(set_to_none=True)
        total, scale = 0.0, self.loss_scale.scale if self.loss_scale else None
        for batch in batches:
            loss = self.loss(batch)
            (loss / len(batches) * (scale or 1.0)).backward()
            total += loss.item()
        if scale is not None:
            unscale(self.module.parameters(), scale)
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if norm > 0.999 * self.config.grad_clip:  # below, clip_grad_norm_ would multiply all of them by 1
            torch.nn.utils.clip_grads_with_norm_(
                self.module.parameters(), self.config.grad_clip, torch.tensor(norm, device=self.device)
            )
        skipped = not math.isfinite(norm)
        if not skipped:
            set_lr(self.optimizer, lr)
            self.optimizer.step()
        if self.loss_scale is not None:
            self.loss_scale = updated(self.loss_scale, self.config.loss_scale, norm)
        return StepResult(total / len(batches), norm, skipped, scale)

    def loss(self, batch: Tensor) -> Tensor:
        inputs = model_inputs(batch.to(self.device), self.config)
        lowered = AUTOCAST.get(self.config.precision)
        with torch.autocast(self.device.type, lowered, enabled=lowered is not None):
            return self.module(*inputs)

    @torch.no_grad()
    def evaluate(self, batch: Tensor) -> float:
        self.module.eval()
        loss = self.loss(batch).item()
        self.module.train()
        return loss

    def named_state(self) -> Iterator[tuple[str, ParameterState]]:
        for name, parameter in self.module.named_parameters():
            held = self.optimizer.state[parameter]
            yield name, ParameterState(parameter.detach(), held["exp_avg"], held["exp_avg_sq"])

    def optimizer_step(self) -> int:
        return int(self.optimizer.state[next(self.module.parameters())]["step"].item())

    @torch.no_grad()
    def install_state(self, state: Mapping[str, ParameterState] | None, optimizer_step: int) -> None:
        for name, parameter in self.module.named_parameters():
            held = fresh_state(parameter, optimizer_step)
            held["step"] = held["step"].to(parameter.device)  # where the fused form counts
            if state is not None:
                parameter.copy_(state[name].weight)
                held["exp_avg"].copy_(state[name].exp_avg)
                held["exp_avg_sq"].copy_(state[name].exp_avg_sq)
            self.optimizer.state[parameter] = held

    def extra_state(self) -> dict[str, float | int]:
        return loss_scale_values(self.loss_scale)

    def install_extra_state(self, state: Mapping[str, float | int]) -> None:
        self.loss_scale = loss_scale_from(state, self.config)
