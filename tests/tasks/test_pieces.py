"""The character table against the text that pieces spell."""

from __future__ import annotations

from tasks.pieces import character_table, fallback_ids, piece_names
from tasks.tokenizer.model import Tokenizer

PIECES = ["<unk>", "<s>", "</s>", "<pad>", "<0x41>", "<0xE7>", "<0x9A>", "的了", " 在 a", "iron"]


def test_pieces_have_their_characters_and_a_byte_one_where_a_character_begins():
    table = character_table(PIECES, "的了在")
    assert table.tolist() == [[0, 0, 0, 0, 1, 1, 0, 2, 4, 4], [0, 0, 0, 0, 0, 0, 0, 2, 1, 0]]


def test_bytes_and_the_unknown_piece_are_fallback():
    assert fallback_ids(PIECES) == (0, 4, 5, 6)


def test_the_tables_sum_over_a_text_is_the_texts_own_count(trained):
    pieces = piece_names(trained["tokenizer"])
    tokenizer = Tokenizer.load(trained["tokenizer"].local("tokenizer.model"))
    table = character_table(pieces, "铁")  # a piece; one that falls to its bytes counts as a character, not as itself
    for text in ("百炼成钢的时候，铁匠在看着铁。", "the age of iron\n", "龘𠮷 é 🔥"):
        assert table[:, tokenizer.encode(text)].sum(axis=1).tolist() == [len(text), text.count("铁")]
