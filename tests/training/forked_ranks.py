"""Real ranks at a second each: a server imports torch and DeepSpeed once and forks the ranks of every attempt.

Each rank runs `training.train.main` as the launcher's do, over gloo, and dies by SIGKILL at the exact point that a
`Kill` names; the others are then killed too, wherever they are, as the launcher does it. The price against
training.launch (8 to 10 s): no launcher, no supervision. Fork is safe because the server computes nothing and has one
thread, which it checks. Files to fork from, wrappers and all, never touch the caller's process.

    with Ranks() as ranks:
        kill = Kill("step", 7)
        ranks.run(spec, kill).check(kill)    # the work folder holds what a killed run leaves
        ranks.run(spec).check()              # resumes; raises with the end of the log unless it finished

in    one JSON object a line on stdin: config (run.json), world_size, port, kill and the like
out   one JSON object a line on stdout: the exit codes; consumed-R.jsonl in the work folder: each step's batch, hashed
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent.parent
LOG_FILE = "launcher.log"
KILL_VARIABLE = "DANLU_KILL"  # a Kill as JSON, for ranks under the launcher


@dataclass(frozen=True, slots=True)
class Kill:
    """Where rank `rank` sends itself SIGKILL.

    at      "step"       after optimizer step `step`, before anything is saved
            "micro"      in step `step`, between its first micro batch and its second
            "sync"       when a file of the checkpoint of `step` whose name begins with `file` is about to be synced
            "overtaken"  likewise, but only once step `step` + 2 has begun: the writer lags behind training
            "rename"     when that checkpoint's folder is about to get its final name
            "renamed"    when it has just got it
    """

    at: str
    step: int
    rank: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    codes: list[int]  # of each rank; -9 is a SIGKILL
    log: str  # of this attempt

    @property
    def finished(self) -> bool:
        return not any(self.codes)

    def check(self, kill: Kill | None = None) -> Outcome:
        """This, if the attempt ended well, or died where it should. The other rank may have failed or been killed."""
        good = self.codes[kill.rank] == -signal.SIGKILL and died_at(kill, self.log) if kill else self.finished
        wanted = f"a death at {kill}" if kill else "a good end"
        assert good, f"expected {wanted}, found exit codes {self.codes}; the end of the log:\n{self.log[-4000:]}"
        return self


def died_at(kill: Kill, log: str) -> bool:
    return f"SIGKILL at {kill}\n" in log


def history(work_dir: Path) -> dict[str, Any]:
    """What two runs of one spec must share to the bit: every row without its wall-clock figures, what each rank was
    fed, and the files of the newest checkpoint (weights, moments, generators, state)."""
    from training.checkpoint import folders
    from training.metrics import read_rows

    fixed = ("kind", "step", "loss", "grad_norm", "lr", "skipped", "loss_scale", "samples", "tokens")
    rows = [{key: row[key] for key in fixed if key in row} for row in read_rows(work_dir / "metrics.jsonl")]
    # as text, since the norm of a skipped step can be NaN, which equals nothing
    found: dict[str, Any] = {f"{row['kind']} {row['step']}": json.dumps(row) for row in rows}
    for path in sorted(work_dir.glob("consumed-*.jsonl")):
        for row in read_rows(path):  # a repeated step has a row for each time
            found.setdefault(f"{path.stem} step {row['step']}", set()).add(row["sha256"])
    newest = folders(work_dir)[0]
    for name, entry in json.loads((newest / "manifest.json").read_text(encoding="utf-8"))["files"].items():
        if name not in ("environment.json", "metrics.jsonl", "events.jsonl"):  # these hold times
            found[f"{newest.name}/{name}"] = entry["sha256"]
    return found


def differences(whole: Path, parted: Path) -> list[str]:
    """Each part of the history in which the two runs differ, with both values."""
    ours, theirs = history(whole), history(parted)
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return [f"{key}: {ours.get(key)} uninterrupted, {theirs.get(key)} resumed" for key in keys]


class Ranks:
    """The caller's end of the server, started at the first attempt."""

    def __init__(self) -> None:
        self.server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *details: object) -> None:
        if self.server is not None:
            assert self.server.stdin is not None
            self.server.stdin.close()  # the server ends at the end of its input
            self.server.wait(timeout=30)

    def run(self, spec: Any, kill: Kill | None = None, fault: str = "", timeout_seconds: float = 240.0) -> Outcome:
        """One attempt in spec.work_dir; `fault` names an entry of FAULTS, as "name:step". What came of it is the
        caller's to check."""
        from training.launch import free_port
        from training.shared_memory import free

        work_dir = Path(spec.work_dir)
        work_dir.mkdir(parents=True, exist_ok=True)
        spec.write(work_dir / "run.json")
        log, port = work_dir / LOG_FILE, free_port()
        begin = log.stat().st_size if log.exists() else 0
        order = {"config": str(work_dir / "run.json"), "world_size": spec.train.num_ranks, "port": port}
        order |= {"kill": asdict(kill) if kill else None, "fault": fault, "backend": spec.train.backend}
        try:
            codes = self.ask(spec, order, timeout_seconds)
            return Outcome(codes, log.read_bytes()[begin:].decode(errors="replace"))
        finally:
            free(port)

    def ask(self, spec: Any, order: dict[str, Any], timeout_seconds: float) -> list[int]:
        if self.server is None:
            self.server = start_server(spec)
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        if not select.select([self.server.stdout], [], [], timeout_seconds)[0]:
            self.server.kill()  # its ranks go with it
            self.server.wait()
            self.server = None
            log = Path(order["config"]).with_name(LOG_FILE)
            end = log.read_text(errors="replace")[-4000:] if log.exists() else "not begun"
            raise TimeoutError(f"no end within {timeout_seconds} s; the end of the log: {end}")
        line = self.server.stdout.readline()
        assert line, f"the server of ranks ended with {self.server.wait()}"
        return json.loads(line)


