"""Token sequences in Megatron's indexed format: a streaming writer and a memory-mapped reader.

`<stem>.bin` holds the token ids of all sequences one after another, little-endian int32, nothing else.
`<stem>.idx` says where each begins; all integers little-endian:

    offset            bytes  type    meaning
    0                 9      bytes   magic "MMIDIDX" 00 00
    9                 8      uint64  version, 1
    17                1      uint8   dtype code, 4 = int32
    18                8      uint64  S, number of sequences
    26                8      uint64  D, number of entries of the document index
    34                4*S    int32   length of each sequence, in tokens
    34+4S             8*S    int64   start of each sequence in the .bin file, in bytes
    34+12S            8*D    int64   document index: first sequence of each document, then S; so D = documents + 1

Here a document is one sequence, so the document index is 0, 1, … S. int32 is the one token type whose code Megatron,
DeepSpeed and GPT-NeoX agree on; it costs twice the disk of uint16. Reading maps the file: memory does not grow with it.

in    int32 ids, one array a document
out   <stem>.bin, <stem>.idx
ref   Megatron-LM megatron/core/datasets/indexed_dataset.py; the layout is checked against DeepSpeed's own reader
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
INT32_CODE = 4
HEADER = struct.Struct("<9sQBQQ")  # 34 bytes
TOKEN = np.dtype("<i4")


class TokenFileError(ValueError):
    """A .bin/.idx pair is damaged, cut off or of another kind."""


class IndexedWriter:
    """Writes `<stem>.bin` as documents come and `<stem>.idx` on `close`. Memory: 4 bytes a document."""

    def __init__(self, stem: Path):
        self.bin_path, self.idx_path = paths_of(stem)
        self._lengths: list[np.ndarray] = []
        self.num_sequences, self.num_tokens = 0, 0
        self._file = self.bin_path.open("wb")

    def add(self, ids: np.ndarray) -> None:
        """Append one document. Raises ValueError for an empty one, or ids that are not int32."""
        self.add_all(ids, np.array([len(ids)], dtype=np.int32))

    def add_all(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Append documents whose ids lie one after another. Raises ValueError as `add` does."""
        if ids.dtype != TOKEN or ids.ndim != 1:
            raise ValueError(f"{self.bin_path.name}: expected a vector of int32, found {ids.ndim}-d {ids.dtype}")
        if lengths.sum() != len(ids):
            raise ValueError(f"{self.bin_path.name}: expected {lengths.sum():,} ids by the lengths, found {len(ids):,}")
        if len(lengths) and lengths.min() < 1:
            empty = self.num_sequences + int(lengths.argmin())
            raise ValueError(f"{self.bin_path.name}: document {empty} has no tokens; drop it before")
        self._file.write(np.ascontiguousarray(ids).data)
        self._lengths.append(lengths.astype("<i4"))
        self.num_sequences += len(lengths)
        self.num_tokens += len(ids)

    def close(self) -> None:
        self._file.close()
        lengths = np.concatenate(self._lengths) if self._lengths else np.empty(0, "<i4")
        ends = np.cumsum(lengths, dtype="<i8") * TOKEN.itemsize
        with self.idx_path.open("wb") as file:
            file.write(HEADER.pack(MAGIC, VERSION, INT32_CODE, len(lengths), len(lengths) + 1))
            file.write(lengths.tobytes())
            file.write((ends - lengths.astype("<i8") * TOKEN.itemsize).astype("<i8").tobytes())
            file.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())


class IndexedReader:
    """`reader[i]` is the i-th sequence; `reader.tokens` all of them, mapped."""

    def __init__(self, stem: Path):
        """Raises TokenFileError when the two files are not a whole pair of this format."""
        self.bin_path, self.idx_path = paths_of(stem)
        self.lengths, self.starts = read_index(self.idx_path)
        num_tokens = int(self.starts[-1]) + int(self.lengths[-1]) if len(self.lengths) else 0
        found = self.bin_path.stat().st_size
        if found != num_tokens * TOKEN.itemsize:
            raise TokenFileError(
                f"{self.bin_path}: {self.idx_path.name} says {num_tokens:,} tokens (int32, {num_tokens * 4:,} bytes), "
                f"the file holds {found:,} bytes. Likely a cut-off write: delete the pair and rerun the shards stage."
            )
        self.num_tokens = num_tokens
        self.tokens = np.memmap(self.bin_path, dtype=TOKEN, mode="r") if num_tokens else np.empty(0, TOKEN)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        start = int(self.starts[index])
        return self.tokens[start : start + int(self.lengths[index])]


def read_index(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(lengths int32[S], starts int64[S], both in tokens) of an .idx file. Raises TokenFileError."""
    data = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    if len(data) < HEADER.size:
        raise TokenFileError(f"{path}: expected at least {HEADER.size} bytes of header, found {len(data)}. {REDO}")
    magic, version, code, num_sequences, num_documents = HEADER.unpack(data[: HEADER.size].tobytes())
    for what, expected, found in (("magic", MAGIC, magic), ("version", VERSION, version), ("dtype", INT32_CODE, code)):
        if found != expected:
            raise TokenFileError(f"{path}: expected {what} {expected!r}, found {found!r}. Not written by this program.")
    size = HEADER.size + 12 * num_sequences + 8 * num_documents
    if len(data) != size:
        raise TokenFileError(
            f"{path}: {num_sequences:,} sequences and {num_documents:,} document entries take {size:,} bytes, "
            f"the file holds {len(data):,}. {REDO}"
        )
    lengths_end = HEADER.size + 4 * num_sequences
    lengths = data[HEADER.size : lengths_end].view("<i4")
    starts = data[lengths_end : lengths_end + 8 * num_sequences].view("<i8") // TOKEN.itemsize
    expected_starts = np.cumsum(lengths, dtype=np.int64) - lengths
    if not np.array_equal(starts, expected_starts) or (len(lengths) and lengths.min() < 1):
        wrong = int(np.argmax(starts != expected_starts))
        raise TokenFileError(f"{path}: sequence {wrong} does not begin where the one before it ends. {REDO}")
    return lengths, starts


REDO = "Likely a cut-off write: delete the pair and rerun the shards stage."


def paths_of(stem: Path) -> tuple[Path, Path]:
    """`a/b` → `a/b.bin`, `a/b.idx` (a stem may hold dots)."""
    return stem.with_name(stem.name + ".bin"), stem.with_name(stem.name + ".idx")
