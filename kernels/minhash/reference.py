"""MinHash in plain Python and NumPy: what the compiled kernel must equal, bit for bit.

A shingle is `size` consecutive units (`characters.py`). Its 64-bit hash is a polynomial in its units' hashes,
finalised; the low 32 bits go through datasketch's "affine32" permutations:

    unit      u = fmix64(FNV-1a over the code points)
    shingle   s = fmix64(sum_k u_k * BASE^(size-1-k) mod 2^64)
    value_j   fmix32(s mod 2^32) * a_j + b_j mod 2^32,   signature_j = min over shingles

in    text                str, already normalised by the caller
out   signature           uint32 [P]
ref   Broder 1997; datasketch 2.0 `MinHash(scheme="affine32")`; MurmurHash3 finalisers
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from kernels.minhash.characters import UNSPACED, UNSPACED_SHARE, VISIBLE, WORD, classes

MASK64 = (1 << 64) - 1
FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
BASE = 0x9E3779B97F4A7C15  # odd: 2^64 / golden ratio
MAX_HASH = 0xFFFFFFFF  # signature of a text without shingles


def permutations(num_perm: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The pair (a, b) of uint32 [num_perm] that datasketch draws for `seed`: a is odd, so each map is a bijection."""
    generator = np.random.RandomState(seed)
    a = generator.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, num_perm, dtype=np.uint32)
    return a, b


def is_unspaced(text: str) -> bool:
    """Whether the units of `text` are characters, not words."""
    flags = [classes()[ord(character)] for character in text]
    visible, unspaced = sum(f & VISIBLE > 0 for f in flags), sum(f & UNSPACED > 0 for f in flags)
    return bool(unspaced and unspaced >= UNSPACED_SHARE * visible)


def split_units(text: str, by_character: bool | None = None) -> list[str]:
    """Visible characters of an unspaced text, words of any other, in order; or as `by_character` says."""
    table = classes()
    if is_unspaced(text) if by_character is None else by_character:
        return [character for character in text if table[ord(character)] & VISIBLE]
    return "".join(character if table[ord(character)] & WORD else " " for character in text).split()


def shingles(text: str, size: int, by_character: bool | None = None) -> list[tuple[str, ...]]:
    """Every window of `size` units, repeats included; none when the text has fewer units."""
    units = split_units(text, by_character)
    return [tuple(units[i : i + size]) for i in range(len(units) - size + 1)]


def fmix64(h: int) -> int:
    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCD & MASK64
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53 & MASK64
    return h ^ (h >> 33)


def hash_unit(unit: str) -> int:
    h = FNV_OFFSET
    for character in unit:
        h = (h ^ ord(character)) * FNV_PRIME & MASK64
    return fmix64(h)


def hash_shingle(shingle: Sequence[str]) -> int:
    """64-bit hash of a shingle. Two different shingles of a pair of texts of 10^5 shingles collide with p < 10^-8."""
    h = 0
    for unit in shingle:
        h = (h * BASE + hash_unit(unit)) & MASK64
    return fmix64(h)


def shingle_hashes(text: str, size: int, by_character: bool | None = None) -> np.ndarray:
    """uint64, one per window of `size` units, in order; units as the text's script says, or as `by_character` does."""
    return np.array([hash_shingle(s) for s in shingles(text, size, by_character)], dtype=np.uint64)


def shingle_set(text: str, size: int) -> np.ndarray:
    """uint64, sorted, distinct: the set that true Jaccard is computed on."""
    return np.unique(shingle_hashes(text, size))


def signature(hashes: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """uint32 [P] of 64-bit shingle hashes [N]; all MAX_HASH when N is 0."""
    h = hashes.astype(np.uint32)  # the low half
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    h = h ^ (h >> np.uint32(16))
    values = h[:, None] * a + b
    return values.min(axis=0, initial=np.uint32(MAX_HASH))


def sign(
    texts: Sequence[str], size: int, a: np.ndarray, b: np.ndarray, cap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signatures uint32 [D, P], shingles int64 [D], and distinct shingles counted up to `cap` int64 [D]."""
    signatures = np.empty((len(texts), len(a)), dtype=np.uint32)
    counts, distinct = np.zeros(len(texts), dtype=np.int64), np.zeros(len(texts), dtype=np.int64)
    for row, text in enumerate(texts):
        hashes = [hash_shingle(s) for s in shingles(text, size)]
        signatures[row] = signature(np.array(hashes, dtype=np.uint64), a, b)
        counts[row], distinct[row] = len(hashes), min(len(set(hashes)), cap)
    return signatures, counts, distinct


def sign_codes(
    codes: np.ndarray, offsets: np.ndarray, size: int, a: np.ndarray, b: np.ndarray, cap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`sign` of texts given as code points uint32 [C], bounded by `offsets` int64 [D + 1]."""
    texts = ["".join(map(chr, codes[start:stop])) for start, stop in itertools.pairwise(offsets)]
    return sign(texts, size, a, b, cap)


def shingle_sets(codes: np.ndarray, offsets: np.ndarray, size: int) -> list[np.ndarray]:
    """`shingle_set` of texts given as code points uint32 [C], bounded by `offsets` int64 [D + 1]."""
    return [shingle_set("".join(map(chr, codes[start:stop])), size) for start, stop in itertools.pairwise(offsets)]


def jaccard(left: np.ndarray, right: np.ndarray) -> float:
    """|A and B| / |A or B| of two sorted distinct arrays; 0.0 when both are empty (nothing to compare)."""
    shared = len(np.intersect1d(left, right, assume_unique=True))
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def jaccard_pairs(hashes: np.ndarray, offsets: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """float64 [M]: `jaccard` of pairs (int64 [M, 2]) of the sets that `offsets` int64 [D + 1] bound in `hashes`."""
    sets = [hashes[start:stop] for start, stop in itertools.pairwise(offsets)]
    return np.array([jaccard(sets[left], sets[right]) for left, right in pairs], dtype=np.float64)


def agreement(signatures: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """float32 [M]: the estimated Jaccard of each pair of rows (int64 [M, 2]), the share of equal signature values."""
    return (signatures[pairs[:, 0]] == signatures[pairs[:, 1]]).mean(axis=1).astype(np.float32)
