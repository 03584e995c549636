"""Normal forms in plain Python: what the compiled kernel must equal, character by character.

    exact     invisible marks gone, NFKC, white space collapsed to one space, and to none beside an unspaced character
              (as written, and again as NFKC leaves it)
    folded    the exact form, each Traditional character as its Simplified one, case folded; lone surrogates are "?"

Characters are folded one by one (OpenCC's table t2s without its phrases). A phrase tells 畫 in 計畫 (划) from 畫 in
畫家 (画), which matters to a reader; a form that is only compared folds both results alike (`COMPARED_ALIKE`). So a
text and what OpenCC makes of it have the same form.

in    text                str
out   str
ref   Unicode Standard Annex 15 (NFKC), section 3.13 (case folding); OpenCC TSCharacters
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from kernels.normal_form.characters import INVISIBLE_MARKS, UNSPACED_RANGES, simplified

_UNSPACED = "".join(f"{chr(start)}-{chr(stop - 1)}" for start, stop in UNSPACED_RANGES)
_INVISIBLE = re.compile(f"[{INVISIBLE_MARKS}]")
_BESIDE_UNSPACED = re.compile(f"(?<=[{_UNSPACED}])\\s+|\\s+(?=[{_UNSPACED}])")
_SPACE = re.compile(r"\s+")


def normalise(text: str, fold: bool) -> str:
    """The exact form of `text`, or the folded one."""
    if fold:
        text = text.encode("utf-8", "replace").decode("utf-8")
    text = unicodedata.normalize("NFKC", _BESIDE_UNSPACED.sub("", _INVISIBLE.sub("", text)))
    text = _SPACE.sub(" ", _BESIDE_UNSPACED.sub("", text)).strip()
    return text.translate(simplified()).casefold() if fold else text


def normalise_utf8(data: np.ndarray, offsets: np.ndarray, fold: bool) -> tuple[np.ndarray, np.ndarray]:
    """Code points uint32 [C] and offsets int64 [D + 1] of the forms of D texts.

    `data` is uint8 UTF-8, `offsets` [D + 1] bound the texts in it: the buffers of an Arrow string array.
    """
    raw = [data[start:stop].tobytes() for start, stop in itertools.pairwise(offsets)]
    return _joined([normalise(text.decode("utf-8", "surrogatepass"), fold) for text in raw])


def _joined(forms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(forms) + 1, dtype=np.int64)
    np.cumsum([len(form) for form in forms], out=offsets[1:])
    return np.frombuffer("".join(forms).encode("utf-32-le", "surrogatepass"), dtype=np.uint32), offsets
