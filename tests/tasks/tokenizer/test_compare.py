"""The vocabulary experiment as a stage: disjoint samples, parts that resume, sizes that do not fit."""

from __future__ import annotations

import json

import pytest

from tasks.document import Document, Kept, Origin, document_id
from tasks.stage import Part, Stage, run_stage
from tasks.store.filesystem import Store
from tasks.tokenizer import compare
from tasks.tokenizer.compare import HELD_OUT, STAGE, CompareConfig, slot_of
from tasks.tokenizer.config import TokenizerConfig

LANGUAGES = {"zh": "zh-Hans", "en": "en", "code": "code", "other": "de"}
TOKENIZER = TokenizerConfig(sample_chars=150_000, max_compounds=5, compound_min_count=20)


@pytest.fixture(scope="module")
def mix(rows, tmp_path_factory):
    """A mix of two shards."""
    store = Store(str(tmp_path_factory.mktemp("store")))
    pieces = [(group, text[start : start + 500]) for group, text, _ in rows for start in range(0, len(text), 500)]

    def part(payload, config, writer):
        for number, (group, text) in enumerate(pieces):
            if number % 2 == payload:
                identity = document_id("s", "f", number, text.encode())
                origin = Origin(file="f", record=number, offset=0)
                document = Document(id=identity, text=text, source="s", origin=origin, language=LANGUAGES[group])
                writer.put(Kept(document=document))

    def run(run):
        run.parts(part, [Part(name=f"{n:05d}", step="write", inputs=(), payload=n) for n in (0, 1)])

    stage = Stage(name="mix", module="tasks.document", config=CompareConfig, inputs=(), run=run, summary="")
    return run_stage(stage, store=store, pipeline="t", config=settings(), inputs={}, workers=0).dataset


def settings(**changes) -> CompareConfig:
    given = {"sizes": (1500, 2200, 60_000), "eval_chars": 60_000, "hidden_size": 64, "tokenizer": TOKENIZER}
    return CompareConfig(**(given | changes))


def compared(mix, config: CompareConfig):
    return run_stage(STAGE, store=mix.store, pipeline="t", config=config, inputs={"mix": mix}, workers=0)


@pytest.fixture(scope="module")
def result(mix):
    return compared(mix, settings())


@pytest.fixture(scope="module")
def comparison(result):
    with result.dataset.open("comparison.json") as file:
        return json.load(file)


def test_each_size_is_measured_on_each_sample_and_one_that_is_too_large_is_named(comparison):
    found = {(row["size"], row["sample"]): row for row in comparison["rows"]}
    assert set(found) == {(size, sample) for size in (1500, 2200, 60_000) for sample in "01"}
    small = found[1500, "0"]
    assert small["status"] == "measured" and small["embedding_bytes"] == {"fp32": 384_000, "bf16": 192_000}
    assert set(small["groups"]) == {"zh", "en", "code", "other"}
    assert found[60_000, "1"]["status"] == "too_small" and 2200 < found[60_000, "1"]["vocab_size"] < 60_000


def test_a_larger_vocabulary_needs_fewer_tokens_for_the_same_held_out_text(comparison):
    by_sample = {}
    for row in comparison["rows"]:
        if row["status"] == "measured":
            by_sample.setdefault(row["sample"], []).append(row)
    for smaller, larger in by_sample.values():
        assert larger["num_tokens"] < smaller["num_tokens"]
        same = [{g: f["num_bytes"] for g, f in row["groups"].items()} for row in (smaller, larger)]
        assert same[0] == same[1]


def test_the_recommendation_says_why_and_what_each_sample_says(comparison):
    advice = comparison["recommendation"]
    assert advice["size"] in (1500, 2200) and advice["reason"]
    assert set(advice["by_sample"]) == {"0", "1"}
    assert all(0 <= error < 0.2 for error in comparison["sampling_error"]["bytes_per_token"].values())


def test_samples_and_held_out_text_share_no_document(mix, result):
    seen: dict[str, str] = {}
    for entry in (entry for entry in result.dataset.files("sidecar") if entry.name.startswith("sample/")):
        for batch in result.dataset.batches(entry.name, ["slot", "text"]):
            for row in batch.to_pylist():
                assert seen.setdefault(row["text"], row["slot"]) == row["slot"]
    assert set(seen.values()) == {HELD_OUT, "0", "1"}


def test_a_further_size_redoes_no_other(mix, result, monkeypatch):
    calls = []
    honest = compare.fit
    monkeypatch.setattr(compare, "fit", lambda *given: calls.append(given[2].vocab_size) or honest(*given))
    again = compared(mix, settings(sizes=(1500, 1800, 2200)))
    assert calls == [1800, 1800]
    assert not again.cached and compared(mix, settings(sizes=(1500, 1800, 2200))).cached


def test_slots_follow_the_fraction():
    slots = [slot_of(document_id("s", "f", n, b""), settings()) for n in range(2000)]
    assert {slot: slots.count(slot) / 2000 for slot in (HELD_OUT, "0", "1")} == pytest.approx(
        {HELD_OUT: 0.2, "0": 0.4, "1": 0.4}, abs=0.03
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": (2000, 1000)}, "sizes: expected vocabulary sizes in rising order"),
        ({"sizes": (100,)}, "vocab_size: expected above"),
        ({"held_out_fraction": 1.0}, "held_out_fraction"),
        ({"num_samples": 0}, "num_samples"),
    ],
)
def test_settings_that_make_no_experiment_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_a_published_tokenizer_that_is_not_there_is_named(mix):
    with pytest.raises(ValueError, match=r"published.qwen: no file nowhere.model"):
        compared(mix, settings(published={"qwen": "nowhere.model"}))
