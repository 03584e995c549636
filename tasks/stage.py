"""What a stage is, and how one runs: key, cache, parts, account, manifest.

    run_stage      equal key: return at once, `cached`; else run the stage into the folder its key names
    StageRun       what a stage's `run` is given: config, inputs, output, and `parts` to spread work
    PartWriter     what a part writes through (part_writer.py)

Work is cut into parts; each has a content key of its own, and its finished files are recorded under
`parts/<stage>/`. So a killed run resumes at the parts it lacks, and a dataset whose inputs grew by one shard links
what it shares with the old one and computes the rest. Worker count and arrival order never reach the bytes: a part
is a pure function of its inputs, and files are named and ordered by part.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import logging
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tasks.document import Outcome
from tasks.part_writer import PartWriter as PartWriter  # re-exported: what a stage's functions are given
from tasks.settings import key_settings, to_dict
from tasks.spread import shutdown, spread
from tasks.store import manifest as manifests
from tasks.store.account import Account, AccountError
from tasks.store.dataset import Dataset, current, dataset_folder, set_current
from tasks.store.filesystem import Store, digest_of
from tasks.store.keys import content_key, difference
from tasks.store.manifest import FileEntry, Manifest

log = logging.getLogger(__name__)


class Progress(Protocol):
    """Told how far a stage is: `done` of `total` (parts, steps), and a short note."""

    def __call__(self, stage: str, done: float, total: float, note: str) -> None: ...


def silent(stage: str, done: float, total: float, note: str) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the pipeline."""

    name: str
    module: str  # where its code version begins
    config: type  # the dataclass of its settings
    inputs: tuple[str, ...]  # the stages whose datasets it reads
    run: Callable[[StageRun], None]
    summary: str  # one line for --help and the Prefect UI
    also: tuple[str, ...] = ()  # modules that it runs in another process, where no import shows them
    raw_inputs: Callable[[Any], dict[str, str]] | None = None  # config -> digests of files from outside the store
    optional_inputs: tuple[str, ...] = ()  # read when they are there
    beside: Callable[[Mapping[str, Dataset]], dict[str, str]] | None = None  # digests of more that it reads
    ends_workers: bool = False  # wants the machine's memory: the Ray session ends before it runs


@dataclass(frozen=True, kw_only=True)
class Part:
    """One unit of work."""

    name: str  # stem of the files it writes; unique within the stage and step
    step: str  # which kind of part of the stage
    inputs: tuple[str, ...]  # digests of all it is a function of, beside config and code
    payload: Any  # picklable and small
    settings: Any = None  # the part of the config that it depends on; None: all of it
    size: int = 0  # about, in bytes: the largest start first, so that all workers end together


@dataclass(kw_only=True)
class PartResult:
    """What a finished part left."""

    name: str
    files: list[FileEntry]
    account: Account
    result: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """What `run_stage` did."""

    dataset: Dataset
    cached: bool
    seconds: float
    why: list[str]  # what changed since the dataset that was current before; empty when cached


@dataclass(kw_only=True)
class DatasetBuilder:
    """The dataset that a running stage fills."""

    store: Store
    folder: str
    files: dict[str, FileEntry] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    facts: dict[str, Any] = field(default_factory=dict)

    def add_file(self, name: str, data: bytes | Path, role: str = "artifact", rows: int = 0) -> FileEntry:
        """Add a file from the driver; role "log" for what may differ from run to run."""
        writer = PartWriter(self.store, self.folder, name)
        writer.file(name, data, role, rows)
        self.files[name] = writer.files[0]
        return writer.files[0]


