"""A mix of real text, a tokenizer fitted to it, and the shards stage run on them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.document import Document, Kept, Origin, document_id
from tasks.shards import stage as shards
from tasks.shards.splits import ShardsConfig
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store
from tasks.tokenizer import stage as tokenizers

MODULES = {
    "one": ("json.decoder", "zipfile", "shutil"),
    "two": ("inspect", "tarfile"),
    "three": ("argparse", "typing"),
    "four": ("ast",),
}
Documents = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # shard -> (source, text) …


@dataclass(frozen=True, kw_only=True)
class Given:
    documents: Documents


def write_shard(payload: tuple[str, tuple[tuple[str, str], ...]], config: Given, writer: PartWriter) -> None:
    name, documents = payload
    for number, (source, text) in enumerate(documents):
        identity = document_id(source, name, number, text.encode())
        origin = Origin(file=source, record=number, offset=0)
        writer.put(Kept(document=Document(id=identity, text=text, source=source, language="code", origin=origin)))


def write_all(run: StageRun) -> None:
    run.parts(
        write_shard,
        [Part(name=d[0], step="write", inputs=(repr(d),), payload=d, settings=()) for d in run.config.documents],
    )


MIX = Stage(name="mix", module="tasks.document", config=Given, inputs=(), run=write_all, summary="")


def functions() -> Documents:
    """Functions of Python's own library, and one empty document a shard."""
    found = []
    for name, modules in MODULES.items():
        documents = [(name, "")]
        for module in modules:
            __import__(module)
            text = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
            documents += [(module, function) for function in text.split("\n\n")]
        found.append((name, tuple(documents)))
    return tuple(found)


@pytest.fixture(scope="session")
def mix_of() -> Callable[[Path, Documents], Dataset]:
    """The mix dataset of given documents in the store of a folder."""

    def make(folder: Path, documents: Documents) -> Dataset:
        how = {"store": Store(str(folder)), "pipeline": "p", "workers": 0}
        return run_stage(MIX, config=Given(documents=documents), inputs={}, **how).dataset

    return make


@pytest.fixture(scope="session")
def given(mix_of, tmp_path_factory) -> dict[str, Dataset]:
    """Mix and tokenizer."""
    folder = tmp_path_factory.mktemp("given")
    mix = mix_of(folder, functions())
    how = {"store": Store(str(folder)), "pipeline": "p", "workers": 0}
    config = tokenizers.STAGE.config(vocab_size=1000)
    return {"mix": mix, "tokenizer": run_stage(tokenizers.STAGE, config=config, inputs={"mix": mix}, **how).dataset}


@pytest.fixture(scope="session")
def shard() -> Callable[..., Dataset]:
    """The shards stage on given inputs, in a store of its own."""

    def run(folder: Path, inputs: dict[str, Dataset], workers: int = 0, **settings) -> Dataset:
        config = ShardsConfig(**{"validation_fraction": 0.1, **settings})
        how = {"store": Store(str(folder)), "pipeline": "p", "workers": workers}
        return run_stage(shards.STAGE, config=config, inputs=inputs, **how).dataset

    return run


@pytest.fixture(scope="session")
def made(given, shard, tmp_path_factory) -> Dataset:
    """The shards of `given`."""
    return shard(tmp_path_factory.mktemp("made"), given)
