"""Mix and tokenizer to token files on real text, through the stage runner."""

from __future__ import annotations

import struct
import zlib
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.shards import stage as shards
from tasks.shards.files import SPLITS, TRAIN, VALIDATION, token_files
from tasks.shards.splits import ShardsConfig, split_of
from tasks.tokenizer.model import EOS_ID, Tokenizer
from training.data import TokenDataset
from training.indexed import IndexedReader


def documents_of(dataset):
    return [document for shard in dataset.shards for document in dataset.documents(shard)]


def pairs(dataset, split):
    """(sidecar rows, stem on disk) of each pair of token files."""
    folder, stems = token_files(dataset, split)
    return [(pq.read_table(folder / f"{stem}.parquet").to_pylist(), folder / stem) for stem in stems]


def test_every_document_is_in_its_split_and_decodes_to_its_text_behind_its_marker(given, made):
    model = Tokenizer.load(given["tokenizer"].local("tokenizer.model"))
    marker = given["tokenizer"].manifest.facts["markers"]["code"]
    found = {}
    for split in SPLITS:
        for rows, stem in pairs(made, split):
            reader = IndexedReader(stem)
            assert len(reader) == len(rows)
            for index, row in enumerate(rows):
                ids = reader[index]
                assert ids[0] == marker and ids[-1] == EOS_ID and EOS_ID not in ids[:-1]
                assert (row["num_tokens"], row["offset"]) == (len(ids), reader.starts[index])
                assert row["crc32"] == zlib.crc32(ids.tobytes())
                found[row["id"]] = (model.decode(ids[1:-1]), row["num_bytes"], split, row["source"], row["language"])
    left_out = {row["id"] for f in made.files("removed") for b in made.batches(f) for row in b.to_pylist()}
    config = ShardsConfig(validation_fraction=0.1)
    expected = {
        d.id: (d.text, len(d.text.encode()), split_of(d.text, config), d.source, d.language)
        for d in documents_of(given["mix"])
        if d.text and d.id not in left_out
    }
    assert found == expected


def test_the_account_adds_up_and_names_the_empty_documents(given, made):
    total, texts = made.manifest.account.total(), [d.text for d in documents_of(given["mix"])]
    facts = made.manifest.facts
    assert total.read == len(texts)
    assert total.dropped == Counter(no_tokens=texts.count(""), near_train=facts["left_out"])
    assert total.kept == facts["splits"][TRAIN]["documents"] + facts["splits"][VALIDATION]["documents"]
    for split in SPLITS:
        rows = [row for sidecar, _ in pairs(made, split) for row in sidecar]
        counts = {name: facts["splits"][split][name] for name in ("documents", "tokens", "bytes")}
        assert counts == {
            "documents": len(rows),
            "tokens": sum(row["num_tokens"] for row in rows),
            "bytes": sum(row["num_bytes"] for row in rows),
        }


def test_the_loader_reads_what_the_stage_wrote_and_names_its_documents(given, made):
    folder, stems = token_files(made, TRAIN)
    data = TokenDataset(folder, stems, digest=made.digest, seq_len=64, seed=3)
    assert data.num_tokens == made.manifest.facts["splits"][TRAIN]["tokens"]
    spans = data.documents_of(5)
    assert {span.id for span in spans} <= {document.id for document in documents_of(given["mix"])}
    assert all(5 in data.samples_of(span.id) for span in spans)


def test_deepspeed_and_a_reader_of_the_bare_layout_read_what_the_stage_wrote(made):
    from deepspeed.runtime.data_pipeline.data_sampling.indexed_dataset import MMapIndexedDataset

    for rows, stem in pairs(made, TRAIN):
        theirs = MMapIndexedDataset(str(stem), skip_warmup=True)
        tokens = np.fromfile(f"{stem}.bin", "<i4")
        index = stem.with_name(stem.name + ".idx").read_bytes()
        number = struct.unpack_from("<9sQBQQ", index)
        assert number == (b"MMIDIDX\0\0", 1, 4, len(rows), len(rows) + 1)
        lengths = struct.unpack_from(f"<{len(rows)}i", index, 34)
        starts = struct.unpack_from(f"<{len(rows)}q", index, 34 + 4 * len(rows))
        assert lengths == tuple(row["num_tokens"] for row in rows)
        for i, (length, start) in enumerate(zip(lengths, starts, strict=True)):
            assert np.array_equal(tokens[start // 4 : start // 4 + length], theirs[i])


@pytest.mark.parametrize(
    "workers", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_any_number_of_workers_writes_the_same_bytes(given, made, shard, tmp_path, workers):
    from tasks.spread import shutdown

    try:
        assert shard(tmp_path, given, workers=workers).digest == made.digest
    finally:
        shutdown()


def test_a_shard_more_adds_files_and_redoes_no_training_file(given, made, mix_of, shard, tmp_path):
    documents = tuple(
        (s.stem, tuple((d.source, d.text) for d in given["mix"].documents(s))) for s in given["mix"].shards
    )
    grown = mix_of(tmp_path / "mix", (*documents, ("zzz", (("new", "def question():\n    return 6 * 9\n"),))))
    more = shard(tmp_path / "store", {**given, "mix": grown})
    before = {f.name: f.sha256 for f in made.files("artifact") if f.name.startswith("train/")}
    after = {f.name: f.sha256 for f in more.files("artifact") if f.name.startswith("train/")}
    assert before.items() < after.items() and after.keys() - before.keys() <= {
        f"train/zzz.{suffix}" for suffix in ("bin", "idx", "parquet")
    }


def test_a_corpus_that_leaves_nothing_to_train_on_is_an_error():
    nothing = {TRAIN: {"documents": 0}, VALIDATION: {"documents": 3}}
    with pytest.raises(ValueError, match="3 went to validation"):
        shards.check_splits(nothing, ShardsConfig())
