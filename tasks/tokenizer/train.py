"""Fit a SentencePiece model to a sample of texts. Same texts in the same order and same config → same bytes.

Nothing is normalised: no Unicode form is changed, no space is added, taken away or merged, a new line and a tab are
symbols of their own. What the vocabulary lacks is spelled in UTF-8 bytes. Unigram is the default: it encodes some
four times as fast as SentencePiece's BPE and its export is exact; BPE trains some ten times as fast.

in    texts               of the sample, in a fixed order
out   bytes               a sealed model (tasks/tokenizer/model.py)
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import sentencepiece

from tasks.tokenizer.model import BOS_ID, CHUNKS, CONTROL_PIECES, EOS_ID, PAD_ID, UNK_ID, seal

# Partial sums of the EM steps are added up by thread: another number of threads would give other bytes.
NUM_THREADS = 4
BUILT_IN_SYMBOLS = ("\n", "\t")  # SentencePiece keeps a tab out of all pieces, and a line break should cost one token
NUM_FIXED_PIECES = len(CONTROL_PIECES) + len(BUILT_IN_SYMBOLS) + 256
OTHER = "other"


def default_language_shares() -> dict[str, float]:
    return {"zh": 0.45, "en": 0.35, "code": 0.12, OTHER: 0.08}


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """Settings of the tokenizer stage."""

    vocab_size: int = 32_000  # all told: control, byte and symbol pieces are part of it
    model_type: Literal["unigram", "bpe"] = "unigram"
    sample_chars: int = 10_000_000  # about; fitting takes some 5 s per million on two idle cores (vocab_size 16,000)
    language_shares: dict[str, float] = field(default_factory=default_language_shares)  # of the sample; "zh": zh-*
    max_repeats: int = 4  # how often a document of a scarce language may enter the sample
    user_defined_symbols: tuple[str, ...] = ("<CODE>", "[MED]")  # always one token, wherever they occur
    character_coverage: float = 0.9995  # the rarest characters beyond it are spelled in bytes
    split_digits: bool = True  # each digit a token
    max_piece_chars: int = 16
    hard_vocab_limit: bool = True  # False: a corpus too small for vocab_size gives a smaller vocabulary (unigram)
    seed: int = 0

    def __post_init__(self) -> None:
        least = NUM_FIXED_PIECES + len(self.user_defined_symbols)
        if self.vocab_size <= least:
            raise ValueError(
                f"vocab_size: expected above {least} (control, byte, symbol pieces), found {self.vocab_size}"
            )
        if not 0.9 <= self.character_coverage <= 1:
            raise ValueError(f"character_coverage: expected 0.9 to 1, found {self.character_coverage}")
        if self.sample_chars < 1 or self.max_repeats < 1:
            raise ValueError("sample_chars and max_repeats: expected at least 1")
        shares = self.language_shares.values()
        if not shares or min(shares) < 0 or not sum(shares):
            raise ValueError(f"language_shares: expected shares from 0 up, not all 0, found {self.language_shares}")
        for symbol in self.user_defined_symbols:
            if not symbol or symbol in CONTROL_PIECES + BUILT_IN_SYMBOLS or re.search(r"[\u2581\u2585\0]", symbol):
                raise ValueError(f"user_defined_symbols: {symbol!r} is empty, taken, or holds a reserved character")
        if self.model_type == "bpe" and not self.hard_vocab_limit:
            raise ValueError("hard_vocab_limit: false needs model_type unigram; for bpe set a vocab_size that fits")


def lines_of(texts: Iterable[str]) -> Iterator[str]:
    """What the trainer sees: lines, the long ones cut. U+2581 would read as a space there, so it ends a line."""
    for text in texts:
        for line in text.replace("\u2581", "\n").split("\n"):
            if line:
                yield from CHUNKS.findall(line)


def train(texts: Iterable[str], config: TokenizerConfig) -> bytes:
    """A sealed model. Raises ValueError when the texts are too few, or too varied, for `vocab_size`."""
    out = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines_of(texts),
            model_writer=out,
            vocab_size=config.vocab_size,
            model_type=config.model_type,
            character_coverage=config.character_coverage,
            byte_fallback=True,
            user_defined_symbols=[*BUILT_IN_SYMBOLS, *config.user_defined_symbols],
            hard_vocab_limit=config.hard_vocab_limit,
            split_digits=config.split_digits,
            max_sentencepiece_length=config.max_piece_chars,
            allow_whitespace_only_pieces=True,  # indentation of code
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            num_threads=NUM_THREADS,
            max_sentence_length=1 << 20,  # skip no line: they are cut already
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(explain(str(error), config)) from error
    return seal(out.getvalue())


def explain(message: str, config: TokenizerConfig) -> str:
    """SentencePiece's error in terms of our settings."""
    if match := re.search(r"Vocabulary size too high.*<= (\d+)", message):
        limit = int(match[1])
        return (
            f"vocab_size: {config.vocab_size:,} pieces do not exist in the sample; it supports {limit:,}. Set "
            f"vocab_size to at most {limit}, feed more text, or set hard_vocab_limit: false (unigram)"
        )
    if match := re.search(r"smaller than required_chars.*?(\d+) vs (\d+)", message):
        return (
            f"vocab_size: {config.vocab_size:,} is less than the {int(match[2]):,} pieces that the characters need. "
            f"Raise it above {match[2]}, or lower character_coverage ({config.character_coverage})"
        )
    return f"SentencePiece could not train on the sample: {message}. Is there any text in the input?"
