"""A night after other nights ends as one run over everything, and reads little."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tasks.dedup import incremental, minhash, verify
from tasks.dedup.incremental import Match
from tasks.dedup.lsh import Bands

WORDS = [f"word{i}" for i in range(60)]


def prose(generator, length=60):
    return generator.choices(WORDS, k=length)


def edited(generator, words, count):
    copy = list(words)
    for at in generator.sample(range(len(copy)), count):
        copy[at] = "changed"
    return copy


@pytest.fixture
def families(make_document):
    """Sixty families of texts that differ by a few words, some of them more alike than others, of two sources."""
    generator, made = random.Random(7), []
    for family in range(60):
        base = prose(generator, generator.randint(55, 80))
        for member in range(generator.choice([1, 1, 2, 3, 5])):
            text = " ".join(edited(generator, base, generator.choice([0, 1, 1, 2, 3])) if member else base)
            text += f" end{member}" * generator.choice([0, 1])
            made.append(make_document(text, source=f"s{family % 2}", name=f"{family}-{member}"))
    return made + [make_document("only four short words", name=f"short-{i}") for i in range(3)]


def outcome(dataset, read_kept, read_removed):
    return {d.id for d in read_kept(dataset)}, read_removed(dataset)


def dealt(generator, documents, num_shards):
    """Documents in shards of any size, in any order."""
    shuffled = generator.sample(documents, len(documents))
    cuts = sorted(generator.sample(range(1, len(documents)), num_shards - 1))
    return [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(documents)], strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_nights_of_any_split_and_order_end_as_one_full_run(run_on, families, read_kept, read_removed, seed):
    """Shards arrive among the old ones; on the third night an old one is gone and another has lost a row."""
    generator = random.Random(seed)
    config = minhash.MinHashConfig(source_priority={"s1": 1} if seed % 2 else {})
    shards = dealt(generator, families, 6)
    nights = [shards[1:4], shards[:5], [shards[0][1:], *shards[2:]]]
    for night, given in enumerate(nights):
        grown = run_on(minhash.STAGE, config, given, store="grown")
        fresh = run_on(minhash.STAGE, config, given)
        assert outcome(grown, read_kept, read_removed) == outcome(fresh, read_kept, read_removed)
        assert grown.digest == fresh.digest
        assert [f.sha256 for f in grown.files("removed")] == [f.sha256 for f in fresh.files("removed")]
        assert grown.manifest.facts["removed"] == fresh.manifest.facts["removed"] > 5
        assert (grown.manifest.facts["index"]["documents_before"] > 0) == (night > 0)
        for name in ("band-000", "band-017", "documents", "decisions"):  # the index itself is that of a full run
            assert [f.sha256 for f in grown.manifest.files if f.name.startswith(f"index/{name}")] == [
                f.sha256 for f in fresh.manifest.files if f.name.startswith(f"index/{name}")
            ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nights_over_planted_duplicates_end_as_one_full_run(
    run_on, make_document, planted, read_kept, read_removed, seed
):
    """Real texts in two scripts, copies of every kind; 4 to 6 nights."""
    generator = random.Random(seed)
    documents = [make_document(row["text"], source=row["kind"][:4], name=row["id"]) for row in planted[seed::4]]
    config = minhash.MinHashConfig(source_priority={"exac": 1} if seed else {}, max_source_loss=1.0)
    shards = dealt(generator, documents, generator.randint(4, 6))
    read = []
    for night in range(1, len(shards) + 1):
        grown = run_on(minhash.STAGE, config, generator.sample(shards[:night], night), store="grown")
        read.append(grown.manifest.facts["pairs_verified"])
        assert grown.manifest.facts["pairs_verified_without_new"] == 0
    fresh = run_on(minhash.STAGE, config, [documents])
    assert outcome(grown, read_kept, read_removed) == outcome(fresh, read_kept, read_removed)
    facts = fresh.manifest.facts
    assert facts["removed"] == grown.manifest.facts["removed"] > 50
    assert sum(read) < 1.1 * facts["pairs_verified"]


def test_buckets_larger_than_a_round_end_as_in_one_full_run(run_on, make_document, read_kept, read_removed):
    """Eighty copies of one text: survivors change from night to night, and pairs that never met are read late."""
    generator = random.Random(5)
    base, made = prose(generator, 100), []
    for i in range(80):
        text = " ".join(edited(generator, base, generator.choice([0, 1, 2, 3])) + ["more"] * generator.randint(0, 4))
        made.append(make_document(text, name=str(i)))
    shards, config = dealt(generator, made, 4), minhash.MinHashConfig()
    for night in range(1, 5):
        grown = run_on(minhash.STAGE, config, shards[:night], store="grown")
        fresh = run_on(minhash.STAGE, config, shards[:night])
        assert outcome(grown, read_kept, read_removed) == outcome(fresh, read_kept, read_removed)
    assert fresh.manifest.facts["rounds"] > 1 and 1 < len(read_kept(fresh)) < 40


def test_a_night_reads_pairs_of_new_documents_alone(run_on, families, monkeypatch):
    pairs = []
    true_jaccard = verify.true_jaccard
    monkeypatch.setattr(
        verify,
        "true_jaccard",
        lambda run, documents, asked, number: (
            pairs.extend((documents.id(int(a)), documents.id(int(b))) for a, b in asked)
            or true_jaccard(run, documents, asked, number)
        ),
    )
    generator = random.Random(1)
    shuffled = generator.sample(families, len(families))
    old, new = shuffled[:-20], shuffled[-20:]
    first = run_on(minhash.STAGE, minhash.MinHashConfig(), [old[:40], old[40:]], store="same").manifest.facts
    read_before = len(pairs)
    second = run_on(minhash.STAGE, minhash.MinHashConfig(), [old[:40], old[40:], new], store="same").manifest.facts
    full = run_on(minhash.STAGE, minhash.MinHashConfig(), [shuffled]).manifest.facts
    ids = {document.id for document in new}
    tonight = pairs[read_before : read_before + second["pairs_verified"]]
    assert tonight and all(ids & set(pair) for pair in tonight)
    assert second["pairs_verified_without_new"] == 0 and second["documents_new"] == 20
    read = first["pairs_verified"] + second["pairs_verified"]
    assert 0.9 < read / full["pairs_verified"] < 1.1  # equal texts are one pair with a third; leaders change
    assert second["documents_compared"] < len(families) / 2 and full["documents_compared"] == len(families) - 3


def test_a_longer_copy_displaces_an_old_survivor_and_its_loss_brings_it_back(run_on, make_document, read_removed):
    base = prose(random.Random(3), 120)
    short, middle, long = (make_document(" ".join(base + ["more"] * n), name=str(n)) for n in (0, 1, 2))
    config, store = minhash.MinHashConfig(), "same"
    kept_by = []
    for given in ([[short], [middle]], [[short], [middle], [long]], [[short], [middle]], [[short]]):
        removed = read_removed(run_on(minhash.STAGE, config, given, store=store))
        kept_by.append({identity: evidence["kept_id"] for identity, evidence in removed.items()})
    assert kept_by == [{short.id: middle.id}, {short.id: long.id, middle.id: long.id}, {short.id: middle.id}, {}]


def test_another_threshold_knows_the_pairs_and_decides_anew(run_on, families, read_kept, read_removed):
    run_on(minhash.STAGE, minhash.MinHashConfig(), [families], store="same")
    config = minhash.MinHashConfig(threshold=0.85)
    again = run_on(minhash.STAGE, config, [families[:70], families[70:]], store="same")
    fresh = run_on(minhash.STAGE, config, [families[:70], families[70:]])
    assert outcome(again, read_kept, read_removed) == outcome(fresh, read_kept, read_removed)
    facts = again.manifest.facts
    assert facts["index"]["documents_before"] == 0 and facts["pairs_known_before"] > facts["pairs_verified"]


@pytest.mark.parametrize(
    "name", ["index/band-003.bin", "index/pairs.bin", "index/documents.parquet", "index/header.json"]
)
@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_damaged_index_is_said_and_never_believed(
    run_on, families, read_kept, read_removed, caplog, tmp_path, name, how
):
    old, new = families[:100], families[100:]
    first = run_on(minhash.STAGE, minhash.MinHashConfig(), [old], store="same")
    path = first.local(name)
    if how == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.unlink()
        path.write_bytes(data)
    again = run_on(minhash.STAGE, minhash.MinHashConfig(), [old, new], store="same")
    fresh = run_on(minhash.STAGE, minhash.MinHashConfig(), [old, new])
    assert outcome(again, read_kept, read_removed) == outcome(fresh, read_kept, read_removed)
    facts = again.manifest.facts
    assert facts["documents_new"] == len(families) and len(facts["index"]["problems"]) == 1
    assert "an index cannot be used, so more is compared anew" in caplog.text


def test_a_bucket_larger_than_a_chunk_is_merged_whole(monkeypatch):
    monkeypatch.setattr(incremental, "CHUNK", 4)
    generator = np.random.default_rng(0)
    for _ in range(50):
        old_keys = np.sort(generator.integers(0, 5, 30).astype(np.uint64))
        old_numbers = generator.permutation(30).astype(np.uint32)
        places = np.where(generator.random(30) < 0.3, -1, generator.permutation(60)[:30])
        keys = np.sort(generator.integers(0, 7, 11).astype(np.uint64))
        numbers = np.setdiff1d(np.arange(60), places)[:11]
        chunks = list(incremental.merged(old_keys, old_numbers, places, keys, numbers))
        found = [(int(k), int(n)) for some in chunks for k, n in zip(*some, strict=True)]
        moved = [(int(k), int(places[n])) for k, n in zip(old_keys, old_numbers, strict=True) if places[n] >= 0]
        assert found == sorted(moved + list(zip(keys.tolist(), numbers.tolist(), strict=True)))


def test_components_are_what_buckets_connect(tmp_path):
    """1 and 5 share a bucket of one band, 5 and 9 one of the other; 7 is alone."""
    spilled = Bands(tmp_path, bands=2, rows=1)
    signatures = np.array([[1, 1], [1, 2], [3, 4], [5, 2]], dtype=np.uint32)
    members = np.array([1, 5, 7, 9])
    spilled.add(members, signatures)
    assert incremental.connect(spilled, members).tolist() == [1, 1, 7, 1]


def test_what_a_new_document_touches_is_compared_and_no_more():
    """Old: components {0, 1}, {2, 3}, {4}; 3 is gone, the new document 4 shares a bucket with 0."""
    matched = Match(places=np.array([0, 1, 2, -1, 3]), origins=np.array([0, 1, 2, 4, -1]))
    chosen = incremental.affected(matched, np.array([0, 0, 2, 2, 4]), met=np.array([0]))
    assert chosen.tolist() == [True, True, True, False, True]