def start_server(spec: Any) -> subprocess.Popen[str]:
    from training import toolchain
    from training.launch import child_environment

    # pyarrow's allocator and numpy's BLAS would start threads at import
    quiet = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
    environment = child_environment(spec.train, uuid.uuid4().hex) | quiet
    toolchain.check_toolchain()
    toolchain.prebuild(environment)
    command = [sys.executable, "-u", __file__, str(os.getpid())]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def serve(owner: int) -> None:
    """Fork the ranks of each order and answer with their exit codes, until the input ends."""
    from training.processes import die_with_parent

    die_with_parent(owner)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the imports print is no answer
    warm_up()
    for line in sys.stdin:
        threads = len(os.listdir("/proc/self/task"))
        assert threads == 1, f"a fork of {threads} threads would carry one of them and the locks of all"
        order = json.loads(line)
        pids = [fork_rank(order, rank) for rank in range(order["world_size"])]
        answers.write(json.dumps(reap(pids)) + "\n")
        answers.flush()


def warm_up() -> None:
    """Everything that a rank would load: 8 s once instead of in every attempt."""
    from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

    for name in ("zero.muon.muon_optimizer", "zero.stage3", "zero.stage_1_and_2", "bf16_optimizer"):
        importlib.import_module(f"deepspeed.runtime.{name}")
    for name in ("torch._dynamo", "training.deepspeed_engine", "training.train"):
        importlib.import_module(name)
    ShareMemCommBuilder().load()


