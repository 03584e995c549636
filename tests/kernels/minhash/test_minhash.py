"""The compiled MinHash equals the plain one, and both equal datasketch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import datasketch
import numpy as np
import pytest

from kernels.minhash import numba as compiled
from kernels.minhash import reference
from kernels.minhash.characters import code_points

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [
    "",
    "one two three",  # fewer units than a shingle
    "the quick brown fox jumps over the lazy dog and runs away from it",
    "人民代表大会常务委员会第十次会议通过，自公布之日起施行。",
    "使用 React 18 来渲染 <App /> 组件，然后调用 act() 等待更新完成。",
    "สวัสดีชาวโลก ภาษาไทย",
    "한국어 문장은 띄어쓰기를 한다 그래서 단어 단위로 나눈다",
    "a a a a a a a a a a a a a a",
    "emoji 🎉 and a lone surrogate \ud800 in the middle of some words here",
    "\U00020000\U00020001\U00020002\U00020003\U00020004\U00020005",
]


def test_units_are_words_in_spaced_scripts_and_characters_in_others():
    assert reference.split_units("Use foo_bar, naïve नमस्ते; ok") == ["Use", "foo_bar", "naïve", "नमस्ते", "ok"]
    assert reference.split_units("用 React，渲染") == ["用", "R", "e", "a", "c", "t", "，", "渲", "染"]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_compiled_kernel_equals_the_reference_bit_for_bit(size):
    a, b = reference.permutations(128, seed=1)
    signed = reference.sign(TEXTS, size, a, b, cap=8)
    found = compiled.sign(TEXTS, size, a, b, cap=8)
    for left, right in zip(signed, found, strict=True):
        np.testing.assert_array_equal(left, right)
    codes = np.concatenate([code_points(text) for text in TEXTS])
    offsets = np.cumsum([0, *map(len, TEXTS)])
    for module in (compiled, reference):
        for left, right in zip(signed, module.sign_codes(codes, offsets, size, a, b, cap=8), strict=True):
            np.testing.assert_array_equal(left, right)
    for module in (reference, compiled):
        for text, found in zip(TEXTS, module.shingle_sets(codes, offsets, size), strict=True):
            np.testing.assert_array_equal(reference.shingle_set(text, size), found)
    for text in TEXTS:
        np.testing.assert_array_equal(reference.shingle_set(text, size), compiled.shingle_set(text, size))
        for by_character in (True, False):
            expected = reference.shingle_hashes(text, size, by_character)
            np.testing.assert_array_equal(expected, compiled.shingle_hashes(text, size, by_character))


@pytest.mark.parametrize(("num_perm", "seed"), [(128, 1), (64, 7)])
def test_signatures_equal_datasketch_for_the_same_hash_and_permutations(num_perm, seed):
    a, b = reference.permutations(num_perm, seed)
    signatures, _, _ = compiled.sign(TEXTS, 5, a, b, cap=8)
    for text, signature in zip(TEXTS, signatures, strict=True):
        oracle = datasketch.MinHash(
            num_perm=num_perm, seed=seed, hashfunc=lambda s: reference.hash_shingle(s) & 0xFFFFFFFF, scheme="affine32"
        )
        for shingle in reference.shingles(text, 5):
            oracle.update(shingle)
        np.testing.assert_array_equal(signature, oracle.hashvalues)


def test_jaccard_is_that_of_the_python_sets():
    left, right = TEXTS[2], TEXTS[2].replace("lazy", "sleepy")
    first, second = set(reference.shingles(left, 2)), set(reference.shingles(right, 2))
    expected = len(first & second) / len(first | second)
    sets = compiled.shingle_set(left, 2), compiled.shingle_set(right, 2)
    assert compiled.jaccard(*sets) == reference.jaccard(*sets) == pytest.approx(expected)
    empty = np.empty(0, dtype=np.uint64)
    assert compiled.jaccard(empty, empty) == 0.0
    joined, offsets = (
        np.concatenate(sets),
        np.array([0, len(sets[0]), len(sets[0]) + len(sets[1]), sum(map(len, sets))]),
    )
    for module in (compiled, reference):
        values = module.jaccard_pairs(joined, offsets, np.array([[0, 1], [1, 0], [2, 2], [0, 0]]))
        assert values.tolist() == [compiled.jaccard(*sets), compiled.jaccard(*sets), 0.0, 1.0]


def test_kernel_runs_where_no_cache_can_be_written():
    """A read-only install run by a user without a writable cache folder: compiled anew, with a warning."""
    script = (
        "import logging, numba.core.caching as c; logging.basicConfig()\n"
        "c.CacheImpl._locator_classes = []\n"
        "from kernels.minhash.numba import shingle_set; print(len(shingle_set('a b c d e f', 5)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2", done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_agreement_is_the_share_of_equal_values():
    signatures = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [9, 9, 9, 9]], dtype=np.uint32)
    pairs = np.array([[0, 1], [0, 2], [1, 1]])
    for module in (compiled, reference):
        np.testing.assert_array_equal(module.agreement(signatures, pairs), np.float32([0.75, 0, 1]))
