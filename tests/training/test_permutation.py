"""The keyed permutation: a bijection, its own inverse's inverse, and mixed like a shuffle."""

from __future__ import annotations

import numpy as np
import pytest

from training.permutation import Permutation


@pytest.mark.parametrize("n", [1, 2, 3, 16, 255, 256, 257, 1000, 4097, 65_536])
def test_it_is_a_bijection_at_every_size(n):
    permutation = Permutation(n, b"key")
    values = permutation.at_many(np.arange(n))
    assert np.array_equal(np.sort(values), np.arange(n))


def test_one_at_a_time_and_many_at_once_agree_and_the_inverse_returns():
    permutation = Permutation(5_000_000_017, b"key")  # beyond 32 bits
    positions = [0, 1, 2, 4_999_999_999, 5_000_000_016]
    values = [permutation.at(p) for p in positions]
    assert permutation.at_many(np.array(positions)).tolist() == values
    assert [permutation.inverse(v) for v in values] == positions


def test_neighbours_and_keys_are_uncorrelated():
    n = 20_000
    a, b = (Permutation(n, key).at_many(np.arange(n)) for key in (b"a", b"b"))
    limit = 4 / np.sqrt(n)  # four standard deviations of a true shuffle's correlation
    assert abs(np.corrcoef(a[:-1], a[1:])[0, 1]) < limit
    assert abs(np.corrcoef(a, np.arange(n))[0, 1]) < limit
    assert abs(np.corrcoef(a, b)[0, 1]) < limit
    assert (a == np.arange(n)).sum() < 10  # a shuffle has one fixed point on average


def test_what_lies_outside_is_refused():
    with pytest.raises(IndexError, match="outside range"):
        Permutation(10, b"").at(10)
    with pytest.raises(ValueError, match="n ≥ 1"):
        Permutation(0, b"")
