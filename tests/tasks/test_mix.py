"""Mixing sources to their shares by dropping what is over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks import mix
from tasks.document import Document, Kept, Origin, document_id
from tasks.mix import MixConfig, target_shares, wanted_chars
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

CHARS = {"web": 8000, "books": 1000, "code": 1000}


@dataclass(frozen=True, kw_only=True)
class NoConfig:
    pass


def write_source(source: str, config: NoConfig, writer: PartWriter) -> None:
    for number in range(CHARS[source] // 10):
        origin = Origin(file=source, record=number, offset=0)
        name = document_id(source, source, number, b"")
        language = "code" if source == "code" else "en"
        writer.put(Kept(document=Document(id=name, text="x" * 10, source=source, language=language, origin=origin)))


def write_all(run: StageRun) -> None:
    run.parts(write_source, [Part(name=s, step="write", inputs=(s,), payload=s) for s in CHARS])


BEFORE = Stage(name="decontaminate", module="tasks.document", config=NoConfig, inputs=(), run=write_all, summary="")


def mixed(tmp_path: Path, **settings) -> Dataset:
    how = {"store": Store(str(tmp_path)), "pipeline": "p", "workers": 0}
    before = run_stage(BEFORE, config=NoConfig(), inputs={}, **how).dataset
    return run_stage(mix.STAGE, config=MixConfig(**settings), inputs={"decontaminate": before}, **how).dataset


def test_without_shares_everything_is_kept(tmp_path):
    dataset = mixed(tmp_path)
    assert dataset.manifest.account.total().kept == 1000
    assert dataset.manifest.facts["sources"]["web"] == {"num_chars": 8000, "share": 0.8, "target": None}


def test_an_over_represented_source_is_cut_to_its_share_and_the_drops_say_why(tmp_path):
    dataset = mixed(tmp_path, shares={"web": 0.5})
    facts, account = dataset.manifest.facts, dataset.manifest.account.by_source()
    assert facts["sources"]["web"]["target"] == 0.5
    assert facts["sources"]["web"]["share"] == pytest.approx(0.5, abs=0.01)
    assert (account["books"].kept, account["code"].kept) == (100, 100)
    assert account["web"].kept + account["web"].dropped["over_share"] == 800
    rows = next(dataset.batches("removed/over_share/web.parquet")).to_pylist()
    assert '"target_share": 0.5' in rows[0]["evidence"]


def test_a_higher_share_only_adds_documents(tmp_path):
    def kept(share):
        dataset = mixed(tmp_path, shares={"web": share})
        return {document.id for document in dataset.documents("shards/web.parquet")}

    assert kept(0.4) < kept(0.6)


def test_the_seed_draws_other_documents(tmp_path):
    ids = [{d.id for d in mixed(tmp_path, shares={"web": 0.5}, seed=s).documents("shards/web.parquet")} for s in (0, 1)]
    assert ids[0] != ids[1]


def test_a_share_of_zero_drops_a_source(tmp_path):
    account = mixed(tmp_path, shares={"code": 0.0}).manifest.account.by_source()
    assert Counter(code=account["code"].kept, web=account["web"].kept) == Counter(code=0, web=800)


def test_sources_without_a_share_divide_the_rest_by_what_they_have():
    assert target_shares(CHARS, {"code": 0.1}) == pytest.approx({"code": 0.1, "web": 0.8, "books": 0.1})
    assert target_shares(CHARS, {"code": 1 / 3, "web": 1 / 6, "books": 1 / 6})["code"] == pytest.approx(0.5)


def test_the_scarcest_source_bounds_the_mix_unless_a_floor_is_set():
    targets = {"web": 0.2, "books": 0.5, "code": 0.3}
    assert wanted_chars(CHARS, targets, 0.0) == pytest.approx({"web": 400, "books": 1000, "code": 600})
    floored = wanted_chars(CHARS, targets, 0.5)
    assert sum(floored.values()) == pytest.approx(5000)
    assert floored == pytest.approx({"web": 3000, "books": 1000, "code": 1000})


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"wiki": 0.5}, "shares.wiki: no such source in the input; it has books, code, web"),
        ({"web": 0.5, "books": 0.5}, "code have none; give each a share"),
        ({"web": 0.0, "books": 0.0, "code": 0.0}, "nothing would be kept"),
    ],
)
def test_shares_that_do_not_fit_the_sources_say_so(shares, message):
    with pytest.raises(ValueError, match=message):
        target_shares(CHARS, shares)


def test_shares_above_one_are_refused():
    with pytest.raises(ValueError, match=r"sum of at most 1, found 1\.2"):
        MixConfig(shares={"a": 0.6, "b": 0.6})
