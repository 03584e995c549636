"""The .bin/.idx pair, read by our reader, by DeepSpeed's and by one written here from the layout alone."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from training.indexed import IndexedReader, IndexedWriter, TokenFileError

DOCUMENTS = [[5, 6, 7, 2], [2], list(range(70_000, 70_300)), [2**31 - 1, 0, 2]]


@pytest.fixture
def stem(tmp_path: Path) -> Path:
    writer = IndexedWriter(tmp_path / "a.b-00000")  # a stem may hold dots
    for ids in DOCUMENTS:
        writer.add(np.array(ids, dtype=np.int32))
    writer.close()
    assert (writer.num_sequences, writer.num_tokens) == (4, sum(map(len, DOCUMENTS)))
    return tmp_path / "a.b-00000"


def read_independently(stem: Path) -> list[list[int]]:
    index, tokens = Path(f"{stem}.idx").read_bytes(), Path(f"{stem}.bin").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, num_sequences, num_documents = struct.unpack_from("<QBQQ", index, 9)
    assert (version, code, num_documents) == (1, 4, num_sequences + 1)
    lengths = struct.unpack_from(f"<{num_sequences}i", index, 34)
    starts = struct.unpack_from(f"<{num_sequences}q", index, 34 + 4 * num_sequences)
    documents = struct.unpack_from(f"<{num_documents}q", index, 34 + 12 * num_sequences)
    assert documents == tuple(range(num_sequences + 1))
    assert len(index) == 34 + 12 * num_sequences + 8 * num_documents
    return [list(struct.unpack_from(f"<{n}i", tokens, start)) for n, start in zip(lengths, starts, strict=True)]


def test_all_three_readers_give_the_documents_that_were_written(stem):
    from deepspeed.runtime.data_pipeline.data_sampling.indexed_dataset import MMapIndexedDataset

    ours, theirs = IndexedReader(stem), MMapIndexedDataset(str(stem), skip_warmup=True)
    assert [ours[i].tolist() for i in range(len(ours))] == DOCUMENTS
    assert [theirs[i].tolist() for i in range(len(theirs))] == DOCUMENTS
    assert theirs.doc_idx.tolist() == [0, 1, 2, 3, 4]
    assert read_independently(stem) == DOCUMENTS


def test_our_index_is_byte_for_byte_the_one_deepspeed_writes(stem, tmp_path):
    import torch
    from deepspeed.runtime.data_pipeline.data_sampling.indexed_dataset import MMapIndexedDatasetBuilder

    builder = MMapIndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.int32)
    for ids in DOCUMENTS:
        builder.add_item(torch.tensor(ids, dtype=torch.int32))
        builder.end_document()
    builder.finalize(str(tmp_path / "theirs.idx"))
    assert Path(f"{stem}.bin").read_bytes() == (tmp_path / "theirs.bin").read_bytes()
    assert Path(f"{stem}.idx").read_bytes() == (tmp_path / "theirs.idx").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "damage", "message"),
    [
        ("bin", lambda data: data[:-4], "308 tokens .* holds 1,228 bytes"),
        ("idx", lambda data: data[:20], "at least 34 bytes"),
        ("idx", lambda data: data[:-8], "take 122 bytes.* holds 114"),
        ("idx", lambda data: b"X" + data[1:], "expected magic"),
        ("idx", lambda data: data[:9] + b"\2" + data[10:], "expected version 1, found 2"),
        ("idx", lambda data: data[:17] + b"\x08" + data[18:], "expected dtype 4, found 8"),
        ("idx", lambda data: data[:34] + b"\x05" + data[35:], "does not begin where"),
    ],
)
def test_damage_is_named_on_open(stem, suffix, damage, message):
    path = Path(f"{stem}.{suffix}")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TokenFileError, match=message):
        IndexedReader(stem)


def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path):
    writer = IndexedWriter(tmp_path / "a")
    with pytest.raises(ValueError, match="no tokens"):
        writer.add(np.empty(0, dtype=np.int32))
    with pytest.raises(ValueError, match="expected a vector of int32, found 1-d int64"):
        writer.add(np.array([1]))
    writer.close()
    assert len(IndexedReader(tmp_path / "a")) == 0
