"""Exact duplicates: whole documents, and paragraphs."""

import dataclasses
import gzip
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.dedup import exact
from tasks.dedup.paragraphs import ParagraphConfig
from tasks.dedup.survivors import SourceLossError
from tasks.document import Document
from tasks.store.dataset import Dataset


def test_one_of_each_text_stays_and_names_the_rest(run_on, make_document, read_kept, read_removed):
    web = make_document("甲乙丙\r\n  丁", source="web", name="1")
    book = make_document("甲乙丙丁", source="book", name="2")
    other = make_document("another text", source="web", name="3")
    config = exact.ExactConfig(source_priority={"book": 5})
    dataset = run_on(exact.STAGE, config, [[web, other], [book]])
    assert {d.id for d in read_kept(dataset)} == {book.id, other.id}
    assert read_removed(dataset) == {web.id: {"reason": "exact_duplicate", "kept_id": book.id, "similarity": 1.0}}
    assert dataset.manifest.account.total().dropped == {"exact_duplicate": 1}


def test_survivors_do_not_depend_on_shards(run_on, make_document, read_kept):
    documents = [make_document(text, name=str(i)) for i, text in enumerate(["a b", "a  b", " a b", "c", "c\n", "d"])]
    found = [
        {d.id for d in read_kept(run_on(exact.STAGE, exact.ExactConfig(), shards))}
        for shards in ([documents], [documents[::-1]], [documents[i::3] for i in range(3)], [[], documents])
    ]
    assert all(ids == found[0] for ids in found) and len(found[0]) == 3


def test_an_empty_dataset_passes(run_on):
    assert run_on(exact.STAGE, exact.ExactConfig(), []).shards == []


POOL = [
    f"Paragraph {n} says at some length what number {n} is good for, and then says so a second time." for n in range(9)
]
SHORT = ["Contents", "第一章", "- item"]
EVERY_COPY = {"min_chars": 50, "min_documents": 2, "min_source_documents": 1000}


def with_paragraphs(**settings: Any) -> exact.ExactConfig:
    return exact.ExactConfig(paragraphs=ParagraphConfig(**{**EVERY_COPY, **settings}))


def texts_by_id(documents: list[Document]) -> dict[str, str]:
    return {document.id: document.text for document in documents}


def spans_removed(dataset: Dataset) -> list[dict[str, Any]]:
    entries = [entry for entry in dataset.files("sidecar") if entry.name.startswith("removed_paragraphs/")]
    return [row for entry in entries for batch in dataset.batches(entry) for row in batch.to_pylist()]


def test_later_documents_lose_a_paragraph_and_the_first_keeps_it(run_on, make_document, read_kept):
    first = make_document(f"{POOL[0]}\n\n{POOL[1]}\n\n{POOL[2]}", name="1")
    later = make_document(f"{POOL[3]}\n\n  {POOL[1]}  \n\n{POOL[4]}", name="2", source="s", language="de")
    code = make_document(f"{POOL[1]}\n\nx = 1", name="3", language="code")
    shared = sorted([first, later], key=lambda d: (-len(d.text), d.id))
    dataset = run_on(exact.STAGE, with_paragraphs(), [[later, code], [first]])
    loser = shared[1]
    kept = {d.id: d for d in read_kept(dataset)}
    [row] = spans_removed(dataset)
    assert (row["id"], row["kept_id"]) == (loser.id, shared[0].id)
    assert loser.text[row["start"] : row["end"]].strip() == POOL[1]
    assert kept[loser.id].text == loser.text[: row["start"]] + loser.text[row["end"] :]
    assert kept[loser.id].metrics == {
        "removed_paragraphs": 1.0,
        "removed_paragraph_chars": float(row["end"] - row["start"]),
    }
    assert kept[code.id].text == code.text and kept[shared[0].id].text == shared[0].text
    assert dataset.manifest.facts["paragraphs"]["documents_cut"] == 1


def test_source_priority_decides_who_keeps_a_paragraph(run_on, make_document, read_kept):
    web = make_document("\n\n".join(POOL[:5]), source="web")
    book = make_document("\n\n".join(POOL[4:7]), source="book")
    config = dataclasses.replace(with_paragraphs(), source_priority={"book": 1})
    kept = texts_by_id(read_kept(run_on(exact.STAGE, config, [[web, book]])))
    assert kept == {book.id: book.text, web.id: "\n\n".join(POOL[:4]) + "\n\n"}


def test_a_document_of_copies_goes_whole_and_names_who_holds_most(run_on, make_document, read_kept, read_removed):
    long = make_document("\n\n".join(POOL[:6]))
    copies = make_document(f"Contents\n\n{POOL[1]}\n\n{POOL[0]}")
    dataset = run_on(exact.STAGE, with_paragraphs(), [[copies], [long]])
    assert texts_by_id(read_kept(dataset)) == {long.id: long.text}
    evidence = {"removed_paragraphs": 2, "removed_paragraph_chars": len(copies.text) - 10, "chars": len(copies.text)}
    assert read_removed(dataset) == {copies.id: {"reason": "duplicate_paragraphs", "kept_id": long.id, **evidence}}
    assert len(spans_removed(dataset)) == 2


