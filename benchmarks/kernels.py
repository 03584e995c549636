"""Time and memory of each kernel of the model, forward and backward: plain PyTorch, the same compiled, and Triton.

    python benchmarks/kernels.py [--size 1b] [--tokens 8192] [--dtype bfloat16] [--repeats 20]

Shapes are those of a size in training/sizes.py: the residual stream, its query heads, its feed-forward layer, and the
logits of a chunk of the loss (at most 2^27). Forms take turns; time is the median of the device's, on a CPU of the
process' own CPU time. `kept` is what forward holds for backward, inputs included; `peak` (CUDA alone) is how far a
forward and backward pass rises above its inputs, `compile` what the first call took. Triton's rows need a GPU: its
interpreter on a CPU computes the same, some thousand times slower. Fails where a form differs from the plain one, or
where Triton on a GPU is slower or keeps more. The whole loss, by vocabulary: benchmarks/cross_entropy.py.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor

from training.config import ModelConfig
from training.model import rotary_table
from training.sizes import SIZES, USUAL_VOCABULARY

FUNCTIONS = {"rms_norm": "rms_norm", "rotary": "rotate", "swiglu": "swiglu", "cross_entropy": "loss_and_gradient_"}
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
MIB = 1 << 20


def inputs(operation: str, config: ModelConfig, tokens: int, dtype: torch.dtype, device: torch.device) -> list:
    torch.manual_seed(0)

    def values(*shape: int) -> Tensor:
        return torch.randn(shape, device=device).to(dtype).requires_grad_()

    if operation == "rms_norm":
        return [values(1, tokens, config.hidden_size), values(config.hidden_size), config.norm_eps]
    if operation == "rotary":
        heads = values(1, tokens, config.num_heads, config.head_dim).transpose(1, 2)
        return [heads.detach().requires_grad_(), *(table.to(dtype) for table in rotary_table(tokens, config, device))]
    if operation == "swiglu":
        return [values(1, tokens, config.intermediate_size), values(1, tokens, config.intermediate_size)]
    tokens = min(tokens, (1 << 27) // config.vocab_size)
    targets = torch.randint(config.vocab_size, (tokens, 1), device=device)
    return [values(tokens, config.vocab_size).detach(), targets, targets % 9 > 0, 1e-4, True]


def run(function: Callable, arguments: list) -> list[Tensor]:
    """Outputs and gradients. The loss of a chunk makes its gradient itself, over its logits."""
    result = function(*arguments)
    if isinstance(result, tuple):
        return list(result)
    trained = [value for value in arguments if isinstance(value, Tensor) and value.requires_grad]
    return [result.detach(), *torch.autograd.grad(result, trained, torch.ones_like(result))]


def kept_bytes(function: Callable, arguments: list) -> int:
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*arguments)
    return sum(kept.values())


def seconds(function: Callable, arguments: list, device: torch.device) -> float:
    if device.type != "cuda":
        began = time.process_time()
        run(function, arguments)
        return time.process_time() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run(function, arguments)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def peak_bytes(function: Callable, arguments: list, device: torch.device) -> int:
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run(function, arguments)
    return torch.cuda.max_memory_allocated(device) - before


def differs(found: list[Tensor], expected: list[Tensor], dtype: torch.dtype) -> bool:
    """Relative to the largest value of a tensor."""
    pairs = [(have.float(), want.float()) for have, want in zip(found, expected, strict=True)]
    return any(not (have - want).abs().max() <= TOLERANCE[dtype] * want.abs().max() for have, want in pairs)


def measure(operation: str, options: argparse.Namespace, device: torch.device) -> bool:
    """Prints the rows of one operation; whether all is well."""
    config = ModelConfig(**SIZES[options.size], vocab_size=USUAL_VOCABULARY[options.size])
    dtype = getattr(torch, options.dtype)
    plain = getattr(importlib.import_module(f"kernels.{operation}.reference"), FUNCTIONS[operation])
    forms = {"plain": plain, "compiled": torch.compile(plain)}
    if device.type == "cuda":
        forms["triton"] = getattr(importlib.import_module(f"kernels.{operation}.triton"), FUNCTIONS[operation])
    made, first, times = {}, {}, {name: [] for name in forms}
    for name, function in forms.items():
        began = time.perf_counter()
        made[name] = run(function, inputs(operation, config, options.tokens, dtype, device))
        first[name] = time.perf_counter() - began
    good = {name: not differs(found, made["plain"], dtype) for name, found in made.items()}
    made.clear()
    arguments = inputs(operation, config, options.tokens, dtype, device)
    for _ in range(options.repeats + 1):
        for name, function in forms.items():
            times[name].append(seconds(function, arguments, device))
    kept = {name: kept_bytes(function, arguments) for name, function in forms.items()}
    for name, function in forms.items():
        taken, base = (statistics.median(times[form][1:]) for form in (name, "plain"))
        peak = f"{peak_bytes(function, arguments, device) / MIB:8.1f}" if device.type == "cuda" else f"{'-':>8}"
        row = f"{operation:14} {name:9} {1000 * taken:9.3f} {taken / base:6.2f}x {kept[name] / MIB:8.1f} {peak}"
        print(f"{row} {first[name]:8.1f}" if name == "compiled" else row, flush=True)
        if not good[name]:
            print(f"FAILED: {operation}, {name}: differs from the plain form by more than {TOLERANCE[dtype]}")
        elif name == "triton" and (taken > base or kept[name] > kept["plain"]):
            print(f"FAILED: {operation}, {name}: slower than plain PyTorch, or keeps more")
            good[name] = False
    return all(good.values())


def main() -> int:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.type == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="1b" if on_gpu else "10m")
    parser.add_argument("--tokens", type=int, default=16_384 if on_gpu else 2048)
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16", "float16"], default="bfloat16" if on_gpu else "float32"
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU; 1 is a rank's default")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = torch.cuda.get_device_name(device) if on_gpu else f"CPU, {options.threads} thread(s)"
    print(f"{name}; shapes of {options.size}, {options.tokens} tokens, {options.dtype}; forward and backward")
    print(f"{'operation':14} {'form':9} {'ms':>9} {'time':>7} {'kept MiB':>8} {'peak MiB':>8} {'compile s':>9}")
    good = [measure(operation, options, device) for operation in FUNCTIONS]
    if not on_gpu:
        print("triton: needs a GPU")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
