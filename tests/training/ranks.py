"""Two ranks that run many small cases under DeepSpeed on gloo, one after the other: a launch each would take minutes.

`python ranks.py PORT FOLDER [CASE …]` starts both and leaves FOLDER/0.pt and FOLDER/1.pt for test_deepspeed_engine.py:
for each case what was seen. ZeRO 3 comes last: DeepSpeed then replaces F.linear for good.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from kernels import choosing
from training.config import ModelConfig, TrainConfig
from training.engine import ParameterState
from training.initial import initialise
from training.model import Decoder
from training.precision import LossScaleConfig

STAGES, PRECISIONS = (0, 1, 2, 3), ("fp32", "bf16", "fp16")
SHAPE: dict[str, Any] = {"vocab_size": 97, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2}
LR = 1e-2


def config_of(**changes: Any) -> TrainConfig:
    model = ModelConfig(**SHAPE, intermediate_size=67, qk_norm=True)  # odd: the slices of ZeRO are padded
    settings: dict[str, Any] = {"seq_len": 16, "global_batch_size": 8, "micro_batch_size": 2, "device": "cpu"}
    return TrainConfig(model=model, **(settings | changes))


def batches(step: int, rank: int, size: int) -> list[Tensor]:
    """This rank's micro batches: with one rank all four of them, in the same order."""
    tokens = torch.randint(0, 97, (4, 2, 17), generator=torch.Generator().manual_seed(step))
    return list(tokens[rank * 4 // size : (rank + 1) * 4 // size])


def held(engine: Any) -> list[Tensor]:
    return [t.clone() for _, s in engine.named_state() for t in (s.weight, s.exp_avg, s.exp_avg_sq)]


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def build(state: dict[str, Any] | None = None, **changes: Any) -> Any:
    """An engine at its first step, or where `snapshot` left another."""
    from training.deepspeed_engine import DeepSpeedEngine

    config = config_of(**changes)
    model = Decoder(config.model, chunked_loss=config.chunked_loss, checkpointed=config.checkpointed_parts)
    initialise(model, 3)
    if state:
        model.load_state_dict({name: held.weight for name, held in state["parameters"].items()})
    engine = DeepSpeedEngine(model, config, torch.device("cpu"))
    engine.install_state(state and state["parameters"], state["step"] if state else 0)
    engine.install_extra_state(state["extra"] if state else {})
    return engine


def snapshot(engine: Any) -> dict[str, Any]:
    whole = {
        n: ParameterState(*(t.clone() for t in (s.weight, s.exp_avg, s.exp_avg_sq))) for n, s in engine.named_state()
    }
    return {"parameters": whole, "step": engine.optimizer_step(), "extra": engine.extra_state()}


def steps(engine: Any, rank: int, *numbers: int) -> dict[str, Any]:
    results = [engine.train_step(batches(number, rank, 2), LR) for number in numbers]
    return {
        "losses": [r.loss for r in results],
        "norms": [r.grad_norm for r in results],
        "scales": [r.loss_scale for r in results],
        "state": held(engine),
    }


def run_steps(rank: int, **changes: Any) -> dict[str, Any]:
    return steps(build(**changes), rank, 0, 1, 2)


def resumed(rank: int, **changes: Any) -> dict[str, Any]:
    """Steps 3 and 4 of an engine that did 0 to 2 itself, and of one that takes its state over."""
    first = build(**changes, loss_scale=LossScaleConfig(growth_interval_steps=4))
    steps(first, rank, 0, 1, 2)
    state = snapshot(first)
    whole = steps(first, rank, 3, 4)
    second = build(state, **changes, loss_scale=LossScaleConfig(growth_interval_steps=4))
    return {"whole": whole, "resumed": steps(second, rank, 3, 4)}


def overflow(rank: int, **changes: Any) -> dict[str, Any]:
    """Three steps, one whose gradients hold inf on rank 1 alone, one more."""
    engine, faulty = build(**changes), []

    def spoil(module: object, given: object, out: Tensor) -> None:
        if faulty and rank == 1:
            out.register_hook(lambda gradient: gradient * float("inf"))

    engine.module.model.layers[1].register_forward_hook(spoil)
    results = [engine.train_step(batches(step, rank, 2), LR) for step in range(3)]
    before, taken = held(engine), engine.optimizer_step()
    faulty.append(True)
    results.append(engine.train_step(batches(3, rank, 2), LR))
    faulty.clear()
    after, taken_after = held(engine), engine.optimizer_step()
    results.append(engine.train_step(batches(4, rank, 2), LR))
    return {
        "skipped": [r.skipped for r in results],
        "losses": [r.loss for r in results],
        "norms": [r.grad_norm for r in results],
        "scales": [r.loss_scale for r in results],
        "unmoved": same(before, after) and taken == taken_after == 3,
        "moved": not same(after, held(engine)) and engine.optimizer_step() == 4,
    }


def triton(rank: int, **changes: Any) -> dict[str, list[float]]:
    """Losses and gradient norms of two short steps with the plain kernels, and with Triton's where it is installed."""
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported
    found = {}
    for preference in ("plain", "triton") if importlib.util.find_spec("triton") else ():
        choosing.prefer(preference)
        engine = build(seq_len=4, loss="chunked", **changes)
        results = [engine.train_step([b[:, :5] for b in batches(step, rank, 2)], LR) for step in range(2)]
        found[preference] = [number for r in results for number in (r.loss, r.grad_norm)]
    choosing.prefer("auto")
    return found


OFFLOAD = {"zero_stage": 3, "offload_optimizer": "cpu"}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {}
for stage in STAGES:
    for precision in PRECISIONS:
        CASES[f"overflow {stage} {precision}"] = overflow, {"zero_stage": stage, "precision": precision}
    CASES[f"resumed {stage}"] = resumed, {"zero_stage": stage, "precision": "fp16"}
    for kind in ("none", "feed_forward", "both") if stage in (0, 3) else ():
        CASES[f"{kind} {stage}"] = run_steps, {"zero_stage": stage, "activation_checkpointing": kind}
for precision in PRECISIONS:
    CASES[f"overflow offload {precision}"] = overflow, OFFLOAD | {"precision": precision}
CASES["resumed offload"] = resumed, OFFLOAD | {"precision": "fp16"}
CASES["triton"] = triton, {"zero_stage": 3}


def run(rank: int, port: int, folder: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "DS_ACCELERATOR": "cpu"}
    import deepspeed

    deepspeed.init_distributed("gloo", verbose=False)
    seen, started = {}, time.monotonic()
    for name, (case, changes) in CASES.items():
        if not names or name in names:
            seen[name] = case(rank, **changes)
            print(f"{time.monotonic() - started:6.1f} s {name}", flush=True)
    torch.save(seen, Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, (int(sys.argv[1]), sys.argv[2], sys.argv[3:]), nprocs=2)
