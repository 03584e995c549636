import json
import re

import pytest

from tasks.report import STAGE, ReportConfig, render
from tasks.stage import run_stage

SCRIPT = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def page(synthetic) -> str:
    return render(
        synthetic, {"name": f"run {SCRIPT}", "command": "danlu run --set a='<b>'", "states": {"train": "run"}}
    )


def test_every_section_is_there(page):
    names = re.findall(r'<section id="(\w+)">', page)
    expected = "account decay tokens figures training evaluation samples dropped quarantined lineage configuration"
    assert names == [*expected.split(), "reproduce"]


def test_no_markup_of_a_document_survives(page):
    # the hostile text is in a document, a source's name, a file name, a config value, a sample and the run's name
    assert page.count("&lt;script&gt;") >= 6
    assert "<script" not in page.lower()
    assert "<b>'" not in page and "大书 &lt;b&gt;" in page


def test_nothing_is_fetched(page):
    assert not re.search(r'(src|href)="(?!#)', page)
    assert not re.search(r"url\((?!#)|@import", page)
    assert "default-src &#39;none&#39;" in page


def test_hidden_characters_and_bytes_are_shown_as_escapes(page):
    assert "\\u202e" in page and "\\x00" in page and "\\xff\\xfe" in page
    assert not re.search("[\u202e\x00\ud800]", page)
    page.encode("utf-8")


def test_a_duplicate_is_shown_beside_the_document_that_was_kept(page):
    start = page.index("near_duplicate", page.index('id="dropped"'))
    block = page[start : page.index("</details>", start)]
    assert "night! " in block and "night. " in block and "0.9312" in block and "kept: " in block


def test_the_decay_table_adds_up_to_all_raw_records(synthetic):
    from tasks.report import figures

    accounts = {stage: d.manifest.account for stage, d in synthetic.items() if d.manifest.account.rows}
    raw = synthetic["ingest"].manifest.account.total().read
    for axis in ("source", "language"):
        rows = figures.decay(accounts, axis)
        assert sum(row.raw for row in rows) == raw == 9
        assert all(row.raw == row.usable + sum(n for _, n in row.losses) for row in rows)
    assert {row.name: row.rate for row in figures.decay(accounts, "source")} == {
        "web": 0.4,
        "大书 <b>": 1.0,
        "bad": 0.0,
    }
    assert [row.name for row in figures.decay(accounts, "language") if row.name == "und"] == ["und"]


def test_data_stages_alone_make_a_report(data_stages_only):
    page = render(data_stages_only, {})
    assert 'id="account"' in page and 'id="training"' not in page and 'id="evaluation"' not in page
    assert "not yet: extract" in page


def test_the_same_datasets_give_the_same_bytes(synthetic, page):
    facts = {"name": f"run {SCRIPT}", "command": "danlu run --set a='<b>'", "states": {"train": "run"}}
    assert render(dict(reversed(synthetic.items())), facts) == page


def test_the_stage_writes_page_and_figures_and_caches(synthetic):
    store = synthetic["ingest"].store
    config = ReportConfig(run_name="stage run", command="make run")
    arguments = {"store": store, "pipeline": "test", "config": config, "inputs": synthetic, "workers": 0}
    first, second = run_stage(STAGE, **arguments), run_stage(STAGE, **arguments)
    assert (first.cached, second.cached) == (False, True)
    roles = {f.name: f.role for f in first.dataset.manifest.files}
    assert roles == {"report.html": "log", "figures.json": "artifact"}
    figures = json.loads(first.dataset.open("figures.json").read())
    web = next(row for row in figures["decay_by_source"] if row["name"] == "web")
    sizes = [8 * 33, 8 * 33, len(SCRIPT), 5, 9 * 17]
    assert (web["raw_bytes"], web["usable_bytes"]) == (sum(sizes), sizes[0] + sizes[4])
    assert sum(row["tokens"] for row in figures["tokens_by_source"]) == 296


def test_an_unknown_stage_is_named(synthetic):
    with pytest.raises(ValueError, match="no stage is called polish"):
        render({"polish": synthetic["ingest"]}, {})


def test_a_negative_sample_count_is_refused():
    with pytest.raises(ValueError, match="samples_per_reason: expected 0 or more, found -1"):
        ReportConfig(samples_per_reason=-1)