def test_what_only_a_document_that_goes_whole_held_first_stays_with_the_next(run_on, make_document, read_kept):
    first = make_document("\n\n".join(POOL[:6]))
    goes = make_document("\n\n".join([*POOL[:4], POOL[8]]) + " ")
    last = make_document("\n\n".join([POOL[8], POOL[7], POOL[6]]))
    config = with_paragraphs(max_removed=0.6)
    kept = texts_by_id(read_kept(run_on(exact.STAGE, config, [[first, goes, last]])))
    assert sum(POOL[8] in text for text in kept.values()) == 1
    assert len(kept) == 2 and kept[last.id] == last.text


def test_documents_equal_after_their_cuts_are_one(run_on, make_document, read_kept, read_removed):
    rest = "The rest is the same in both of them, and is long enough to be worth a place, but falls short of a limit."
    holder = make_document("\n\n".join([*POOL[:2], *POOL[5:9]]))
    # On two lines of 53 characters the rest is verse to the rule, which cuts none of it.
    one, two = (make_document(f"{rest[:53]}\n{rest[53:]}\n\n{paragraph}") for paragraph in POOL[:2])
    config = with_paragraphs(min_line_columns=60, min_chars_left=50)
    dataset = run_on(exact.STAGE, config, [[one], [two], [holder]])
    kept = texts_by_id(read_kept(dataset))
    assert kept[holder.id] == holder.text and len(kept) == 2
    [(gone, evidence)] = read_removed(dataset).items()
    assert evidence["reason"] == "exact_duplicate" and {gone, evidence["kept_id"]} == {one.id, two.id}
    assert dataset.manifest.facts["paragraphs"]["documents_equal_after_cuts"] == 1


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shards_change_nothing_a_second_run_changes_nothing_and_no_text_is_lost(data, run_on, make_document, read_kept):
    paragraphs = st.lists(st.sampled_from(POOL + SHORT), min_size=1, max_size=7)
    drawn = data.draw(st.lists(paragraphs, min_size=1, max_size=12))
    documents = [make_document("\n\n".join(blocks), name=str(i)) for i, blocks in enumerate(drawn)]
    cut = data.draw(st.integers(0, len(documents)))
    config = with_paragraphs(min_documents=data.draw(st.sampled_from([2, 3])), max_removed=0.7)
    found = []
    for shards in ([documents], [documents[::-1][:cut], [], documents[::-1][cut:]]):
        dataset = run_on(exact.STAGE, config, shards)
        kept = read_kept(dataset)
        found.append((texts_by_id(kept), sorted(spans_removed(dataset), key=str)))
    assert found[0] == found[1]
    again = run_on(exact.STAGE, config, [kept])
    assert texts_by_id(read_kept(again)) == found[0][0]
    everything = "\n".join(found[0][0].values())
    held = [d.text for d in documents if d.id in found[0][0]]  # before any cut
    assert all(paragraph in everything for text in held for paragraph in text.split("\n\n"))


def test_a_source_that_would_go_whole_stops_the_run(run_on, make_document):
    long = make_document("\n\n".join(POOL), source="book")
    copies = [make_document("\n\n".join(POOL[i : i + 2]), source="web") for i in range(4)]
    with pytest.raises(SourceLossError, match=r"exact_dedup\.paragraphs\.max_source_loss"):
        run_on(exact.STAGE, with_paragraphs(min_source_documents=4), [[long, *copies]])


def test_switched_off_it_touches_no_text(run_on, make_document, read_kept):
    documents = [make_document("\n\n".join(POOL[i : i + 3]), name=str(i)) for i in range(4)]
    config = with_paragraphs(enabled=False)
    assert texts_by_id(read_kept(run_on(exact.STAGE, config, [documents]))) == texts_by_id(documents)


def test_lines_go_as_in_the_expected_output_of_dolma(run_on, make_document, shared_data):
    """Dolma's Bloom filter over lines, in order of the file; it names spans with a share of duplicates."""
    folder = shared_data / "dedup" / "fixtures"
    given, expected = (
        [json.loads(line) for line in gzip.decompress((folder / name).read_bytes()).splitlines()]
        for name in ("dolma-provided-deduper-documents-000.json.gz", "dolma-expected-dedupe-paragraphs.json.gz")
    )
    documents = [make_document(row["text"], name=row["id"]) for row in given]
    config = with_paragraphs(unit="line", min_chars=1, min_line_columns=0, max_removed=1.0, min_chars_left=0)
    found = {(row["id"], row["start"], row["end"]) for row in spans_removed(run_on(exact.STAGE, config, [documents]))}
    wanted = {
        (document.id, start, min(end, len(document.text)))
        for document, row in zip(documents, expected, strict=True)
        for start, end, _ in row["attributes"]["bff_duplicate_paragraph_spans"]
    }
    assert len(wanted) > 40 and found == wanted


@pytest.mark.slow
def test_none_and_two_workers_write_the_same_bytes(run_on, make_document):
    documents = [make_document("\n\n".join([*POOL[i % 5 : i % 5 + 4], str(i)]), name=str(i)) for i in range(12)]
    shards = [documents[i::3] for i in range(3)]
    alone, both = (run_on(exact.STAGE, with_paragraphs(min_chars_left=0), shards, workers=n) for n in (0, 2))
    assert alone.manifest.facts["paragraphs"]["documents_cut"]
    assert {f.name: f.sha256 for f in alone.manifest.files} == {f.name: f.sha256 for f in both.manifest.files}
