"""Time and peak memory of the loss from hidden states to both gradients: all logits at once, or by chunks of tokens.

    python benchmarks/cross_entropy.py [--vocab-sizes 4096 8000 32000 85000] [--tokens 2048] [--hidden-size 192]

Each form runs in its own process on the CPU, forward and backward, `--repeats` times after one warm-up. Time is the
median. Memory is how far the process rose above its inputs, the gradients included. `torch` is what one writes without
us: F.cross_entropy(F.linear(hidden, weight), targets). Fails where the losses differ by more than 1e-5, or where chunks
need more than a quarter of the plain form's memory at a vocabulary of 85,000 or more.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

FORMS = ("torch", "plain", "chunked")
MIB = 1 << 20


def measure(form: str, tokens: int, width: int, vocab: int, dtype: str, repeats: int, threads: int) -> dict[str, float]:
    """In a process of its own: the loss, seconds and bytes above the inputs."""
    import torch
    import torch.nn.functional as F

    from kernels import cross_entropy

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    hidden = torch.randn(tokens, width, dtype=kind, requires_grad=True)
    weight = (torch.randn(vocab, width) * 0.32 / width**0.5).to(kind).requires_grad_()
    targets = torch.randint(vocab, (tokens,))
    torch.ones(8, 8, requires_grad=True).mm(torch.ones(8, 8)).sum().backward()  # starts the threads
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def loss() -> torch.Tensor:
        if form == "torch":
            return F.cross_entropy(F.linear(hidden, weight).float(), targets)
        return getattr(cross_entropy, form)(hidden, weight, targets)

    seconds = []
    for _ in range(repeats + 1):
        hidden.grad = weight.grad = None
        began = time.perf_counter()
        value = loss()
        value.backward()
        seconds.append(time.perf_counter() - began)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * 1024
    return {"loss": value.item(), "seconds": statistics.median(seconds[1:]), "bytes": peak}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab-sizes", type=int, nargs="+", default=[4096, 8000, 32_000, 85_000])
    parser.add_argument("--tokens", type=int, default=2048, help="of a micro batch")
    parser.add_argument("--hidden-size", type=int, default=192)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch; 1 is a rank's default")
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = (options.tokens, options.hidden_size)
    if options.form:
        (vocab,) = options.vocab_sizes
        values = measure(options.form, *shape, vocab, options.dtype, options.repeats, options.threads)
        print(json.dumps(values))
        return 0

    print(f"{options.tokens} tokens, hidden size {options.hidden_size}, {options.dtype}, {options.threads} thread(s)")
    print(f"{'vocabulary':>10}  {'form':8} {'seconds':>8} {'MiB':>7}  {'time':>6} {'memory':>7}   (against torch)")
    failed = False
    for vocab in options.vocab_sizes:
        rows = {form: in_own_process(form, vocab) for form in FORMS}
        base = rows["torch"]
        for form, row in rows.items():
            time_ratio, memory_ratio = row["seconds"] / base["seconds"], row["bytes"] / base["bytes"]
            figures = f"{row['seconds']:8.3f} {row['bytes'] / MIB:7.0f}  {time_ratio:5.2f}x {memory_ratio:6.2f}x"
            print(f"{vocab:10,}  {form:8} {figures}", flush=True)
            if abs(row["loss"] / base["loss"] - 1) > (1e-5 if options.dtype == "float32" else 1e-2):
                print(f"FAILED: {form} has a loss of {row['loss']}, torch {base['loss']}")
                failed = True
        if vocab >= 85_000 and rows["chunked"]["bytes"] > base["bytes"] / 4:
            print("FAILED: chunks need more than a quarter of the plain form's memory")
            failed = True
    return int(failed)


def in_own_process(form: str, vocab: int) -> dict[str, float]:
    """The same options with one form and one vocabulary; of options given twice the last counts."""
    command = [sys.executable, __file__, *sys.argv[1:], "--form", form, "--vocab-sizes", str(vocab)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
