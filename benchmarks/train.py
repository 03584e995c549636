"""Training on a CPU: tokens/s of our engine beside plain loops, memory of the loss, what checkpoints cost the steps.

    python benchmarks/train.py [--rounds 7] [--only speed,memory,stall] [--cases 1m-4096 …] [--threads 1 2]

Speed: the same weights, the same batches, AdamW and clipping alike. `danlu` is training.engine.TorchEngine as
`backend: torch` runs it; `transformers` is LlamaForCausalLM with torch's AdamW; `plain` is the same decoder in obvious
torch around nanoGPT's loop (benchmarks/peers/). Each lives in its own process, and they take turns, a few steps at a
time, so that a slow minute of the machine falls on all three. The ratio is the median of the rounds' ratios: of CPU
seconds with one thread, of wall seconds with more (a waiting thread of OpenMP spins). Tokens are the words and signs of
recipes/sample, numbered by CRC-32 modulo the vocabulary. The losses of all steps must agree, or the run fails.

Memory: benchmarks/cross_entropy.py at a vocabulary of 85,000.
Stall: a run of training.launch with a checkpoint every 20 steps; how long its steps stood still for them.

Fails where danlu is under 1.2 times transformers or slower than plain, where the loss takes more than a quarter of the
plain one's memory, or where checkpoints stop training for more than 5 % of the time of the 20 steps between them.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CONTENDERS = ("danlu", "transformers", "plain")
SECTIONS = ("speed", "memory", "stall")
TRANSFORMERS_RATIO, PLAIN_RATIO, MEMORY_RATIO, STALL_SHARE = 1.2, 1.0, 0.25, 0.05
LOSS_TOLERANCE = 1e-3  # relative, over all steps; fp32 sums in another order drift apart
LR = 1e-3
EVERY, STALL_STEPS, STALL_BATCH = 20, 100, 4
STALL_RUNS = (("torch", "1m", 4096), ("deepspeed", "1m", 4096), ("torch", "10m", 16_384))


@dataclass(frozen=True, slots=True)
class Case:
    size: str
    vocab: int
    batch: int  # sequences of a step, one micro batch
    seq_len: int
    steps: int  # of a turn

    @property
    def name(self) -> str:
        return f"{self.size}-{self.vocab}"


CASES = (Case("1m", 4096, 8, 256, 4), Case("10m", 16_384, 4, 256, 2), Case("1m", 85_000, 4, 256, 2))


# --- one contender, in its own process


def sample_tokens(vocab: int) -> list[int]:
    """Words and signs of the bundled sample in reading order; Chinese comes as runs of characters, split into them."""
    ids: list[int] = []
    for path in sorted((ROOT / "recipes" / "sample").rglob("*")):
        if path.suffix in (".txt", ".md", ".jsonl") and "broken" not in path.parts:
            text = path.read_bytes().decode("utf-8", "replace")
            ids += (zlib.crc32(w.encode()) % vocab for w in re.findall(r"[a-zA-Z]+|\d|\S", text))
    return ids


def train_config(case: Case) -> Any:
    from training.config import ModelConfig, TrainConfig
    from training.sizes import SIZES

    return TrainConfig(
        model=ModelConfig(vocab_size=case.vocab, **SIZES[case.size]),
        seq_len=case.seq_len,
        global_batch_size=case.batch,
        micro_batch_size=case.batch,
        backend="torch",
        device="cpu",
    )


def danlu_stepper(weights: Any, config: Any) -> Callable[[Any, float], float]:
    import torch

    from training.engine import TorchEngine
    from training.heap import keep_freed_memory
    from training.model import Decoder

    keep_freed_memory()  # as training.train does
    model = Decoder(config.model, chunked_loss=config.chunked_loss)
    model.load_state_dict(weights)
    engine = TorchEngine(model, config, torch.device("cpu"))
    engine.install_state(None, optimizer_step=0)
    return lambda tokens, lr: engine.train_step([tokens], lr).loss


def contend(name: str, case: Case, threads: int) -> None:
    """Answers each line of standard input, a number of steps, with a line of seconds and losses."""
    import resource

    import torch

    from training.initial import initialise
    from training.model import Decoder

    torch.set_num_threads(threads)
    config = train_config(case)
    weights = initialise(Decoder(config.model), seed=0).state_dict()
    if name == "danlu":
        step = danlu_stepper(weights, config)
    elif name == "transformers":
        from benchmarks.peers.train_transformers import stepper

        step = stepper(weights, config)
    else:
        from benchmarks.peers.train_plain import stepper

        step = stepper(weights, config)
    row = case.batch * (case.seq_len + 1)
    tokens = torch.tensor(sample_tokens(case.vocab))
    batches = tokens[: len(tokens) // row * row].view(-1, case.batch, case.seq_len + 1)
    done = 0
    for line in sys.stdin:
        losses = []
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            losses.append(step(batches[done % len(batches)], LR))
            done += 1
        values = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "losses": losses}
        values["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(values), flush=True)


# --- the match


class Contender:
    def __init__(self, name: str, case: Case, threads: int):
        command = [sys.executable, __file__, "--contender", name, "--cases", case.name, "--threads", str(threads)]
        self.name, self.rounds = name, list[dict[str, Any]]()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, steps: int) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self.name}: ended with exit code {self.process.wait()} instead of answering; see above"
            )
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def match(case: Case, threads: int, rounds: int) -> bool:
    """Prints the rows of one case; whether all bounds were kept."""
    contenders = [Contender(name, case, threads) for name in CONTENDERS]
    try:
        losses = {c.name: c.turn(2)["losses"] for c in contenders}  # warm-up
        for number in range(rounds):
            for c in contenders[number % 3 :] + contenders[: number % 3]:
                c.rounds.append(c.turn(case.steps))
                losses[c.name] += c.rounds[-1]["losses"]
    finally:
        for c in contenders:
            c.close()
    clock = "cpu" if threads == 1 else "wall"
    ours, good = contenders[0], True
    for c in contenders:
        seconds = statistics.median(r[clock] for r in c.rounds) / case.steps
        ratio = statistics.median(b[clock] / a[clock] for a, b in zip(ours.rounds, c.rounds, strict=True))
        apart = max(abs(a / b - 1) for a, b in zip(losses[ours.name], losses[c.name], strict=True))
        rate, peak = case.batch * case.seq_len / seconds, max(r["peak_mib"] for r in c.rounds)
        bound = {"danlu": 0.0, "transformers": TRANSFORMERS_RATIO, "plain": PLAIN_RATIO}[c.name]
        met = ratio >= bound and apart <= LOSS_TOLERANCE
        good &= met
        print(
            f"{case.size:>4} {case.vocab:7,} {threads:7} {clock:>5}  {c.name:12} {rate:9,.0f} {seconds * 1e3:8,.0f}"
            f" {peak:8,.0f} {ratio:9.2f}x {apart:9.1e}  {'' if met else f'NOT MET (asked for {bound:g}x)'}",
            flush=True,
        )
    return good


def speed(options: argparse.Namespace) -> bool:
    print(f"tokens of recipes/sample; batches of (sequences x length) {[f'{c.batch} x {c.seq_len}' for c in CASES]}")
    print(
        f"{'size':>4} {'vocab':>7} {'threads':>7} {'clock':>5}  {'':12} {'tokens/s':>9} {'ms/step':>8} {'peak MiB':>8}"
        f" {'time':>10} {'loss apart':>10}   (time against danlu)"
    )
    chosen = [case for case in CASES if case.name in options.cases]
    return all([match(case, threads, options.rounds) for case in chosen for threads in options.threads])


def memory() -> bool:
    """cross_entropy.py has the bound of a quarter and fails by itself."""
    command = [sys.executable, str(ROOT / "benchmarks" / "cross_entropy.py"), "--vocab-sizes", "85000"]
    return subprocess.run(command, check=False).returncode == 0


# --- checkpoints


def write_tokens(folder: Path, vocab: int) -> None:
    """The sample as one training file of documents of 500 tokens."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from training.indexed import IndexedWriter

    folder.mkdir(parents=True)
    tokens = np.array(sample_tokens(vocab), dtype=np.int32)
    documents = [tokens[first : first + 500] for first in range(0, len(tokens), 500)]
    writer = IndexedWriter(folder / "sample")
    for document in documents:
        writer.add(document)
    writer.close()
    rows = {"id": [str(n) for n in range(len(documents))], "num_tokens": [len(d) for d in documents]}
    rows |= {name: ["sample"] * len(documents) for name in ("source", "language")}
    pq.write_table(pa.table(rows), folder / "sample.parquet")


