"""What training has to know of the tokenizer's pieces: which are bytes, and the characters in each.

in    tokenizer dataset
out   fallback ids (for the guards), the character table (for sampling by characters, training/data/characters.py)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tasks.store.dataset import Dataset
from tasks.tokenizer.model import CONTROL_PIECES, Tokenizer

MODEL_FILE = "tokenizer.model"
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")


def piece_names(tokenizer: Dataset) -> list[str]:
    """The pieces of the tokenizer by id."""
    processor = Tokenizer.load(tokenizer.local(MODEL_FILE)).processor
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def fallback_ids(pieces: Sequence[str]) -> tuple[int, ...]:
    """The ids of single bytes and of the unknown piece."""
    return tuple(i for i, piece in enumerate(pieces) if piece == CONTROL_PIECES[0] or BYTE_PIECE.fullmatch(piece))


def character_table(pieces: Sequence[str], frequent: str) -> np.ndarray:
    """int16[2, V]: the characters of each piece, and those of `frequent` in it.

    A byte piece counts as a character when it begins one in UTF-8; control pieces have none.
    """
    table = np.zeros((2, len(pieces)), np.int16)
    for i, piece in enumerate(pieces):
        if byte := BYTE_PIECE.fullmatch(piece):
            table[0, i] = int(byte[1], 16) & 0xC0 != 0x80
        elif piece not in CONTROL_PIECES:
            table[:, i] = len(piece), sum(piece.count(character) for character in frequent)
    return table
