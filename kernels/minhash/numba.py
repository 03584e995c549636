"""MinHash compiled by Numba: units, shingles and permutations in one pass over the code points.

No Python object per word or shingle; a document costs its UTF-32 code points (4 bytes a character) and nothing else.
The inner loop over permutations is plain uint32 multiply, add and minimum, which LLVM turns into vector instructions.

in/out/ref   as `reference.py`, equal bit for bit
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.compiling import compiled
from kernels.minhash.characters import UNSPACED, UNSPACED_SHARE, VISIBLE, WORD, classes, code_points
from kernels.minhash.reference import BASE, FNV_OFFSET, FNV_PRIME, MAX_HASH

U64 = np.uint64
_OFFSET, _PRIME, _BASE = U64(FNV_OFFSET), U64(FNV_PRIME), U64(BASE)
_M1, _M2, _S33 = U64(0xFF51AFD7ED558CCD), U64(0xC4CEB9FE1A85EC53), U64(33)
_MAX = np.uint32(MAX_HASH)


@compiled
def _fmix64(h):
    h = (h ^ (h >> _S33)) * _M1
    h = (h ^ (h >> _S33)) * _M2
    return h ^ (h >> _S33)


@compiled
def _is_unspaced(codes, table):
    visible, unspaced = 0, 0
    for code in codes:
        visible += (table[code] & VISIBLE) > 0
        unspaced += (table[code] & UNSPACED) > 0
    return unspaced > 0 and unspaced >= UNSPACED_SHARE * visible


@compiled
def _hash_shingles(codes, table, by_character, size, top, units, out):
    """Write 64-bit shingle hashes of one document to `out`; returns how many. `top` is BASE^size mod 2^64.

    `units` is a ring of the last `size` unit hashes, so that the polynomial rolls: h <- h * BASE + new - old * top.
    """
    member = VISIBLE if by_character else WORD
    num_units, num_shingles = 0, 0
    rolling, unit, length = U64(0), _OFFSET, 0
    for i in range(len(codes) + 1):
        inside = i < len(codes) and (table[codes[i]] & member) > 0
        if inside:
            unit = (unit ^ U64(codes[i])) * _PRIME
            length += 1
            if not by_character:
                continue  # the word goes on
        if length == 0:
            continue
        unit = _fmix64(unit)
        rolling = rolling * _BASE + unit
        slot = num_units % size
        if num_units >= size:
            rolling -= units[slot] * top
        units[slot] = unit
        num_units += 1
        if num_units >= size:
            out[num_shingles] = _fmix64(rolling)
            num_shingles += 1
        unit, length = _OFFSET, 0
    return num_shingles


@compiled
def _distinct(hashes, cap, seen):
    """How many distinct values, counted up to `cap`; usually decided within the first `cap` hashes."""
    count = 0
    for h in hashes:
        new = True
        for k in range(count):
            if seen[k] == h:
                new = False
                break
        if new:
            seen[count] = h
            count += 1
            if count == cap:
                break
    return count


@compiled
def _sign(codes, offsets, table, size, top, a, b, cap):
    num_documents, num_perm = len(offsets) - 1, len(a)
    signatures = np.full((num_documents, num_perm), _MAX, dtype=np.uint32)
    counts = np.zeros(num_documents, dtype=np.int64)
    distinct = np.zeros(num_documents, dtype=np.int64)
    longest = 0
    for d in range(num_documents):
        longest = max(longest, offsets[d + 1] - offsets[d])
    hashes = np.empty(longest + 1, dtype=np.uint64)
    units = np.empty(size, dtype=np.uint64)
    seen = np.empty(max(cap, 1), dtype=np.uint64)
    for d in range(num_documents):
        document = codes[offsets[d] : offsets[d + 1]]
        n = _hash_shingles(document, table, _is_unspaced(document, table), size, top, units, hashes)
        row = signatures[d]
        for i in range(n):
            h = np.uint32(hashes[i])
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
            h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
            h = np.uint32(h ^ (h >> np.uint32(16)))
            for j in range(num_perm):
                row[j] = min(row[j], np.uint32(h * a[j] + b[j]))
        counts[d] = n
        distinct[d] = _distinct(hashes[:n], cap, seen)
    return signatures, counts, distinct


@compiled
def _all_hashes(codes, offsets, table, size, top):
    """Shingle hashes of all documents, and where in them those of each begin and end, int64 [D, 2]."""
    hashes = np.empty(offsets[-1] - offsets[0] + 1, dtype=np.uint64)
    bounds = np.empty((len(offsets) - 1, 2), dtype=np.int64)
    units = np.empty(size, dtype=np.uint64)
    num = 0
    for d in range(len(offsets) - 1):
        document = codes[offsets[d] : offsets[d + 1]]
        bounds[d, 0] = num
        num += _hash_shingles(document, table, _is_unspaced(document, table), size, top, units, hashes[num:])
        bounds[d, 1] = num
    return hashes, bounds


@compiled
def _shared(left, right):
    """Size of the intersection of two sorted distinct arrays."""
    i, j, shared = 0, 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            shared += 1
            i += 1
            j += 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return shared


@compiled
def _jaccard_pairs(hashes, offsets, pairs):
    out = np.zeros(len(pairs), dtype=np.float64)
    for p in range(len(pairs)):
        left = hashes[offsets[pairs[p, 0]] : offsets[pairs[p, 0] + 1]]
        right = hashes[offsets[pairs[p, 1]] : offsets[pairs[p, 1] + 1]]
        shared = _shared(left, right)
        union = len(left) + len(right) - shared
        if union:
            out[p] = shared / union
    return out


@compiled
def _agreement(signatures, pairs):
    out = np.empty(len(pairs), dtype=np.float32)
    num_perm = signatures.shape[1]
    for p in range(len(pairs)):
        left, right = pairs[p, 0], pairs[p, 1]
        equal = 0
        for j in range(num_perm):
            equal += signatures[left, j] == signatures[right, j]
        out[p] = equal / num_perm
    return out


def _top(size: int) -> np.uint64:
    return U64(pow(BASE, size, 1 << 64))


def sign(
    texts: Sequence[str], size: int, a: np.ndarray, b: np.ndarray, cap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signatures uint32 [D, P], shingles int64 [D], and distinct shingles counted up to `cap` int64 [D]."""
    parts = [code_points(text) for text in texts]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)
    return sign_codes(codes, offsets, size, a, b, cap)