def stall_of(folder: Path, backend: str, size: str, vocab: int) -> bool:
    """Prints the row of one run; whether its worst save kept the bound."""
    import dataclasses

    from training.config import RunSpec
    from training.launch import launch
    from training.metrics import read_rows

    config = train_config(Case(size, vocab, STALL_BATCH, 256, 0))
    changes: dict[str, Any] = {"steps": STALL_STEPS, "checkpoint_interval_steps": EVERY, "eval_interval_steps": 0}
    if backend == "deepspeed":
        changes |= {"backend": backend, "world_size": 2, "micro_batch_size": STALL_BATCH // 2, "zero_stage": 1}
    spec = RunSpec(
        train=dataclasses.replace(config, **changes),
        work_dir=str(folder / f"{backend}-{size}"),
        data_folder=str(folder / f"tokens-{vocab}"),
        train_stems=("train/sample",),
        validation_stems=(),
        dataset_digest="d" * 64,
        tokenizer_digest="t" * 64,
    )
    if not Path(spec.data_folder).exists():
        write_tokens(Path(spec.data_folder) / "train", vocab)
    launch(spec)
    work_dir = Path(spec.work_dir)
    seconds = {row["step"]: row["seconds"] for row in read_rows(work_dir / "metrics.jsonl") if row["kind"] == "step"}
    saves = [row for row in read_rows(work_dir / "events.jsonl") if row["kind"] == "checkpoint"]
    shares = [
        row["stall_seconds"] / sum(seconds[step] for step in range(row["step"] - EVERY + 1, row["step"] + 1))
        for row in saves
    ]
    stall, write = (statistics.median(row[key] for row in saves) for key in ("stall_seconds", "write_seconds"))
    megabytes = max(row["bytes"] for row in saves) / 1e6
    met = len(saves) == STALL_STEPS // EVERY and max(shares) <= STALL_SHARE
    print(
        f"{backend:10} {size:>4} {vocab:7,} {len(saves):6} {megabytes:6.0f} {statistics.median(seconds.values()):9.3f}"
        f" {stall:8.4f} {write:8.3f} {statistics.median(shares):8.2%} {max(shares):8.2%}"
        f"  {'' if met else f'NOT MET (asked for {STALL_SHARE:.0%} at most)'}",
        flush=True,
    )
    return met


def stall() -> bool:
    print(f"a checkpoint every {EVERY} steps of {STALL_BATCH} x 256 tokens; share: of the time of those {EVERY} steps")
    print(
        f"{'':10} {'size':>4} {'vocab':>7} {'saves':>6} {'MB':>6} {'s/step':>9} {'stall s':>8} {'write s':>8}"
        f" {'share':>8} {'worst':>8}   (medians)"
    )
    with tempfile.TemporaryDirectory() as name:
        return all([stall_of(Path(name), *run) for run in STALL_RUNS])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, comma-separated")
    parser.add_argument("--cases", nargs="+", default=[c.name for c in CASES], choices=[c.name for c in CASES])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        [case] = [c for c in CASES if c.name == options.cases[0]]
        contend(options.contender, case, options.threads[0])
        return 0
    sections = {"speed": lambda: speed(options), "memory": memory, "stall": stall}
    if unknown := set(options.only.split(",")) - sections.keys():
        parser.error(f"--only: expected some of {', '.join(SECTIONS)}, found {', '.join(sorted(unknown))}")
    failed = [name for name in options.only.split(",") if not sections[name]()]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