class StageRun:
    """What a stage's `run` works with."""

    def __init__(
        self,
        *,
        stage: Stage,
        store: Store,
        key: str,
        config: Any,
        inputs: dict[str, Dataset],
        workers: int,
        progress: Progress,
        code_digest: str,
        scratch: Path,
    ):
        self.stage, self.store, self.key, self.config, self.inputs = stage, store, key, config, inputs
        self.workers, self._progress, self._code_digest, self._scratch = workers, progress, code_digest, scratch
        self.output = DatasetBuilder(store=store, folder=dataset_folder(stage.name, key))

    @property
    def input(self) -> Dataset:
        """The only input, or the first."""
        return self.inputs[self.stage.inputs[0]]

    def progress(self, done: float, total: float, note: str = "") -> None:
        self._progress(self.stage.name, done, total, note)

    def scratch(self) -> Path:
        """A fresh local folder, removed when the stage ends."""
        return Path(tempfile.mkdtemp(dir=self._scratch))

    def work_dir(self) -> Path:
        """A local folder that outlives a kill: the same for every run of this key."""
        name = f"work/{self.stage.name}/{self.key[:32]}"
        cache = Path("~/.cache/danlu").expanduser() / digest_of(self.store.url)[:16]
        folder = Path(self.store.path(name)) if self.store.is_local else cache / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def parts(
        self, function: Callable[[Any, Any, PartWriter], dict[str, Any] | None], parts: Sequence[Part]
    ) -> list[PartResult]:
        """Run `function(payload, config, writer)` for each part that is not done yet; results in the order of `parts`.

        Files and accounts of the parts join the output.
        """
        results: dict[int, PartResult] = {}
        keys = [self._part_key(part) for part in parts]
        sizes: dict[str, dict[str, int]] = {}  # one listing a folder, not one a part
        for index, part in enumerate(parts):
            if record := self._done_part(keys[index], sizes):
                results[index] = _result(part.name, record)
        pending = sorted((index for index in range(len(parts)) if index not in results), key=lambda i: -parts[i].size)
        calls = [
            _Call(
                store_url=self.store.url,
                folder=self.output.folder,
                record=self._part_record(keys[index]),
                part=parts[index],
                config=self.config,
                function=function,
            )
            for index in pending
        ]
        documents = sum(r.account.total().read for r in results.values())
        self.progress(len(results), len(parts), f"{documents:,} documents")
        for position, record in spread(_run_part, calls, self.workers):
            index = pending[position]
            results[index] = _result(parts[index].name, record)
            documents += results[index].account.total().read
            self.progress(len(results), len(parts), f"{documents:,} documents")
        ordered = [results[index] for index in range(len(parts))]
        for result in ordered:
            self.output.files.update((entry.name, entry) for entry in result.files)
            self.output.account.merge(result.account)
        return ordered

    def shard_parts(self, step: str, settings: Any = None, inputs: tuple[str, ...] = (), **payload: Any) -> list[Part]:
        """A part for each shard of the input, whose payload is `dataset` (a reference), `shard` (a name) and `payload`.

        `settings` is what of the config the step depends on, and of `payload` what decides the bytes; None: the config.
        `inputs` are digests of what else it reads.
        """
        work = {"dataset": self.input.reference(), **payload}
        return [
            Part(
                name=shard.stem,
                step=step,
                inputs=(shard.sha256, *inputs),
                payload={**work, "shard": shard.name},
                settings=settings,
                size=shard.bytes,
            )
            for shard in self.input.shards
        ]

    def map_shards(
        self, process: Callable[..., Iterator[Outcome]], payloads: Mapping[str, Any] | None = None
    ) -> list[PartResult]:
        """Run `process(documents, config)` over every shard of the input, or `process(documents, config, payload)`
        with the payload of that shard's stem; exactly one outcome per document, in order."""
        dataset = self.input
        parts = []
        for shard in dataset.shards:
            payload = None if payloads is None else payloads.get(shard.stem)
            inputs = (shard.sha256,) if payloads is None else (shard.sha256, _payload_digest(payload))
            work = _ShardWork(dataset.reference(), shard.name, process, payloads is not None, payload)
            parts.append(Part(name=shard.stem, step="map", inputs=inputs, payload=work, size=shard.bytes))
        return self.parts(_map_shard, parts)

    def _part_key(self, part: Part) -> str:
        settings = key_settings(self.config if part.settings is None else part.settings)
        return digest_of([self.stage.name, part.step, part.name, list(part.inputs), settings, self._code_digest])

    def _part_record(self, key: str) -> str:
        return f"parts/{self.stage.name}/{key[:2]}/{key}.json"

    def _done_part(self, key: str, sizes: dict[str, dict[str, int]]) -> dict[str, Any] | None:
        """The record of a part that is done, its files linked into this output; None when there is work to do."""
        name = self._part_record(key)
        if not self.store.exists(name):
            return None
        record = self.store.read_json(name)
        folder = record["folder"]
        if folder not in sizes:
            sizes[folder] = self.store.sizes(folder)
        if any(sizes[folder].get(f["name"]) != f["bytes"] for f in record["files"]):
            return None  # its dataset was collected or damaged
        if folder != self.output.folder:
            for entry in record["files"]:
                self.store.copy(f"{folder}/{entry['name']}", f"{self.output.folder}/{entry['name']}")
            record["folder"] = self.output.folder
            self.store.write_json(name, record)
        return record


def map_stage(
    *,
    name: str,
    module: str,
    config: type,
    input: str,
    process: Callable[..., Iterator[Outcome]],
    summary: str,
    **more: Any,
) -> Stage:
    """A stage that answers each document of `input` on its own: `process(documents, config)` yields an outcome each."""

    def run(run: StageRun) -> None:
        run.map_shards(process)

    return Stage(name=name, module=module, config=config, inputs=(input,), run=run, summary=summary, **more)


def stage_key(stage: Stage, config: Any, inputs: Mapping[str, Dataset]) -> tuple[str, dict[str, Any]]:
    """The content key that `stage` would have, and its parts."""
    raw_inputs = {
        **(stage.raw_inputs(config) if stage.raw_inputs else {}),
        **(stage.beside(inputs) if stage.beside else {}),
    }
    return content_key(
        stage=stage.name,
        modules=(stage.module, *stage.also),
        config=key_settings(config),
        inputs={name: dataset.digest for name, dataset in inputs.items()},
        raw_inputs=raw_inputs or None,
    )


