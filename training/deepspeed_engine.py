"""The DeepSpeed form of training.engine.Engine: ZeRO 0 to 3 in fp32, bf16 or fp16, on CPU (gloo) or GPU (nccl).

DeepSpeed's defaults changed between releases (clipping became 1.0 in 0.19.3, the bf16 overflow check came on, the
timeout fell to 10 minutes), so `deepspeed_config` states each one. The optimizer is torch's AdamW: the only compiled
part is then the CPU communication op.

bf16 is DeepSpeed's: the module's weights are bf16, norm weights too, and the masters fp32. fp16 is ours: DeepSpeed sees
an fp32 model whose forward pass runs under autocast, and a loss multiplied by our scale (training/precision.py). So it
is one path on CPU, where DeepSpeed refuses fp16, and on GPU; norm weights and statistics, the residual stream and the
sum over micro batches are fp32, as report 000 section 3.5 asks; and the checkpoint is that of fp32. The price against
16-bit weights: ZeRO 3 gathers 4 bytes a weight instead of 2, and the residual stream (under ZeRO 3 also what norms give
to linear layers) takes 4 bytes a number. Weights, gradients and AdamW take no more: 4 + 4 + 8 bytes a weight (at ZeRO 1
and 2 DeepSpeed adds 4 for its share of masters), where 16-bit weights with fp32 accumulation take 2 + 4 + 12.

What 16-bit norms cost: 150 steps of a 4-layer model under autocast, mean distance from the fp32 run's loss in the first
50, with norms rounded to 16 bits or not: bf16 6.3e-4 against 3.8e-4, fp16 6.1e-5 against 3.7e-5. Neither diverged.

State goes in and out by parameter name. Out: DeepSpeed's own gather of fp32 masters and moments. In: the weights are
loaded into the module before `initialize` partitions it; masters and moments are then written into this rank's
fragments, since a master rebuilt from bf16 weights would have lost its low bits.
"""

from __future__ import annotations

import os

os.environ.setdefault("DS_ACCELERATOR", "cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu")  # before import

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from torch import Tensor

from training.config import TrainConfig
from training.engine import (
    AUTOCAST,
    ParameterState,
    StepResult,
    build_optimizer,
    first_loss_scale,
    fresh_state,
    loss_scale_from,
    loss_scale_values,
    model_inputs,
    set_lr,
    unscale,
)
from training.model import Decoder
from training.precision import updated

MOMENTS = ("exp_avg", "exp_avg_sq")
GATHER_NUMEL = 1 << 23  # parameters of one collective, with their moments 96 MiB


def deepspeed_config(config: TrainConfig) -> dict[str, Any]:
    """The whole ds_config, derived from ours; nothing is left to a default that matters."""
    bf16 = config.precision == "bf16"
    # ZeRO 0 in bf16 keeps its gradients in bf16; DeepSpeed 0.19.8 has no fp32 accumulation there.
    accumulation = "bf16" if bf16 and config.zero_stage == 0 else "fp32"
    pinned = config.device != "cpu" and torch.cuda.is_available()
    offload = {"offload_optimizer": {"device": "cpu", "pin_memory": pinned}}
    return {
        "train_micro_batch_size_per_gpu": config.micro_batch_size,
        "gradient_accumulation_steps": config.grad_accum_steps,
        "train_batch_size": config.global_batch_size,
        "gradient_clipping": config.grad_clip,
        "bf16": {"enabled": bf16, "check_grad_overflow": True},
        "fp16": {"enabled": False},  # see above
        "data_types": {"grad_accum_dtype": accumulation},
        "communication_data_type": "fp32",
        "prescale_gradients": False,
        "zero_allow_untested_optimizer": False,
        "zero_force_ds_cpu_optimizer": False,  # offload with torch's AdamW: DeepSpeed's own would be compiled first
        "zero_optimization": {
            "stage": config.zero_stage,
            "overlap_comm": False,  # a fixed order of reductions
            "contiguous_gradients": True,
            "round_robin_gradients": False,
            "reduce_scatter": True,
            **(offload if config.offload_optimizer == "cpu" else {}),
        },
        "steps_per_print": 2**31,
        "wall_clock_breakdown": False,
    }


def batches_of(parameters: list[Any], most_numel: int) -> Iterator[list[Any]]:
    """Neighbours of at most `most_numel` numbers together; a larger one alone."""
    batch: list[Any] = []
    for parameter in parameters:
        if batch and sum(each.numel() for each in batch) + parameter.numel() > most_numel:
            yield batch
            batch = []
        batch.append(parameter)
    yield batch


