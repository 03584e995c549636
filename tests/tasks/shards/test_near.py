"""Validation documents that resemble a training document are left out, with their evidence, and nothing else is."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from kernels import minhash
from tasks.dedup.normalise import fuzzy_form
from tasks.shards.files import TRAIN, VALIDATION, token_files
from tasks.shards.near import likeliest
from tasks.shards.splits import ShardsConfig, split_of
from training.indexed import IndexedReader

CONFIG = ShardsConfig(validation_fraction=0.3)


def jaccard(left: str, right: str) -> float:
    return minhash.jaccard(*(minhash.shingle_set(fuzzy_form(text), 5) for text in (left, right)))


@pytest.fixture(scope="module")
def documents() -> tuple:
    """200 texts of random words in two shards; of every second one, two copies with a part rewritten."""
    generator, shards = random.Random(0), {"a": [], "b": []}
    for number in range(200):
        words = [f"w{generator.randrange(3000)}" for _ in range(150)]
        shards["a"].append(("base", " ".join(words)))
        for kept in (105, 135) if number % 2 else ():
            tail = [f"w{generator.randrange(3000)}" for _ in range(150 - kept)]
            shards["b"].append(("copy", " ".join(words[:kept] + tail)))
    return tuple((name, tuple(found)) for name, found in shards.items())


@pytest.fixture(scope="module")
def made(given, mix_of, shard, documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("near")
    mix = mix_of(folder / "mix", documents)
    texts = {document.id: document.text for s in mix.shards for document in mix.documents(s)}
    return texts, shard(folder / "store", {**given, "mix": mix}, validation_fraction=0.3), mix, folder


def ids_of(dataset, split):
    folder, stems = token_files(dataset, split)
    rows = [row for stem in stems for batch in dataset.batches(f"{stem}.parquet") for row in batch.to_pylist()]
    assert sum(len(IndexedReader(folder / stem)) for stem in stems) == len(rows)
    return {row["id"] for row in rows}


def test_no_validation_document_resembles_a_training_document(made):
    texts, dataset, _, _ = made
    train, validation = ids_of(dataset, TRAIN), ids_of(dataset, VALIDATION)
    near = [jaccard(texts[v], texts[t]) for v in validation for t in train]
    assert max(near) < 0.5 and len(validation) > 30
    assert train == {i for i, text in texts.items() if split_of(text, CONFIG) == TRAIN}  # training never loses


def test_what_is_left_out_lies_in_removed_with_its_evidence(made):
    texts, dataset, _, _ = made
    rows = [row for f in dataset.files("removed") for batch in dataset.batches(f) for row in batch.to_pylist()]
    train = ids_of(dataset, TRAIN)
    assert len(rows) == dataset.manifest.facts["left_out"] > 10
    for row in rows:
        evidence = json.loads(row["evidence"])
        assert row["reason"] == "near_train" and evidence["train_id"] in train
        assert evidence["jaccard"] == pytest.approx(jaccard(row["text"], texts[evidence["train_id"]]), abs=1e-4)
        assert evidence["jaccard"] == pytest.approx(max(jaccard(row["text"], texts[t]) for t in train), abs=1e-4)


def test_without_a_limit_none_is_left_out(made, given, shard):
    texts, _, mix, folder = made
    inputs = {**given, "mix": mix}
    dataset = shard(folder / "all", inputs, validation_fraction=0.3, validation_max_jaccard=None)
    assert ids_of(dataset, VALIDATION) == {i for i, text in texts.items() if split_of(text, CONFIG) == VALIDATION}


def test_the_best_candidates_are_those_that_agree_most():
    generator = np.random.default_rng(0)
    validation = generator.integers(0, 2**32, (3, 64), dtype=np.uint32)
    train = generator.integers(0, 2**32, (50, 64), dtype=np.uint32)
    for row, agreeing in ((7, 40), (8, 60), (9, 50), (10, 20), (11, 45), (12, 41)):
        train[row, :agreeing] = validation[1, :agreeing]
    assert likeliest(validation, train, 0.5).tolist() == [[1, 8], [1, 9], [1, 11], [1, 12]]


def test_without_candidates_there_are_no_pairs():
    nothing, train = np.empty((0, 64), np.uint32), np.ones((5, 64), np.uint32)
    assert likeliest(nothing, train, 0.5).shape == likeliest(train, nothing, 0.5).shape == (0, 2)
