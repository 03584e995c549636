"""MinHash signatures and exact Jaccard over shingles: compiled where Numba is installed, else the plain reference."""

import logging

from kernels.minhash.reference import is_unspaced, permutations, split_units

logger = logging.getLogger(__name__)

try:
    from kernels.minhash.numba import (
        agreement,
        jaccard,
        jaccard_pairs,
        shingle_hashes,
        shingle_set,
        shingle_sets,
        sign,
        sign_codes,
    )

    IMPLEMENTATION = "numba"
except ImportError as error:
    from kernels.minhash.reference import (
        agreement,
        jaccard,
        jaccard_pairs,
        shingle_hashes,
        shingle_set,
        shingle_sets,
        sign,
        sign_codes,
    )

    IMPLEMENTATION = "reference"
    logger.warning("MinHash runs in plain Python, some hundred times slower: Numba cannot be imported (%s)", error)

__all__ = [
    "IMPLEMENTATION",
    "agreement",
    "is_unspaced",
    "jaccard",
    "jaccard_pairs",
    "permutations",
    "shingle_hashes",
    "shingle_set",
    "shingle_sets",
    "sign",
    "sign_codes",
    "split_units",
]
