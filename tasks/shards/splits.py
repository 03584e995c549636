"""Which split a document belongs to: a function of its text alone, the same for most texts that resemble it.

The draw of a text is a hash of its min-wise shingle (5 words, or 5 characters of an unspaced script, of the form that
near-deduplication compares), so two texts of Jaccard J have the same draw with probability J, and equal texts always.
No function of one text can do much better. So a corpus that grows moves nothing from one side to the other, and
about half of the pairs that survive deduplication (Jaccard 0.5 to 0.8) stay together; `near.py` sees to the others.

Trade-off: what resembles goes together, so the realised fraction varies more than with a draw a document: 2.4 times as
much on laws and licences full of near-duplicates, 1.9 times on a mixed corpus of 10,000 documents (0.93 to 1.36 % of
them for 1 %, by seed). Shingles of 3 would keep 58 % instead of 49 % of the pairs together, at 3.5 times.

in    a column of texts
out   draws in [0, 1), and the signatures that near.py compares
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kernels import minhash
from tasks.dedup.normalise import fuzzy_codes
from tasks.shards.files import TRAIN, VALIDATION

NUM_PERM = 64
SHINGLE_SIZE = 5
PERMUTATIONS = minhash.permutations(NUM_PERM, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsConfig:
    """Settings of the shards stage."""

    validation_fraction: float = 0.01  # of the documents
    split_seed: int = 0
    validation_max_jaccard: float | None = 0.5  # to any training document; one at or above is left out. null: none is

    def __post_init__(self) -> None:
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction: expected 0 to below 1, found {self.validation_fraction}")
        if self.validation_max_jaccard is not None and not 0.3 <= self.validation_max_jaccard <= 1:
            raise ValueError(
                f"validation_max_jaccard: expected 0.3 to 1, or null to leave none out, found "
                f"{self.validation_max_jaccard}; below 0.3 unlike texts of one kind would be left out"
            )


def signatures(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """MinHash signatures uint32 [D, NUM_PERM] of a column, and the number of shingles of each text."""
    signed, counts, _ = minhash.sign_codes(*fuzzy_codes(texts), SHINGLE_SIZE, *PERMUTATIONS, cap=1)
    return signed, counts


def draws(texts: pa.Array, signed: np.ndarray, counts: np.ndarray, seed: int) -> np.ndarray:
    """float64 [D] in [0, 1); a text too short for a shingle draws by its own hash."""
    keys = signed[:, 0].astype(np.uint64)
    for row in np.flatnonzero(counts == 0):
        text = texts[int(row)].as_py().encode()
        keys[row] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    salt = np.frombuffer(hashlib.blake2b(str(seed).encode(), digest_size=8).digest(), "<u8")[0]
    return (scrambled(scrambled(keys) ^ salt) >> np.uint64(11)) / 2**53


def scrambled(values: np.ndarray) -> np.ndarray:
    """uint64 through the finaliser of MurmurHash3: a bijection without pattern."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def split_of(text: str, config: ShardsConfig) -> str:
    """`train` or `validation`. A higher fraction moves texts to validation, never back."""
    texts = pa.array([text], pa.large_string())
    [draw] = draws(texts, *signatures(texts), config.split_seed)
    return VALIDATION if draw < config.validation_fraction else TRAIN
