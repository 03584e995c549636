"""Which paragraphs go, against a plain loop over the documents in survivor order."""

import numpy as np
import pytest

from tasks.dedup import shared_paragraphs
from tasks.dedup.paragraphs import ParagraphConfig
from tasks.dedup.shared_paragraphs import RECORD, SpilledParagraphs, copies, find_removals

LENGTH = 100  # characters of a paragraph


def corpus(rng: np.random.Generator, num_documents: int, num_paragraphs: int) -> np.ndarray:
    """RECORD of documents that draw paragraphs from one pool, repeats inside a document too."""
    records = []
    for document in range(num_documents):
        for place, name in enumerate(rng.integers(0, num_paragraphs, size=rng.integers(1, 9))):
            high = int(name) * 0x9E3779B97F4A7C15 % (1 << 64)
            records.append((high, name, document, place * LENGTH, (place + 1) * LENGTH))
    return np.array(records, dtype=RECORD)


def expected(
    records: np.ndarray, rank: np.ndarray, lengths: np.ndarray, config: ParagraphConfig
) -> tuple[set[int], dict[tuple[int, int], int]]:
    """The documents that go whole, and (document, start) -> holder of each paragraph that goes."""
    rows = [(int(r["low"]), int(r["document"]), int(r["start"]), int(r["end"])) for r in records]
    documents_of = {name: {d for n, d, _, _ in rows if n == name} for name, *_ in rows}
    holder: dict[int, int] = {}
    whole, removed = set(), {}
    for document in np.argsort(rank):
        mine = [(n, s, e) for n, d, s, e in rows if d == document and len(documents_of[n]) >= config.min_documents]
        gone = {(int(document), s): holder[n] for n, s, _ in mine if n in holder}
        lost = sum(e - s for n, s, e in mine if n in holder)
        removed.update(gone)
        too_few = lost > 0 and lengths[document] - lost < config.min_chars_left
        if lost > config.max_removed * lengths[document] or too_few:
            whole.add(int(document))
        else:
            for name, _, _ in mine:
                holder.setdefault(name, int(document))
    return whole, removed


@pytest.mark.parametrize("min_documents", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_the_passes_decide_what_a_loop_in_survivor_order_decides(seed, min_documents, tmp_path):
    rng = np.random.default_rng(seed)
    records = corpus(rng, num_documents=60, num_paragraphs=int(rng.integers(20, 200)))
    rank = rng.permutation(60)
    lengths = np.bincount(records["document"], minlength=60) * LENGTH + rng.integers(0, 150, size=60)
    config = ParagraphConfig(min_documents=min_documents, max_removed=0.6, min_chars_left=100)
    spilled = SpilledParagraphs(tmp_path, len(records))
    for part in np.array_split(records[rng.permutation(len(records))], 4):
        spilled.add(part)
    found = find_removals(spilled, rank, lengths, config)
    whole, removed = expected(records, rank, lengths, config)
    assert set(np.flatnonzero(found.whole)) == whole
    assert found.passes > 1 or not whole
    pairs = zip(found.records, found.holders, strict=True)
    assert {(int(r["document"]), int(r["start"])): int(holder) for r, holder in pairs} == removed


def test_many_files_decide_what_one_file_decides(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    records, found = corpus(rng, 80, 60), []
    lengths = np.bincount(records["document"], minlength=80) * LENGTH
    for name, size in (("one", 64 << 20), ("many", 64)):
        monkeypatch.setattr(shared_paragraphs, "FILE_BYTES", size)
        (tmp_path / name).mkdir()
        spilled = SpilledParagraphs(tmp_path / name, len(records))
        spilled.add(records)
        found.append((len(spilled.paths()), find_removals(spilled, np.arange(80), lengths, ParagraphConfig())))
    (few, first), (many, second) = found
    assert many > 4 * few
    assert (first.records == second.records).all() and (first.holders == second.holders).all()
    assert len(first.records)


def test_a_paragraph_repeated_in_its_own_document_stays_there():
    records = np.array([(1, 1, 0, 0, 9), (1, 1, 0, 9, 18), (1, 1, 1, 0, 9), (1, 1, 1, 9, 18)], dtype=RECORD)
    places, holders = copies(records, np.zeros(2, dtype=bool))
    assert places.tolist() == [2, 3] and holders.tolist() == [0, 0]


def test_nothing_spilled_is_nothing_removed(tmp_path):
    spilled = SpilledParagraphs(tmp_path, 0)
    spilled.add(np.empty(0, dtype=RECORD))
    found = find_removals(spilled, np.arange(3), np.full(3, 100), ParagraphConfig())
    assert len(found.records) == 0 and not found.whole.any()
