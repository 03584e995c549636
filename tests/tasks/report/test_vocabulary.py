"""The section of the vocabulary experiment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tasks.report import vocabulary
from tasks.report.build import ReportConfig, render
from tasks.report.plots import draw
from tasks.stage import Stage, run_stage
from tasks.store.filesystem import Store


def measured(size: int, sample: str) -> dict[str, Any]:
    figures = {"bytes_per_token": 3 + size / 64_000, "byte_fallback_rate": 10 / size, "tokens_per_word": 1.5}
    return {
        "size": size,
        "vocab_size": size,
        "sample": sample,
        "status": "measured",
        "groups": {"zh": figures | {"tokens_per_word": None}, "en": figures},
        "renyi_efficiency": 0.5,
        "unused_share": 0.1,
        "coverage": [[1, 0.1], [64, 0.5], [size, 1.0]],
        "embedding_bytes": {"fp32": 4 * size * 512, "bf16": 2 * size * 512},
    }


COMPARISON = {
    "hidden_size": 512,
    "rows": [
        *(measured(size, sample) for size in (8000, 16_000) for sample in "01"),
        {"size": 128_000, "vocab_size": 41_230, "sample": "0", "status": "too_small"},
    ],
    "published": [measured(30_522, "") | {"name": "<b>theirs"}],
    "recommendation": {"size": 16_000, "reason": "a reason", "by_sample": {"0": 16_000}, "samples_agree": True},
    "sampling_error": {"bytes_per_token": {"zh": 0.01}},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NoConfig:
    pass


@pytest.fixture
def page(tmp_path):
    def run(run):
        run.output.add_file("comparison.json", json.dumps(COMPARISON).encode())

    stage = Stage(name="tokenizer_compare", module="tasks.document", config=NoConfig, inputs=(), run=run, summary="")
    found = run_stage(stage, store=Store(str(tmp_path)), pipeline="t", config=NoConfig(), inputs={}, workers=0).dataset
    return render({"tokenizer_compare": found}, {}, ReportConfig(measure_bytes=False))


def test_the_report_shows_table_plots_and_advice(page):
    section = page[page.index('<section id="vocabulary">') : page.index('<section id="lineage">')]
    assert section.count("<svg") == 4
    assert "16,000 pieces:" in section and "a reason" in section and "Both samples conclude the same." in section
    assert "8,000 (sample 1)" in section and "16.4 MB" in section
    assert "the sample has text for 41,230 pieces only" in section
    assert "&lt;b&gt;theirs" in section and "<b>theirs" not in section


def test_every_measured_size_is_in_the_plots_and_the_bound_is_drawn():
    panels = {panel.title: panel for panel in vocabulary.panels(COMPARISON)}
    assert dict(panels["Bytes per token"].series["zh"]) == pytest.approx({8000: 3.125, 16_000: 3.25})
    assert set(panels["Rényi efficiency (alpha 2.5)"].series) == {"sample 0", "sample 1"}
    covered = panels["Tokens covered by the most frequent pieces (percent)"]
    assert set(covered.series) == {"8,000", "16,000"} and covered.series["8,000"][-1] == (8000, 100)
    svg = draw(panels["Tokens that are bytes (percent)"])
    assert "bound for zh: 0.05 %" in svg and "8,000" in svg and ">step<" not in svg


def test_without_measured_sizes_there_is_nothing_to_draw():
    assert vocabulary.panels(COMPARISON | {"rows": COMPARISON["rows"][-1:]}) == []
