"""Rules of a user's own: found, run, keyed by their content, and harmless when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.clean.filter import stage as filter_stage
from tasks.clean.filter.stage import FilterConfig, judge
from tasks.clean.metrics import measure
from tasks.document import Document, Dropped, Kept, Origin, Quarantined
from tasks.settings import ConfigError, from_dict
from tasks.stage import Stage, StageRun, run_stage
from tasks.store.filesystem import Store

RULES = """
LIMIT = 120

def drop_short_poems(text, metrics, language):
    return "short_poem" if language == "zh-Hans" and metrics["num_chars"] < LIMIT else None

def fails(text, metrics, language):
    return 1 / 0

def answers_nonsense(text, metrics, language):
    return "../Up"

def writes_to_the_metrics(text, metrics, language):
    metrics["num_chars"] = 0
"""
POEM = (
    "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"
    "床前明月光，疑是地上霜。举头望明月，低头思故乡。红豆生南国，春来发几枝。愿君多采撷，此物最相思。"
)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "my_rules.py"
    file.write_text(RULES, encoding="utf-8")
    return file


def document(text: str = POEM, language: str = "zh-Hans", name: int = 0) -> Document:
    found = Document(
        id=f"{name:032x}", text=text, source="s", language=language, origin=Origin(file="a", record=name, offset=0)
    )
    found.metrics = measure(text, language)
    return found


def test_rule_drops_with_its_reason_and_is_named_as_evidence(rules):
    outcome = judge(document(), FilterConfig(user_rules=(f"{rules}:drop_short_poems",)))
    assert isinstance(outcome, Dropped)
    assert (outcome.reason, outcome.evidence) == ("short_poem", {"rule": "my_rules.py:drop_short_poems"})
    assert isinstance(judge(document(), FilterConfig()), Kept)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fails", "ZeroDivisionError"),
        ("answers_nonsense", "expected None or a reason"),
        ("writes_to_the_metrics", "TypeError"),
    ],
)
def test_rule_that_fails_sets_the_document_apart_and_names_itself(rules, name, error):
    outcome = judge(document(), FilterConfig(user_rules=(f"{rules}:{name}",)))
    assert isinstance(outcome, Quarantined) and outcome.reason == "user_rule_failed"
    assert outcome.content.decode() == POEM and error in outcome.detail and f"my_rules.py:{name}" in outcome.detail


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("no_such_module_at_all:f", "no module 'no_such_module_at_all'"),
        ("{folder}/gone.py:f", "no file"),
        ("{folder}/my_rules.py:absent", "no function 'absent'"),
        ("{folder}/my_rules.py:LIMIT", "no function 'LIMIT'"),
        ("{folder}/broken.py:f", "cannot be imported: SyntaxError"),
        ("{folder}/my_rules.py", "expected 'module:function'"),
    ],
)
def test_rule_that_cannot_be_loaded_is_an_error_of_the_setting(rules, rule, error):
    (rules.parent / "broken.py").write_text("def f(:\n")
    with pytest.raises(ConfigError, match=error):
        from_dict(FilterConfig, {"user_rules": [rule.format(folder=rules.parent)]}, "filter")


def test_module_beside_the_run_is_found_and_remembered_by_its_path(rules, monkeypatch):
    monkeypatch.chdir(rules.parent)
    config = FilterConfig(user_rules=("my_rules:drop_short_poems",))
    assert config.user_rules == (f"{rules}:drop_short_poems",)
    monkeypatch.chdir("/")
    assert isinstance(judge(document(), config), Dropped)


def make_language_stage(texts: list[str]) -> Stage:
    def run(run: StageRun) -> None:
        from tasks.stage import Part

        run.parts(write, [Part(name="a", step="make", inputs=(), payload=texts)])

    def write(texts, config, writer):
        for number, text in enumerate(texts):
            writer.put(Kept(document=document(text, name=number)))

    return Stage(name="language", module="tasks.document", config=dict, inputs=(), run=run, summary="")


def run_filter(store: Store, config: FilterConfig, workers: int = 0):
    language = run_stage(
        make_language_stage([POEM, POEM + POEM[::-1]]), store=store, pipeline="t", config={}, inputs={}, workers=0
    ).dataset
    inputs = {"language": language}
    return run_stage(filter_stage.STAGE, store=store, pipeline="t", config=config, inputs=inputs, workers=workers)


def test_changed_rule_runs_again_and_the_same_rule_elsewhere_does_not(rules, tmp_path):
    store = Store(str(tmp_path / "store"))
    first = run_filter(store, FilterConfig(user_rules=(f"{rules}:drop_short_poems",)))
    assert first.dataset.manifest.account.total().kept == 1
    moved = tmp_path / "elsewhere.py"
    moved.write_text(RULES, encoding="utf-8")
    assert run_filter(store, FilterConfig(user_rules=(f"{moved}:drop_short_poems",))).cached
    rules.write_text(RULES.replace("LIMIT = 120", "LIMIT = 20"), encoding="utf-8")
    changed = run_filter(store, FilterConfig(user_rules=(f"{rules}:drop_short_poems",)))
    assert not changed.cached and "user_rules" in changed.why[0]
    assert changed.dataset.manifest.account.total().kept == 2


@pytest.mark.slow
def test_rule_runs_in_ray_workers_with_the_same_result(rules, tmp_path):
    config = FilterConfig(user_rules=(f"{rules}:drop_short_poems",))
    alone = run_filter(Store(str(tmp_path / "one")), config).dataset
    try:
        spread = run_filter(Store(str(tmp_path / "two")), config, workers=1).dataset
    finally:
        from tasks.spread import shutdown

        shutdown()
    assert spread.digest == alone.digest


def test_lengths_of_all_that_came_in_are_a_fact_of_the_dataset(tmp_path):
    facts = run_filter(Store(str(tmp_path / "store")), FilterConfig(min_chars=100)).dataset.manifest.facts
    rows = {row["language"]: row for row in facts["lengths"]["rows"]}
    assert rows["zh-Hans"]["documents"] == 2 and rows["all"] == {**rows["zh-Hans"], "language": "all"}
    assert dict(zip(facts["lengths"]["thresholds"], rows["zh-Hans"]["below"], strict=True))[100] == 1
