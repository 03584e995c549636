"""The command line as a script sees it, a small pipeline that has run once, and copies of its store to try things on.

The inputs are the bundled sample without the Python environment, so that they are the same everywhere: every form,
ten languages, one of each fault. The model is tiny and trains in one process, since launching is tested elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "DANLU_TEST_MARK"
FOLDERS = ("plain", "notes", "pages", "crawl", "records", "code", "duplicates", "broken")
RECIPE = """
name: tiny
ingest:
  max_record_bytes: 2097152
  sources:
    - {name: text, path: "${recipe}/inputs", include: ["plain/**", "notes/**"], priority: 2, licence: CC0-1.0}
    - {name: web, path: "${recipe}/inputs", include: ["pages/**", "crawl/**"], licence: CC0-1.0}
    - {name: rest, path: "${recipe}/inputs", exclude: ["plain/**", "notes/**", "pages/**", "crawl/**"]}
semantic_dedup: {enabled: false}
tokenizer: {vocab_size: 3000, hard_vocab_limit: false, sample_chars: 200000}
shards: {validation_fraction: 0.06}
train:
  backend: torch
  world_size: 1
  steps: 10
  seq_len: 64
  global_batch_size: 4
  micro_batch_size: 4
  warmup_steps: 2
  checkpoint_interval_steps: 4
  eval_interval_steps: 5
  eval_batches: 1
  model: {hidden_size: 32, num_layers: 1, num_heads: 2, num_kv_heads: 1, intermediate_size: 64, max_seq_len: 64}
"""


@dataclass
class Answer:
    """What one call of `danlu` said."""

    code: int
    out: str
    err: str
    mark: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def digests(self) -> dict[str, str]:
        return {row["name"]: row["digest"] for row in self.rows}

    @property
    def ran(self) -> list[str]:
        return [row["name"] for row in self.rows if row["status"] == "run"]


@dataclass
class Danlu:
    """Calls `danlu` in a process of its own."""

    folder: Path  # where it is called from, and its home
    tree: Path = ROOT  # the source it runs
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *args: str | Path, **environment: str) -> tuple[subprocess.Popen[str], str]:
        """The process and the mark that it and all its descendants carry in their environment."""
        mark = uuid.uuid4().hex
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "RAY_", "DANLU_"))}
        own = {"PYTHONPATH": str(self.tree), "PREFECT_HOME": str(self.folder / "prefect"), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *map(str, args)],
            cwd=self.folder,
            env=clean | own | self.environment | {MARK: mark} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return process, mark

    def __call__(self, *args: str | Path, code: int = 0, **environment: str) -> Answer:
        process, mark = self.start(*args, **environment)
        try:
            out, err = process.communicate(timeout=280)
        except BaseException:
            process.kill()
            raise
        assert process.returncode == code, f"exit code {process.returncode}\n{out[-2000:]}\n{err[-4000:]}"
        return Answer(process.returncode, out, err, mark)


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry a mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def survivors(mark: str, seconds: float) -> list[str]:
    """The command lines of marked processes that are still there after `seconds`."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [" ".join(process.cmdline())[:120] for process in left if process.is_running()]


def copy_of(store: Path, target: Path, without: tuple[str, ...] = ()) -> Path:
    """A store of the same files (hard links: the store never writes into a file), without some stages."""
    shutil.copytree(store, target, copy_function=os.link, ignore=shutil.ignore_patterns("work"))
    for stage in without:
        for folder in ("datasets", "parts"):
            shutil.rmtree(target / folder / stage, ignore_errors=True)
        for reference in target.glob(f"refs/*/{stage}.json"):
            reference.unlink()
    return target


@dataclass
class Finished:
    """A pipeline that ran whole."""

    folder: Path
    answer: Answer

    @property
    def recipe(self) -> Path:
        return self.folder / "recipe.yaml"

    @property
    def store(self) -> Path:
        return self.folder / "store"


def lay_out(folder: Path) -> Path:
    """Recipe and inputs in `folder`."""
    for name in FOLDERS:
        shutil.copytree(ROOT / "recipes" / "sample" / name, folder / "inputs" / name)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture
def danlu(tmp_path: Path) -> Danlu:
    return Danlu(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Run once, with one Ray worker; tests work on copies of its store."""
    folder = lay_out(tmp_path_factory.mktemp("finished"))
    answer = Danlu(folder)("run", "--config", "recipe.yaml", "--store", "store", "--workers", "1", "--json")
    return Finished(folder, answer)


@pytest.fixture(scope="session")
def kit() -> Any:
    """The helpers above, for tests (a conftest is no module to import)."""
    return sys.modules[__name__]
