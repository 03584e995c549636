"""One run of the pipeline: opens the store, runs stages in order, remembers what it was asked.

Shared by the command line and the Prefect flows. It knows neither: both watch through `Watcher`.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flows.config import PipelineConfig, load_config, to_yaml
from tasks import spread
from tasks.dedup.forgotten import forgotten
from tasks.stage import Stage, StageResult, run_stage, stage_key, why_rerun
from tasks.store.dataset import Dataset, current
from tasks.store.filesystem import Store

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Sees what happens: the terminal's progress bars, Prefect's artifacts."""

    def stage_started(self, stage: Stage) -> None: ...
    def progress(self, stage: str, done: float, total: float, note: str) -> None: ...
    def stage_finished(self, stage: Stage, result: StageResult) -> None: ...


class MissingInput(ValueError):
    """A stage was asked to run alone before the one it reads."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run is asked for; saved in the store, so that `danlu resume` can ask again."""

    store: str
    recipe: str | None = None
    inputs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    until: str | None = None
    workers: int | None = None
    name: str | None = None

    def anywhere(self) -> Request:
        """The same request with absolute paths: `danlu resume` may be called from another folder."""
        return dataclasses.replace(
            self,
            recipe=absolute(self.recipe) if self.recipe else None,
            inputs=tuple(absolute(path) for path in self.inputs),
        )

    def command(self) -> str:
        """The shell command that asks for the same."""
        words = ["danlu", "run"]
        words += [w for path in self.inputs for w in ("--input", path)]
        words += ["--config", self.recipe] if self.recipe else []
        words += ["--store", self.store]
        words += [w for setting in self.settings for w in ("--set", setting)]
        words += ["--until", self.until] if self.until else []
        return shlex.join(words)


def absolute(path: str) -> str:
    """A local path made absolute; a URL as it is."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def default_workers() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0))


class Run:
    """The stages of one request, each made or found once."""

    def __init__(self, request: Request, watcher: Watcher):
        self.request, self.watcher = request, watcher
        config = load_config(request.recipe, settings=request.settings, inputs=request.inputs, name=request.name)
        told = dataclasses.replace(config.report, command=config.report.command or request.command())
        self.store = Store(request.store)
        withdrawn = sorted({*config.exact_dedup.forgotten, *forgotten(self.store)})  # by `danlu forget`
        exact = dataclasses.replace(config.exact_dedup, forgotten=tuple(withdrawn))
        self.config: PipelineConfig = dataclasses.replace(config, report=told, exact_dedup=exact)
        self.workers = default_workers() if request.workers is None else request.workers
        self.results: dict[str, StageResult] = {}

    def remember(self) -> None:
        """Save the request and the resolved settings as the pipeline's latest."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {
            "request": dataclasses.asdict(self.request.anywhere()),
            "at": now,
            "host": platform.node(),
            "python": sys.version,
        }
        self.store.write_json(f"runs/{self.config.name}/latest.json", record)
        self.store.write(f"runs/{self.config.name}/latest.yaml", to_yaml(self.config).encode())

    def inputs(self, stage: Stage) -> dict[str, Dataset]:
        """The datasets a stage reads: of this run, else the current ones. Raises MissingInput."""
        found: dict[str, Dataset] = {}
        for name in (*stage.inputs, *stage.optional_inputs):
            dataset = (
                self.results[name].dataset if name in self.results else current(self.store, self.config.name, name)
            )
            if dataset is not None:
                found[name] = dataset
            elif name in stage.inputs:
                raise MissingInput(
                    f"stage {stage.name!r} reads {name!r}, and store {self.store.url} has no {name!r} dataset of "
                    f"pipeline {self.config.name!r}. First run `danlu run --until {name}`."
                )
        return found

    def step(self, stage: Stage) -> StageResult:
        """Run one stage on its inputs."""
        inputs = self.inputs(stage)
        self.watcher.stage_started(stage)
        result = run_stage(
            stage,
            store=self.store,
            pipeline=self.config.name,
            config=getattr(self.config, stage.name),
            inputs=inputs,
            workers=self.workers,
            progress=self.watcher.progress,
        )
        self.results[stage.name] = result
        self.watcher.stage_finished(stage, result)
        return result

    def why(self, stages: Sequence[Stage], name: str) -> dict[str, list[str]]:
        """For stage `name` and those before it: what would make it run; an empty list where nothing would."""
        reasons: dict[str, list[str]] = {}
        for stage in stages:
            inputs = self.inputs(stage)
            key, parts = stage_key(stage, getattr(self.config, stage.name), inputs)
            found = Dataset.find(self.store, stage.name, key)
            previous = current(self.store, self.config.name, stage.name)
            reasons[stage.name] = [] if found and not found.missing() else why_rerun(previous, parts)
            if stage.name == name:
                break
        return reasons

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: Any) -> None:
        spread.shutdown()


def upto(stages: Sequence[Stage], until: str | None) -> list[Stage]:
    """The stages up to and with `until`. Raises ValueError for a name that is none."""
    if until is None:
        return list(stages)
    name = stage_name(stages, until)
    return list(stages[: [s.name for s in stages].index(name) + 1])


def stage_name(stages: Sequence[Stage], given: str) -> str:
    """The stage meant by `given`: `minhash-dedup`, `minhash dedup` and `minhash` mean `minhash_dedup`."""
    names = [stage.name for stage in stages]
    plain = given.strip().lower().replace("-", "_").replace(" ", "_")
    for candidate in (plain, f"{plain}_dedup"):
        if candidate in names:
            return candidate
    raise ValueError(f"no stage {given!r}; the stages are: {', '.join(names)}")
