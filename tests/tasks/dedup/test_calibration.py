"""One scale for the limits, whatever an encoder makes of texts that have nothing to do with each other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.dedup import calibration
from tasks.dedup.calibration import REFERENCE, CalibrationConfig, Scale
from tasks.dedup.calibration_texts import TEXTS
from tasks.dedup.encoders import MINILM, USE

ON_TEXTS = CalibrationConfig(min_documents=20, num_documents=40)
ON_DOCUMENTS = CalibrationConfig(measure_on="documents", min_documents=20, num_documents=40)


def scale(baseline: float) -> Scale:
    return Scale(baseline=baseline, measured_on="documents", num_texts=400)


def vectors(baseline: float, number: int = 60) -> np.ndarray:
    """Unit vectors of which any two have this cosine."""
    rows = np.zeros((number, number + 1), dtype=np.float32)
    rows[:, 0], rows[np.arange(number), np.arange(1, number + 1)] = np.sqrt(baseline), np.sqrt(1 - baseline)
    return rows


def test_on_the_reference_a_limit_is_itself_and_on_a_narrow_model_it_is_higher():
    assert scale(REFERENCE).to_cosine(0.95) == pytest.approx(0.95)
    assert scale(0.85).to_cosine(0.95) == pytest.approx(1 - 0.05 / 0.825 * 0.15)


@given(st.floats(-0.2, 0.99), st.floats(0.01, 1))
def test_a_limit_keeps_its_share_of_the_way_from_unrelated_to_identical(baseline, limit):
    share = (limit - REFERENCE) / (1 - REFERENCE)
    assert scale(baseline).to_cosine(limit) == pytest.approx(baseline + share * (1 - baseline), abs=1e-6)
    assert scale(baseline).to_cosine(1) == 1


def test_the_baseline_is_the_median_cosine_and_few_duplicates_do_not_move_it():
    assert calibration.baseline_of(vectors(0.7)) == 0.7
    assert calibration.baseline_of(np.concatenate([vectors(0.7), vectors(0.7)[:10]])) == 0.7


def test_bundled_texts_are_measured_whatever_the_documents_which_are_only_told():
    few, many = (calibration.measure(USE, "zh", vectors(0.7, number), ON_TEXTS) for number in (2, 60))
    assert (few.measured_on, few.num_texts, few.of_documents) == ("texts", len(TEXTS["zh"]), None)
    assert 0.1 < few.baseline < 0.25 and many == dataclasses.replace(few, of_documents=0.7)
    assert calibration.measure(USE, "ar", vectors(0.7, 2), ON_TEXTS) == few  # of the bundled ones USE is given Chinese


def test_documents_are_measured_where_asked_and_enough_and_where_no_text_is_known():
    found = Scale(baseline=0.7, measured_on="documents", num_texts=60, of_documents=0.7)
    assert calibration.measure(USE, "zh", vectors(0.7), ON_DOCUMENTS) == found
    assert calibration.measure(USE, "zh", vectors(0.7, 19), ON_DOCUMENTS).measured_on == "texts"
    icelandic = dataclasses.replace(MINILM, languages=("is",))
    assert calibration.measure(icelandic, "is", vectors(0.7), ON_TEXTS) == found


def test_limits_stay_cosines_where_asked_and_where_nothing_can_be_measured():
    raw = dataclasses.replace(USE, scale="cosine")
    unknown = dataclasses.replace(MINILM, languages=("is",))
    for encoder, given_vectors in ((raw, vectors(0.7)), (unknown, vectors(0.7, 2))):
        found = calibration.measure(encoder, encoder.languages[0], given_vectors, ON_DOCUMENTS)
        scaled = calibration.calibrated(encoder, found)
        assert (scaled.threshold, scaled.screen) == (0.95, 0.82)
        assert calibration.facts(scaled, found)["scale"] == "cosine"


def test_the_choice_of_documents_does_not_depend_on_their_order():
    ids = np.array([f"{number:032x}" for number in range(300)], dtype="S32")
    order = np.random.default_rng(1).permutation(300)
    chosen = set(ids[calibration.choose(ids, 50, 0)].tolist())
    assert set(ids[order][calibration.choose(ids[order], 50, 0)].tolist()) == chosen and len(chosen) == 50
    assert set(ids[calibration.choose(ids, 50, 1)].tolist()) != chosen


def test_bundled_texts_are_unrelated_and_fill_a_segment():
    for texts in TEXTS.values():
        assert len(set(texts)) == 16 and min(map(len, texts)) > 50


def test_a_sample_smaller_than_its_least_is_refused():
    with pytest.raises(ValueError, match="min_documents must be at least 2"):
        CalibrationConfig(min_documents=500)
