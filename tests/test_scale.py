"""docs/scale.md says what its formulae say."""

from __future__ import annotations

import dataclasses
import re

import pytest

from benchmarks import scale
from benchmarks.scale import STAGES, TB, Assumed
from flows.order import STAGES as PIPELINE
from tasks.dedup import index
from tasks.part_writer import SHARD_BYTES
from tests.conftest import ROOT

DAY_STAGES = {stage.name: stage for stage in STAGES}


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", scale.TABLES)
def test_the_page_holds_each_table_as_it_is_computed(page: str, name: str) -> None:
    assert scale.TABLES[name](Assumed()) in page, "run benchmarks/scale.py and bring its tables into docs/scale.md"


def test_the_stages_are_those_of_the_pipeline_in_its_order() -> None:
    order = [stage.name for stage in PIPELINE]
    places = [order.index(stage.name) for stage in STAGES]
    assert places == sorted(places)
    assert set(order[: order.index("train")]) - {s.name for s in STAGES} == {"semantic_dedup", "tokenizer"}


def test_what_the_code_fixes_is_what_the_arithmetic_assumes() -> None:
    assert Assumed().part_bytes == SHARD_BYTES
    assert index.MAX_DOCUMENTS == 1 << 32


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_costs_solved_from_two_runs_give_these_runs_again(stage: scale.Measured) -> None:
    for megabytes, documents, seconds, _ in (stage.long, stage.short):
        again = megabytes * 1e6 * stage.seconds_per_byte + documents * stage.seconds_per_document
        if stage.seconds_per_document:  # else the longer texts alone decide, and the short ones were cheaper
            assert again == pytest.approx(seconds)
        else:
            assert again >= 0.99 * seconds


def test_twice_the_nodes_halve_all_but_the_driver() -> None:
    for stage, into, kept in scale.flow(28 * TB, Assumed()):
        driver = scale.driver_hours(stage, into, Assumed())
        one, two = (scale.hours_on(nodes, stage, into, kept, Assumed()) - driver for nodes in (10, 20))
        assert two == pytest.approx(one / 2)


def test_smaller_documents_cost_more() -> None:
    small = dataclasses.replace(Assumed(), document_bytes=1000)
    language = DAY_STAGES["language"]
    assert scale.worker_hours(language, TB, small) > 2 * scale.worker_hours(language, TB, Assumed())


def test_the_page_repeats_the_inputs_that_it_names(page: str) -> None:
    for value in (scale.HTML_EXTRACT_MB_S, scale.HTML_TEXT, scale.PARQUET, scale.INDEX_BYTES):
        assert re.search(rf"(?<![\d.]){re.escape(str(value))}(?![\d])", page), value
    for value in (*scale.EMBEDDED_PER_SECOND.values(), scale.MANIFEST_BYTES_PER_FILE):
        assert re.search(rf"(?<![\d.]){value}(?![\d])", page), value
