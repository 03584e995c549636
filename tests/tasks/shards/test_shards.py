"""Mix → tokenizer → shards on real text, through the stage runner."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tasks.document import Document, Kept, Origin, document_id
from tasks.shards import stage as shards
from tasks.shards.splits import TRAIN, VALIDATION, ShardsConfig, split_of
from tasks.shards.verify import verify
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store
from tasks.tokenizer import stage as tokenizers
from tasks.tokenizer.model import EOS_ID, Tokenizer
from tasks.tokenizer.train import TokenizerConfig
from training.data import TokenDataset
from training.indexed import IndexedReader

MODULES = {"one": ("json.decoder", "zipfile", "shutil"), "two": ("inspect", "tarfile"), "three": ("argparse", "typing")}


@dataclass(frozen=True, kw_only=True)
class Names:
    names: tuple[str, ...] = ("one", "two")


def write_modules(name: str, config: Names, writer: PartWriter) -> None:
    """Functions of Python's own library, and one empty document."""
    for module in MODULES[name]:
        __import__(module)
        text = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
        for number, function in enumerate(["", *text.split("\n\n")]):
            identity = document_id(module, name, number, function.encode())
            origin = Origin(file=module, record=number, offset=0)
            writer.put(
                Kept(document=Document(id=identity, text=function, source=module, language="code", origin=origin))
            )


def write_all(run: StageRun) -> None:
    names = run.config.names
    run.parts(write_modules, [Part(name=n, step="write", inputs=(n,), payload=n, settings=()) for n in names])


MIX = Stage(name="mix", module="tasks.document", config=Names, inputs=(), run=write_all, summary="")


def pipeline(folder: Path, workers: int = 0, fraction: float = 0.1, names: tuple[str, ...] = ("one", "two")):
    how = {"store": Store(str(folder)), "pipeline": "p", "workers": workers}
    mix = run_stage(MIX, config=Names(names=names), inputs={}, **how).dataset
    config = TokenizerConfig(vocab_size=1000)
    tokenizer = run_stage(tokenizers.STAGE, config=config, inputs={"mix": mix}, **how).dataset
    inputs = {"mix": mix, "tokenizer": tokenizer}
    return (
        mix,
        tokenizer,
        run_stage(shards.STAGE, config=ShardsConfig(validation_fraction=fraction), inputs=inputs, **how).dataset,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Dataset, Dataset, Dataset]:
    return pipeline(tmp_path_factory.mktemp("store"))


def test_every_document_is_in_one_split_and_decodes_to_its_text(made):
    mix, tokenizer, dataset = made
    model = Tokenizer.load(tokenizer.local("tokenizer.model"))
    found = {}
    for entry in dataset.files("artifact"):
        if entry.name.endswith(".parquet"):
            rows = [row for batch in dataset.batches(entry) for row in batch.to_pylist()]
            reader = IndexedReader(dataset.local(entry.name.replace(".parquet", ".idx")).with_suffix(""))
            assert len(reader) == len(rows) == entry.rows
            for index, row in enumerate(rows):
                ids = reader[index]
                assert ids[-1] == EOS_ID and EOS_ID not in ids[:-1]
                assert (row["num_tokens"], row["offset"]) == (len(ids), reader.starts[index])
                found[row["id"]] = (model.decode(ids[:-1]), row["num_bytes"], entry.name.split("/")[0])
    documents = [document for shard in mix.shards for document in mix.documents(shard)]
    config = ShardsConfig(validation_fraction=0.1)
    expected = {d.id: (d.text, len(d.text.encode()), split_of(d.text, config)) for d in documents if d.text}
    assert found == expected


def test_the_account_adds_up_and_names_the_empty_documents(made):
    mix, _, dataset = made
    total = dataset.manifest.account.total()
    texts = [document.text for shard in mix.shards for document in mix.documents(shard)]
    assert total.dropped == {"no_tokens": texts.count("")}
    assert total.read == len(texts)
    facts = dataset.manifest.facts["splits"]
    assert total.kept == facts[TRAIN]["documents"] + facts[VALIDATION]["documents"]
    assert 0.05 < facts[VALIDATION]["documents"] / total.kept < 0.15


def test_the_loader_reads_what_the_stage_wrote_and_names_its_documents(made):
    mix, _, dataset = made
    folder = dataset.local("train/one.bin").parent.parent
    data = TokenDataset.discover(folder, TRAIN, digest=dataset.digest, seq_len=64, seed=3)
    assert data.num_tokens == dataset.manifest.facts["splits"][TRAIN]["tokens"]
    ids = {document.id for shard in mix.shards for document in mix.documents(shard)}
    spans = data.documents_of(5)
    assert {span.id for span in spans} <= ids
    assert all(5 in data.samples_of(span.id) for span in spans)


def test_one_and_two_workers_write_the_same_bytes(made, tmp_path):
    from tasks.spread import shutdown

    try:
        _, tokenizer, dataset = pipeline(tmp_path, workers=2)
    finally:
        shutdown()
    assert (tokenizer.digest, dataset.digest) == (made[1].digest, made[2].digest)


def test_a_flipped_byte_is_found_and_its_document_named(made, tmp_path):
    dataset = pipeline(tmp_path)[2]
    assert verify(dataset) == []
    path = dataset.local("train/two.bin")
    reader = IndexedReader(path.with_suffix(""))
    data = bytearray(path.read_bytes())
    data[4 * int(reader.starts[7])] ^= 1
    path.write_bytes(data)
    [fault] = verify(dataset)
    rows = next(dataset.batches("train/two.parquet")).to_pylist()
    assert (fault.file, fault.documents) == ("train/two.bin", (rows[7]["id"],))
    assert "manifest says SHA-256" in str(fault)


def test_the_split_is_stable_and_follows_the_text():
    few, more = ShardsConfig(validation_fraction=0.1), ShardsConfig(validation_fraction=0.3)
    texts = [f"document {i}" for i in range(2000)]
    first, second = ({t for t in texts if split_of(t, c) == VALIDATION} for c in (few, more))
    assert first < second
    assert np.isclose(len(first) / 2000, 0.1, atol=0.03)


def test_a_corpus_that_leaves_nothing_to_train_on_is_an_error():
    nothing = {TRAIN: {"documents": 0}, VALIDATION: {"documents": 3}}
    with pytest.raises(ValueError, match="3 went to validation"):
        shards.check_splits(nothing, ShardsConfig())
    with pytest.raises(ValueError, match="validation_fraction: expected 0 to below 1"):
        ShardsConfig(validation_fraction=1.0)
