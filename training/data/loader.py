"""The batches of one rank, read ahead by a thread and judged before they reach the model.

The thread fills a bounded queue with the steps that come next; what training then waits for is measured. Since a batch
is a function of the samples consumed, nothing of the queue has to be saved: after a restart it is filled again.

Guards (training/guards.py) look at every sample. A finding is reported with the documents behind its tokens; by
policy the sample is also replaced, by one of the same component half an epoch away, so that no cursor moves and every
rank and every resume replaces it alike. To leave documents out for good, name them in `train.data.skip`.

in    TokenDataset, TrainConfig, rank
out   Batch
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from training.data.dataset import TokenDataset, rank_indices
from training.data.files import DataError
from training.guards import Finding, GuardConfig, Vocabulary, check

MAX_TRIES = 64  # replacements looked at before a component is taken to be bad as a whole
POLL_SECONDS = 0.1


class BadSampleError(DataError):
    """A sample that no policy lets pass: it would crash the lookup, or the policy is to stop."""

    def __init__(self, message: str, findings: Sequence[dict[str, Any]] = ()):
        super().__init__(message)
        self.findings = list(findings)


@dataclass(frozen=True, slots=True)
class Batch:
    """One rank's part of a step."""

    tokens: np.ndarray  # int32[grad_accum_steps, micro_batch_size, seq_len + 1]
    findings: list[dict[str, Any]] = field(default_factory=list)
    wait_seconds: float = 0.0  # that training stood still for it
    load_seconds: float = 0.0  # that reading and judging it took


class BatchSettings(Protocol):
    """What of TrainConfig is needed here."""

    @property
    def global_batch_size(self) -> int: ...
    @property
    def micro_batch_size(self) -> int: ...
    @property
    def guards(self) -> GuardConfig: ...
    @property
    def bad_samples(self) -> str: ...


class GuardedBatches:
    """`load(consumed)`: the rank's batch of the step that begins after `consumed` samples."""

    def __init__(self, data: TokenDataset, config: BatchSettings, words: Vocabulary, rank: int, world_size: int):
        self.data, self.config, self.words, self.rank, self.world_size = data, config, words, rank, world_size

    def load(self, consumed: int) -> Batch:
        config, started = self.config, time.perf_counter()
        indices = rank_indices(consumed, config.global_batch_size, self.rank, self.world_size, config.micro_batch_size)
        flat = indices.reshape(-1)
        tokens = self.data.samples(flat)
        found = check(tokens, config.guards, self.words)
        step = consumed // config.global_batch_size + 1
        reports = [self.report(finding, int(flat[finding.sample]), step) for finding in found]
        fatal = [r for r in reports if config.bad_samples == "stop" or r["reason"] == "out_of_range"]
        if fatal and config.bad_samples != "replace":
            stopped = [report | {"action": "stopped"} if report in fatal else report for report in reports]
            raise BadSampleError(describe(fatal[0]), stopped)
        if config.bad_samples == "replace":
            for row in sorted({finding.sample for finding in found}):
                tokens[row] = self.replacement(int(flat[row]))
        seconds = time.perf_counter() - started
        return Batch(tokens.reshape(*indices.shape, -1), reports, load_seconds=seconds)

    def report(self, finding: Finding, index: int, step: int) -> dict[str, Any]:
        """The finding with the documents that hold its tokens."""
        documents, done = [], 0
        for span in self.data.documents_of(index):
            length = span.stop - span.start
            if done < finding.stop and done + length > finding.start:
                documents.append({"id": span.id, "source": span.source, "language": span.language})
            done += length
        return {
            "step": step,
            "sample": index,
            "component": self.data.component_of(index),
            "reason": finding.reason,
            "value": finding.value,
            "threshold": finding.threshold,
            "tokens": [finding.start, finding.stop],
            "documents": documents,
            "action": {"report": "reported", "replace": "replaced"}.get(self.config.bad_samples, "stopped"),
        }

    def replacement(self, index: int) -> np.ndarray:
        """int32[seq_len + 1] that passes the guards. Raises BadSampleError when many in a row do not."""
        for attempt in range(MAX_TRIES):
            tokens = self.data.substitute(index, attempt)
            if not check(tokens[None], self.config.guards, self.words):
                return tokens
        raise BadSampleError(
            f"sample {index} of component {self.data.component_of(index)!r}: the guards refuse it and "
            f"{MAX_TRIES} others in its place; loosen train.guards, or give the component the share 0"
        )


def describe(report: dict[str, Any]) -> str:
    named = ", ".join(f"{d['id']} ({d['source']})" for d in report["documents"])
    return (
        f"step {report['step']}, sample {report['sample']}: {report['reason']} {report['value']:g} beyond "
        f"{report['threshold']:g} in documents {named}. Name them in train.data.skip, set train.bad_samples to "
        "replace, or loosen train.guards"
    )


class Prefetcher:
    """Runs `load` ahead of its reader, for the positions first, first + stride, … below `stop`."""

    def __init__(self, load: Callable[[int], Batch], *, first: int, stride: int, stop: int, depth: int):
        """`depth` batches are kept ready; 0 reads each when it is asked for."""
        self.load, self.positions, self.depth = load, range(first, stop, stride), depth
        self.queue: queue.Queue[tuple[int, Batch | BaseException]] = queue.Queue(maxsize=max(depth, 1))
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.run, name="prefetch", daemon=True)
        if depth:
            self.thread.start()

    def run(self) -> None:
        for position in self.positions:
            try:
                item: Batch | BaseException = self.load(position)
            except BaseException as error:  # raised where the batch is asked for, in the reader's thread
                item = error
            if not self.put(position, item) or isinstance(item, BaseException):
                return

    def put(self, position: int, item: Batch | BaseException) -> bool:
        while not self.closed.is_set():
            try:
                self.queue.put((position, item), timeout=POLL_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def take(self, position: int) -> Batch:
        """The batch of `position`, which must be the next one. Raises what loading it raised."""
        started = time.perf_counter()
        if not self.depth:
            item: Batch | BaseException = self.load(position)
        else:
            found, item = self.queue.get()
            assert found == position, f"the loader is at {found}, training at {position}"
        if isinstance(item, BaseException):
            raise item
        return replace(item, wait_seconds=time.perf_counter() - started)

    def close(self) -> None:
        """End the thread; what it has ready is dropped."""
        self.closed.set()
        if self.depth:
            self.thread.join()
