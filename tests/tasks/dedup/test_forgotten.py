"""The list of documents that must not be used."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tasks.dedup import exact, forgotten
from tasks.dedup.survivors import catalogue
from tasks.store.filesystem import Store

FIRST, SECOND = "a" * 32, "b" * 32


def test_ids_come_on_the_list_once_and_off_again(tmp_path):
    store = Store(str(tmp_path))
    empty = forgotten.digest(forgotten.forgotten(store))
    assert forgotten.add(store, SECOND, "asked by its author") and not forgotten.add(store, SECOND)
    assert forgotten.add(store, FIRST) and forgotten.forgotten(store) == (FIRST, SECOND)
    assert store.read_json(f"forgotten/{SECOND}.json")["note"] == "asked by its author"
    assert forgotten.digest(forgotten.forgotten(store)) != empty
    assert forgotten.remove(store, FIRST) and not forgotten.remove(store, FIRST)
    assert forgotten.remove(store, SECOND) and forgotten.digest(forgotten.forgotten(store)) == empty


@pytest.mark.parametrize("wrong", ["", "a" * 31, "A" * 32, "../refs/x"])
def test_what_is_no_id_is_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="expected 32 hex digits"):
        forgotten.add(Store(str(tmp_path)), wrong)


def test_rows_of_the_listed_documents_are_found_and_unknown_ids_ignored():
    ids = [f"{i:032x}" for i in range(5)]
    table = pa.table({"id": ids, "source": ["s"] * 5, "length": pa.array([1] * 5, pa.int64())})
    documents = catalogue(["s"], [table])
    assert forgotten.rows_of(documents, [ids[4], ids[1], FIRST]).tolist() == [1, 4]
    assert forgotten.rows_of(documents, []).dtype == np.int64


def test_what_is_stored_of_a_forgotten_document_has_no_text(make_document):
    outcome = forgotten.dropped(make_document("a private text", name="x"))
    assert outcome.document.text == "" and outcome.reason == "forgotten" and outcome.evidence == {"num_chars": 14}


def test_a_forgotten_document_goes_without_its_text_and_its_copy_comes_back(
    run_on, make_document, read_kept, read_removed
):
    best, copy, other = (make_document(text, name=text) for text in ("one  text", "one text", "another"))
    before = run_on(exact.STAGE, exact.ExactConfig(), [[best, copy], [other]], store="same")
    after = run_on(exact.STAGE, exact.ExactConfig(forgotten=(best.id,)), [[best, copy], [other]], store="same")
    assert {d.id for d in read_kept(before)} == {best.id, other.id}
    assert {d.id for d in read_kept(after)} == {copy.id, other.id}
    assert read_removed(after) == {best.id: {"reason": "forgotten", "num_chars": 9}}
    assert [d.text for e in after.files("removed") for d in after.documents(e)] == [""]


def test_the_list_enters_the_key(run_on, make_document):
    shards = [[make_document("one text")]]
    first = run_on(exact.STAGE, exact.ExactConfig(), shards, store="same")
    assert run_on(exact.STAGE, exact.ExactConfig(forgotten=(FIRST,)), shards, store="same").key != first.key