class DeepSpeedEngine:
    def __init__(self, module: Decoder, config: TrainConfig, device: torch.device):
        self.module, self.config, self.device = module, config, device
        self.names = [name for name, _ in module.named_parameters()]
        self.loss_scale = first_loss_scale(config)
        if config.precision == "fp16":
            # Inside the module, since DeepSpeed switches off an autocast around it. Without the cache, which would keep
            # a copy of each weight that ZeRO 3 has let go.
            lowered = torch.autocast(device.type, AUTOCAST["fp16"], cache_enabled=False)
            module.forward = lowered(module.forward)  # type: ignore[method-assign]
        optimizer = build_optimizer(module, config)
        self.engine, *_ = deepspeed.initialize(model=module, optimizer=optimizer, config=deepspeed_config(config))
        self.rank, self.world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()

    @property
    def plain(self) -> bool:
        """Whether DeepSpeed steps AdamW itself: ZeRO 0 with an fp32 model. It then knows neither norm nor overflow."""
        return self.config.zero_stage == 0 and self.config.precision != "bf16"

    @property
    def wrapper(self) -> Any:
        """DeepSpeed's optimizer; the AdamW itself where `plain`."""
        return self.engine.optimizer

    @property
    def adamw(self) -> torch.optim.AdamW:
        return getattr(self.wrapper, "optimizer", self.wrapper)

    def train_step(self, batches: Sequence[Tensor], lr: float) -> StepResult:
        total, scale = 0.0, self.loss_scale.scale if self.loss_scale else None
        if scale is not None and not self.plain:
            self.wrapper.loss_scale = scale  # it multiplies the loss and divides the gradients
        for batch in batches:
            loss = self.engine(*model_inputs(batch.to(self.device), self.config))
            self.engine.backward(loss * scale if scale is not None and self.plain else loss)
            total += loss.item()
            if self.engine.is_gradient_accumulation_boundary():
                set_lr(self.adamw, lr)
                norm = self.settle_plain(scale) if self.plain else math.nan  # gradients are gone after the step
                if self.plain and not math.isfinite(norm):
                    self.engine.zero_grad()
                    self.engine.micro_steps += 1  # all that a step without gradients would do; DeepSpeed's own fails
                    break
            self.engine.step()
        if not self.plain:
            norm = float(self.engine.get_global_grad_norm())
        skipped = bool(getattr(self.wrapper, "overflow", False)) or not math.isfinite(norm)
        if self.loss_scale is not None:
            self.loss_scale = updated(self.loss_scale, self.config.loss_scale, norm)
        return StepResult(total / len(batches), norm, skipped, scale)

    def settle_plain(self, scale: float | None) -> float:
        """The gradient norm, after the loss scale is taken out: gradients are whole and averaged by now. The wrappers
        of the other stages do as much before AdamW's step."""
        if scale is not None:
            unscale(self.module.parameters(), scale)
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        return torch.nn.utils.get_total_norm(gradients).item()

    @torch.no_grad()
    def evaluate(self, batch: Tensor) -> float:
        self.engine.eval()
        loss = self.engine(*model_inputs(batch.to(self.device), self.config)).item()
        self.engine.train()
        return loss

    def named_state(self) -> Iterator[tuple[str, ParameterState]]:
        held: list[Any] = list(self.module.parameters())
        if self.config.zero_stage in (1, 2):
            states = (state for batch in batches_of(held, GATHER_NUMEL) for state in self.joined(batch))
        else:
            states = (self.whole_state(parameter) for parameter in held)
        yield from zip(self.names, states, strict=True)

    def joined(self, parameters: list[Any]) -> Iterator[ParameterState]:
        """ZeRO 1 and 2: what each rank holds of them, put into zeros and summed. DeepSpeed's own getters do
        the same with a collective for each tensor: at 1m 114 of them, 1.5 ms each."""
        sizes = [parameter.numel() for parameter in parameters]
        with torch.no_grad():
            whole_3N = torch.zeros(3, sum(sizes), dtype=torch.float32, device=self.device)
            for part_3n, parameter in zip(whole_3N.split(sizes, dim=1), parameters, strict=True):
                if parameter._hp_mapping is None:  # all of it lies on other ranks
                    continue
                place = parameter._hp_mapping.lp_fragment_address
                for row_n, key in zip(part_3n, (None, *MOMENTS), strict=True):
                    fragment = parameter._hp_mapping.get_hp_fragment(key)
                    row_n[place.start : place.start + place.numel] = fragment
            torch.distributed.all_reduce(whole_3N, group=parameters[0]._dp_group)
        for part_3n, parameter in zip(whole_3N.split(sizes, dim=1), parameters, strict=True):
            yield ParameterState(*(row_n.view(parameter.shape) for row_n in part_3n))

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
        if self.plain:
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
        return loss_scale_values(self.loss_scale)

    def install_extra_state(self, state: Mapping[str, float | int]) -> None:
        self.loss_scale = loss_scale_from(state, self.config)
