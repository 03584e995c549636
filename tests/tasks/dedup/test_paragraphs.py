"""Which paragraphs of a text may be compared, and texts without some of them."""

import itertools
import random

import pytest

from tasks.dedup.paragraphs import ParagraphConfig, comparable_units, cut, spans

PROSE = "The furnace burns by day and by night, and whoever keeps it learns to read the colour of the fire and iron."
WRAPPED = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy\n"
    "of this software and associated documentation files, to deal in the Software\n"
    "without restriction, including the rights to use, copy and modify it.\n"
)
CHINESE = "第二条　违反治安管理行为的处罚，除本法另有规定外，由县级以上人民政府公安机关决定，并应当书面告知当事人。" * 2
SONNET = (
    "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n"
    "Rough winds do shake the darling buds of May,\nAnd summer's lease hath all too short a date;\n"
)
TANG = "小苑春初望，宮池柳色輕。\n低昂含曉景，縈轉帶新晴。\n似蓋芳初合，如絲蔭漸成。\n依依連水暗，嫋嫋出牆明。\n" * 3
TABLE = (
    "| Name | What the setting means for a run | Default value |\n|---|---|---|\n| a | bounds the memory used | 1 |\n"
)
LIST = "- a first short entry\n- a second short entry\n- a third short entry\n- a fourth short entry\n- a fifth one\n"
DEFAULT = ParagraphConfig()


def pieces(text: str, unit: str) -> list[str]:
    return [text[start:end] for start, _, end in spans(text, unit)]


def test_a_paragraph_ends_at_a_blank_line_which_goes_with_it():
    text = "\n\na\nb\n \t\n\nc\r\n\r\nd"
    assert pieces(text, "paragraph") == ["a\nb\n \t\n\n", "c\r\n\r\n", "d"]


def test_a_line_takes_only_its_own_line_break():
    assert pieces("a\nb\n\nc", "line") == ["a\n", "b\n", "c"]


@pytest.mark.parametrize("unit", ["paragraph", "line"])
def test_fenced_blocks_and_what_touches_them_are_left_out(unit):
    text = "before\n\n```python\nx = 1\n\ny = 2\n```\n\nbetween\n\n~~~\nnever closed\n\nend"
    assert [piece.strip() for piece in pieces(text, unit)] == ["before", "between"]


@pytest.mark.parametrize("text", [PROSE, WRAPPED, CHINESE])
def test_prose_is_compared(text):
    assert len(list(comparable_units(text, DEFAULT))) == 1


@pytest.mark.parametrize("text", [SONNET, TANG, TABLE, LIST, "a\tb\tc of the table\n" * 9, "Chapter One. " * 7, ""])
def test_verse_lists_tables_and_short_units_are_not(text):
    assert not list(comparable_units(text, DEFAULT))


def test_layout_and_unicode_form_do_not_change_the_hash():
    copies = (PROSE, PROSE.replace(" by ", "\n\tby  "), PROSE.replace("The", "Ｔｈｅ"))
    hashes = {unit.hash for text in copies for unit in comparable_units(text, DEFAULT)}
    assert len(hashes) == 1


def test_units_do_not_overlap_and_cutting_them_leaves_the_rest_as_it_is():
    rng = random.Random(3)
    for _ in range(50):
        blocks = [rng.choice([PROSE, WRAPPED, SONNET, TABLE, "x", CHINESE]) for _ in range(6)]
        text = rng.choice(["\n\n", "\n \n", "\r\n\r\n"]).join(blocks)
        units = list(comparable_units(text, DEFAULT))
        assert all(a.end <= b.start for a, b in itertools.pairwise(units))
        some = [unit for unit in units if rng.random() < 0.5]
        rest = [unit.hash for unit in units if unit not in some]
        shorter = cut(text, ((unit.start, unit.end) for unit in some))
        assert [unit.hash for unit in comparable_units(shorter, DEFAULT)] == rest
        assert len(shorter) == len(text) - sum(unit.end - unit.start for unit in some)


def test_a_text_without_cuts_keeps_its_bytes():
    assert cut("\ufeffa\r\n\r\n b", []) == "\ufeffa\r\n\r\n b"


@pytest.mark.parametrize("setting", [{"min_documents": 1}, {"min_chars": 0}, {"max_removed": 1.5}])
def test_settings_out_of_range_are_named(setting):
    with pytest.raises(ValueError, match=f"paragraphs.{next(iter(setting))} must be"):
        ParagraphConfig(**setting)
