"""The two forms of a text that deduplication compares. Neither is ever written back: documents keep their text.

    exact_form    NFKC, white space collapsed (and removed beside characters of unspaced scripts), invisible marks gone:
                  what differs only in line breaks, indentation, full-width letters or a byte order mark is one text
    fuzzy_form    the exact form, Traditional characters folded to Simplified (OpenCC's t2s, character by character),
                  case folded; a lone surrogate is "?"

`kernels.normal_form` makes them, straight from the buffers of an Arrow column where a stage has one. Per core, with the
signature: about 100 MB/s of Chinese and 80 of English (`benchmarks/dedup.py`).

in    str, or a column of strings
out   str, or code points and offsets
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kernels import normal_form


def exact_form(text: str) -> str:
    """What two texts must share to count as one and the same."""
    return normal_form.normalise(text, False)


def fuzzy_form(text: str) -> str:
    """What shingles and embeddings are made from."""
    return normal_form.normalise(text, True)


def fuzzy_codes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The fuzzy forms of a column without nulls: code points uint32 [C] and offsets int64 [D + 1]."""
    if texts.null_count:
        raise ValueError(f"expected a column of texts without nulls, found {texts.null_count} nulls")
    column = texts.cast(pa.large_string())
    _, bounds, data = column.buffers()
    offsets = np.frombuffer(bounds, np.int64, len(column) + 1, 8 * column.offset) if len(column) else np.zeros(1, "i8")
    return normal_form.normalise_utf8(np.frombuffer(data or b"", np.uint8), offsets, True)
