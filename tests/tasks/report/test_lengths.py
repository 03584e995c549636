"""The report's section on lengths, from the fact that the filter stores."""

from __future__ import annotations

from collections import Counter

from tasks.clean.filter import lengths
from tasks.report.build import render
from tasks.stage import Stage, run_stage
from tasks.store.filesystem import Store


def test_lengths_of_the_filter_are_a_section(tmp_path):
    def run(run):
        run.output.facts = {"lengths": lengths.table({"zh-Hant": Counter({79: 1, 80: 3}), "<b>": Counter({5: 1})})}

    stage = Stage(name="filter", module="tasks.document", config=dict, inputs=(), run=run, summary="")
    dataset = run_stage(stage, store=Store(str(tmp_path)), pipeline="t", config={}, inputs={}, workers=0).dataset
    page = render({"filter": dataset}, {})
    section = page.split('<section id="lengths">')[1].split("</section>")[0]
    assert "zh-Hant" in section and "25.0 %" in section and "&lt; 80" in section
    assert "<b>&lt;b&gt;" not in section and "&lt;b&gt;" in section  # a language is data: escaped
    assert 'href="#lengths"' in page and 'id="figures"' not in page  # not told twice
