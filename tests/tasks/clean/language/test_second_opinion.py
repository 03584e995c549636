"""The second model: languages that lid.176 lacks, doubt, and how both are joined."""

from tasks.clean.language.identify import identify
from tasks.clean.language.second_opinion import cld2_shares, join

ZULU = "Zonke izidalwa zabantu zizalwa zikhululekile zilingana ngesithunzi nangamalungelo."


def test_a_language_outside_the_first_models_list_is_named():
    assert identify(ZULU).language == "zu"


def test_text_of_no_language_gets_no_second_opinion():
    assert cld2_shares("12 34 \ud800 \x00") == {}


def test_the_second_model_decides_between_near_equals():
    joined = join([("en", 0.5), ("de", 0.4)], {"de": 1.0}, frozenset({"en", "de"}))
    assert joined[0][0] == "de" and abs(sum(score for _, score in joined) - 1) < 1e-9
