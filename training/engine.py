"""One optimizer step, in two forms with one interface: a plain torch loop, and a DeepSpeed engine on many ranks.

Both give up and take back their state by parameter name, in fp32, whole (`named_state`, `install_state`). So a
checkpoint does not depend on the ZeRO stage or the number of ranks, and exactness can be tested tensor by tensor.

in    micro batches of int64 (B, seq_len + 1), the learning rate of this step
out   StepResult: the loss before the step and the gradient norm before clipping
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from training.config import TrainConfig
from training.model import Decoder, documents_in


@dataclass(frozen=True, slots=True)
class StepResult:
    loss: float  # this rank's mean over its micro batches
    grad_norm: float  # global, before clipping
    skipped: bool  # the gradient held inf or nan and the weights did not move


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


def build_optimizer(module: Decoder, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with decay on matrices only. lr 0: the loop sets it before each step, and until then nothing may move."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=config.betas, eps=config.adam_eps)


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


class TorchEngine:
    """One process, no DeepSpeed: the oracle for the ZeRO stages and the way to train without a compiler."""

    def __init__(self, module: Decoder, config: TrainConfig, device: torch.device):
        self.module, self.config, self.device = module.to(device), config, device
        self.optimizer = build_optimizer(module, config)

    def train_step(self, batches: Sequence[Tensor], lr: float) -> StepResult:
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for batch in batches:
            loss = self.loss(batch)
            (loss / len(batches)).backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.config.grad_clip).item()
        skipped = norm != norm or norm in (float("inf"), float("-inf"))
        if not skipped:
            set_lr(self.optimizer, lr)
            self.optimizer.step()
        return StepResult(total / len(batches), norm, skipped)

    def loss(self, batch: Tensor) -> Tensor:
        inputs = model_inputs(batch.to(self.device), self.config)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
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
            if state is not None:
                parameter.copy_(state[name].weight)
                held["exp_avg"].copy_(state[name].exp_avg)
                held["exp_avg_sq"].copy_(state[name].exp_avg_sq)
            self.optimizer.state[parameter] = held

    def extra_state(self) -> dict[str, float | int]:
        return {}

    def install_extra_state(self, state: Mapping[str, float | int]) -> None:
        assert not state, f"fp32 and bf16 have no loss scale, yet the checkpoint brings {dict(state)}"
