"""Who stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tasks.dedup.survivors import SourceLossError, catalogue, greedy, guard_sources


def table(rows):
    ids, sources, lengths = zip(*rows, strict=True)
    return pa.table({"id": list(ids), "source": list(sources), "length": pa.array(lengths, pa.int64())})


def test_order_is_priority_then_length_then_id():
    rows = [("d" * 32, "web", 9), ("c" * 32, "web", 9), ("b" * 32, "web", 5), ("a" * 32, "books", 1)]
    documents = catalogue(["s0", "s1"], [table(rows[:2]), table(rows[2:])])
    assert documents.rank({"books": 1}).tolist() == [2, 1, 3, 0]
    assert documents.rank({}).tolist() == [1, 0, 2, 3]


def test_likeness_is_not_passed_on_along_a_chain():
    """0 ~ 1 ~ 2, but 0 and 2 are unlike: 1 goes for 0, and 2 stays, since 1 is no survivor."""
    rank = np.arange(3)
    dropped, doubt = greedy([(0, 1), (1, 2)], rank, np.zeros(3, dtype=bool))
    assert dropped == {1: 0} and not doubt


def test_a_document_is_in_doubt_while_its_partner_is():
    rank = np.arange(3)
    dropped, doubt = greedy([(0, 1), (1, 2)], rank, np.array([True, False, False]))
    assert dropped == {} and doubt == {1, 2}


def test_election_is_that_of_one_document_after_the_other():
    """Random likeness among 40 documents, some unsettled: the passes over arrays against the rule, in order of rank."""
    generator = np.random.default_rng(0)
    for _ in range(200):
        rank, unsettled = generator.permutation(40), generator.random(40) < 0.2
        pairs = generator.integers(0, 40, (60, 2))
        pairs = np.unique(pairs[rank[pairs[:, 0]] < rank[pairs[:, 1]]], axis=0)
        state, kept = {}, {}
        for document in np.argsort(rank).tolist():
            partners = sorted(pairs[pairs[:, 1] == document, 0].tolist(), key=lambda index: rank[index])
            sure = [partner for partner in partners if state[partner] == "stays"]
            if sure:
                state[document], kept[document] = "goes", sure[0]
            else:
                doubt = unsettled[document] or any(state[partner] == "doubt" for partner in partners)
                state[document] = "doubt" if doubt else "stays"
        dropped, doubt = greedy([tuple(pair) for pair in pairs.tolist()], rank, unsettled)
        assert dropped == kept
        assert doubt == {d for d in np.unique(pairs[:, 1]).tolist() if state[d] == "doubt"}


def test_ids_lie_in_a_file_where_there_is_a_folder(tmp_path):
    rows = [(f"{i:032x}", "web", i) for i in range(7)]
    tables = [table(rows[:3]), table(rows[3:3] or rows[:1]).slice(1), table(rows[3:])]
    inside, mapped = catalogue("abc", tables), catalogue("abc", tables, tmp_path)
    assert isinstance(mapped.ids, np.memmap) and mapped.ids.tolist() == inside.ids.tolist() == [
        r[0].encode() for r in rows
    ]
    assert mapped.shard_of(np.arange(7)).tolist() == [0, 0, 0, 2, 2, 2, 2]
    some = np.array([5, 1, 2])
    assert mapped.rank({}, some)[some].tolist() == [0, 2, 1] and (mapped.rank({}, some)[[0, 3, 4, 6]] == 7).all()


def test_guard_names_source_numbers_and_key():
    documents = catalogue(["s"], [table([(f"{i:032x}", "law" if i < 10 else "web", 5) for i in range(20)])])
    guard_sources(documents, range(9), 0.9, 10, "minhash_dedup")
    with pytest.raises(SourceLossError, match=r"'law' would lose 10 of 10 .*minhash_dedup.max_source_loss"):
        guard_sources(documents, range(10), 0.9, 10, "minhash_dedup")
    guard_sources(documents, range(10), 0.9, 11, "minhash_dedup")  # too few documents to judge
