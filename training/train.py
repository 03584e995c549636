"""The training loop of one rank: `python -m training.train --config run.json [--local_rank N]`.

Started by the `deepspeed` launcher on every rank (training/launch.py), or alone for `backend: torch`. Each step is a
function of (weights, step number): the batch is looked up by the samples consumed, the rate by the step. So a resumed
run needs no replay. Rank 0 writes metrics, heartbeat, result and, in a thread, checkpoints; saving, stopping and giving
up are decided by all ranks at once.

in    run.json (RunSpec), the newest verified checkpoint in work_dir, if any
out   checkpoints/, metrics.jsonl, events.jsonl, result.json {"status": "finished" | "stopped", "step", "checkpoint"}
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from kernels import choosing
from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint, Level, Progress
from training.config import RunSpec, TrainConfig
from training.data import TokenDataset
from training.data.loader import BadSampleError, GuardedBatches, Prefetcher
from training.engine import Engine, StepResult, TorchEngine
from training.guards import vocabulary
from training.heap import keep_freed_memory
from training.initial import faults, initialise
from training.metrics import MetricsLog, append, read_rows, truncate_after
from training.model import Decoder
from training.precision import LossScaleError
from training.processes import MARK
from training.run_files import HEARTBEAT_FILE, RESULT_FILE, STOP_FILE
from training.run_lock import RunLock
from training.schedule.rates import learning_rate
from training.schedule.staged import EVENT, ScheduleState, advance, recorded_warmup, replay

logger = logging.getLogger(__name__)


class TrainingError(RuntimeError):
    """The run cannot go on: a first loss that betrays a bad model, or a loss that is no number."""


@dataclass(slots=True)
class StopRequest:
    """Set by SIGTERM or the stop file; acted on after the step in hand."""

    work_dir: Path
    signalled: bool = False

    def listen(self) -> None:
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, number: int, frame: object) -> None:
        self.signalled = True

    def pending(self) -> bool:
        return self.signalled or (self.work_dir / STOP_FILE).exists()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train one rank; normally started by training.launch.")
    parser.add_argument("--config", type=Path, required=True, help="run.json, as RunSpec.write makes it")
    parser.add_argument("--local_rank", type=int, default=0, help="given by the deepspeed launcher")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    spec = RunSpec.read(arguments.config)
    torch.set_num_threads(spec.train.threads_per_rank)
    rank = int(os.environ.get("RANK", "0"))
    with RunLock(Path(spec.work_dir) / f"rank-{rank}.lock", wait_seconds=spec.train.init_timeout_seconds):
        device = start_distributed(spec.train, arguments.local_rank)
        if device.type == "cpu":
            keep_freed_memory()
        try:
            train(spec, device)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()  # without it the launcher reports exit code -6


def start_distributed(config: TrainConfig, local_rank: int) -> torch.device:
    """Join the other ranks; the torch backend has none."""
    use_cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)
    if config.backend == "deepspeed":
        import deepspeed

        timeout = timedelta(seconds=max(config.init_timeout_seconds, config.stall_timeout_seconds))
        deepspeed.init_distributed("nccl" if use_cuda else "gloo", timeout=timeout, verbose=False)
    return device


def build_engine(spec: RunSpec, device: torch.device, checkpoint: Checkpoint | None) -> Engine:
    """Model, optimizer and state, from the checkpoint or from the seed."""
    config = spec.train
    choosing.prefer(config.kernels)
    model = Decoder(
        config.model,
        chunked_loss=config.chunked_loss,
        z_loss=config.z_loss,
        checkpointed=config.checkpointed_parts,
    )
    if checkpoint is None:
        initialise(model, config.seed)
        check_layers(model, config)
    else:
        model.load_state_dict(checkpoint.weights())
    engine: Engine
    if config.backend == "torch":
        engine = TorchEngine(model, config, device)
    else:
        from training.deepspeed_engine import DeepSpeedEngine

        engine = DeepSpeedEngine(model, config, device)
    if checkpoint is None:
        engine.install_state(None, optimizer_step=0)
    else:
        engine.install_state(checkpoint.parameter_states(), checkpoint.progress.optimizer_step)
        engine.install_extra_state(checkpoint.engine_state())
    return engine


def check_layers(model: Decoder, config: TrainConfig) -> None:
    """Refuse a model that begins badly. Every rank holds the same one, so one rank looks."""
    if not config.check_layers or checkpoints.rank_and_size()[0]:
        return
    if found := faults(model, config.layer_bounds):
        raise TrainingError(
            f"before the first step, {'; '.join(found)}. Bring model.linear_init_scale "
            f"({config.model.linear_init_scale}) and model.embedding_init_scale ({config.model.embedding_init_scale}) "
            "back to their defaults, or set check_layers to false"
        )


def find_checkpoint(spec: RunSpec) -> Checkpoint | None:
    """Rank 0 verifies every byte and names the folder; the others read the same one."""
    rank, size = checkpoints.rank_and_size()
    found = checkpoints.load_newest(Path(spec.work_dir)) if rank == 0 else None
    if size > 1:
        box = [found.folder.name if found else None]
        dist.broadcast_object_list(box)
        if rank and box[0]:
            found = checkpoints.read(checkpoints.root(Path(spec.work_dir)) / box[0])
    if found is not None:
        checkpoints.check_same_run(found, spec)
    return found


def open_data(spec: RunSpec) -> tuple[TokenDataset, TokenDataset | None]:
    """The training split as the config orders it, and the validation split, as it lies, if there is one."""
    if not spec.train_stems:
        raise ValueError("train_stems: expected at least one token file, found none; run the shards stage")
    data = TokenDataset.for_run(spec)
    if not spec.validation_stems:
        return data, None
    held_out = TokenDataset(
        Path(spec.data_folder),
        spec.validation_stems,
        digest=spec.dataset_digest,
        seq_len=spec.train.seq_len,
        seed=spec.train.seed,
    )
    return data, held_out


class Trainer:
    """The state of one rank between steps."""

    def __init__(self, spec: RunSpec, device: torch.device):
        self.spec, self.config, self.work_dir = spec, spec.train, Path(spec.work_dir)
        self.rank, self.size = checkpoints.rank_and_size()
        self.device = device
        self.log = MetricsLog(self.work_dir) if self.rank == 0 else None
        self.stop = StopRequest(self.work_dir)
        self.stop.listen()
        self.data, self.validation = open_data(spec)
        found = find_checkpoint(spec)
        checkpoints.seed_rng(self.config.seed)
        self.engine = build_engine(spec, device, found)
        if found is not None:
            checkpoints.restore_rng(found.folder, self.config.seed)
        self.progress = found.progress if found else Progress(step=0, samples=0, tokens=0, optimizer_step=0)
        self.schedule = self.resume_schedule(found)
        self.found = found
        self.skipped_in_a_row = 0
        self.findings = self.work_dir / f"findings-{self.rank:05d}.jsonl"
        truncate_after(self.findings, self.progress.step)
        self.prefetcher = self.read_ahead()
        if self.log is not None:
            if found is None and (reason := checkpoints.fresh_start_reason(self.work_dir)):
                logger.warning("%s: the run %s; it starts from scratch", self.work_dir.name, reason)
                self.log.event("fresh_start", 0, reason=reason)
            dropped = truncate_after(self.log.metrics, self.progress.step)
            name = found.folder.name if found else None
            self.log.event("start", self.progress.step, checkpoint=name, rows_dropped=dropped, ranks=self.size)
        self.saver = checkpoints.Saver(spec, self.log, found.folder.name if found else None)

    def resume_schedule(self, found: Checkpoint | None) -> ScheduleState:
        """The checkpoint's. What rests on a measurement and was decided after it is not measured again."""
        state = found.schedule() if found else ScheduleState()
        if self.config.schedule.kind != "staged" or state.warmup_steps is not None:
            return state
        box = [recorded_warmup(read_rows(self.work_dir / "events.jsonl"), self.config) if self.rank == 0 else None]
        if self.size > 1:
            dist.broadcast_object_list(box)
        return replay(state, box[0])

    def read_ahead(self) -> Prefetcher:
        """The loader, from where the run stands to its last step."""
        config = self.config
        words = vocabulary(config.model.vocab_size, self.spec.fallback_ids, self.data.read, self.data.num_tokens)
        batches = GuardedBatches(self.data, config, words, self.rank, self.size)
        return Prefetcher(
            batches.load,
            first=self.progress.samples,
            stride=config.global_batch_size,
            stop=self.progress.samples + (config.steps - self.progress.step) * config.global_batch_size,
            depth=config.prefetch_batches,
        )

    def run(self) -> str:
        """Steps until the end or a stop request; returns "finished" or "stopped"."""
        stopping = False
        while self.progress.step < self.config.steps and not stopping:
            stopping = self.step()
            done, step = self.progress.step == self.config.steps, self.progress.step
            if self.config.eval_interval_steps and (done or step % self.config.eval_interval_steps == 0):
                self.validate()
            level = checkpoints.level_at(step, self.config)
            if stopping or level:
                self.save(level or "light", last=stopping or done)
        if self.found is not None and self.found.progress.step == self.progress.step and not self.found.is_plain():
            self.save("archive", last=True)  # what reads the end of a run expects it uncompressed
        return "finished" if self.progress.step >= self.config.steps else "stopped"

    def step(self) -> bool:
        """One optimizer step; returns whether any rank was asked to stop."""
        started = time.perf_counter()
        try:
            batch = self.prefetcher.take(self.progress.samples)
        except BadSampleError as error:
            self.report(error.findings)  # the other ranks only see this one's end
            raise
        self.report(batch.findings)
        lr = learning_rate(self.progress.step, self.config, self.schedule)
        result = self.train_step([torch.from_numpy(micro).long() for micro in batch.tokens], lr)
        loss, stop_votes, load_seconds, saves_failed = self.mean(
            result.loss, float(self.stop.pending()), batch.load_seconds, float(self.saver.poll())
        )
        if saves_failed:
            self.saver.give_up()
        self.check_loss(loss)
        self.note_skipped(result)
        self.advance_schedule(loss, load_seconds)
        self.progress = Progress(
            step=self.progress.step + 1,
            samples=self.progress.samples + self.config.global_batch_size,
            tokens=self.progress.tokens + self.config.tokens_per_step,
            optimizer_step=self.progress.optimizer_step + (not result.skipped),
        )
        seconds = time.perf_counter() - started
        last = self.progress.step == self.config.steps
        if self.log is not None and (last or self.progress.step % self.config.log_interval_steps == 0):
            self.log.row(
                kind="step",
                step=self.progress.step,
                loss=loss,
                grad_norm=result.grad_norm,
                lr=lr,
                skipped=result.skipped,
                **({} if result.loss_scale is None else {"loss_scale": result.loss_scale}),
                samples=self.progress.samples,
                tokens=self.progress.tokens,
                tokens_per_second=self.config.tokens_per_step / seconds,
                seconds=seconds,
                data_wait_seconds=batch.wait_seconds,
                data_load_seconds=load_seconds,
            )
        self.beat()
        return stop_votes > 0

    def train_step(self, batches: Sequence[torch.Tensor], lr: float) -> StepResult:
        try:
            return self.engine.train_step(batches, lr)
        except LossScaleError as error:
            raise TrainingError(
                f"step {self.progress.step + 1}: {error}. The last checkpoint is {self.last_saved_name()}"
            ) from error

    def last_saved_name(self) -> str:
        """Once the save in flight has ended. Collective: only where all ranks fail alike."""
        return self.saver.settle() or "none"

    def note_skipped(self, result: StepResult) -> None:
        """Say why a step moved nothing, and end a run that has stopped to learn. fp16 ends by its loss scale."""
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if result.skipped else 0
        if result.skipped and self.log is not None:
            values = {"grad_norm": str(result.grad_norm), "loss_scale": result.loss_scale}  # JSON has no nan
            self.log.event("skipped_step", self.progress.step + 1, reason="inf or nan in the gradients", **values)
        if result.loss_scale is None and self.skipped_in_a_row >= self.config.max_skipped_steps:
            raise TrainingError(
                f"step {self.progress.step + 1}: {self.skipped_in_a_row} steps in a row had inf or nan in their "
                f"gradients and moved nothing; the last checkpoint is {self.last_saved_name()}. Lower lr, look at the "
                "batches of these steps, or raise max_skipped_steps"
            )

    def report(self, findings: Sequence[dict[str, Any]]) -> None:
        """What the guards found goes into this rank's file, and from rank 0's batches also into the events."""
        for finding in findings:
            append(self.findings, finding)
            if self.log is not None:
                self.log.event("bad_sample", **finding)

    def advance_schedule(self, loss: float, load_seconds: float) -> None:
        """Every rank decides alike, since what it decides from is reduced."""
        step = self.progress.step
        self.schedule, events = advance(self.schedule, self.config, step=step, loss=loss, load_seconds=load_seconds)
        for event in events:
            if self.log is not None:
                self.log.event(EVENT, step + 1, **event)

    def mean(self, *values: float) -> list[float]:
        """The mean of each over the ranks, in fp64 and one reduction."""
        if self.size == 1:
            return list(values)
        held = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(held)
        return [value / self.size for value in held.tolist()]

    def check_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"step {self.progress.step + 1}: the loss is {loss}; the last checkpoint is "
                f"{self.last_saved_name()}. Lower lr, raise warmup_steps, or look at "
                f"samples {self.progress.samples} to {self.progress.samples + self.config.global_batch_size}"
            )
        if self.progress.step == 0 and self.config.check_first_loss:
            expected = math.log(self.config.model.vocab_size)
            if abs(loss / expected - 1) > self.config.first_loss_tolerance:
                raise TrainingError(
                    f"first loss {loss:.4f}: expected ln(vocab_size) = {expected:.4f} within "
                    f"{self.config.first_loss_tolerance:.0%}. Check embedding_init_scale and the token ids, or set "
                    "check_first_loss to false"
                )

    def validate(self) -> None:
        """Mean loss of the first sequences of the validation split; every rank runs as many batches."""
        if self.validation is None:
            return
        size, started = self.config.micro_batch_size, time.perf_counter()
        wanted = self.config.eval_batches * self.config.grad_accum_steps
        passes = min(wanted, self.validation.samples_per_epoch // (size * self.size))
        if passes == 0:
            logger.warning("validation: %d samples, fewer than one pass; skipped", self.validation.samples_per_epoch)
            return
        share = self.validation.batch_at(0, passes * size * self.size, self.rank, self.size, micro_batch_size=size)
        losses = [self.engine.evaluate(torch.from_numpy(micro).long()) for micro in share]
        (loss,) = self.mean(math.fsum(losses) / passes)
        if self.log is not None:
            tokens = passes * size * self.size * self.config.seq_len
            seconds = time.perf_counter() - started
            self.log.row(kind="validation", step=self.progress.step, loss=loss, tokens=tokens, seconds=seconds)
        self.beat()

    def save(self, level: Level, *, last: bool) -> None:
        self.progress = replace(self.progress, optimizer_step=self.engine.optimizer_step())
        self.saver.save(self.engine, self.progress, self.schedule, level, last=last)
        self.beat()

    def beat(self) -> None:
        if self.rank == 0:
            (self.work_dir / HEARTBEAT_FILE).touch()


def train(spec: RunSpec, device: torch.device) -> None:
    trainer = Trainer(spec, device)
    trainer.beat()
    try:
        status = trainer.run()
        step = trainer.progress.step
        name = trainer.saver.finish(step)
    finally:
        trainer.prefetcher.close()
        trainer.saver.close()
    if trainer.log is not None:
        trainer.log.event(status, step)
        trainer.log.close()
        result = {"status": status, "step": step, "checkpoint": name, "run_id": os.environ.get(MARK, "")}
        partial = trainer.work_dir / f".{RESULT_FILE}.partial"
        partial.write_text(json.dumps(result), encoding="utf-8")
        partial.replace(trainer.work_dir / RESULT_FILE)


if __name__ == "__main__":
    main()
