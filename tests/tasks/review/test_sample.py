"""Which documents are shown, and beside what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.review import beside, sample
from tasks.review.beside import BEFORE, DUPLICATE, NEAR
from tasks.store.dataset import Dataset

Chain = dict[str, Dataset]


@pytest.mark.parametrize("stage", ["decode", "filter", "exact_dedup", "minhash_dedup"])
def test_the_sample_is_the_same_for_any_number_of_shards(
    chain: Chain, stage: str, run_review_chain: Callable[..., Chain], tmp_path: Path
) -> None:
    sharded = run_review_chain(tmp_path, num_shards=3)[stage]
    assert len(sharded.shards) == 3 and len(chain[stage].shards) == 1
    assert beside.collect(sharded, number=4, seed=5) == beside.collect(chain[stage], number=4, seed=5)


def test_a_larger_sample_begins_with_the_smaller_and_another_seed_gives_another(chain: Chain) -> None:
    def ids(number: int, seed: int) -> list[str]:
        [group] = beside.collect(chain["filter"], ["too_short"], number, seed)
        return [case.record.id for case in group.cases]

    assert ids(8, 0)[:3] == ids(3, 0)
    assert ids(8, 0)[:3] != ids(8, 1)[:3]


def test_every_reason_is_sampled_with_its_count(chain: Chain) -> None:
    for stage in ("decode", "filter", "exact_dedup", "minhash_dedup"):
        total = chain[stage].manifest.account.total()
        groups = {g.reason: g.count for g in beside.collect(chain[stage], number=2)}
        lost = {**total.dropped, **total.quarantined}
        assert {reason: groups[reason] for reason in lost} == lost


def test_beside_a_dropped_document_stands_the_kept_one_nearest_to_the_limit(chain: Chain) -> None:
    [group] = beside.collect(chain["filter"], ["repeated_ngram"], 3)
    assert [case.relation for case in group.cases] == [NEAR] * 3
    metric = group.cases[0].limit.metric
    kept = [d for shard in chain["filter"].shards for d in chain["filter"].documents(shard)]
    largest = max(d.metrics[metric] for d in kept if d.language == "en")
    assert group.cases[0].beside.metrics[metric] == largest <= group.cases[0].limit.limit


@pytest.mark.parametrize("stage", ["exact_dedup", "minhash_dedup"])
def test_beside_a_duplicate_stands_the_document_that_stayed(chain: Chain, stage: str) -> None:
    [group] = beside.collect(chain[stage])  # no sample of kept ones, which cannot be judged alone
    for case in group.cases:
        assert case.relation == DUPLICATE and case.beside.id == case.record.evidence["kept_id"]
        assert case.beside.outcome == "kept" and case.beside.text


def test_a_quarantined_record_is_shown_by_its_bytes(chain: Chain) -> None:
    [group] = beside.collect(chain["decode"], ["empty"])
    assert group.outcome == "quarantined" and group.cases[0].record.content == b"\xef\xbb\xbf \r\n "
    assert group.cases[0].record.evidence["detail"]


def test_a_text_that_the_stage_changed_is_shown_with_what_it_was(chain: Chain) -> None:
    [group] = beside.collect(chain["decode"], ["changed"], number=20)
    repaired = [case for case in group.cases if "Café" in case.record.text]
    assert repaired and all(case.relation == BEFORE for case in group.cases)
    assert "CafÃ©".encode() in repaired[0].beside.content


def test_an_unknown_reason_is_an_error_that_names_those_there_are(chain: Chain) -> None:
    with pytest.raises(ValueError, match=r"too_sort.*too_short \(10\).*kept"):
        beside.collect(chain["filter"], ["too_sort"])


def test_ids_that_are_not_there_are_not_found(chain: Chain) -> None:
    assert sample.locate(chain["filter"], sample.tables_of(chain["filter"]), ["0" * 32]) == {}
