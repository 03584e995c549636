"""The quality classifier tells texts apart, repeats byte for byte, and measures what it has not seen."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tasks.clean.filter.pii import PiiConfig, mask
from tasks.clean.filter.stage import FilterConfig, drop_reason
from tasks.clean.language.quality import digest, load, tokens
from tasks.clean.language.quality_training import QualityTrainingConfig, auc, choose, example, held_out, model_of, train
from tasks.clean.metrics import measure

CONFIG = QualityTrainingConfig(eval_fraction=0.3, epochs=20, buckets=2_000, min_count=1)
RIVER = "the river rises slowly because snow melts on high hills in spring"
SPAM = "buy cheap pills now click here free bonus casino win"
GOOD = {"en": RIVER.split(), "zh": list("河水在春天慢慢上涨因为山上积雪融化了")}
BAD = {"en": SPAM.split(), "zh": list("点击领取优惠加微信免费送红包赢大奖")}


def texts(vocabulary: dict, number: int, seed: int) -> list[tuple[str, str]]:
    """(text, language): words in random order."""
    draw = random.Random(seed)
    found = []
    for n in range(number):
        language = ("en", "zh")[n % 2]
        words = draw.choices(vocabulary[language], k=30)
        found.append(((" " if language == "en" else "").join(words), language))
    return found


def examples(vocabulary: dict, number: int = 200, seed: int = 3) -> list:
    return [example(text, language, seed) for text, language in texts(vocabulary, number, seed)]


@pytest.fixture(scope="module")
def trained():
    return train(examples(GOOD), examples(BAD), CONFIG)


def test_tokens_are_cjk_characters_words_marks_and_line_breaks():
    assert tokens("Ｈello，炉火2024!\n\n 世界") == "hello , 炉 火 0000 ! ↵ 世 界"
    assert tokens("__label__positive") == "_ _ label _ _ positive"  # no text can bring a label
    for text in ("call 139-1234-5678, or a@b.com", "从114.247.50.2来，邮箱ｚ＠１６３．ｃｏｍ"):
        assert tokens(mask(text, PiiConfig())[0]) == tokens(text)  # masked or not: one text
    assert tokens("\ud800 \n") == "?" and tokens(" \n") == ""


@given(st.text(max_size=200))
@settings(deadline=None)
def test_no_text_becomes_a_label_or_a_second_line(text):
    line = tokens(text)
    assert "__label__" not in line and len(line.split("\n")) == 1


def test_good_and_bad_are_told_apart_in_both_languages(trained):
    card, model = trained.card, model_of(trained.model)
    assert card["held_out"]["auc"] > 0.99 and set(card["held_out_by_language"]) == {"en", "zh"}
    for language in ("en", "zh"):
        (good, _), (bad, _) = (texts(v, 2, seed=99)[language == "zh"] for v in (GOOD, BAD))
        assert model.score(good) > 0.5 > model.score(bad)
    assert model.score("") == 0.0


def test_the_order_of_examples_and_copies_of_them_change_no_byte(trained):
    again = train(examples(GOOD)[::-1] + examples(GOOD)[:50], examples(BAD), CONFIG)
    assert again.model == trained.model
    assert again.card["data"]["positive"].pop("copies_or_empty") > trained.card["data"]["positive"]["copies_or_empty"]


def test_another_seed_is_another_model_and_the_quantised_one_is_smaller(trained):
    other = train(examples(GOOD, seed=4), examples(BAD, seed=4), dataclasses.replace(CONFIG, seed=4))
    assert other.model != trained.model
    config = dataclasses.replace(CONFIG, buckets=100_000)
    large, small = (
        train(examples(GOOD), examples(BAD), dataclasses.replace(config, quantize=q)) for q in (False, True)
    )
    assert len(small.model) < 0.5 * len(large.model) and small.card["held_out"]["auc"] > 0.99


def test_copies_stand_on_one_side_of_the_split_and_the_split_has_its_share():
    one, copy = example("A  text.", "en", 1), example("A text.\n", "en", 1)
    assert one.key == copy.key
    chosen, skipped = choose([one, copy, example("", "en", 1)], 10)
    assert (len(chosen), skipped) == (1, 2)
    many = [example(f"text {n}", "en", 1) for n in range(2_000)]
    assert 0.25 < sum(held_out(each, 0.3) for each in many) / len(many) < 0.35


def test_a_text_in_both_classes_teaches_neither():
    shared = examples(GOOD, 30, seed=8)
    both = train(examples(GOOD) + shared, examples(BAD) + shared, CONFIG)
    assert both.card["in_both_classes"] == 30 and both.model == train(examples(GOOD), examples(BAD), CONFIG).model


def test_too_few_examples_are_an_error_that_counts_them():
    with pytest.raises(
        ValueError, match=r"--negative: expected at least 20 different documents .*found \d+ .*give more"
    ):
        train(examples(GOOD), examples(BAD, 6), CONFIG)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auc_equals_that_of_scikit_learn(rows):
    scores, labels = np.array([row[0] for row in rows], dtype=float), np.array([row[1] for row in rows])
    if labels.all() or not labels.any():
        assert auc(scores, labels) is None
    else:
        assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-4)


def test_a_model_file_is_loaded_and_anything_else_is_a_clear_error(trained, tmp_path: Path):
    path = tmp_path / "model.bin"
    path.write_bytes(trained.model)
    good = texts(GOOD, 1, seed=5)[0][0]
    assert load(str(path)).score(good) == model_of(trained.model).score(good)
    before = digest(str(path))
    path.write_bytes(b"no model at all")
    assert digest(str(path)) != before
    with pytest.raises(ValueError, match=r"model\.bin: cannot be read as a fastText model"):
        load(str(path))
    with pytest.raises(ValueError, match=r"gone\.bin: cannot be read: .*danlu train-quality --positive"):
        digest(str(tmp_path / "gone.bin"))


def test_the_filter_drops_low_quality_and_asks_for_the_metric():
    metrics = measure(PAGE, "en")
    config = FilterConfig(min_quality=0.3)
    assert drop_reason(metrics | {"quality": 0.2999}, "en", config) == "low_quality"
    assert drop_reason(metrics | {"quality": 0.3}, "en", config) is None
    assert drop_reason(metrics, "en", FilterConfig()) is None
    with pytest.raises(ValueError, match=r"set language.quality_model to a model that `danlu train-quality` made"):
        drop_reason(metrics, "en", config)


PAGE = (
    "The furnace takes raw text and gives back a model. It reads every page that the crawler found, decides what to "
    "keep with rules that anyone can check, and writes down why the rest was left out. Nothing of value is lost."
)
