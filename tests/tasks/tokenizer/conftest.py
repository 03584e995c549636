"""A small trained tokenizer of each kind, over real text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tasks.tokenizer.model import Tokenizer
from tasks.tokenizer.train import TokenizerConfig, train


@pytest.fixture(scope="session")
def texts(shared_data: Path) -> list[str]:
    """Chinese, English, twenty other languages and program text."""
    import gzip

    import zstandard

    mini = shared_data / "corpus" / "mini"
    found = []
    for name, open_text in (
        ("zh-docs.jsonl.zst", zstandard.open),
        ("en-books.jsonl.gz", gzip.open),
        ("news.jsonl", open),
    ):
        with open_text(mini / name, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    found.append(json.loads(line)["text"][:2000])
                except (ValueError, KeyError):  # the corpus has broken lines on purpose
                    continue
    found += [
        Path(sys.modules[name].__file__ or "").read_text(encoding="utf-8") for name in ("json.decoder", "zipfile")
    ]
    return found


@pytest.fixture(scope="session", params=["unigram", "bpe"])
def tokenizer(request, texts: list[str]) -> Tokenizer:
    return Tokenizer(train(texts, TokenizerConfig(vocab_size=6000, model_type=request.param)))
