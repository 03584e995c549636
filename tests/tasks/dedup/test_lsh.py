"""Bucketing proposes every pair that shares a band, each bucket once through its leaders."""

from __future__ import annotations

import itertools

import datasketch
import numpy as np
import pytest

from kernels.minhash import permutations, sign
from tasks.dedup import lsh


def pairs_of(bands, rank, gone):
    found = set()
    while True:
        for pairs in bands.round(rank, gone):
            found |= {(int(a), int(b)) for a, b in pairs}
        if not bands.left:
            return found


def test_all_pairs_of_a_bucket_are_proposed_when_nobody_goes(tmp_path):
    """25 equal signatures: more than the leaders of one round, so several rounds, and every pair once they end."""
    bands = lsh.Bands(tmp_path, bands=2, rows=2)
    bands.add(np.arange(25), np.ones((25, 4), dtype=np.uint32))
    rank = np.arange(25)[::-1].copy()
    expected = {(b, a) for a, b in itertools.combinations(range(25), 2)}  # the better rank first
    assert pairs_of(bands, rank, np.zeros(25, dtype=bool)) == expected


def test_duplicates_found_in_a_round_leave_the_bucket(tmp_path):
    bands = lsh.Bands(tmp_path, bands=1, rows=2)
    bands.add(np.arange(1000), np.ones((1000, 2), dtype=np.uint32))
    gone = np.zeros(1000, dtype=bool)
    first = sum(len(pairs) for pairs in bands.round(np.arange(1000), gone))
    gone[1:] = True
    assert bands.left and not bands.unsettled[lsh.LEADERS] and bands.unsettled[lsh.LEADERS + 1]
    assert first < lsh.LEADERS * 1000 and list(bands.round(np.arange(1000), gone)) == [] and not bands.left


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_and_runs_of_any_size_hold_what_one_sort_gives(tmp_path, monkeypatch, size):
    """Entries come in runs, in any order; a piece cuts no bucket; what is added after a first reading is there too."""
    monkeypatch.setattr(lsh, "PIECE_DOCUMENTS", size)
    generator = np.random.default_rng(size)
    numbers = generator.permutation(500)
    keys = generator.integers(0, 90, 500).astype(np.uint64) * np.uint64(0x2F0A4C3B9D1E577)
    spill = lsh.Spill(tmp_path / "band")
    for start, stop in ((0, 120), (120, 130), (130, 250)):
        spill.append(keys[start:stop], numbers[start:stop])
    for added in (250, 500):
        if added == 500:
            spill.append(keys[250:], numbers[250:])
        order = np.lexsort((numbers[:added], keys[:added]))
        for _ in range(2):
            pieces = list(spill.pieces())
            assert np.concatenate([k for k, _ in pieces]).tolist() == keys[:added][order].tolist()
            assert np.concatenate([n for _, n in pieces]).tolist() == numbers[:added][order].tolist()
            assert all(len(k) <= size or len(np.unique(k >> np.uint64(56))) == 1 for k, _ in pieces)
            assert all(a[0][-1] < b[0][0] for a, b in itertools.pairwise(pieces))


def test_rounds_over_small_pieces_propose_the_same_pairs(tmp_path, monkeypatch):
    signatures = np.random.default_rng(0).integers(0, 12, (600, 4), dtype=np.uint32)
    rank, found = np.random.default_rng(1).permutation(600), []
    for size in (1 << 16, 16):
        monkeypatch.setattr(lsh, "PIECE_DOCUMENTS", size)
        monkeypatch.setattr(lsh, "SPILL_DOCUMENTS", 100 * size)
        (tmp_path / str(size)).mkdir()
        bands = lsh.Bands(tmp_path / str(size), bands=2, rows=2)
        for start in range(0, 600, 50):
            bands.add(np.arange(start, start + 50), signatures[start : start + 50])
        shared = {int(n) for band in range(2) for _, numbers in bands.shared(band) for n in numbers}
        found.append((shared, pairs_of(bands, rank, np.zeros(600, dtype=bool))))
    assert found[0] == found[1] and len(found[0][1]) > 1000


def test_pairs_are_handed_over_in_chunks(monkeypatch):
    monkeypatch.setattr(lsh, "MAX_PAIRS", 7)
    starts, sizes = np.array([0, 3, 4, 25]), np.array([3, 1, 21, 2])
    documents = np.random.default_rng(0).permutation(27)
    chunks = list(lsh._lead(documents, starts, sizes))
    expected = {
        (int(documents[start + lead]), int(documents[start + other]))
        for start, size in zip(starts, sizes, strict=True)
        for lead in range(min(size - 1, lsh.LEADERS))
        for other in range(lead + 1, size)
    }
    assert all(0 < len(chunk) <= 7 for chunk in chunks)
    pairs = [tuple(pair) for chunk in chunks for pair in chunk.tolist()]
    assert len(pairs) == len(expected) and set(pairs) == expected


def test_buckets_are_those_of_datasketch(tmp_path):
    """The same pairs as MinHashLSH over the same signatures and bands."""
    generator = np.random.default_rng(0)
    words = [f"w{i}" for i in range(300)]
    texts = [" ".join(generator.permutation(words[start : start + 60])) for start in range(0, 240, 8)]
    texts += [text.replace("w4", "x4", 1) for text in texts]
    a, b = permutations(128, 1)
    signatures, _, _ = sign(texts, 2, a, b, cap=1)
    num_bands, rows = lsh.bands_and_rows(0.5, 128, 0.5)
    index = datasketch.MinHashLSH(num_perm=128, params=(num_bands, rows))
    sketches = [datasketch.MinHash(hashvalues=s, scheme="affine32") for s in signatures]
    for key, sketch in enumerate(sketches):
        index.insert(key, sketch)
    expected = {(q, k) for q, sketch in enumerate(sketches) for k in index.query(sketch) if q < k}
    bands = lsh.Bands(tmp_path, num_bands, rows)
    bands.add(np.arange(len(texts)), signatures)
    assert pairs_of(bands, np.arange(len(texts)), np.zeros(len(texts), dtype=bool)) == expected != set()


def test_misses_weigh_more_than_false_candidates():
    bands, rows = lsh.bands_and_rows(0.8, 128, 0.99)
    assert lsh.candidate_probability(0.85, bands, rows) > 0.99 > lsh.candidate_probability(0.5, bands, rows)
    oracle = datasketch.MinHashLSH(threshold=0.8, num_perm=128)
    assert lsh.bands_and_rows(0.8, 128, 0.5) == (oracle.b, oracle.r)


@pytest.mark.parametrize("similarity", [0.5, 0.8, 0.9])
def test_s_curve_is_that_of_theory(similarity):
    """Sets of known Jaccard meet in a bucket as often as 1 - (1 - s^r)^b says, within 4 standard deviations."""
    trials, size = 400, 200
    shared = round(2 * size * similarity / (1 + similarity))
    a, b = permutations(128, 1)
    met = 0
    for trial in range(trials):
        common = [f"c{trial}x{i}" for i in range(shared)]
        left = [*common, *(f"l{trial}x{i}" for i in range(size - shared))]
        right = [*common, *(f"r{trial}x{i}" for i in range(size - shared))]
        signatures, _, _ = sign([" ".join(left), " ".join(right)], 1, a, b, cap=1)
        keys = lsh.band_keys(signatures, 18, 7)
        met += bool((keys[0] == keys[1]).any())
    expected = lsh.candidate_probability(shared / (2 * size - shared), 18, 7)
    assert abs(met / trials - expected) < 4 * np.sqrt(expected * (1 - expected) / trials) + 1e-3
