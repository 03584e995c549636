"""Pairs of which both stayed, just below the limit: what is shown of them, and what labels on them say."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import minhash as kernel
from tasks.dedup import minhash
from tasks.dedup.normalise import fuzzy_form
from tasks.document import Document, Kept, Origin, document_id
from tasks.report import render as render_report
from tasks.review import beside, labels, near, page, rates
from tasks.review.labels import Label
from tasks.review.sample import BELOW
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store


def texts(prose: Callable[[int, int], str]) -> list[str]:
    """Copies of six texts with 1 to 24 of about 120 words exchanged: some lie above the limit, some below."""
    chance, found = random.Random(3), []
    for seed in range(6):
        words = prose(seed, 120).split(" ")
        for number in (0, 1, 2, 3, 4, 5, 6, 8, 24):
            copy = list(words)
            for place in chance.sample(range(len(copy)), number):
                copy[place] = f"changed{number}"
            found.append(" ".join(copy))
    return found


@pytest.fixture(scope="module")
def given_texts(prose: Callable[[int, int], str]) -> list[str]:
    return texts(prose)


def write(shard: list[Document], config: object, writer: PartWriter) -> None:
    for document in shard:
        writer.put(Kept(document=document))


def deduplicated(folder: Path, contents: list[str], num_shards: int) -> Dataset:
    """minhash_dedup of these texts at its defaults."""
    documents = []
    for number, text in enumerate(contents):
        identity = document_id("s", "f", number, text.encode())
        origin = Origin(file="f", record=number, offset=0)
        documents.append(Document(id=identity, text=text, source="s", language="en", origin=origin))

    def run(run: StageRun) -> None:
        shards = [documents[i::num_shards] for i in range(num_shards)]
        run.parts(write, [Part(name=f"{i}", step="w", inputs=(f"{i}",), payload=s) for i, s in enumerate(shards)])

    given = Stage(name="exact_dedup", module="tasks.document", config=dict, inputs=(), run=run, summary="")
    store, options = Store(str(folder)), {"pipeline": "t", "workers": 0}
    made = run_stage(given, store=store, config={"n": num_shards}, inputs={}, **options).dataset
    inputs = {"exact_dedup": made}
    return run_stage(minhash.STAGE, store=store, config=minhash.MinHashConfig(), inputs=inputs, **options).dataset


@pytest.fixture
def dataset(tmp_path: Path, given_texts: list[str]) -> Dataset:
    return deduplicated(tmp_path, given_texts, 1)


def test_each_pair_stayed_and_is_as_near_as_said(dataset: Dataset) -> None:
    kept = {d.id: d for shard in dataset.shards for d in dataset.documents(shard)}
    pairs = near.near_pairs(dataset)
    assert len(pairs) >= 6
    for id_, pair in pairs.items():
        sets = [kernel.shingle_set(fuzzy_form(kept[i].text), 5) for i in (pair.id, pair.other)]
        assert id_ == pair.id and 0.7 <= pair.similarity < 0.8
        assert pair.similarity == pytest.approx(kernel.jaccard(*sets))
        assert len(kept[pair.id].text) <= len(kept[pair.other].text)  # the one that would have gone


def test_none_that_was_compared_is_left_out(dataset: Dataset) -> None:
    kept = [d for shard in dataset.shards for d in dataset.documents(shard)]
    sets = {d.id: kernel.shingle_set(fuzzy_form(d.text), 5) for d in kept}
    just_below = {
        (a, b) for a in sets for b in sets if a != b and 0.75 <= kernel.jaccard(sets[a], sets[b]) < 0.8
    }  # LSH proposes 93 % of these
    named = near.near_pairs(dataset).keys()
    met = {pair for pair in just_below if named & set(pair)}
    assert len(met) >= 0.8 * len(just_below) > 0


def test_the_pairs_are_the_same_for_any_number_of_shards(
    dataset: Dataset, tmp_path: Path, given_texts: list[str]
) -> None:
    assert near.near_pairs(deduplicated(tmp_path / "more", given_texts, 3)) == near.near_pairs(dataset)


def test_a_stage_that_compares_nothing_has_none(chain: dict[str, Dataset]) -> None:
    assert near.near_pairs(chain["filter"]) == {}


def test_they_are_shown_after_the_removed_ones_with_their_differences(dataset: Dataset) -> None:
    removed, below = beside.collect(dataset, number=4)
    assert (removed.reason, below.reason, below.count) == ("minhash_duplicate", BELOW, len(near.near_pairs(dataset)))
    html = page.render(dataset, [below], 4000)
    for case in below.cases:
        assert case.beside is not None and case.record.evidence["near"] == case.beside.id
        assert f'data-id="{case.record.id}" data-stage="minhash_dedup" data-reason="kept"\n' in html
    assert 'data-near="minhash_duplicate"' in html and "<mark>" in html


def test_labels_on_them_tell_how_many_should_have_gone(dataset: Dataset) -> None:
    [below] = beside.collect(dataset, [BELOW], 4)
    given = [
        Label(id=id_, stage="minhash_dedup", reason=reason, near=of, verdict="wrong" if n else "right")
        for n, (id_, reason, of) in enumerate(case.key for case in below.cases)
    ]
    labels.check(dataset, given, "test")
    labels.add(dataset, given)
    [rate] = rates.measure(dataset).near
    report = render_report({"minhash_dedup": dataset}, {})
    assert "kept, near minhash_duplicate" in report and "75.0 % (30.1–95.4)" in report
    assert (rate.reason, rate.labelled, rate.wrong, rate.count) == ("minhash_duplicate", 4, 3, below.count)
    assert rate.estimated is not None and rate.estimated.value == pytest.approx(0.75 * below.count)
