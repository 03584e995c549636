"""A small trained tokenizer of each kind, over real text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tasks.tokenizer.characters import characters_of
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.model import Tokenizer
from tasks.tokenizer.train import Fitted, fit
from tasks.tokenizer.vocabulary import Row


@pytest.fixture(scope="session")
def rows(shared_data: Path) -> list[Row]:
    """Chinese, English, twenty other languages and program text, each with its group."""
    import gzip

    import zstandard

    mini = shared_data / "corpus" / "mini"
    found: list[Row] = []
    for name, group, open_text in (
        ("zh-docs.jsonl.zst", "zh", zstandard.open),
        ("en-books.jsonl.gz", "en", gzip.open),
        ("news.jsonl", "other", open),
    ):
        with open_text(mini / name, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    found.append((group, json.loads(line)["text"][:2000], 1))
                except (ValueError, KeyError):  # the corpus has broken lines on purpose
                    continue
    for name in ("json.decoder", "zipfile"):
        found.append(("code", Path(sys.modules[name].__file__ or "").read_text(encoding="utf-8"), 1))
    return found


@pytest.fixture(scope="session")
def texts(rows: list[Row]) -> list[str]:
    return [text for _, text, _ in rows]


@pytest.fixture(scope="session", params=["unigram", "bpe"])
def fitted(request, rows: list[Row]) -> Fitted:
    config = TokenizerConfig(vocab_size=6000, model_type=request.param, compound_min_count=20, max_compounds=20)
    return fit(rows, characters_of(rows), config)


@pytest.fixture(scope="session")
def tokenizer(fitted: Fitted) -> Tokenizer:
    return fitted.tokenizer
