"""The loader: its order is a function of (seed, digest, index) and of nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.data import DataError, TokenDataset, rank_indices
from training.indexed import IndexedWriter

EOS, SEQ_LEN = 2, 16


def write_pair(folder: Path, name: str, lengths: list[int], first: int) -> None:
    """Documents of consecutive token numbers, each with EOS at its end."""
    folder.mkdir(exist_ok=True)
    writer = IndexedWriter(folder / name)
    for length in lengths:
        writer.add(np.append(np.arange(first, first + length - 1), EOS).astype(np.int32))
        first += length
    writer.close()
    rows = len(lengths)
    table = {"id": [f"{name}-{i}" for i in range(rows)], "source": [name] * rows, "language": ["en"] * rows}
    pq.write_table(pa.table({**table, "num_tokens": pa.array(lengths, pa.int32())}), folder / f"{name}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pair(tmp_path / "train", "a", [5, 40, 1, 100], 1000)
    write_pair(tmp_path / "train", "b", [3], 2000)  # shorter than a sample, which then spans three files
    write_pair(tmp_path / "train", "c", [200, 7], 3000)
    return tmp_path


def dataset_of(folder: Path, **changes) -> TokenDataset:
    settings = {"digest": "d", "seq_len": SEQ_LEN, "seed": 1} | changes
    return TokenDataset.discover(folder, "train", **settings)


def test_an_epoch_holds_each_stretch_of_the_text_once(folder):
    data = dataset_of(folder)
    row = np.concatenate([reader.tokens for reader in data.readers])
    expected = sorted(row[s * SEQ_LEN : (s + 1) * SEQ_LEN + 1].tolist() for s in range((len(row) - 1) // SEQ_LEN))
    for epoch in range(3):
        first = epoch * data.samples_per_epoch
        got = [data.sample(first + i) for i in range(data.samples_per_epoch)]
        assert sorted(sample.tolist() for sample in got) == expected
        assert all(sample.dtype == np.int32 and len(sample) == SEQ_LEN + 1 for sample in got)


def test_seed_digest_and_epoch_each_change_the_order(folder):
    def order(first=0, **changes):
        data = dataset_of(folder, **changes)
        return [data.position_of(first * data.samples_per_epoch + i) for i in range(data.samples_per_epoch)]

    orders = [order(), order(seed=2), order(digest="e"), order(first=1)]
    assert order() == orders[0]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_any_world_size_and_micro_batch_read_the_same_step(folder):
    data = dataset_of(folder)
    whole = data.batch(step=3, global_batch_size=12).reshape(12, -1)  # steps 1 and 3 cross an epoch's end
    for world_size, micro_batch_size in [(1, 4), (2, 3), (2, 6), (4, 1), (12, 1)]:
        ranks = [data.batch(3, 12, rank, world_size, micro_batch_size) for rank in range(world_size)]
        assert ranks[0].shape == (12 // world_size // micro_batch_size, micro_batch_size, SEQ_LEN + 1)
        assert np.array_equal(np.concatenate([r.reshape(-1, SEQ_LEN + 1) for r in ranks]), whole)


def test_resuming_anywhere_with_another_world_and_batch_equals_never_stopping(folder):
    uninterrupted = dataset_of(folder)
    straight = np.stack([uninterrupted.sample(i) for i in range(96)])
    consumed, pieces = 0, []
    for global_batch_size, world_size, micro in [(8, 2, 2), (24, 1, 24), (4, 4, 1), (60, 3, 5)]:
        data = dataset_of(folder)  # a restart
        ranks = [data.batch_at(consumed, global_batch_size, rank, world_size, micro) for rank in range(world_size)]
        pieces += [rank.reshape(-1, SEQ_LEN + 1) for rank in ranks]
        consumed += global_batch_size
    assert np.array_equal(np.concatenate(pieces), straight)


def test_documents_of_a_sample_spell_its_tokens(folder):
    data = dataset_of(folder)
    where = {f"{r.bin_path.stem}-{i}": r[i] for r in data.readers for i in range(len(r))}
    for index in range(data.samples_per_epoch):
        spans = data.documents_of(index)
        tokens = np.concatenate([where[span.id][span.start : span.stop] for span in spans])
        assert np.array_equal(tokens, data.sample(index))
        assert [span.source for span in spans] == [span.id[0] for span in spans]


def test_samples_of_a_document_are_those_that_name_it(folder):
    data = dataset_of(folder)
    epochs = 3
    named: dict[str, list[int]] = {}
    for index in range(epochs * data.samples_per_epoch):
        for span in data.documents_of(index):
            named.setdefault(span.id, []).append(index)
    for stem, rows in (("a", 4), ("b", 1), ("c", 2)):
        for row in range(rows):
            assert data.samples_of(f"{stem}-{row}", epochs) == named.get(f"{stem}-{row}", [])
    assert data.samples_of("unknown") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"seq_len": 1000}, "at least seq_len \\+ 1 = 1,001 tokens, found 356"), ({"seq_len": 0}, "seq_len: expected")],
)
def test_too_few_tokens_say_what_to_do(folder, changes, message):
    with pytest.raises(DataError, match=message):
        dataset_of(folder, **changes)


def test_a_missing_split_and_a_foreign_sidecar_are_named(folder):
    with pytest.raises(DataError, match="no token files named"):
        TokenDataset.discover(folder, "validation", digest="d", seq_len=4, seed=0)
    (folder / "train" / "c.parquet").write_bytes((folder / "train" / "a.parquet").read_bytes())
    with pytest.raises(DataError, match="its 4 rows are not the 2 sequences"):
        for index in range(22):
            dataset_of(folder).documents_of(index)


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(DataError, match="multiple of world_size × micro_batch_size"):
        rank_indices(0, 12, 0, 2, 4)
    with pytest.raises(DataError, match="rank: expected 0 … 1"):
        rank_indices(0, 12, 2, 2, None)
