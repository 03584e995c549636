"""Components cut from interleaved documents: complete, in order, cached, and refused when they cannot be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from training.data import DataError, TokenDataset
from training.data.config import ComponentConfig, CurriculumConfig, DataConfig, FrequencyConfig, PhaseConfig, SkipConfig
from training.data.index import build, merge

BOTH = {"law": ComponentConfig(sources=("law*",)), "rest": ComponentConfig()}
HALVES = (PhaseConfig(shares={"law": 0.5, "rest": 0.5}),)


def test_a_components_tokens_are_those_of_its_documents_in_order(open_mixed):
    data = open_mixed(DataConfig(components=BOTH, phases=HALVES))
    for number, name in enumerate(BOTH):
        expected = []
        for file, reader in enumerate(data.readers):
            sources = data.files.sidecar(file)["source"].to_pylist()
            expected += [reader[row] for row, source in enumerate(sources) if (source == "law") == (name == "law")]
        index = data.indexes[number]
        got = np.concatenate([data.read(*piece) for piece in index.pieces(0, index.num_tokens)])
        assert np.array_equal(got, np.concatenate(expected))
        assert index.facts["documents"] == len(expected)


def test_documents_that_follow_one_another_are_one_range():
    starts, ends = merge(np.array([0, 5, 20, 22, 40]), np.array([5, 3, 2, 18, 1]))
    assert (starts.tolist(), ends.tolist()) == ([0, 20], [8, 29])


def test_from_the_cache_the_samples_are_the_same_and_nothing_is_built_again(open_mixed, tmp_path):
    config = DataConfig(components=BOTH, phases=HALVES)
    fresh, first = open_mixed(config), open_mixed(config, cache=tmp_path)
    [folder] = tmp_path.iterdir()
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = open_mixed(config, cache=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps
    assert np.array_equal(fresh.samples(np.arange(300)), first.samples(np.arange(300)))
    assert np.array_equal(fresh.samples(np.arange(300)), again.samples(np.arange(300)))
    open_mixed(config, cache=tmp_path, seed=2, digest="e")
    assert len(list(tmp_path.iterdir())) == 2, "another dataset is indexed apart"


def test_documents_of_no_component_are_counted_and_named(open_mixed):
    components = {"law": ComponentConfig(sources=("law",)), "code": ComponentConfig(languages=("code",))}
    with pytest.raises(DataError, match=r"4\d\d documents belong to none \(\d+ of source 'web' in 'en'"):
        open_mixed(DataConfig(components=components, phases=(PhaseConfig(shares={"law": 1.0}),)))


def test_a_component_without_documents_or_without_a_sample_is_named(open_mixed):
    with pytest.raises(DataError, match=r"components\.poems: no document"):
        poems = {"poems": ComponentConfig(sources=("poems",)), **BOTH}
        open_mixed(DataConfig(components=poems, phases=HALVES))
    with pytest.raises(DataError, match=r"components.law: expected at least seq_len \+ 1 = 4,001 tokens"):
        open_mixed(DataConfig(components=BOTH, phases=HALVES), seq_len=4000)


def test_skipping_every_sequence_of_a_component_is_refused(open_mixed):
    data = open_mixed(DataConfig(components=BOTH, phases=HALVES))
    law = {s.id for s in data.files.spans(0, data.num_tokens) if s.source == "law"}
    with pytest.raises(DataError, match="every sequence of component 'law'"):
        open_mixed(DataConfig(components=BOTH, phases=HALVES, skip=(SkipConfig(documents=tuple(law)),)))


def test_a_component_repeated_too_often_is_warned_of_with_its_epochs(open_mixed, caplog):
    data = open_mixed(DataConfig(components=BOTH, phases=(PhaseConfig(shares={"law": 0.9, "rest": 0.1}),)))
    [said] = data.warn_of_repeats(8000)
    assert re.match(r"train\.data\.components\.law: 7,\d{3} samples are 26\.\d epochs of its 2,172 tokens", said)
    assert said in caplog.text
    assert data.warn_of_repeats(100) == []


def test_a_curriculum_goes_from_short_documents_to_long_ones_and_then_is_uniform(open_mixed):
    plain, ordered = (
        open_mixed(DataConfig(curriculum=CurriculumConfig(fraction=f)), num_steps=100) for f in (0.0, 0.5)
    )
    head = 50 * 12

    def lengths(data: TokenDataset, indices) -> list[float]:
        places = data.indexes[0].places(data.sequences_at(indices)[1] * data.seq_len)
        return np.floor(np.log2(data.files.lengths_at(places))).tolist()

    buckets = lengths(ordered, np.arange(head))
    assert buckets == sorted(buckets)
    assert len(set(buckets)) >= 4
    after = lengths(ordered, np.arange(head, 1400))
    assert after != sorted(after)
    assert ordered.samples_per_epoch == plain.samples_per_epoch
    drawn = ordered.sequences_at(np.arange(ordered.samples_per_epoch))[1]
    assert np.array_equal(np.sort(drawn), np.arange(ordered.samples_per_epoch)), "each once in the epoch"


def test_frequent_characters_are_brought_to_the_target_by_leaving_out_heavy_documents(open_mixed):
    data = open_mixed(DataConfig())
    rng = np.random.default_rng(1)
    table = np.ones((2, int(data.read(0, data.num_tokens).max()) + 1), np.int16)
    table[1] = rng.random(table.shape[1]) < 0.13  # every eighth token is a frequent character
    settings = FrequencyConfig(target_share=0.10, languages=("*",), min_kept_fraction=0.3)
    [index] = build(data.files, DataConfig(frequency=settings), seed=1, characters=table)
    facts = index.facts
    assert facts["frequent_share_before"] == pytest.approx(0.13, abs=0.01)
    assert facts["frequent_share"] == pytest.approx(0.10, abs=0.006)
    assert facts["documents"] + facts["documents_left_out"] == sum(len(reader) for reader in data.readers)
    assert [i.facts for i in build(data.files, DataConfig(frequency=settings), seed=1, characters=table)] == [facts]
    for kept in (1.0, 0.9):  # no more may go than this, however far the target is
        careful = FrequencyConfig(target_share=0.01, languages=("*",), min_kept_fraction=kept)
        [index] = build(data.files, DataConfig(frequency=careful), seed=1, characters=table)
        assert index.facts["frequent_kept_fraction"] >= kept - 0.03
    other = FrequencyConfig(target_share=0.01, languages=("zh*",), min_kept_fraction=0.1)
    [index] = build(data.files, DataConfig(frequency=other), seed=1, characters=table)
    left = {s.source for s in data.files.spans(0, data.num_tokens)}
    assert left == {"web", "law", "git"}
    with pytest.raises(DataError, match="character table"):
        open_mixed(DataConfig(frequency=settings))
