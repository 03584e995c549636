"""Labels live in the store, outlast a dataset, and change none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.review import beside, labels, rates
from tasks.review.labels import Label
from tasks.store.collect import collect, garbage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

Chain = dict[str, Dataset]


def label(id_: str, verdict: str = "wrong", **more: str) -> Label:
    return Label(id=id_, stage="filter", reason=more.pop("reason", "too_short"), verdict=verdict, **more)


def ids(dataset: Dataset, reason: str = "too_short") -> list[str]:
    [group] = beside.collect(dataset, [reason], 20)
    return [case.record.id for case in group.cases]


def test_the_last_label_of_a_document_counts(own_chain: Chain) -> None:
    dataset = own_chain["filter"]
    one = ids(dataset)[0]
    labels.add(dataset, [label(one, "wrong"), label(one, "unsure")])
    labels.add(dataset, [label(one, "right", note="seen again")])
    [found] = labels.load(dataset).by_key.values()
    assert (found.verdict, found.note) == ("right", "seen again") and len(labels.own(dataset)) == 3


def test_labels_change_no_dataset_and_garbage_collection_leaves_them(own_chain: Chain) -> None:
    dataset = own_chain["filter"]
    labels.add(dataset, [label(ids(dataset)[0])])
    rates.store(dataset)
    again = Dataset.open_folder(dataset.store, dataset.folder)
    assert again.digest == dataset.digest and not again.missing()
    assert garbage(dataset.store, unfinished_hours=0) == [] and collect(dataset.store, unfinished_hours=0) == []
    assert len(labels.own(dataset)) == 1


def test_labels_carry_over_where_the_document_met_the_same_decision(
    own_chain: Chain, run_review_chain: Callable[..., Chain], tmp_path: Path
) -> None:
    old = own_chain["filter"]
    [chinese] = [
        case.record.id
        for case in beside.collect(old, ["too_short"], 20)[0].cases
        if case.record.language.startswith("zh")
    ]
    short = [one for one in ids(old) if one != chinese]
    labels.add(old, [label(short[0]), label(chinese), label(ids(old, "repeated_ngram")[0], reason="repeated_ngram")])
    new = run_review_chain(tmp_path / "store", min_chars_by_language={"zh": 10})["filter"]
    assert new.key != old.key
    found = labels.load(new)
    assert (found.num_carried, found.num_left) == (2, 1)
    assert chinese not in {one for one, _, _ in found.by_key}
    assert rates.measure(new).num_carried == 2


def test_a_store_in_memory_holds_labels_like_a_folder(own_chain: Chain) -> None:
    local = own_chain["filter"]
    remote = Store("memory://review-labels")
    for name in local.store.sizes(""):
        with local.store.open(name) as file:
            remote.write(name, file.read())
    dataset = Dataset.open_folder(remote, local.folder)
    labels.add(dataset, [label(ids(dataset)[0])])
    assert [one.verdict for one in labels.own(dataset)] == ["wrong"]
    assert beside.collect(dataset) == beside.collect(local)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "line 2: expected a JSON object, found list"),
        (b'{"id": "a", "stage": "filter"}', "line 2: .*reason, verdict is missing"),
        (b'{"id": "a", "stage": "filter", "reason": "x", "verdict": "no"}', "line 2: verdict: .*found 'no'"),
        (b'{"id": 7, "stage": "filter", "reason": "x", "verdict": "right"}', "line 2: id: expected text, found 7"),
        (b"{", "line 2: "),
        (b"\xff", "line 2: "),
    ],
)
def test_a_line_that_is_no_label_is_named(line: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"labels.jsonl: {message}"):
        labels.parse(b"\n" + line + b"\n", "labels.jsonl")


def test_a_label_of_a_document_that_met_another_decision_is_refused(chain: Chain) -> None:
    dataset = chain["filter"]
    one = ids(dataset)[0]
    with pytest.raises(ValueError, match=r"labelled for 'kept', but in this dataset of filter it met 'too_short'"):
        labels.check(dataset, [label(one, reason="kept")], "x")
    with pytest.raises(ValueError, match="is not among its documents"):
        labels.check(dataset, [label("0" * 32)], "x")
