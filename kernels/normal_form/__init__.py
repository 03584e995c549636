"""The forms of texts that deduplication compares: compiled where Numba is installed, else the plain reference."""

import logging

logger = logging.getLogger(__name__)

try:
    from kernels.normal_form.numba import normalise, normalise_utf8

    IMPLEMENTATION = "numba"
except ImportError as error:
    from kernels.normal_form.reference import normalise, normalise_utf8

    IMPLEMENTATION = "reference"
    logger.warning("texts are normalised in plain Python, ten times slower: Numba cannot be imported (%s)", error)

__all__ = ["IMPLEMENTATION", "normalise", "normalise_utf8"]
