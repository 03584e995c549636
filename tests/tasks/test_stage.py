"""The stage runner: cache, parts, resume, account, over a tiny stage of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.document import Document, Dropped, Kept, Origin, Outcome, document_id
from tasks.stage import Part, PartWriter, Stage, StageRun, map_stage, run_stage
from tasks.store.account import AccountError
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store


@dataclass(frozen=True, kw_only=True)
class MakeConfig:
    names: tuple[str, ...] = ("a", "b", "c")


@dataclass(frozen=True, kw_only=True)
class CutConfig:
    min_chars: int = 3


CALLS: list[str] = []


def make_part(name: str, config: MakeConfig, writer: PartWriter) -> None:
    CALLS.append(f"make {name}")
    for number in range(5):
        text = name * (number + 1)
        origin = Origin(file=f"{name}.txt", record=number, offset=0)
        document = Document(id=document_id("s", name, number, text.encode()), text=text, source="s", origin=origin)
        writer.put(Kept(document=document))


def make(run: StageRun) -> None:
    run.parts(make_part, [Part(name=n, step="make", inputs=(n,), payload=n, settings=()) for n in run.config.names])


def cut(documents: Iterator[Document], config: CutConfig) -> Iterator[Outcome]:
    CALLS.append("cut")
    for document in documents:
        if len(document.text) < config.min_chars:
            yield Dropped(document=document, reason="short", evidence={"num_chars": len(document.text)})
        else:
            yield Kept(document=document)


def lose_one(documents: Iterator[Document], config: CutConfig) -> Iterator[Outcome]:
    yield from list(cut(documents, config))[1:]


MAKE = Stage(name="make", module=__name__, config=MakeConfig, inputs=(), run=make, summary="")
CUT = map_stage(name="cut", module=__name__, config=CutConfig, input="make", process=cut, summary="")


@pytest.fixture(autouse=True)
def no_calls_yet() -> None:
    CALLS.clear()


def run_both(store: Store, min_chars: int = 3, names: tuple[str, ...] = ("a", "b", "c")) -> tuple[Dataset, Dataset]:
    made = run_stage(MAKE, store=store, pipeline="t", config=MakeConfig(names=names), inputs={}, workers=0)
    config = CutConfig(min_chars=min_chars)
    done = run_stage(CUT, store=store, pipeline="t", config=config, inputs={"make": made.dataset}, workers=0)
    return made.dataset, done.dataset


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def test_an_equal_key_is_cached_and_calls_nothing(store: Store) -> None:
    first = run_both(store)[1]
    CALLS.clear()
    assert run_both(store)[1].digest == first.digest
    assert CALLS == []


def test_dropped_documents_are_kept_with_their_reason_and_counted(store: Store) -> None:
    dataset = run_both(store)[1]
    [row] = dataset.manifest.account.to_rows()
    assert (row["in"], row["kept"], row["dropped"]) == (15, 9, {"short": 6})
    removed = [d for f in dataset.files("removed") for b in dataset.batches(f) for d in b.to_pylist()]
    assert {d["reason"] for d in removed} == {"short"}
    assert json.loads(removed[0]["evidence"]) == {"num_chars": 1}


def test_a_changed_threshold_that_keeps_the_same_documents_gives_the_same_digest(store: Store) -> None:
    kept_by_two = run_both(store, min_chars=2)[1]
    assert run_both(store, min_chars=3)[1].digest != kept_by_two.digest
    assert run_both(store, min_chars=1)[1].key != run_both(store, min_chars=0)[1].key
    assert run_both(store, min_chars=1)[1].digest == run_both(store, min_chars=0)[1].digest


def test_a_new_part_does_not_redo_the_old_ones(store: Store) -> None:
    run_both(store, names=("a", "b"))
    CALLS.clear()
    made, _ = run_both(store, names=("a", "b", "c"))
    assert CALLS == ["make c", "cut"]
    assert [shard.stem for shard in made.shards] == ["a", "b", "c"]


def test_a_missing_shard_of_a_finished_dataset_is_noticed_and_made_again(store: Store) -> None:
    dataset = run_both(store)[1]
    store.remove(f"{dataset.folder}/{dataset.shards[1].name}")
    again = run_both(store)[1]
    assert again.digest == dataset.digest and not again.missing()
    assert CALLS.count("cut") == 3 + 1


def test_a_stage_that_loses_a_document_fails(store: Store) -> None:
    made, _ = run_both(store)
    losing = map_stage(name="lose", module=__name__, config=CutConfig, input="make", process=lose_one, summary="")
    with pytest.raises(AccountError, match=r"read .* answered"):
        run_stage(losing, store=store, pipeline="t", config=CutConfig(), inputs={"make": made}, workers=0)


def test_the_largest_parts_start_first_and_the_results_keep_their_order(store: Store) -> None:
    sizes = {"a": 1, "b": 3, "c": 2}

    def run(run: StageRun) -> None:
        parts = [Part(name=n, step="make", inputs=(n,), payload=n, size=size) for n, size in sizes.items()]
        assert [result.name for result in run.parts(make_part, parts)] == ["a", "b", "c"]

    stage = Stage(name="make", module=__name__, config=MakeConfig, inputs=(), run=run, summary="")
    run_stage(stage, store=store, pipeline="p", config=MakeConfig(), inputs={}, workers=0)
    assert CALLS == ["make b", "make c", "make a"]


def test_a_killed_run_resumes_at_the_parts_it_lacks(store: Store) -> None:
    made, whole = run_both(store)
    store.remove("datasets/cut")
    store.remove("parts/cut")
    calls = iter(range(10))

    def dying(documents: Iterator[Document], config: CutConfig) -> Iterator[Outcome]:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return cut(documents, config)

    stage = map_stage(name="cut", module=__name__, config=CutConfig, input="make", process=dying, summary="")
    with pytest.raises(KeyboardInterrupt):
        run_stage(stage, store=store, pipeline="t", config=CutConfig(), inputs={"make": made}, workers=0)
    CALLS.clear()
    assert run_both(store)[1].digest == whole.digest
    assert CALLS == ["cut"]
