"""The token files of a split as one long row of tokens, and whose each token is.

A place is one number, the global token: file after file, in the order of the stems. Everything above (components,
samples) speaks of stretches of it. Memory is 12 bytes a document, mapped, and a few sidecars while they are asked.

in    <folder>/<stem>.{bin,idx}, and <stem>.parquet, a row a sequence: id, source, language, num_tokens, num_bytes
out   int32 tokens; DocumentSpan
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from training.indexed import IndexedReader

SIDECAR_COLUMNS = ("id", "source", "language", "num_tokens")


class DataError(ValueError):
    """The token shards and what is asked of them do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSpan:
    """The part of one document that a sample holds: tokens `start` to `stop` of the document, EOS included."""

    id: str
    source: str
    language: str
    start: int
    stop: int


class TokenFiles:
    """All pairs of a split in a row."""

    def __init__(self, folder: Path, stems: Sequence[str]):
        """`stems` names the pairs below `folder` ("train/a" for train/a.bin), in their order. Raises DataError
        without any, TokenFileError when a pair is damaged."""
        if not stems:
            raise DataError(f"{folder}: no token files named; run the shards stage, or look at its validation_fraction")
        self.folder, self.stems = Path(folder), tuple(stems)
        self.readers = [IndexedReader(self.folder / stem) for stem in self.stems]
        self.tokens = [reader.tokens.view(np.ndarray) for reader in self.readers]  # slices a memmap 4 times as fast
        self.file_ends = np.cumsum([reader.num_tokens for reader in self.readers], dtype=np.int64)
        self.ends = self.file_ends.tolist()
        self.bases = np.append(0, self.file_ends[:-1])
        self.num_tokens = self.ends[-1]
        self.sidecar = functools.lru_cache(maxsize=64)(self._read_sidecar)

    def base(self, file: int) -> int:
        """The global token that a file begins with."""
        return self.ends[file - 1] if file else 0

    def copy(self, out: np.ndarray, start: int) -> None:
        """Fill `out` (int32) with the tokens from global token `start` on."""
        file, done = bisect.bisect_right(self.ends, start), 0
        while done < len(out):
            begin = start + done - self.base(file)
            piece = self.tokens[file][begin : begin + len(out) - done]
            out[done : done + len(piece)] = piece
            done, file = done + len(piece), file + 1

    def spans(self, start: int, stop: int) -> Iterator[DocumentSpan]:
        """The documents with a token in global [start, stop), in order."""
        file = int(np.searchsorted(self.file_ends, start, side="right"))
        while file < len(self.readers) and self.base(file) < stop:
            base = self.base(file)
            yield from self._spans(file, max(start - base, 0), stop - base)
            file += 1

    def _spans(self, file: int, start: int, stop: int) -> Iterator[DocumentSpan]:
        reader, rows = self.readers[file], self.sidecar(file)
        row = int(np.searchsorted(reader.starts, start, side="right")) - 1
        while row < len(reader) and (begin := int(reader.starts[row])) < stop:
            end = begin + int(reader.lengths[row])
            named = {name: rows[name][row].as_py() for name in ("id", "source", "language")}
            yield DocumentSpan(**named, start=max(start, begin) - begin, stop=min(stop, end) - begin)
            row += 1

    def find(self, document_ids: Iterable[str]) -> list[tuple[int, int]]:
        """Global [start, stop) of each sequence with one of these ids, in order; none for those that are not here."""
        wanted, found = pa.array(document_ids, pa.string()), []
        for file, reader in enumerate(self.readers):
            rows = np.flatnonzero(pc.is_in(self.sidecar(file)["id"], wanted).to_numpy())
            starts = self.bases[file] + reader.starts[rows]
            found += list(zip(starts.tolist(), (starts + reader.lengths[rows]).tolist(), strict=True))
        return found

    def lengths_at(self, places: np.ndarray) -> np.ndarray:
        """int32: the length of the document that holds each global token of `places`."""
        lengths = np.empty(len(places), np.int32)
        files = np.searchsorted(self.file_ends, places, side="right")
        for file in np.unique(files).tolist():
            here, reader = files == file, self.readers[file]
            rows = np.searchsorted(reader.starts, places[here] - self.base(file), side="right") - 1
            lengths[here] = reader.lengths[rows]
        return lengths

    def _read_sidecar(self, file: int) -> pa.Table:
        path = self.folder / f"{self.stems[file]}.parquet"
        table = pq.read_table(path, columns=list(SIDECAR_COLUMNS))
        lengths = table["num_tokens"].to_numpy()
        if not np.array_equal(lengths, self.readers[file].lengths):
            raise DataError(
                f"{path}: its {len(lengths):,} rows are not the {len(self.readers[file]):,} sequences of the .idx "
                "beside it. The two are of different runs: delete them and rerun the shards stage."
            )
        return table