def run_stage(
    stage: Stage,
    *,
    store: Store,
    pipeline: str,
    config: Any,
    inputs: dict[str, Dataset],
    workers: int,
    progress: Progress = silent,
) -> StageResult:
    """Make the stage's dataset, or find it; it becomes the current one of `pipeline`.

    Raises AccountError when its account does not add up, and whatever the stage raises; what is done so far stays
    and is not done again.
    """
    started = time.monotonic()
    key, key_parts = stage_key(stage, config, inputs)
    found = Dataset.find(store, stage.name, key)
    if found and not (gone := found.missing()):
        set_current(store, pipeline, found)
        return StageResult(dataset=found, cached=True, seconds=time.monotonic() - started, why=[])
    if found:
        why = [f"files of the finished dataset are missing or cut: {', '.join(gone[:3])}"]
        store.remove(f"{found.folder}/{manifests.NAME}")
    else:
        why = why_rerun(current(store, pipeline, stage.name), key_parts)
    log.info("%s: runs because %s", stage.name, "; ".join(why))
    if stage.ends_workers:
        shutdown()
    code_digest = digest_of([key_parts["format"], key_parts["code"], key_parts["libraries"]])
    with tempfile.TemporaryDirectory(prefix="danlu-") as scratch:
        run = StageRun(
            stage=stage,
            store=store,
            key=key,
            config=config,
            inputs=inputs,
            workers=workers,
            progress=progress,
            code_digest=code_digest,
            scratch=Path(scratch),
        )
        stage.run(run)
    dataset = _finish(run, key_parts, started)
    set_current(store, pipeline, dataset)
    return StageResult(dataset=dataset, cached=False, seconds=time.monotonic() - started, why=why)


def why_rerun(previous: Dataset | None, key_parts: Mapping[str, Any]) -> list[str]:
    """What differs from the dataset that was current before, a line each."""
    if previous is None:
        return ["it has not run before in this store under this name"]
    return difference(previous.manifest.key_parts, key_parts) or ["nothing changed; its dataset is gone"]


def _finish(run: StageRun, key_parts: dict[str, Any], started: float) -> Dataset:
    """Check the account, write the manifest, return the dataset."""
    account, stage = run.output.account, run.stage
    account.check(stage.name)
    if account.rows and stage.inputs:
        account.check_follows(stage.name, run.input.stage, run.input.manifest.account)
    elif stage.inputs and run.input.shards and any(f.role == "shard" for f in run.output.files.values()):
        raise AccountError(f"stage {stage.name!r} kept documents but counted none")
    manifest = Manifest(
        stage=stage.name,
        key=run.key,
        key_parts=key_parts,
        config=to_dict(run.config),
        inputs={name: {"key": d.key, "digest": d.digest} for name, d in run.inputs.items()},
        files=sorted(run.output.files.values(), key=lambda f: f.name),
        account=account,
        facts=run.output.facts,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    run.store.sweep(run.output.folder)
    run.store.write_json(f"{run.output.folder}/{manifests.NAME}", manifest.to_json())
    return Dataset(run.store, run.output.folder, manifest)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A part, with all that a worker in another process needs for it."""

    store_url: str
    folder: str
    record: str
    part: Part
    config: Any
    function: Callable[..., Any]

    def __repr__(self) -> str:  # named in the error when a worker dies on it
        return f"part {self.part.name!r} (step {self.part.step!r}) of {self.folder}"


@dataclass(frozen=True)
class _ShardWork:
    dataset: dict[str, str]
    shard: str
    process: Callable[..., Iterator[Outcome]]
    has_payload: bool
    payload: Any


def _run_part(call: _Call) -> dict[str, Any]:
    """In a worker: run one part, publish its files, then its record."""
    store = Store(call.store_url)
    writer = PartWriter(store, call.folder, call.part.name)
    try:
        result = call.function(call.part.payload, call.config, writer)
        writer.finish()
    finally:
        writer.abandon()
    record = {
        "folder": call.folder,
        "files": [dataclasses.asdict(entry) for entry in writer.files],
        "account": writer.account.to_rows(),
        "result": result or {},
    }
    store.write_json(call.record, record)
    return record


def _map_shard(work: _ShardWork, config: Any, writer: PartWriter) -> None:
    """One shard through a `process`, checking that every document read is answered once."""
    dataset = Dataset.load(work.dataset)
    read: Counter[str] = Counter()

    def reading() -> Iterator[Any]:
        for document in dataset.documents(work.shard):
            read[document.source] += 1
            yield document

    outcomes = work.process(reading(), config, work.payload) if work.has_payload else work.process(reading(), config)
    for outcome in outcomes:
        writer.put(outcome)
    answered = {source: counts.read for source, counts in writer.account.by_source().items()}
    if answered != dict(read):
        raise AccountError(f"{work.shard}: read {dict(read)} documents by source, answered {answered}")


def _payload_digest(payload: Any) -> str:
    try:
        return digest_of(payload)
    except TypeError:
        return hashlib.sha256(pickle.dumps(payload, protocol=4)).hexdigest()


def _result(name: str, record: dict[str, Any]) -> PartResult:
    return PartResult(
        name=name,
        files=[FileEntry(**entry) for entry in record["files"]],
        account=Account.from_rows(record["account"]),
        result=record["result"],
    )
