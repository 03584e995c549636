"""The planted duplicates through the dedup stages, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tasks.dedup import exact, minhash, semantic

ALWAYS_DUE = ("exact", "spacing", "script_swapped")  # whatever the field `jaccard` says: layout and script are no edits


@dataclass(frozen=True)
class Outcome:
    """What the stages made of the planted rows."""

    rows: dict[str, dict[str, Any]]  # document id -> planted row
    removed: dict[str, dict[str, Any]]  # document id -> evidence
    kept: set[str]

    def found(self, row_id: str) -> bool:
        """Whether the copy, or the base it was made from, is gone."""
        row = self.rows[row_id]
        base = next(i for i, r in self.rows.items() if r["kind"] == "base" and r["group"] == row["group"])
        return row_id in self.removed or base in self.removed


def due(row: dict[str, Any], threshold: float) -> bool:
    jaccard = max(row["jaccard"] or 0.0, row.get("jaccard_after_t2s") or 0.0)
    copy = row["kind"] not in ("base", "template_company", "negative_same_frame")
    return copy and (row["kind"] in ALWAYS_DUE or jaccard >= threshold)


@pytest.fixture
def deduplicated(run_on: Callable, make_document: Callable, planted: list, read_kept: Callable, read_removed: Callable):
    documents = [make_document(row["text"], name=row["id"], language=row["lang"]) for row in planted]
    rows = {document.id: row for document, row in zip(documents, planted, strict=True)}
    first = run_on(exact.STAGE, exact.ExactConfig(), [documents[i::2] for i in range(2)])
    second = run_on(minhash.STAGE, minhash.MinHashConfig(), [read_kept(first)])
    removed = {**read_removed(first), **read_removed(second)}
    return Outcome(rows, removed, {document.id for document in read_kept(second)})


@pytest.mark.slow
def test_planted_copies_are_found_and_nothing_else_is_removed(deduplicated):
    rows, removed = deduplicated.rows, deduplicated.removed
    assert len(removed) + len(deduplicated.kept) == len(rows)
    expected = [i for i, row in rows.items() if due(row, minhash.MinHashConfig().threshold)]
    missed = [i for i in expected if not deduplicated.found(i)]
    assert len(missed) <= 0.01 * len(expected), [rows[i]["id"] for i in missed]
    assert not [i for i in missed if rows[i]["kind"] in ALWAYS_DUE]
    wrong = [i for i, e in removed.items() if rows[i]["group"] in (None, "") or other_group(rows, i, e)]
    assert len(wrong) <= 0.001 * len(removed), [rows[i]["id"] for i in wrong]
    assert not [i for i in removed if rows[i]["kind"] == "negative_same_frame"]


def other_group(rows: dict[str, dict[str, Any]], gone: str, evidence: dict[str, Any]) -> bool:
    return rows[gone]["group"] != rows[evidence["kept_id"]]["group"]


@pytest.mark.slow
def test_pages_in_one_frame_are_no_rewordings(run_on, make_document, planted, read_kept):
    rows = [row for row in planted if row["kind"] == "negative_same_frame"]
    documents = [make_document(row["text"], name=row["id"], language=row["lang"]) for row in rows]
    dataset = run_on(semantic.STAGE, semantic.SemanticConfig(), [documents])
    assert len(documents) > 100 and len(read_kept(dataset)) == len(documents)