def fork_rank(order: dict[str, Any], rank: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        run_rank(order, rank)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def reap(pids: Sequence[int]) -> list[int]:
    """Exit codes. The first rank that fails takes the others with it, after a moment to say why they failed."""
    codes: dict[int, int] = {}
    while len(codes) < len(pids):
        pid, status = os.waitpid(-1, 0)
        codes[pid] = os.waitstatus_to_exitcode(status)
        if codes[pid] and len(codes) < len(pids):
            if codes[pid] != -signal.SIGKILL:
                time.sleep(0.5)
            for other in set(pids) - set(codes):
                os.kill(other, signal.SIGKILL)
    return [codes[pid] for pid in pids]


def run_rank(order: dict[str, Any], rank: int) -> None:
    from training import train
    from training.processes import die_with_parent

    die_with_parent()
    work_dir = Path(order["config"]).parent
    log = os.open(work_dir / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": order["world_size"], "LOCAL_SIZE": order["world_size"]}
    names |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": order["port"]}
    os.environ.update({name: str(value) for name, value in names.items()})
    instrument(work_dir, rank, order["kill"], order["fault"])
    sys.argv = ["training.train", "--config", order["config"], "--local_rank", str(rank)]
    train.main()


def run_launched_rank() -> None:
    """What training.rank does, instrumented: benchmarks/resume.py has the launcher start this module in its place."""
    from training import processes, train

    processes.die_with_parent()
    processes.watch_owner()
    work_dir = Path(sys.argv[sys.argv.index("--config") + 1]).parent
    instrument(work_dir, int(os.environ["RANK"]), json.loads(os.environ.get(KILL_VARIABLE, "null")))
    train.main()


def instrument(work_dir: Path, rank: int, kill: dict[str, Any] | None, fault: str = "") -> None:
    record_batches(work_dir / f"consumed-{rank}.jsonl")
    if kill:
        arm(Kill(**kill), rank)
    if fault:
        name, _, step = fault.partition(":")
        FAULTS[name](int(step), rank)


def around_step(act: Callable[[Any, int], contextlib.AbstractContextManager[None]]) -> None:
    """Wrap every step of the loop in act(trainer, number of the step)."""
    from training.train import Trainer

    original = Trainer.step

    def step(self: Trainer) -> bool:
        with act(self, self.progress.step + 1):
            return original(self)

    Trainer.step = step  # type: ignore[method-assign]


def record_batches(path: Path) -> None:
    """Append the SHA-256 of what this rank is fed in each step."""

    @contextlib.contextmanager
    def act(trainer: Any, number: int) -> Iterator[None]:
        engine = trainer.engine
        feed = type(engine).train_step

        def recorded(batches: Sequence[Any], lr: float) -> Any:
            digest = hashlib.sha256(b"".join(batch.numpy().tobytes() for batch in batches)).hexdigest()
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": number, "sha256": digest}) + "\n")
            return feed(engine, batches, lr)

        if "train_step" not in vars(engine):
            engine.train_step = recorded
        yield
        vars(engine).pop("train_step", None)

    around_step(act)


def die(kill: Kill) -> NoReturn:
    os.write(1, f"SIGKILL at {kill}\n".encode())  # the log
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("outlived a SIGKILL")


class DiesAfterFirst(list):
    """Batches of which the second cannot be had."""

    def __init__(self, batches: Sequence[Any], kill: Kill):
        super().__init__(batches)
        self.kill = kill

    def __iter__(self) -> Iterator[Any]:
        yield next(super().__iter__())
        die(self.kill)


def arm(kill: Kill, rank: int) -> None:
    if rank != kill.rank:
        return
    if kill.at in ("step", "micro"):
        arm_step(kill)
    else:
        arm_save(kill)


def arm_step(kill: Kill) -> None:
    @contextlib.contextmanager
    def act(trainer: Any, number: int) -> Iterator[None]:
        if number == kill.step and kill.at == "micro":
            engine = trainer.engine
            feed = type(engine).train_step
            engine.train_step = lambda batches, lr: feed(engine, DiesAfterFirst(batches, kill), lr)
        yield
        if number == kill.step:
            die(kill)

    around_step(act)


def arm_save(kill: Kill) -> None:
    folder = f"step-{kill.step:08d}"
    sync, rename, reached = os.fsync, os.rename, {"step": 0}

    @contextlib.contextmanager
    def act(trainer: Any, number: int) -> Iterator[None]:
        reached["step"] = number
        yield

    around_step(act)

    def killing_sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.parent.name.endswith(folder) and path.name.startswith(kill.file):
            while kill.at == "overtaken" and reached["step"] < kill.step + 2:
                time.sleep(0.001)
            if kill.at in ("sync", "overtaken"):
                die(kill)
        sync(descriptor)

    def killing_rename(source: Any, target: Any, **options: Any) -> None:
        ours = Path(target).name == folder
        if ours and kill.at == "rename":
            die(kill)
        rename(source, target, **options)
        if ours and kill.at == "renamed":
            die(kill)

    os.fsync, os.rename = killing_sync, killing_rename  # type: ignore[assignment]


def spoil_gradient(step: int, rank: int) -> None:
    """In step `step` rank 1 has NaN in every gradient, and a loss that is right."""
    import torch

    from training.model import Decoder

    class Spoil(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, loss: torch.Tensor) -> torch.Tensor:
            return loss.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * math.nan

    original, now = Decoder.forward, {"step": 0}

    def forward(self: Decoder, *inputs: torch.Tensor) -> torch.Tensor:
        loss = original(self, *inputs)
        return Spoil.apply(loss) if now["step"] == step and self.training else loss

    @contextlib.contextmanager
    def act(trainer: Any, number: int) -> Iterator[None]:
        now["step"] = number
        yield

    if rank == min(1, int(os.environ["WORLD_SIZE"]) - 1):
        Decoder.forward = forward  # type: ignore[method-assign]
        around_step(act)


def spoil_weights(step: int, rank: int) -> None:
    """Before step `step` a weight of the module becomes NaN, on every rank."""
    import torch

    @contextlib.contextmanager
    def act(trainer: Any, number: int) -> Iterator[None]:
        if number == step:
            with torch.no_grad():
                next(trainer.engine.module.parameters()).fill_(math.nan)
        yield

    around_step(act)


def fill_disk(step: int, rank: int) -> None:
    """Writing the moments of the checkpoint of `step` meets ENOSPC from the kernel: the file is /dev/full."""
    make = Path.mkdir

    def mkdir(self: Path, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if self.name == f".partial-step-{step:08d}":
            for suffix in ("planes.lz4", "planes.zst", "safetensors"):
                (self / f"optimizer.{suffix}").symlink_to("/dev/full")

    Path.mkdir = mkdir  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[int, int], None]] = {
    "spoil_gradient": spoil_gradient,
    "spoil_weights": spoil_weights,
    "fill_disk": fill_disk,
}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if "--config" in sys.argv:
        run_launched_rank()
    else:
        serve(int(sys.argv[1]))
