"""A damaged byte is found, and the file and the documents it belongs to are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tasks.shards.verify import verify
from training.indexed import IndexedReader


@pytest.fixture
def dataset(given, shard, tmp_path):
    return shard(tmp_path, given)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def ids(dataset, stem: str) -> list[str]:
    return [row["id"] for batch in dataset.batches(f"{stem}.parquet") for row in batch.to_pylist()]


def test_a_whole_dataset_has_no_fault(dataset):
    assert verify(dataset) == []


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_flipped_byte_of_the_tokens_names_the_shard_and_the_document(dataset, where):
    path = dataset.local("train/two.bin")
    reader = IndexedReader(path.with_suffix(""))
    row = {"first": 0, "middle": 7, "last": len(reader) - 1}[where]
    flip(path, 4 * int(reader.starts[row]) + 2)
    [fault] = verify(dataset)
    assert (fault.file, fault.documents) == ("train/two.bin", (ids(dataset, "train/two")[row],))
    assert "manifest says SHA-256" in str(fault)


def test_a_flipped_byte_of_the_index_names_the_document(dataset):
    flip(dataset.local("train/one.idx"), 34 + 4 * 5)
    [fault] = verify(dataset)
    assert (fault.file, fault.documents) == ("train/one.idx", (ids(dataset, "train/one")[5],))


def test_a_cut_off_file_names_what_it_lacks(dataset):
    path = dataset.local("train/one.bin")
    path.write_bytes(path.read_bytes()[:-4])
    [fault] = verify(dataset)
    assert fault.documents == (ids(dataset, "train/one")[-1],)


def test_a_damaged_sidecar_is_said_to_be_why_no_document_is_named(dataset):
    flip(dataset.local("train/one.bin"), 0)
    flip(dataset.local("train/one.parquet"), 50)
    faults = {fault.file: fault for fault in verify(dataset)}
    assert faults.keys() == {"train/one.bin", "train/one.parquet"}
    assert "train/one.parquet is damaged too" in faults["train/one.bin"].message


def test_a_missing_file_is_a_fault(dataset):
    dataset.local("train/one.bin").unlink()
    [fault] = verify(dataset)
    assert str(fault) == "train/one.bin: is missing. Rerun the shards stage."


def test_the_command_names_the_fault_and_exits_with_1(dataset):
    from flows.cli import app

    command = ["shards", "verify", "--store", dataset.store.url, "--name", "p"]
    assert CliRunner().invoke(app, command).exit_code == 0
    flip(dataset.local("train/two.bin"), 9)
    result = CliRunner().invoke(app, [*command, "--json"])
    fault = json.loads(result.stdout.splitlines()[0])
    assert result.exit_code == 1
    assert (fault["file"], fault["documents"]) == ("train/two.bin", [ids(dataset, "train/two")[0]])
