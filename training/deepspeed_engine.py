"""The DeepSpeed form of training.engine.Engine: ZeRO 0 to 3, fp32 or bf16, on CPU (gloo) or GPU (nccl).

DeepSpeed's defaults changed between releases (clipping became 1.0 in 0.19.3, the bf16 overflow check came on, the
timeout fell to 10 minutes), so `deepspeed_config` states each one. The optimizer is torch's AdamW: the only compiled
part is then the CPU communication op.

State goes in and out by parameter name. Out: DeepSpeed's own gather of fp32 masters and moments. In: the weights are
loaded into the module before `initialize` partitions it; masters and moments are then written into this rank's
fragments, since a master rebuilt from bf16 weights would have lost its low bits.
"""

from __future__ import annotations

import os

os.environ.setdefault("DS_ACCELERATOR", "cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu")  # before import

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from torch import Tensor

from training.config import TrainConfig
from training.engine import ParameterState, StepResult, build_optimizer, fresh_state, model_inputs, set_lr
from training.model import Decoder

MOMENTS = ("exp_avg", "exp_avg_sq")


def deepspeed_config(config: TrainConfig) -> dict[str, Any]:
    """The whole ds_config, derived from ours; nothing is left to a default that matters."""
    bf16 = config.precision == "bf16"
    # ZeRO 0 in bf16 keeps its gradients in bf16; DeepSpeed 0.19.8 has no fp32 accumulation there.
    accumulation = "bf16" if bf16 and config.zero_stage == 0 else "fp32"
    return {
        "train_micro_batch_size_per_gpu": config.micro_batch_size,
        "gradient_accumulation_steps": config.grad_accum_steps,
        "train_batch_size": config.global_batch_size,
        "gradient_clipping": config.grad_clip,
        "bf16": {"enabled": bf16, "check_grad_overflow": True},
        "fp16": {"enabled": False},
        "data_types": {"grad_accum_dtype": accumulation},
        "communication_data_type": "fp32",
        "prescale_gradients": False,
        "zero_allow_untested_optimizer": False,
        "zero_optimization": {
            "stage": config.zero_stage,
            "overlap_comm": False,  # a fixed order of reductions
            "contiguous_gradients": True,
            "round_robin_gradients": False,
            "reduce_scatter": True,
        },
        "steps_per_print": 2**31,
        "wall_clock_breakdown": False,
    }


class DeepSpeedEngine:
    def __init__(self, module: Decoder, config: TrainConfig, device: torch.device):
        self.module, self.config, self.device = module, config, device
        self.names = [name for name, _ in module.named_parameters()]
        optimizer = build_optimizer(module, config)
        self.engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=deepspeed_config(config))
        self.rank, self.world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()

    @property
    def wrapper(self) -> Any:
        """DeepSpeed's optimizer; for ZeRO 0 in fp32 it is the AdamW itself."""
        return self.engine.optimizer

    @property
    def adamw(self) -> torch.optim.AdamW:
        return getattr(self.wrapper, "optimizer", self.wrapper)

    def train_step(self, batches: Sequence[Tensor], lr: float) -> StepResult:
        total = 0.0
        for batch in batches:
            loss = self.engine(*model_inputs(batch.to(self.device), self.config))
            self.engine.backward(loss)
            total += loss.item()
            if self.engine.is_gradient_accumulation_boundary():
                set_lr(self.adamw, lr)
                norm = self.plain_grad_norm()  # gradients are gone after the step
            self.engine.step()
        if norm is None:
            norm = float(self.engine.get_global_grad_norm())
        skipped = bool(getattr(self.wrapper, "overflow", False))
        return StepResult(total / len(batches), norm, skipped)

    def plain_grad_norm(self) -> float | None:
        """ZeRO 0 in fp32 reports no norm; its gradients are whole and averaged by now."""
        if self.config.zero_stage or self.config.precision != "fp32":
            return None
        return torch.nn.utils.get_total_norm([p.grad for p in self.module.parameters() if p.grad is not None]).item()

    @torch.no_grad()
    def evaluate(self, batch: Tensor) -> float:
        self.engine.eval()
        loss = self.engine(*model_inputs(batch.to(self.device), self.config)).item()
        self.engine.train()
        return loss

    def named_state(self) -> Iterator[tuple[str, ParameterState]]:
        for name, parameter in zip(self.names, self.module.parameters(), strict=True):
            yield name, self.whole_state(parameter)

    def whole_state(self, parameter: torch.nn.Parameter) -> ParameterState:
        if self.config.zero_stage:
            tensors = [safe_get_full_fp32_param(parameter)]
            tensors += [safe_get_full_optimizer_state(parameter, key) for key in MOMENTS]
        else:
            master = self.masters()[parameter]
            tensors = [master.detach(), *(self.adamw.state[master][key] for key in MOMENTS)]
        return ParameterState(*tensors)

    def masters(self) -> dict[torch.nn.Parameter, Tensor]:
        """ZeRO 0: the fp32 tensor that AdamW updates for each parameter of the module."""
        if self.config.precision == "fp32":
            return {p: p for p in self.module.parameters()}
        groups = zip(self.wrapper.fp16_groups, self.wrapper.fp32_groups, strict=True)
        return {low: high for lows, highs in groups for low, high in zip(lows, highs, strict=True)}

    def optimizer_step(self) -> int:
        return int(next(iter(self.adamw.state.values()))["step"].item())

    @torch.no_grad()
    def install_state(self, state: Mapping[str, ParameterState] | None, optimizer_step: int) -> None:
        flat = [p for group in self.adamw.param_groups for p in group["params"]]
        if self.config.zero_stage == 3:  # between steps AdamW's groups of ZeRO 3 hold other objects
            flat = list(self.wrapper.fp32_partitioned_groups_flat)
        for tensor in flat:
            self.adamw.state[tensor] = fresh_state(tensor, optimizer_step)
        if self.config.zero_stage in (1, 2):
            self.wrapper._hp_optimizer_states_linked = False  # BF16_Optimizer links at its own start
            self.wrapper._lazy_init_hp_params_optimizer_state()
        if state is not None:
            for name, parameter in zip(self.names, self.module.parameters(), strict=True):
                self.install_parameter(parameter, state[name])

    def install_parameter(self, parameter: torch.nn.Parameter, state: ParameterState) -> None:
        for key, value in ((None, state.weight), ("exp_avg", state.exp_avg), ("exp_avg_sq", state.exp_avg_sq)):
            if self.config.zero_stage == 3:
                self.install_partition(parameter, value, key)
            elif self.config.zero_stage:
                parameter.set_full_hp_param(value.to(self.device), key)  # type: ignore[attr-defined]
            else:
                master = self.masters()[parameter]
                (master if key is None else self.adamw.state[master][key]).copy_(value)

    def install_partition(self, parameter: Any, value: Tensor, key: str | None) -> None:
        """ZeRO 3: this rank's slice. DeepSpeed's own setter fails where the last slice is padded, so pad first."""
        size = parameter.ds_tensor.numel()
        padded = torch.zeros(size * self.world_size, dtype=torch.float32)
        padded[: value.numel()] = value.flatten()
        mine = padded[size * self.rank : size * (self.rank + 1)].to(self.device)
        self.wrapper.set_local_hp_param(mine, parameter, key)

    def extra_state(self) -> dict[str, float | int]:
        return {}

    def install_extra_state(self, state: Mapping[str, float | int]) -> None:
        assert not state, f"fp32 and bf16 have no loss scale, yet the checkpoint brings {dict(state)}"
