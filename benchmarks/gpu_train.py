"""A 1b model in bf16 on one CUDA device: tokens/s, utilisation and its formula, memory; kernels against references.

    python benchmarks/gpu_train.py [--size 1b] [--micro-batch-size 8] [--seq-len 2048] [--steps 20] [--rows torch ...]

Each row is a process of its own that makes `--steps` steps after 5 to warm up (compilation is in those), on random ids:
what they are changes no product. `torch` is training.engine.TorchEngine as `backend: torch` runs it, `deepspeed` the
DeepSpeed engine with ZeRO 1 on one rank; `+compile` has torch.compile make each block, from the plain forms of the
kernels. The loss of the first step must be ln(vocabulary) within 3 %, and all rows' losses of it within 1 %.

Utilisation counts what training/flops.py counts, attention's masked half left out; `whole` counts that half too, as
many reports do. Fails where no row reaches 45,000 tokens/s and 40 % of the device's dense bf16 peak (by `whole`), or a
Triton kernel differs from its reference (tests/kernels on the device). Without a CUDA device it refuses.

`--rehearse` runs all rows with a 1m model and 2 steps on whatever device there is, to see that they run; its figures
mean nothing and are not judged.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ROWS = ("torch", "torch+compile", "deepspeed", "deepspeed+compile")
WARM_UP = 5
TOKENS_PER_SECOND, UTILISATION = 45_000, 0.40
LR = 3e-4


def train_config(options: argparse.Namespace, backend: str) -> Any:
    from training.config import ModelConfig, TrainConfig
    from training.sizes import SIZES, USUAL_VOCABULARY

    return TrainConfig(
        model=ModelConfig(vocab_size=USUAL_VOCABULARY[options.size], **SIZES[options.size]),
        seq_len=options.seq_len,
        micro_batch_size=options.micro_batch_size,
        global_batch_size=options.micro_batch_size * options.grad_accum_steps,
        precision="bf16",
        backend=backend,
        world_size=1,
        zero_stage=1,
    )


def measure(row: str, options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: seconds of each step after the warm-up, the first loss, peak memory."""
    import torch

    from kernels import choosing
    from training.initial import initialise
    from training.launch import free_port
    from training.model import Decoder
    from training.train import start_distributed

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)  # which form of each kernel runs
    backend, _, compiled = row.partition("+")
    config = train_config(options, backend)
    alone = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    os.environ |= {key: str(value) for key, value in alone.items()}
    device = start_distributed(config, local_rank=0)
    torch.manual_seed(0)
    model = initialise(Decoder(config.model, chunked_loss=config.chunked_loss), seed=0)
    if compiled:
        choosing.prefer("plain")  # the compiler fuses these with what is around them
        choosing.choose_now(device.type)
        for block in model.model.layers:
            block.compile()
    step = stepper(model, config, device)
    shape = (config.grad_accum_steps, config.micro_batch_size, config.seq_len + 1)
    seconds, losses = [], []
    for _ in range(WARM_UP + options.steps):
        batches = list(torch.randint(config.model.vocab_size, shape))
        began = time.perf_counter()
        losses.append(step(batches))  # a loss on the host: the device is done
        seconds.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return {"seconds": seconds[WARM_UP:], "warm_up": sum(seconds[:WARM_UP]), "loss": losses[0], "peak": peak}


def stepper(model: Any, config: Any, device: Any) -> Callable[[list[Any]], float]:
    from training.engine import Engine, TorchEngine

    engine: Engine
    if config.backend == "torch":
        engine = TorchEngine(model, config, device)
    else:
        from training.deepspeed_engine import DeepSpeedEngine

        engine = DeepSpeedEngine(model, config, device)
    engine.install_state(None, optimizer_step=0)

    def step(batches: list[Any]) -> float:
        result = engine.train_step(batches, LR)
        if result.skipped or not math.isfinite(result.loss):
            raise RuntimeError(f"a step of loss {result.loss} and gradient norm {result.grad_norm} was skipped")
        return result.loss

    return step


