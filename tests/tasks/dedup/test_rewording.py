"""When two texts that an encoder finds alike are one text reworded."""

from tasks.dedup.rewording import is_template, overlap, segments

FORM = "{name}成立于{year}年，是一家专业从事防水补漏的企业。{name}位于{place}，{name}愿与您携手共创未来。"


def test_segments_are_head_middle_and_end():
    text = "a" * 100 + "b" * 100 + "c" * 100
    assert segments(text, 100) == ["a" * 100, "b" * 100, "c" * 100]
    assert segments("short", 100) == ["short"] and len(segments("x" * 150, 100)) == 2


def test_overlap_counts_words_or_characters():
    assert overlap("a b c d", "b a d e") == 3 / 5
    assert overlap("甲乙丙", "甲乙丁") == 2 / 4


def test_other_numbers_make_a_template():
    left, right = (FORM.format(name="东方公司", year=year, place="人民路") for year in (1998, 2011))
    assert is_template(left, right)


def test_one_name_for_another_again_and_again_makes_a_template():
    left, right = (FORM.format(name=name, year=2008, place="人民路") for name in ("东方公司", "恒通公司"))
    assert is_template(left, right)


def test_a_reworded_text_is_no_template():
    left = "The council met on 5 May and agreed to close the old bridge for repairs until the autumn of 2024."
    right = "On 5 May the council met and decided that the old bridge be closed for repair until autumn 2024."
    assert not is_template(left.lower(), right.lower())
