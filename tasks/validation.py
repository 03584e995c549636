"""The documents of the validation split, one by one, as the shards stage wrote them.

The sidecar says whose each sequence is; its tokens are read from the mapped file only when they are asked for, so a
large split costs a row of names a document.

in    shards dataset   validation/<name>.{bin,idx,parquet}; each sequence is a document and its EOS
out   HeldOut          tokens without the EOS
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.shards.files import VALIDATION, token_files
from tasks.store.dataset import Dataset
from tasks.tokenizer.model import EOS_ID
from training.data import DataError
from training.indexed import IndexedReader


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """One document of the split."""

    id: str
    source: str
    language: str
    num_tokens: int  # without EOS
    num_bytes: int  # UTF-8 bytes of its text
    reader: IndexedReader
    index: int

    def tokens(self) -> np.ndarray:
        """int32[num_tokens]."""
        return np.asarray(self.reader[self.index])[: self.num_tokens]


def held_out_documents(shards: Dataset) -> Iterator[HeldOut]:
    """Every document of the split. Raises DataError when a sidecar is not that of the tokens beside it."""
    folder, stems = token_files(shards, VALIDATION)
    for stem in stems:
        yield from documents_of(shards, stem, IndexedReader(folder / stem))


def documents_of(shards: Dataset, stem: str, reader: IndexedReader) -> Iterator[HeldOut]:
    columns = ["id", "source", "language", "num_tokens", "num_bytes"]
    rows = [row for batch in shards.batches(f"{stem}.parquet", columns) for row in batch.to_pylist()]
    if [row["num_tokens"] for row in rows] != reader.lengths.tolist():
        raise DataError(
            f"{shards.url}/{stem}.parquet: its {len(rows):,} rows are not the {len(reader):,} sequences of the .idx "
            "beside it. Delete the dataset and rerun the shards stage."
        )
    for index, row in enumerate(rows):
        ends_with_eos = int(reader[index][-1]) == EOS_ID
        values = {**row, "num_tokens": row["num_tokens"] - ends_with_eos}
        yield HeldOut(**values, reader=reader, index=index)
