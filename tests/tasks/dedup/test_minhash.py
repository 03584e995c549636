"""Near-duplicates: verified, deterministic, guarded."""

from __future__ import annotations

import hashlib
import random

import pyarrow as pa
import pytest

from tasks.dedup import minhash, survivors

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
    "pi",
    "rho",
    "sigma",
    "tau",
]


def prose(seed: int, length: int = 200) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def near_copy(words: list[str], at: int) -> str:
    return " ".join([*words[:at], "changed", *words[at + 1 :]])


@pytest.fixture
def documents(make_document):
    """12 texts with two near-copies each, and 3 that are too short to compare."""
    made = []
    for seed in range(12):
        words = prose(seed)
        texts = [" ".join(words), near_copy(words, 50), near_copy(words, 120)]
        made += [make_document(text, source=f"s{seed % 2}", name=f"{seed}-{i}") for i, text in enumerate(texts)]
    return made + [make_document("only four short words", name=f"short-{i}") for i in range(3)]


def test_survivors_depend_on_neither_shards_nor_order(run_on, documents, read_kept, read_removed):
    found = []
    for seed in range(4):
        shuffled = random.Random(seed).sample(documents, len(documents))
        shards = [shuffled[i :: seed + 1] for i in range(seed + 1)]
        dataset = run_on(minhash.STAGE, minhash.MinHashConfig(), shards)
        found.append(({d.id for d in read_kept(dataset)}, read_removed(dataset)))
    assert all(each == found[0] for each in found)
    kept, removed = found[0]
    assert len(kept) == 12 + 3 and len(removed) == 24
    for evidence in removed.values():
        assert evidence["kept_id"] in kept and evidence["similarity"] >= 0.8
        assert evidence["estimated"] == pytest.approx(evidence["similarity"], abs=0.15)


@pytest.mark.slow
def test_one_and_two_workers_write_the_same_bytes(run_on, documents):
    shards = [documents[i::4] for i in range(4)]
    first, second = (run_on(minhash.STAGE, minhash.MinHashConfig(), shards, workers=workers) for workers in (1, 2))
    assert [(f.name, f.sha256) for f in first.manifest.files] == [(f.name, f.sha256) for f in second.manifest.files]


def test_an_empty_dataset_and_empty_shards_pass(run_on, documents, read_kept):
    assert run_on(minhash.STAGE, minhash.MinHashConfig(), []).shards == []
    short = documents[-3:]
    assert len(read_kept(run_on(minhash.STAGE, minhash.MinHashConfig(), [[], short[:1], [], short[1:]]))) == 3


def test_what_goes_between_steps_is_not_left_in_the_dataset(run_on, documents):
    dataset = run_on(minhash.STAGE, minhash.MinHashConfig(), [documents[:20], documents[20:]])
    assert {file.name.split("/")[0] for file in dataset.manifest.files} == {"index", "removed", "shards", "signatures"}
    assert set(dataset.store.sizes(dataset.folder)) == {file.name for file in dataset.manifest.files} | {
        "manifest.json"
    }


def test_a_new_shard_signs_that_shard_alone(run_on, documents, monkeypatch):
    signed = []
    sign = minhash.minhash.sign_codes

    def counted(codes, offsets, *rest, **more):
        signed.append(len(offsets) - 1)
        return sign(codes, offsets, *rest, **more)

    monkeypatch.setattr(minhash.minhash, "sign_codes", counted)
    run_on(minhash.STAGE, minhash.MinHashConfig(), [documents[:20]], store="same")
    run_on(minhash.STAGE, minhash.MinHashConfig(), [documents[:20], documents[20:]], store="same")
    assert signed == [20, 19]


def test_digests_of_a_slice_of_a_column_are_those_of_its_texts():
    column = pa.array(["abc", "", "汉字𠀀"] * 3, pa.large_string())
    for some in (column, column[2:6], column[:0], column.cast(pa.string())[1:]):
        expected = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in some.to_pylist()]
        assert minhash.text_digests(some).to_pylist() == expected


def test_a_source_of_higher_priority_keeps_its_copy(run_on, make_document, read_kept):
    words = prose(1)
    longer = make_document(" ".join([*words, "and", "more"]), source="web")
    shorter = make_document(" ".join(words), source="book")
    for priority, winner in (({}, longer), ({"book": 1}, shorter)):
        config = minhash.MinHashConfig(source_priority=priority)
        assert [d.id for d in read_kept(run_on(minhash.STAGE, config, [[longer, shorter]]))] == [winner.id]


def test_a_source_that_would_vanish_stops_the_run(run_on, documents):
    config = minhash.MinHashConfig(min_source_documents=10, max_source_loss=0.5)
    with pytest.raises(survivors.SourceLossError, match=r"minhash_dedup.max_source_loss"):
        run_on(minhash.STAGE, config, [documents])


def test_config_errors_name_the_key():
    with pytest.raises(ValueError, match="threshold must be above 0"):
        minhash.MinHashConfig(threshold=0)


@pytest.mark.slow
def test_planted_duplicates(run_on, make_document, planted, read_removed):
    """Of documents whose true Jaccard to the base reaches the threshold, 99 % are found; nothing unlike is removed."""
    documents = [make_document(row["text"], name=row["id"]) for row in planted]
    row_of = {document.id: row for document, row in zip(documents, planted, strict=True)}
    dataset = run_on(minhash.STAGE, minhash.MinHashConfig(), [documents[i::3] for i in range(3)])
    removed = read_removed(dataset)
    wrong = [
        i for i, e in removed.items() if row_of[i]["group"] != row_of[e["kept_id"]]["group"] or not row_of[i]["group"]
    ]
    assert len(wrong) <= 0.001 * len(removed)
    assert not [i for i in removed if row_of[i]["kind"] == "negative_same_frame"]
    gone_groups = {row["group"] for i, row in row_of.items() if row["kind"] == "base" and i in removed}
    due = [
        i
        for i, row in row_of.items()
        if row["kind"] not in ("base", "template_company")
        and max(row["jaccard"] or 0, row.get("jaccard_after_t2s") or 0) >= 0.8
    ]
    found = [i for i in due if i in removed or row_of[i]["group"] in gone_groups]  # one of the two must go
    assert len(found) >= 0.99 * len(due), f"found {len(found)} of {len(due)}"
