"""How well a vocabulary serves a text: the figures of the vocabulary experiment.

Bytes per token and byte fallback are per language group; Rényi efficiency and coverage are of the whole, whose groups
have their shares of the sample. "Unknown" means spelled in bytes, or, in tokenizers that cannot, replaced by a token
that stands for anything.

in    held-out texts by group, an encoder (ours or a published one)
out   plain numbers
ref   Zouhar et al. 2023, "Tokenization and the Noiseless Channel", ACL (Rényi efficiency, alpha 2.5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tasks.tokenizer.model import Tokenizer, proto_of

ALPHA = 2.5
RARE = 1e-6  # of all tokens: the long tail
UNSPACED = ("zh",)  # groups whose text has no spaces between words
BATCH_TEXTS = 256


class Encoder(Protocol):
    """What can be measured: ids below `vocab_size`, some of which stand for a byte or for anything unknown."""

    @property
    def vocab_size(self) -> int: ...
    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]: ...


def byte_pieces(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Of each id: whether it is a byte, and whether that byte begins a character."""
    is_byte, begins = np.zeros((2, tokenizer.vocab_size), dtype=bool)
    for i, piece in enumerate(proto_of(tokenizer.model).pieces):
        if tokenizer.processor.is_byte(i):
            is_byte[i], begins[i] = True, not 0x80 <= int(piece.piece[1:-1], 16) < 0xC0
    return is_byte, begins


def measure(
    encoder: Encoder, texts: Mapping[str, Sequence[str]], unknown: np.ndarray, begins: np.ndarray
) -> dict[str, Any]:
    """All figures over held-out `texts` by group.

    `unknown`, `begins`: of each id, whether it stands for (a part of) an unknown character, and for its first part.
    """
    total = np.zeros(encoder.vocab_size, dtype=np.int64)
    groups = {}
    for group, found in sorted(texts.items()):
        counts = np.zeros_like(total)
        for start in range(0, len(found), BATCH_TEXTS):
            ids = np.concatenate([*encoder.encode_batch(found[start : start + BATCH_TEXTS]), np.empty(0, np.int32)])
            counts += np.bincount(ids, minlength=len(total))
        groups[group] = group_figures(found, counts, unknown, begins, group not in UNSPACED)
        total += counts
    return {"vocab_size": encoder.vocab_size, "groups": groups, **whole_figures(total, unknown)}


def group_figures(
    texts: Sequence[str], counts: np.ndarray, unknown: np.ndarray, begins: np.ndarray, spaced: bool
) -> dict[str, float | int | None]:
    """Figures of one group from the counts of its ids."""
    tokens = max(int(counts.sum()), 1)
    chars, num_bytes = sum(map(len, texts)), sum(len(text.encode()) for text in texts)
    words = sum(len(text.split()) for text in texts) if spaced else 0
    return {
        "num_tokens": int(counts.sum()),
        "num_chars": chars,
        "num_bytes": num_bytes,
        "bytes_per_token": num_bytes / tokens,
        "tokens_per_char": tokens / max(chars, 1),
        "tokens_per_word": tokens / words if words else None,
        "byte_fallback_rate": float(counts[unknown].sum()) / tokens,
        "oov_char_rate": float(counts[begins].sum()) / max(chars, 1),
    }


def whole_figures(counts: np.ndarray, unknown: np.ndarray) -> dict[str, Any]:
    """Figures of all groups together."""
    tokens = max(int(counts.sum()), 1)
    ranked = np.sort(counts)[::-1].cumsum() / tokens
    return {
        "num_tokens": int(counts.sum()),
        "byte_fallback_rate": float(counts[unknown].sum()) / tokens,
        "renyi_efficiency": renyi_efficiency(counts),
        "coverage": [[k, float(ranked[k - 1])] for k in powers_up_to(len(counts))],
        "unused_share": float((counts == 0).mean()),
        "rare_share": float((counts < RARE * tokens).mean()),
    }


def powers_up_to(number: int) -> list[int]:
    """1, 2, 4 … and `number` itself."""
    powers = [1 << n for n in range(number.bit_length()) if 1 << n < number]
    return [*powers, number]


def renyi_efficiency(counts: np.ndarray, alpha: float = ALPHA) -> float:
    """Rényi entropy of the distribution of tokens over that of a uniform one: 1 is best; 0 for a single token."""
    if len(counts) < 2 or not counts.sum():
        return 0.0
    p = counts[counts > 0] / counts.sum()
    return float(np.log((p**alpha).sum()) / (1 - alpha) / np.log(len(counts)))
