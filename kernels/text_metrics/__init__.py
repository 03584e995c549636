"""Counts of a text that its metrics are made of: compiled where Numba is installed, else the plain reference."""

import logging

from kernels.text_metrics.reference import DUPLICATE_NGRAMS, FIELDS, TOP_NGRAMS

logger = logging.getLogger(__name__)

try:
    from kernels.text_metrics.numba import count, count_characters

    IMPLEMENTATION = "numba"
except ImportError as error:
    from kernels.text_metrics.reference import count, count_characters

    IMPLEMENTATION = "reference"
    logger.warning("texts are measured in plain Python, a hundred times slower: Numba cannot be imported (%s)", error)

__all__ = ["DUPLICATE_NGRAMS", "FIELDS", "IMPLEMENTATION", "TOP_NGRAMS", "count", "count_characters"]