def in_own_process(row: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """The same options with one row; None where it failed, with the end of what it said printed."""
    from training import launch, toolchain

    config = train_config(options, row.partition("+")[0])
    environment = launch.child_environment(config, run_id="gpu_train")
    if config.backend == "deepspeed" and not launch.uses_cuda(config):
        toolchain.prebuild(environment)
    command = [sys.executable, __file__, *sys.argv[1:], "--row", row]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{row}: exit code {done.returncode}\n" + "\n".join(done.stderr.splitlines()[-15:]), flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def training(options: argparse.Namespace, device_name: str) -> bool:
    """Prints the table; whether one row reached both bounds and the losses agree."""
    from training.flops import flops_per_token, matrix_parameters, peak_flops, utilisation

    config = train_config(options, "torch")
    model, peak = config.model, math.nan if options.rehearse else peak_flops(device_name)
    half, whole = (flops_per_token(model, config.seq_len, causal=causal) for causal in (True, False))
    print(f"{options.size}, vocabulary {model.vocab_size:,}, {config.tokens_per_step:,} tokens a step; {device_name}")
    print(
        f"operations a token: 6 x {matrix_parameters(model):,} in matrices + 12 x {model.num_layers} layers x "
        f"{config.seq_len} / 2 x {model.num_heads * model.head_dim} = {half:.4g}; with the masked half {whole:.4g}; "
        f"peak {peak:.4g} a second"
    )
    print(
        f"{'':18} {'tokens/s':>9} {'ms/step':>8} {'MFU':>7} {'whole':>7} {'GiB':>6} {'warm-up s':>9} {'first loss':>10}"
    )
    best, losses = (0.0, 0.0), []
    for row in options.rows:
        found = in_own_process(row, options)
        if found is None:
            return False
        seconds = statistics.median(found["seconds"])
        rate = config.tokens_per_step / seconds
        mfu, mfu_whole = (utilisation(model, config.seq_len, rate, peak, causal=causal) for causal in (True, False))
        best = max(best, (rate, mfu_whole))
        losses.append(found["loss"])
        print(
            f"{row:18} {rate:9,.0f} {seconds * 1e3:8,.0f} {mfu:7.1%} {mfu_whole:7.1%} {found['peak'] / 2**30:6.1f}"
            f" {found['warm_up']:9.0f} {found['loss']:10.4f}",
            flush=True,
        )
    agree = max(losses) / min(losses) < 1.01 and abs(losses[0] / math.log(model.vocab_size) - 1) < 0.03
    if not agree:
        print(f"FAILED: first losses {losses}, expected ln({model.vocab_size}) = {math.log(model.vocab_size):.4f}")
    if options.rehearse:
        return agree
    met = best[0] >= TOKENS_PER_SECOND and best[1] >= UTILISATION
    aim = f"{TOKENS_PER_SECOND:,} tokens/s and {UTILISATION:.0%}"
    print(f"{'met' if met else 'NOT MET'}: {aim} in one row; the best has {best[0]:,.0f} and {best[1]:.1%}")
    return agree and met


def kernels() -> bool:
    """Each Triton kernel against its reference, outputs and gradients, on the device."""
    tests = [str(ROOT / "tests" / "kernels" / name) for name in ("rms_norm", "rotary", "swiglu", "cross_entropy")]
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1b")
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--micro-batch-size", type=int, default=8)
    parser.add_argument("--grad-accum-steps", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--without-kernels", action="store_true", help="leave the kernels' tests out")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rehearse:
        options.size, options.seq_len, options.micro_batch_size, options.steps = "1m", 64, 2, 2
    if options.row:
        print(json.dumps(measure(options.row, options)))
        return 0

    import torch

    if not torch.cuda.is_available() and not options.rehearse:
        print("gpu_train: expected a CUDA device, found none. Nothing was run; --rehearse shows that it would run.")
        return 1
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    good = training(options, name)
    if not options.without_kernels and not options.rehearse:
        good &= kernels()
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