def sign_codes(
    codes: np.ndarray, offsets: np.ndarray, size: int, a: np.ndarray, b: np.ndarray, cap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`sign` of texts given as code points uint32 [C], bounded by `offsets` int64 [D + 1]."""
    return _sign(codes, offsets, classes(), size, _top(size), a, b, cap)


def shingle_hashes(text: str, size: int, by_character: bool | None = None) -> np.ndarray:
    """uint64, one per window of `size` units, in order; units as the text's script says, or as `by_character` does."""
    codes, table = code_points(text), classes()
    if by_character is None:
        by_character = _is_unspaced(codes, table)
    hashes = np.empty(len(codes) + 1, dtype=np.uint64)
    return hashes[: _hash_shingles(codes, table, by_character, size, _top(size), np.empty(size, np.uint64), hashes)]


def shingle_set(text: str, size: int) -> np.ndarray:
    """uint64, sorted, distinct: the set that true Jaccard is computed on."""
    return _sorted_distinct(shingle_hashes(text, size))


def shingle_sets(codes: np.ndarray, offsets: np.ndarray, size: int) -> list[np.ndarray]:
    """`shingle_set` of texts given as code points uint32 [C], bounded by `offsets` int64 [D + 1]."""
    hashes, bounds = _all_hashes(codes, offsets, classes(), size, _top(size))
    return [_sorted_distinct(hashes[start:stop]) for start, stop in bounds.tolist()]


def _sorted_distinct(hashes: np.ndarray) -> np.ndarray:
    ordered = np.sort(hashes)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]  # what np.unique gives, which hashes first: 3 to 6 times slower here


def jaccard(left: np.ndarray, right: np.ndarray) -> float:
    """|A and B| / |A or B| of two sorted distinct arrays; 0.0 when both are empty (nothing to compare)."""
    shared = _shared(left, right)
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def jaccard_pairs(hashes: np.ndarray, offsets: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """float64 [M]: `jaccard` of pairs (int64 [M, 2]) of the sets that `offsets` int64 [D + 1] bound in `hashes`."""
    return _jaccard_pairs(hashes, offsets, pairs)


def agreement(signatures: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """float32 [M]: the estimated Jaccard of each pair of rows (int64 [M, 2]), the share of equal signature values."""
    return _agreement(signatures, pairs)
