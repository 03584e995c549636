"""Training samples from token shards, in an order that is a pure function of (seed, dataset digest, index).

All documents are read as one long row of tokens (each ends with EOS). Sample s of an epoch is the `seq_len` + 1 tokens
from s * seq_len on: neighbours share one token, so that each token is predicted once. The up to `seq_len` tokens
that do not fill a last sample are left out. Each epoch goes through its samples by a keyed permutation of its own
(`training/permutation.py`); the global index counts samples since the start of training over all epochs.

So the position of a run is one number, "samples consumed". World size, micro-batch, prefetching and restarts only
say who reads which index, never what an index holds. Memory is 12 bytes a document, mapped.

in    <folder>/<stem>.{bin,idx}, and <stem>.parquet, a row a sequence: id, source, language, num_tokens, num_bytes
out   int32 arrays; the documents behind any sample, the samples of any document
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from training.indexed import TOKEN, IndexedReader
from training.permutation import Permutation


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


class TokenDataset:
    """The samples of one split of a shards dataset."""

    def __init__(self, folder: Path, stems: Sequence[str], *, digest: str, seq_len: int, seed: int):
        """`stems` names the pairs below `folder` ("train/a" for train/a.bin), in their order; `digest` is the
        dataset's. Raises DataError when they hold no sample, TokenFileError when a pair is damaged."""
        if seq_len < 1:
            raise DataError(f"seq_len: expected at least 1, found {seq_len}")
        if not stems:
            raise DataError(f"{folder}: no token files named; run the shards stage, or look at its validation_fraction")
        self.folder, self.stems, self.digest = Path(folder), tuple(stems), digest
        self.seq_len, self.seed = seq_len, seed
        self.readers = [IndexedReader(self.folder / stem) for stem in self.stems]
        self.file_ends = np.cumsum([reader.num_tokens for reader in self.readers], dtype=np.int64)
        self.num_tokens = int(self.file_ends[-1])
        if self.num_tokens < seq_len + 1:
            raise DataError(
                f"{folder}: expected at least seq_len + 1 = {seq_len + 1:,} tokens, found {self.num_tokens:,} in "
                f"{len(self.stems)} file(s). Lower seq_len, or feed more text (for validation: raise "
                "shards.validation_fraction)."
            )
        self.samples_per_epoch = (self.num_tokens - 1) // seq_len
        self._permutation = functools.lru_cache(maxsize=4)(self._make_permutation)
        self._sidecar = functools.lru_cache(maxsize=64)(self._read_sidecar)

    @classmethod
    def discover(cls, folder: Path, split: str, *, digest: str, seq_len: int, seed: int) -> TokenDataset:
        """All pairs of `<folder>/<split>/`, by name."""
        names = sorted(path.name.removesuffix(".idx") for path in (Path(folder) / split).glob("*.idx"))
        return cls(folder, [f"{split}/{name}" for name in names], digest=digest, seq_len=seq_len, seed=seed)

    # Order ------------------------------------------------------------------------------------------------------

    def _make_permutation(self, epoch: int) -> Permutation:
        return Permutation(self.samples_per_epoch, f"{self.seed}\0{self.digest}\0{epoch}".encode())

    def position_of(self, index: int) -> int:
        """Which sample of the epoch, in the order of the text, the global `index` is."""
        epoch, position = divmod(index, self.samples_per_epoch)
        return self._permutation(epoch).at(position)

    def sample(self, index: int) -> np.ndarray:
        """int32[seq_len + 1] for global sample `index` ≥ 0."""
        start = self.position_of(index) * self.seq_len
        return self.read(start, start + self.seq_len + 1)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens `start` to `stop` of all files in a row."""
        out = np.empty(stop - start, dtype=TOKEN)
        file, done = int(np.searchsorted(self.file_ends, start, side="right")), 0
        while done < len(out):
            reader = self.readers[file]
            begin = start + done - (int(self.file_ends[file]) - reader.num_tokens)
            piece = reader.tokens[begin : begin + len(out) - done]
            out[done : done + len(piece)] = piece
            done, file = done + len(piece), file + 1
        return out

    # Batches ----------------------------------------------------------------------------------------------------

    def batch(
        self, step: int, global_batch_size: int, rank: int = 0, world_size: int = 1, micro_batch_size: int | None = None
    ) -> np.ndarray:
        """`batch_at` for training that has had the same `global_batch_size` from its start."""
        return self.batch_at(step * global_batch_size, global_batch_size, rank, world_size, micro_batch_size)

    def batch_at(
        self,
        consumed: int,
        global_batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        micro_batch_size: int | None = None,
    ) -> np.ndarray:
        """This rank's part of the step that begins after `consumed` samples:
        int32[grad_accum_steps, micro_batch_size, seq_len + 1].

        The step is samples `consumed` … `consumed + global_batch_size - 1`; rank r has the r-th run of them.
        """
        indices = rank_indices(consumed, global_batch_size, rank, world_size, micro_batch_size)
        samples = np.stack([self.sample(int(i)) for i in indices.reshape(-1)])
        return samples.reshape(*indices.shape, self.seq_len + 1)

    # Tracing ----------------------------------------------------------------------------------------------------

    def documents_of(self, index: int) -> list[DocumentSpan]:
        """The documents behind global sample `index`, in the order of its tokens."""
        start = self.position_of(index) * self.seq_len
        stop, spans = start + self.seq_len + 1, []
        file = int(np.searchsorted(self.file_ends, start, side="right"))
        while file < len(self.readers) and (base := int(self.file_ends[file]) - self.readers[file].num_tokens) < stop:
            spans += self._spans(file, max(start - base, 0), stop - base)
            file += 1
        return spans

    def _spans(self, file: int, start: int, stop: int) -> list[DocumentSpan]:
        reader, rows, spans = self.readers[file], self._sidecar(file), []
        row = int(np.searchsorted(reader.starts, start, side="right")) - 1
        while row < len(reader) and (begin := int(reader.starts[row])) < stop:
            end = begin + int(reader.lengths[row])
            span = {name: rows[name][row].as_py() for name in ("id", "source", "language")}
            spans.append(DocumentSpan(**span, start=max(start, begin) - begin, stop=min(stop, end) - begin))
            row += 1
        return spans

    def samples_of(self, document_id: str, epochs: int = 1) -> list[int]:
        """Global indices, ascending, of the samples that hold a token of the document in the first `epochs` epochs;
        the step of an index is `index // global_batch_size`. Empty for a document that is not here."""
        found: set[int] = set()
        for file, reader in enumerate(self.readers):
            base = int(self.file_ends[file]) - reader.num_tokens
            row = pc.index(self._sidecar(file)["id"], document_id).as_py()
            if row >= 0:
                start = base + int(reader.starts[row])
                stop = start + int(reader.lengths[row])
                # sample s covers [s * seq_len, s * seq_len + seq_len + 1)
                found.update(range(max(0, (start - 1) // self.seq_len), (stop - 1) // self.seq_len + 1))
        last = self.samples_per_epoch
        return sorted(
            epoch * last + self._permutation(epoch).inverse(s) for epoch in range(epochs) for s in found if s < last
        )

    def _read_sidecar(self, file: int):
        path = self.folder / f"{self.stems[file]}.parquet"
        table = pq.read_table(path, columns=["id", "source", "language", "num_tokens"])
        lengths = table["num_tokens"].to_numpy()
        if not np.array_equal(lengths, self.readers[file].lengths):
            raise DataError(
                f"{path}: its {len(lengths):,} rows are not the {len(self.readers[file]):,} sequences of the .idx "
                "beside it. The two are of different runs: delete them and rerun the shards stage."
            )
        return table


def rank_indices(
    consumed: int, global_batch_size: int, rank: int, world_size: int, micro_batch_size: int | None
) -> np.ndarray:
    """Global sample indices of one rank in one step, int64[grad_accum_steps, micro_batch_size]."""
    if not 0 <= rank < world_size:
        raise DataError(f"rank: expected 0 … {world_size - 1} (world_size {world_size}), found {rank}")
    share, rest = divmod(global_batch_size, world_size)
    micro = share if micro_batch_size is None else micro_batch_size
    if rest or share < 1 or micro < 1 or share % micro:
        raise DataError(
            f"global_batch_size ({global_batch_size}) must be a multiple of world_size × micro_batch_size "
            f"({world_size} × {micro})"
        )
    first = consumed + rank * share
    return np.arange(first, first + share, dtype=np.int64).reshape(share // micro, micro)
