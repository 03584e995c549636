"""What fp16 needs beside fp32 master weights: a loss scale that follows the gradients.

fp16 ends at 65,504 and has no normal number below 6e-5, so the loss is multiplied by a power of two before the
backward pass, and the fp32 gradients divided by it after. The rule is report 000's (sections 3.5 and 5.3):

    inf or nan in the gradients       scale / 2, and the step is not taken
    gradient norm (unscaled) < 1e-6   scale x 2
    500 good steps in a row           scale x 2

Powers of two make scaling exact: a run that neither over- nor underflows has the same gradients at any scale. The
state is a value and `updated` a function of it, so a checkpoint can hold the one and a test drive the other.

in    the norm of a step's gradients, unscaled, alike on every rank
out   the LossScale of the next step
ref   Micikevicius et al. 2018 (Mixed Precision Training), arXiv:1710.03740, section 3.2
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from training.settings import require

FACTOR = 2.0


class LossScaleError(RuntimeError):
    """Gradients overflow at the smallest loss scale too: the run diverges, and fp16 is not the cause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossScaleConfig:
    """How the loss scale of `precision: fp16` moves; without effect in fp32 and bf16."""

    initial: float = 65_536.0
    growth_interval_steps: int = 500  # torch's GradScaler waits 2,000
    tiny_grad_norm: float = 1e-6  # below it gradients are taken to be lost in fp16
    min_scale: float = 1.0
    max_scale: float = 16_777_216.0  # a gradient of zeros may not double it for ever
    max_overflows_at_min: int = 10  # in a row; then the run ends

    def __post_init__(self):
        for key in ("initial", "min_scale", "max_scale"):
            value = getattr(self, key)
            power = math.isfinite(value) and value > 0 and math.frexp(value)[0] == 0.5
            require(power, f"loss_scale.{key}", "a power of two", value, "65536 is a usual start")
        ordered = self.min_scale <= self.initial <= self.max_scale
        between = f"between min_scale ({self.min_scale:g}) and max_scale ({self.max_scale:g})"
        require(ordered, "loss_scale.initial", between, self.initial, "change one of the three")
        for key in ("growth_interval_steps", "max_overflows_at_min"):
            require(getattr(self, key) > 0, f"loss_scale.{key}", "a positive number", getattr(self, key), "raise it")
        require(
            self.tiny_grad_norm >= 0, "loss_scale.tiny_grad_norm", "0 or more", self.tiny_grad_norm, "0 never doubles"
        )


@dataclass(frozen=True, slots=True)
class LossScale:
    scale: float
    good_steps: int = 0  # since the scale last moved
    overflows: int = 0  # in a row, at min_scale

    def to_checkpoint(self) -> dict[str, float | int]:
        return {"loss_scale": self.scale, "good_steps": self.good_steps, "overflows": self.overflows}

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, float | int]) -> LossScale:
        return cls(float(state["loss_scale"]), int(state["good_steps"]), int(state["overflows"]))


def updated(state: LossScale, config: LossScaleConfig, grad_norm: float) -> LossScale:
    """The loss scale after a step whose gradients had this norm. Raises LossScaleError where halving has no end."""
    if not math.isfinite(grad_norm):
        if state.scale > config.min_scale:
            return LossScale(state.scale / FACTOR)
        if state.overflows + 1 >= config.max_overflows_at_min:
            raise LossScaleError(
                f"{state.overflows + 1} steps in a row had inf or nan in their gradients at the smallest loss scale "
                f"({config.min_scale:g}; train.loss_scale.min_scale). Lower lr, raise warmup_steps, or use bf16"
            )
        return LossScale(state.scale, overflows=state.overflows + 1)
    good_steps = state.good_steps + 1
    if grad_norm < config.tiny_grad_norm or good_steps >= config.growth_interval_steps:
        return LossScale(min(state.scale * FACTOR, config.max_scale))
    return LossScale(state.scale, good_steps)
