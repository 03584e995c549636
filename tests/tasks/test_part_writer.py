"""Columns written by a part are the files and the account that one outcome per document gives."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.document import Document, Dropped, Kept, Origin, document_id
from tasks.part_writer import PartWriter
from tasks.store import tables
from tasks.store.filesystem import Store


@pytest.fixture
def documents() -> list[Document]:
    generator, made = random.Random(0), []
    for i in range(700):
        text = generator.choice("汉字 abc é𠀀") * generator.randint(0, 400)
        made.append(
            Document(
                id=document_id("s", "f", i, text.encode()),
                text=text,
                source=generator.choice(["web", "book"]),
                url=generator.choice([None, "https://example.org/"]),
                language=generator.choice(["en", "zh-Hans"]),
                languages={"en": 0.25} if i % 7 == 0 else {},
                metrics={"b": 1.0, "a": float(i)} if i % 3 else {},
                origin=Origin(file="f", record=i, offset=i * 10),
            )
        )
    return made


def written(store: Store, folder: str) -> dict[str, bytes]:
    return {name: store.open(f"{folder}/{name}").read() for name in sorted(store.sizes(folder))}


@pytest.mark.parametrize("batch_rows", [1, 64, 1000])
def test_columns_give_the_bytes_and_the_account_of_outcomes(tmp_path, documents, monkeypatch, batch_rows):
    """Row groups of at most 100 rows or 60 KB, shards of 200 KB."""
    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 60_000)
    store = Store(str(tmp_path))
    gone = np.array(sorted(random.Random(1).sample(range(700), 150)))
    lines = [json.dumps({"kept_id": "x", "similarity": i / 7}) for i in range(len(gone))]
    one, other = PartWriter(store, "one", "p"), PartWriter(store, "other", "p")
    one.shard_bytes = other.shard_bytes = 200_000
    evidence = dict(zip(gone.tolist(), map(json.loads, lines), strict=True))
    for row, document in enumerate(documents):
        found = evidence.get(row)
        one.put(Kept(document=document) if found is None else Dropped(document=document, reason="r", evidence=found))
    one.finish()
    path = tmp_path / "given.parquet"
    rows = [tables.to_row(document) for document in documents]
    pq.write_table(pa.Table.from_pylist(rows, tables.DOCUMENT_SCHEMA), path)
    start = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_rows):
        low, high = np.searchsorted(gone, (start, start + batch.num_rows))
        other.put_columns(batch, gone[low:high] - start, "r", lines[low:high])
        start += batch.num_rows
    other.finish()
    expected = written(store, "one")
    assert len([name for name in expected if name.startswith("shards/")]) > 2 and written(store, "other") == expected
    assert other.account.to_rows() == one.account.to_rows()
    assert [(f.name, f.rows) for f in other.files] == [(f.name, f.rows) for f in one.files]


def test_a_batch_that_goes_whole_leaves_no_shard(tmp_path, documents):
    store = Store(str(tmp_path))
    writer = PartWriter(store, "all", "p")
    rows = [tables.to_row(document) for document in documents[:5]]
    batch = pa.Table.from_pylist(rows, tables.DOCUMENT_SCHEMA).to_batches()[0]
    writer.put_columns(batch, np.arange(5), "r", ["{}"] * 5)
    writer.finish()
    assert list(written(store, "all")) == ["removed/r/p.parquet"] and writer.account.total().dropped == {"r": 5}
