"""The quality of a text, 0 to 1, by a fastText classifier that `danlu train-quality` made.

A text becomes tokens: each CJK character alone, runs of other letters as words, digits as 0, each mark and line break
by itself; pairs of neighbours are fastText's own (`wordNgrams=2`), so Chinese is judged by characters and bigrams
without a segmenter. Whatever could be masked (addresses, longer numbers) and the placeholders of the filter become one
token: what was kept is masked and what was dropped is not, and the classifier would learn just that. Only the first
4,000 characters are read: quality is a matter of the whole page, and a book costs no more than a page. Trainer and
language stage both take their tokens from here, so they cannot differ.

in    str
out   float, the probability of the label "positive", 6 digits
ref   Joulin et al. 2016, arXiv:1607.01759; Li et al. 2024 (DataComp-LM), arXiv:2406.11794, section 4.4
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Any

POSITIVE, NEGATIVE = "positive", "negative"
PREFIX = "__label__"  # fastText's mark of a label
MAX_CHARS = 4_000
LINE_BREAK, MASKED = "\u21b5", "\u2261"
MASKABLE = re.compile(
    r"<(?:EMAIL|PHONE|CN_ID|BANK_CARD|IP)>|[\w.%+'-]+@[\w.-]+\w|[+(]{0,2}[0-9](?:[ ().:-]{0,2}[0-9]){4,}", re.ASCII
)
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
TOKEN = re.compile(f"[{CJK}]|[^\\W_{CJK}]+|[^\\w\\s]|_")
BLANK_LINES = re.compile(r"\s*\n\s*")
DIGIT = re.compile(r"\d")


def tokens(text: str) -> str:
    """What the classifier sees of `text`, on one line."""
    text = unicodedata.normalize("NFKC", text[:MAX_CHARS])
    text = MASKABLE.sub(f" {MASKED} ", text).lower().encode("utf-8", "replace").decode()
    text = BLANK_LINES.sub(f" {LINE_BREAK} ", text.strip())
    # "_" is a token of its own, so that no text can bring a token that begins with PREFIX.
    return " ".join(TOKEN.findall(DIGIT.sub("0", text)))


class QualityModel:
    """A trained classifier."""

    def __init__(self, model: Any, where: str):
        """Raises ValueError for a fastText model with other labels than `danlu train-quality` gives."""
        labels = {label.removeprefix(PREFIX) for label in model.get_labels()}
        if labels != {POSITIVE, NEGATIVE}:
            raise ValueError(
                f"{where}: expected a model with the labels {POSITIVE} and {NEGATIVE}, found "
                f"{', '.join(sorted(labels)[:5])}: make one with `danlu train-quality`"
            )
        self.model = model

    def score(self, text: str) -> float:
        """Probability that `text` is like the positive examples; 0.0 for a text without a token."""
        return self.score_tokens(tokens(text))

    def score_tokens(self, line: str) -> float:
        """The same for what `tokens` made."""
        if not line:
            return 0.0
        labels, scores = self.model.predict(line, k=2)
        found = dict(zip(labels, scores, strict=True)).get(PREFIX + POSITIVE, 0.0)
        return round(min(1.0, max(0.0, float(found))), 6)


def load(path: str) -> QualityModel:
    """The model in a file, read once per process and content. Raises ValueError for none, or none of ours."""
    return _load(path, digest(path))


@functools.lru_cache(maxsize=2)
def _load(path: str, sha256: str) -> QualityModel:
    import fasttext

    try:
        return QualityModel(fasttext.load_model(path), path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{path}: cannot be read as a fastText model: {error}") from error


def digest(path: str) -> str:
    """SHA-256 of a model file. Raises ValueError, teaching how to make one, where there is none."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(
            f"quality_model: {path}: cannot be read: {error.strerror}. danlu ships none; make one from examples: "
            "danlu train-quality --positive GOOD --negative BAD --output model.bin"
        ) from error
