"""What `danlu forget` says, and what it leaves in the store."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from flows import forget
from tasks.dedup import forgotten, minhash
from tasks.document import Document, Kept, Origin, document_id
from tasks.stage import Part, Stage, StageRun, run_stage
from tasks.store.filesystem import Store

STRANGER = "0" * 32


def document(text: str, name: str) -> Document:
    return Document(
        id=document_id("s", name, 0, text.encode()), text=text, source="s", origin=Origin(file=name, record=0, offset=0)
    )


@pytest.fixture
def family() -> list[Document]:
    """A text, two copies that differ by a word, and another text."""
    words = random.Random(0).choices([f"word{i}" for i in range(50)], k=200)
    copies = [[*words, "longest", "of", "all"], [*words[:100], "changed", *words[101:]], words]
    return [document(" ".join(text), str(i)) for i, text in enumerate([*copies, reversed(words)])]


@pytest.fixture
def store(tmp_path: Path, family: list[Document]) -> Store:
    """A store of a pipeline `t` that has run up to MinHash dedup."""

    def write(documents: list[Document], config: Any, writer: Any) -> None:
        for each in documents:
            writer.put(Kept(document=each))

    def given(run: StageRun) -> None:
        run.parts(write, [Part(name="s", step="given", inputs=(), payload=family)])

    home = Store(str(tmp_path / "store"))
    stage = Stage(name="exact_dedup", module="tasks.document", config=dict, inputs=(), run=given, summary="")
    made = run_stage(stage, store=home, pipeline="t", config={}, inputs={}, workers=0).dataset
    config = minhash.MinHashConfig()
    run_stage(minhash.STAGE, store=home, pipeline="t", config=config, inputs={"exact_dedup": made}, workers=0)
    return home


STAGES = (Stage(name="exact_dedup", module="", config=dict, inputs=(), run=print, summary=""), minhash.STAGE)


def test_the_copies_that_compete_again_are_named(store: Store, family: list[Document]) -> None:
    first, *copies, other = (each.id for each in family)
    row = forget.uses_of(store, "t", STAGES, first)
    assert [(place["stage"], place["fate"]) for place in row["stages"]] == [
        ("exact_dedup", "kept"),
        ("minhash_dedup", "kept"),
    ]
    assert {copy["document"] for copy in row["copies"]} == set(copies)
    assert all(copy["stage"] == "minhash_dedup" and copy["similarity"] >= 0.8 for copy in row["copies"])
    assert forget.copies_of(store, "t", other) == [] and row["steps"] == []
    text = "\n".join(forget.lines_of(row))
    assert "would be forgotten" in text and "elected anew: 2" in text and copies[0] in text


@pytest.mark.parametrize("wrong, error", [("xyz", "expected 32 hex digits"), (STRANGER, "no stage of pipeline 't'")])
def test_an_id_that_nothing_has_seen_is_an_error(store: Store, wrong: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        forget.uses_of(store, "t", STAGES, wrong)


def test_a_dry_run_lists_and_the_real_one_remembers(store: Store, family: list[Document], capsys: Any) -> None:
    identity = family[0].id

    def call(**options: Any) -> list[dict[str, Any]]:
        forget.forget([identity, identity], store=store.url, name="t", **options)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    [row] = call(dry_run=True, as_json=True, note="", undo=False)
    assert "changed" not in row and forgotten.forgotten(store) == ()
    assert [call(dry_run=False, as_json=True, note="asked", undo=False)[0]["changed"] for _ in range(2)] == [
        True,
        False,
    ]
    assert forgotten.forgotten(store) == (identity,)
    assert call(dry_run=False, as_json=True, note="", undo=True)[0]["changed"] and forgotten.forgotten(store) == ()
