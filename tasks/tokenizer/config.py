"""Settings of the tokenizer stage.

Three stages, as in the field reports: what the trainer may join (pre-processing), how many pieces each language group
gets (main stage), what is one token whatever the statistics say (post-processing). All three end up as pieces and
scores of one model, so nothing has to be done to a text before it is encoded, here or in `transformers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tasks.tokenizer.model import CONTROL_PIECES

BUILT_IN_SYMBOLS = ("\n", "\t")  # SentencePiece keeps a tab out of all pieces, and a line break should cost one token
# Runs of blanks that code and tables are made of; a run not listed is two or three of these.
WHITESPACE_RUNS = (*("\n" * n for n in (2, 3)), *("\t" * n for n in range(2, 7)), *(" " * n for n in range(2, 17)))
NUM_FIXED_PIECES = len(CONTROL_PIECES) + len(BUILT_IN_SYMBOLS) + 256
OTHER = "other"
MATH_SYMBOLS = "±×÷¬∀∂∃∅∆∇∈∉∋∏∑−∓∘√∝∞∠∥∧∨∩∪∫∬∮∴∵∼≃≅≈≠≡≤≥≪≫⊂⊃⊆⊇⊕⊗⊥⋅"


def default_language_shares() -> dict[str, float]:
    return {"zh": 0.45, "en": 0.35, "code": 0.12, OTHER: 0.08}


def default_character_coverage() -> dict[str, float]:
    return {"zh": 0.99995, "en": 0.9999, "code": 0.9999, OTHER: 0.9995}


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """Settings of the tokenizer stage."""

    vocab_size: int = 32_000  # all told: control, byte and symbol pieces are part of it
    model_type: Literal["unigram", "bpe"] = "unigram"
    sample_chars: int = 10_000_000  # about; fitting takes some 4 CPU seconds per million
    language_shares: dict[str, float] = field(default_factory=default_language_shares)  # "zh": zh-*; sample and pieces
    max_repeats: int = 4  # how often a document of a scarce language may enter the sample
    character_coverage: dict[str, float] = field(default_factory=default_character_coverage)  # by group; rest in bytes
    max_char_share: float = 0.75  # of a group's pieces: a small vocabulary does without the rarest characters
    split_digits: bool = True  # each digit a token
    max_piece_chars: int = 16
    max_han_chars: int = 4  # 1: each Chinese character a token of its own
    user_defined_symbols: tuple[str, ...] = ("<CODE>", "[MED]")  # markers: always one token, wherever they occur
    document_markers: dict[str, str] = field(default_factory=lambda: {"code": "<CODE>"})  # group: symbol it begins with
    forced_merges: tuple[str, ...] = ("Transformer", "PyTorch")  # one token, wherever they occur
    single_symbols: str = MATH_SYMBOLS  # each a token, never part of a longer piece
    max_compounds: int = 200  # frequent words that the fitted model splits and that become pieces after all
    compound_min_count: int = 100  # occurrences in the sample
    hard_vocab_limit: bool = True  # False: a corpus too small for vocab_size gives a smaller vocabulary (unigram)
    seed: int = 0

    def __post_init__(self) -> None:
        least = NUM_FIXED_PIECES + len(self.symbols)
        if self.vocab_size <= least:
            raise ValueError(
                f"vocab_size: expected above {least} (control, byte, symbol pieces), found {self.vocab_size}"
            )
        for name in ("sample_chars", "max_repeats", "max_piece_chars", "max_han_chars", "compound_min_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, found {getattr(self, name)}")
        if self.max_compounds < 0:
            raise ValueError(f"max_compounds: expected 0 or more, found {self.max_compounds}; 0 adds none")
        if not 0 < self.max_char_share <= 1:
            raise ValueError(f"max_char_share: expected above 0 and at most 1, found {self.max_char_share}")
        self.check_groups()
        self.check_symbols()
        if self.model_type == "bpe" and not self.hard_vocab_limit:
            raise ValueError("hard_vocab_limit: false needs model_type unigram; for bpe set a vocab_size that fits")

    def check_groups(self) -> None:
        shares = self.language_shares.values()
        if not shares or min(shares) < 0 or not sum(shares):
            raise ValueError(f"language_shares: expected shares from 0 up, not all 0, found {self.language_shares}")
        for group, coverage in self.character_coverage.items():
            if not 0.9 <= coverage <= 1:
                raise ValueError(f"character_coverage.{group}: expected 0.9 to 1, found {coverage}")
        for name in ("character_coverage", "document_markers"):
            if unknown := sorted(getattr(self, name).keys() - {*self.language_shares, OTHER}):
                known = ", ".join(sorted({*self.language_shares, OTHER}))
                raise ValueError(f"{name}: no group {unknown[0]!r}; language_shares has {known}")

    def check_symbols(self) -> None:
        for name in ("user_defined_symbols", "forced_merges", "single_symbols"):
            for symbol in getattr(self, name):
                if not symbol or symbol in CONTROL_PIECES + BUILT_IN_SYMBOLS or re.search(r"[\u2581\u2585\0]", symbol):
                    raise ValueError(f"{name}: {symbol!r} is empty, taken, or holds a reserved character")
        for group, symbol in self.document_markers.items():
            if symbol not in self.user_defined_symbols:
                raise ValueError(f"document_markers.{group}: {symbol!r} is not among user_defined_symbols")

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is one token wherever it occurs, each once."""
        return tuple(dict.fromkeys((*self.user_defined_symbols, *self.single_symbols, *self.forced_merges)))

    def coverage(self, group: str) -> float:
        """Share of a group's characters that get pieces."""
        return self.character_coverage.get(group, self.character_coverage.get(OTHER, 0.9995))
