"""MinHash signatures: the compiled kernel against datasketch, on the same texts in one process and one thread.

    python benchmarks/minhash.py FILE.jsonl[.zst|.gz] [--megabytes 8]

Both get the same normalised texts, 5-unit shingles, 128 permutations; datasketch its default 32-bit SHA-1 and
`update_batch`, its fastest way in. Prints MB/s of UTF-8 text and the ratio; the kernel's compile time is left out.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import datasketch
import fsspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kernels import minhash
from tasks.dedup.normalise import fuzzy_form

SIZE, NUM_PERM = 5, 128


def read(path: str, max_bytes: int) -> list[str]:
    texts: list[str] = []
    total = 0
    with fsspec.open(path, "rb", compression="infer") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
            texts.append(json.loads(line)["text"])
            total += len(texts[-1].encode("utf-8", "replace"))
            if total >= max_bytes:
                break
    return texts


def by_datasketch(forms: list[str]) -> None:
    for form in forms:
        units = minhash.split_units(form)
        sketch = datasketch.MinHash(num_perm=NUM_PERM, seed=1)
        shingles = [" ".join(units[i : i + SIZE]).encode() for i in range(len(units) - SIZE + 1)]
        if shingles:
            sketch.update_batch(shingles)


def by_kernel(forms: list[str]) -> None:
    a, b = minhash.permutations(NUM_PERM, 1)
    for start in range(0, len(forms), 256):
        minhash.sign(forms[start : start + 256], SIZE, a, b, cap=10)


def seconds(function: Callable[[list[str]], object], texts: list[str]) -> float:
    started = time.process_time()  # of this process alone: others on the machine do not count
    function(texts)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--megabytes", type=float, default=8)
    arguments = parser.parse_args()
    texts = read(arguments.file, int(arguments.megabytes * 1e6))
    megabytes = sum(len(text.encode("utf-8", "replace")) for text in texts) / 1e6
    forms = [fuzzy_form(text) for text in texts]
    by_kernel(forms[:1])
    timed = {
        "normalise": seconds(lambda t: [fuzzy_form(x) for x in t], texts),
        "kernel": min(seconds(by_kernel, forms) for _ in range(3)),
        "datasketch": seconds(by_datasketch, forms),
    }
    print(f"{len(texts):,} documents, {megabytes:.1f} MB, {minhash.IMPLEMENTATION}")
    for name, value in timed.items():
        print(f"{name:12} {value:8.3f} s {megabytes / value:8.1f} MB/s")
    print(f"kernel / datasketch: {timed['datasketch'] / timed['kernel']:.1f}x")


if __name__ == "__main__":
    main()
