"""Markers in front of documents."""

from __future__ import annotations

import numpy as np

from tasks.tokenizer.markers import Markers

IDS = [np.array(values, dtype=np.int32) for values in ([7, 8], [], [9])]


def test_documents_of_a_marked_group_begin_with_its_marker():
    markers = Markers(ids={"code": 4}, groups={"zh": 0.5, "code": 0.5})
    marked = markers.mark(IDS, ["code", "code", "zh-Hans"])
    assert [each.tolist() for each in marked] == [[4, 7, 8], [4], [9]]
    assert all(each.dtype == np.int32 for each in marked)


def test_a_language_without_a_group_is_one_of_the_others():
    markers = Markers(ids={"other": 5}, groups={"zh": 0.5})
    assert [each.tolist() for each in markers.mark(IDS, ["de", "zh-Hant", "und"])] == [[5, 7, 8], [], [5, 9]]


def test_without_markers_nothing_changes():
    assert [each.tolist() for each in Markers(ids={}, groups={}).mark(IDS, ["a", "b", "c"])] == [[7, 8], [], [9]]


def test_other_markers_have_another_digest():
    some = [Markers(ids=ids, groups={"code": 1.0}) for ids in ({}, {"code": 4}, {"code": 5})]
    assert len({each.digest for each in some}) == 3
