"""What is kept from run to run: known pairs, bands, and which index a run starts from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tasks.dedup import index, minhash
from tasks.store.filesystem import Store

WORDS = [f"word{i}" for i in range(40)]


def digests(generator, num):
    return generator.integers(0, 1 << 63, (num, 2)).astype(np.uint64)


def test_a_pair_has_one_key_in_both_directions_and_no_other_pair_has_it():
    generator = np.random.default_rng(0)
    texts = digests(generator, 300)
    texts[:100, 0] = 7  # equal first halves
    left, right = np.triu_indices(300)
    keys = index.pair_keys(texts[left], texts[right])
    assert (keys == index.pair_keys(texts[right], texts[left])).all()
    assert len(np.unique(keys, axis=0)) == len(left)


def test_known_pairs_are_found_and_others_are_not():
    generator = np.random.default_rng(1)
    keys = digests(generator, 100)
    keys[1, 0] = keys[0, 0]  # the same first half, another second
    values = generator.random(100)
    known = index.NO_PAIRS.joined(keys[::2], values[::2]).joined(keys, values)
    assert len(known.first) == 100 and (np.diff(known.first.astype(object)) >= 0).all()
    found = known.find(keys)
    assert (found[2:] == values[2:]).all()
    # of pairs that share the first half one may be taken for unknown, which costs a comparison, never a wrong value
    assert (
        all(np.isnan(f) or f == v for f, v in zip(found[:2], values[:2], strict=True)) and not np.isnan(found[:2]).all()
    )
    assert np.isnan(known.find(keys + np.uint64(1))).all() and np.isnan(index.NO_PAIRS.find(keys)).all()


def test_a_band_file_is_keys_then_numbers_little_endian(tmp_path):
    keys, numbers = index.map_band(tmp_path / "band", "w+", 3)
    keys[:], numbers[:] = [1, 2, 1 << 63], [7, 8, 9]
    del keys, numbers
    expected = b"".join(n.to_bytes(8, "little") for n in (1, 2, 1 << 63)) + b"".join(
        n.to_bytes(4, "little") for n in (7, 8, 9)
    )
    assert (tmp_path / "band").read_bytes() == expected
    assert [a.tolist() for a in index.map_band(tmp_path / "band", "r")] == [[1, 2, 1 << 63], [7, 8, 9]]
    assert [len(a) for a in index.map_band(tmp_path / "none", "w+", 0)] == [0, 0] and (tmp_path / "none").exists()


def test_fixed_width_columns_survive_slices_and_chunks():
    ids = np.array([f"{i:032x}" for i in range(10)], dtype="S32")
    column = index.fixed_bytes(ids, 32)
    chunked = pa.chunked_array([column.slice(2, 3), column.slice(0, 0), column.slice(7)])
    assert index.as_ids(chunked).tolist() == [*ids[2:5], *ids[7:]]
    halves = np.arange(20, dtype=np.uint64).reshape(10, 2)
    assert index.as_digests(pa.chunked_array([index.fixed_bytes(halves, 16)])).tolist() == halves.tolist()


@pytest.fixture
def texts(make_document):
    generator = np.random.default_rng(2)
    return [make_document(" ".join(generator.choice(WORDS, 50)), name=str(i)) for i in range(30)]


def test_a_run_starts_from_the_index_that_shares_most_of_its_settings_and_documents(run_on, texts, tmp_path):
    config, other = minhash.MinHashConfig(), minhash.MinHashConfig(source_priority={"s": 1})
    shards = [texts[:10], texts[10:20], texts[20:]]
    run_on(minhash.STAGE, config, shards[:1], store="same")
    most = run_on(minhash.STAGE, config, shards[:2], store="same")
    run_on(minhash.STAGE, config, shards[2:], store="same")
    changed = run_on(minhash.STAGE, other, shards, store="same")
    settings = {}
    for made in (most, changed):
        with made.open(index.HEADER) as file:
            settings[made.key] = index.json.loads(file.read())
    assert settings[most.key]["settings"] != settings[changed.key]["settings"]
    wanted = [(sha256, rows) for sha256, rows in settings[changed.key]["shards"]]
    store = Store(most.store.url)

    def found(like, pairs):
        return index.find(
            store, "minhash_dedup", settings=settings[like.key]["settings"], pair_settings=pairs, shards=wanted
        )

    pairs = settings[most.key]["pairs"]
    assert found(most, pairs)[0].dataset.key == most.key  # not the newest, nor the one of other settings
    assert found(changed, pairs)[0].dataset.key == changed.key
    assert found(most, "of other code") == (None, [])
