"""FAISS finds what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.dedup import search


@pytest.fixture
def vectors():
    generator = np.random.default_rng(3)
    base = generator.normal(size=(700, 32)).astype(np.float32)
    near = base[:300] + generator.normal(size=(300, 32)).astype(np.float32) * 0.2
    both = np.concatenate([base, near])[generator.permutation(1000)]
    return both / np.linalg.norm(both, axis=1, keepdims=True)


def test_pairs_are_those_of_brute_force_across_blocks(vectors, monkeypatch):
    monkeypatch.setattr(search, "BLOCK", 64)
    product = np.round(vectors.astype(np.float64) @ vectors.astype(np.float64).T, 6)
    expected = {(i, j) for j in range(1000) for i in range(j) if product[i, j] >= 0.95}
    pairs = search.near_pairs(vectors, threshold=0.95, screen=0.9, max_partners=1000)
    assert set(zip(pairs.near.better.tolist(), pairs.near.worse.tolist(), strict=True)) == expected != set()
    assert pairs.above_threshold == len(expected)
    assert abs(pairs.above_screen - int((np.triu(product, 1) >= 0.9).sum())) <= 1


def test_partners_beyond_the_limit_are_counted():
    vectors = np.ones((10, 4), dtype=np.float32) / 2
    pairs = search.near_pairs(vectors, threshold=0.95, screen=0.8, max_partners=2)
    assert pairs.above_threshold == 45 and len(pairs.near) == 0 + 1 + 8 * 2
    assert pairs.near.better[pairs.near.worse == 9].tolist() == [0, 1]  # equally near: the first in survivor order


def test_the_nearest_below_the_threshold_are_those_of_brute_force(vectors, monkeypatch):
    monkeypatch.setattr(search, "BLOCK", 64)
    product = np.round(vectors.astype(np.float64) @ vectors.astype(np.float64).T, 6)
    expected = sorted((-product[i, j], j, i) for j in range(1000) for i in range(j) if 0.9 <= product[i, j] < 0.98)
    below = search.near_pairs(vectors, threshold=0.98, screen=0.9, max_partners=5, num_below=20).below
    found = list(zip((-below.similarity).tolist(), below.worse.tolist(), below.better.tolist(), strict=True))
    assert found == expected[:20] and len(expected) > 20


def test_no_vectors_no_pairs():
    assert len(search.near_pairs(np.empty((0, 1), dtype=np.float32), 0.9, 0.8, 5).near) == 0
