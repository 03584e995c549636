"""Reading ahead changes nothing but the waiting; a bad sample is named, and replaced the same way everywhere."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training.config import ModelConfig, TrainConfig
from training.data import TokenDataset
from training.data.loader import BadSampleError, Batch, GuardedBatches, Prefetcher
from training.guards import GuardConfig, vocabulary
from training.indexed import IndexedWriter

VOCAB_SIZE, SEQ_LEN = 500, 64
CONFIG = TrainConfig(
    model=ModelConfig(max_seq_len=SEQ_LEN),
    seq_len=SEQ_LEN,
    global_batch_size=8,
    micro_batch_size=2,
    steps=12,
    guards=GuardConfig(max_surprise=None, min_entropy_bits=None),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 documents of 70 tokens; document 40 repeats one token."""
    folder = tmp_path_factory.mktemp("loader")
    (folder / "train").mkdir()
    writer, rng = IndexedWriter(folder / "train" / "a"), np.random.default_rng(0)
    for number in range(80):
        ids = rng.integers(3, VOCAB_SIZE, 70) if number != 40 else np.full(70, 7)
        writer.add(np.append(ids[:-1], 2).astype(np.int32))
    writer.close()
    columns = {"id": [f"d{i}" for i in range(80)], "source": ["web"] * 80, "language": ["en"] * 80}
    pq.write_table(pa.table(columns | {"num_tokens": pa.array([70] * 80, pa.int32())}), folder / "train" / "a.parquet")
    return folder


@pytest.fixture
def data(folder: Path) -> TokenDataset:
    return TokenDataset.discover(folder, "train", digest="d", seq_len=SEQ_LEN, seed=1)


def batches(data: TokenDataset, rank: int = 0, ranks: int = 1, **changes) -> GuardedBatches:
    words = vocabulary(changes.pop("vocab_size", VOCAB_SIZE))
    return GuardedBatches(data, dataclasses.replace(CONFIG, **changes), words, rank, ranks)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_read_ahead_or_not_the_batches_are_those_of_the_dataset(data, depth):
    reader = Prefetcher(batches(data).load, first=16, stride=8, stop=88, depth=depth)
    for consumed in range(16, 88, 8):
        assert np.array_equal(reader.take(consumed).tokens, data.batch_at(consumed, 8, 0, 1, 2))
    reader.close()


def test_the_queue_is_bounded_and_its_thread_ends_in_the_middle():
    loaded: list[int] = []

    def load(position: int) -> Batch:
        loaded.append(position)
        return Batch(np.empty(0, np.int32))

    reader = Prefetcher(load, first=0, stride=1, stop=1000, depth=2)
    reader.take(0)
    deadline = time.monotonic() + 5
    while len(loaded) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert loaded == [0, 1, 2, 3], "one taken, two ready, one waiting for room"
    reader.close()
    assert "prefetch" not in [thread.name for thread in threading.enumerate()]


def test_waiting_for_a_slow_loader_is_measured_and_what_is_ready_costs_nothing():
    def load(position: int) -> Batch:
        time.sleep(0.2)
        return Batch(np.empty(0, np.int32))

    reader = Prefetcher(load, first=0, stride=1, stop=3, depth=2)
    assert reader.take(0).wait_seconds > 0.05
    reader.thread.join()
    assert reader.take(1).wait_seconds < 0.15


def test_what_fails_in_the_thread_is_raised_where_its_batch_is_asked_for():
    def load(position: int) -> Batch:
        if position == 1:
            raise OSError("the disk is gone")
        return Batch(np.empty(0, np.int32))

    reader = Prefetcher(load, first=0, stride=1, stop=9, depth=2)
    reader.take(0)
    with pytest.raises(OSError, match="the disk is gone"):
        reader.take(1)
    reader.close()


def test_a_bad_sample_is_reported_with_its_document_and_read_all_the_same(data):
    found = [f for consumed in range(0, 80, 8) for f in batches(data).load(consumed).findings]
    assert {document["id"] for f in found for document in f["documents"]} >= {"d40"}
    for finding in found:
        assert finding["reason"] == "repetition"
        assert finding["step"] == finding["sample"] // 8 + 1
        assert finding["sample"] in data.samples_of("d40")
        assert finding["action"] == "reported"
    assert np.array_equal(batches(data).load(0).tokens, data.batch_at(0, 8, 0, 1, 2))


def test_by_policy_it_is_replaced_alike_for_every_rank_and_the_others_stay(data):
    bad = {f["sample"] for c in range(0, 80, 8) for f in batches(data).load(c).findings}
    assert bad
    replaced = 0
    for consumed in range(0, 80, 8):
        one = batches(data, bad_samples="replace").load(consumed)
        ranks = [batches(data, r, 4, bad_samples="replace").load(consumed) for r in range(4)]
        assert np.array_equal(np.concatenate([r.tokens for r in ranks]), one.tokens)
        for row, sample in zip(one.tokens.reshape(8, -1), range(consumed, consumed + 8), strict=True):
            assert np.array_equal(row, data.sample(sample)) == (sample not in bad)
            replaced += sample in bad
        assert all(f["action"] == "replaced" for f in one.findings)
    assert replaced == len(bad)


def test_ids_outside_the_vocabulary_stop_a_run_that_only_reports_and_name_the_document(data):
    with pytest.raises(BadSampleError, match=r"out_of_range .* in documents d\d+ \(web\)"):
        batches(data, vocab_size=400).load(0)
    with pytest.raises(BadSampleError, match=r"loosen train\.guards"):
        batches(data, vocab_size=400, bad_samples="replace").load(0)


def test_a_run_may_stop_at_any_finding(data):
    with pytest.raises(BadSampleError, match="repetition") as raised:
        for consumed in range(0, 80, 8):
            batches(data, bad_samples="stop").load(consumed)
    assert {finding["action"] for finding in raised.value.findings} == {"stopped"}
