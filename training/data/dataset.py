"""Training samples from token shards, in an order that is a pure function of (seed, dataset digest, config, index).

The global index counts samples since the start of training. The schedule says which component it is of and how many
of that component came before (training/data/schedule.py), the component's stream which of its sequences that is
(training/data/stream.py), the component's index where its tokens lie (training/data/index.py). Sequence s of a
component is its `seq_len` + 1 tokens from s * seq_len on: neighbours share one token, so that each token is predicted
once. The up to `seq_len` tokens that do not fill a last sequence are left out.

So the position of a run is one number, "samples consumed". World size, micro-batch, prefetching and restarts only
say who reads which index, never what an index holds.

in    the token files of a split, DataConfig
out   int32 arrays; the documents behind any sample, the samples of any document
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from training.data.config import DataConfig, SkipConfig
from training.data.files import DataError, DocumentSpan, TokenFiles
from training.data.index import ComponentIndex, length_bucket, open_indexes
from training.data.schedule import Schedule
from training.data.stream import Stream
from training.indexed import TOKEN, IndexedReader

if TYPE_CHECKING:  # it holds a DataConfig itself
    from training.config import RunSpec, TrainConfig

log = logging.getLogger(__name__)
NO_SETTINGS = DataConfig()


class TokenDataset:
    """The samples of one split of a shards dataset."""

    def __init__(
        self,
        folder: Path,
        stems: Sequence[str],
        *,
        digest: str,
        seq_len: int,
        seed: int,
        config: DataConfig = NO_SETTINGS,
        global_batch_size: int = 1,
        num_steps: int = 0,
        characters: np.ndarray | None = None,
        cache: Path | None = None,
    ):
        """`stems` names the pairs below `folder` ("train/a" for train/a.bin), in their order; `digest` is the
        dataset's. `global_batch_size` and `num_steps` give the steps of `config` a meaning; `characters` is the
        tokenizer's table (training/data/characters.py), `cache` a folder that keeps the component indexes.
        Raises DataError when there is no sample, TokenFileError when a pair is damaged."""
        if seq_len < 1:
            raise DataError(f"seq_len: expected at least 1, found {seq_len}")
        self.files, self.digest, self.seq_len, self.seed = TokenFiles(folder, stems), digest, seq_len, seed
        self.config, self.global_batch_size, self.num_steps = config, global_batch_size, num_steps
        self.folder, self.stems, self.num_tokens = self.files.folder, self.files.stems, self.files.num_tokens
        if self.num_tokens < seq_len + 1:
            raise DataError(
                f"{folder}: expected at least seq_len + 1 = {seq_len + 1:,} tokens, found {self.num_tokens:,} in "
                f"{len(self.stems)} file(s). Lower seq_len, or feed more text (for validation: raise "
                "shards.validation_fraction)."
            )
        self.schedule = Schedule(
            config, global_batch_size=global_batch_size, seq_len=seq_len, key=f"{seed}\0{digest}".encode()
        )
        self.indexes = open_indexes(self.files, config, digest=digest, seed=seed, characters=characters, cache=cache)
        self.streams = [self._make_stream(index) for index in self.indexes]
        self.samples_per_epoch = sum(stream.num_samples for stream in self.streams)
        self._order_curriculum()
        for entry in sorted(config.skip, key=lambda entry: entry.first_step):
            self._skip(entry)

    @classmethod
    def discover(cls, folder: Path, split: str, **settings: Any) -> TokenDataset:
        """All pairs of `<folder>/<split>/`, by name."""
        names = sorted(path.name.removesuffix(".idx") for path in (Path(folder) / split).glob("*.idx"))
        return cls(folder, [f"{split}/{name}" for name in names], **settings)

    @classmethod
    def for_training(
        cls,
        folder: Path,
        stems: Sequence[str],
        train: TrainConfig,
        *,
        digest: str,
        characters: np.ndarray | None = None,
        cache: Path | None = None,
    ) -> TokenDataset:
        """The samples that a run of `train` reads, in its steps."""
        return cls(
            folder,
            stems,
            digest=digest,
            seq_len=train.seq_len,
            seed=train.seed,
            config=train.data,
            global_batch_size=train.global_batch_size,
            num_steps=train.steps,
            characters=characters,
            cache=cache,
        )

    @classmethod
    def for_run(cls, spec: RunSpec) -> TokenDataset:
        """The training samples of a run. The first call for its index folder builds what the later ones map."""
        return cls.for_training(
            Path(spec.data_folder),
            spec.train_stems,
            spec.train,
            digest=spec.dataset_digest,
            characters=np.load(spec.characters_file) if spec.characters_file else None,
            cache=Path(spec.index_folder) if spec.index_folder else None,
        )

    @property
    def readers(self) -> list[IndexedReader]:
        return self.files.readers

    # Order ------------------------------------------------------------------------------------------------------

    def _make_stream(self, index: ComponentIndex) -> Stream:
        name = f"\0{index.name}" if self.config.components else ""

        def key(epoch: int) -> bytes:
            return f"{self.seed}\0{self.digest}\0{epoch}{name}".encode()

        if not index.num_samples(self.seq_len):
            raise DataError(
                f"train.data.components.{index.name}: expected at least seq_len + 1 = {self.seq_len + 1:,} tokens, "
                f"found {index.num_tokens:,}. Join it with another component, or lower seq_len"
            )
        return Stream(index.name, index.num_samples(self.seq_len), key)

    def _order_curriculum(self) -> None:
        """By the first mixture alone: a change later in the run may not reorder what has been read."""
        fraction = self.config.curriculum.fraction
        if not fraction:
            return
        span = round(fraction * self.num_steps * self.global_batch_size)
        counts = self.schedule.eras[0].counts(span) if self.schedule.eras else np.array([span])
        for stream, index, count in zip(self.streams, self.indexes, counts.tolist(), strict=True):
            stream.order_head(count, functools.partial(self._bucket, index))

    def _bucket(self, index: ComponentIndex, sequences: np.ndarray) -> np.ndarray:
        return length_bucket(self.files.lengths_at(index.places(sequences * self.seq_len)))

    def _skip(self, entry: SkipConfig) -> None:
        first = self.schedule.counts(entry.first_step * self.global_batch_size).tolist()
        if entry.steps is not None:
            stop = self.schedule.counts(entry.steps[1] * self.global_batch_size).tolist()
            for stream, begin, end in zip(self.streams, first, stop, strict=True):
                stream.jump(begin, end)
            return
        places = self.files.find(entry.documents)
        for index, stream, begin in zip(self.indexes, self.streams, first, strict=True):
            sequences = sorted({s for place in places for s in self._sequences(index, *place)})
            if sequences:
                stream.leave_out(begin, np.array(sequences, np.int64))

    def _sequences(self, index: ComponentIndex, start: int, stop: int) -> range:
        """The sequences of a component that hold a token of the document at global [start, stop)."""
        position = index.position(start)
        if position is None:
            return range(0)
        # sequence s covers [s * seq_len, s * seq_len + seq_len + 1)
        last = position + (stop - start) - 1
        first = max(0, (position - 1) // self.seq_len)
        return range(first, min(last // self.seq_len + 1, index.num_samples(self.seq_len)))

    def sequences_at(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(component, sequence within it), int64 each, of the global samples `indices` (int64)."""
        components, cursors = self.schedule.locate(indices)
        sequences = np.empty(len(indices), np.int64)
        for c in np.unique(components).tolist():
            here, stream = components == c, self.streams[c]
            sequences[here] = stream.sequences(stream.raw(cursors[here]))
        return components, sequences

    def position_of(self, index: int) -> tuple[int, int]:
        """(component, sequence within it, in the order of the text) of global sample `index`."""
        components, sequences = self.sequences_at(np.array([index], np.int64))
        return int(components[0]), int(sequences[0])

    # Tokens -----------------------------------------------------------------------------------------------------

    def sample(self, index: int) -> np.ndarray:
        """int32[seq_len + 1] for global sample `index` ≥ 0."""
        return self.samples(np.array([index], np.int64))[0]

    def samples(self, indices: np.ndarray) -> np.ndarray:
        """int32[M, seq_len + 1] for M global samples."""
        components, sequences = self.sequences_at(indices)
        out = np.empty((len(indices), self.seq_len + 1), TOKEN)
        for c in np.unique(components).tolist():
            rows = np.flatnonzero(components == c)
            self._fill_many(out, rows, c, sequences[rows])
        return out

    def _fill_many(self, out: np.ndarray, rows: np.ndarray, component: int, sequences: np.ndarray) -> None:
        """Sequences of one component into `rows` of `out`. Where a sequence lies in one range of one file, as nearly
        all do where text is long, it is one slice; all places are worked out at once."""
        index, files, width = self.indexes[component], self.files, self.seq_len + 1
        starts = sequences * self.seq_len
        places = index.places(starts)
        ends = np.minimum(places + width, places + index.room(starts))
        numbers = np.searchsorted(files.file_ends, places, side="right")
        whole = (ends - places == width) & (ends <= files.file_ends[numbers])
        begins = (places - files.bases[numbers]).tolist()
        for k, (row, simple) in enumerate(zip(rows.tolist(), whole.tolist(), strict=True)):
            if simple:
                out[row] = files.tokens[numbers[k]][begins[k] : begins[k] + width]
            else:
                self.fill(out[row], component, int(sequences[k]))

    def fill(self, out: np.ndarray, component: int, sequence: int) -> None:
        """Put the tokens of a sequence of a component into `out`, int32[seq_len + 1]."""
        start, done = sequence * self.seq_len, 0
        for begin, end in self.indexes[component].pieces(start, start + len(out)):
            self.files.copy(out[done : done + end - begin], begin)
            done += end - begin

    def read(self, start: int, stop: int) -> np.ndarray:
        """int32: tokens `start` to `stop` of all files in a row, whatever their component."""
        out = np.empty(stop - start, TOKEN)
        self.files.copy(out, start)
        return out

    def sampled_tokens(self, component: int, most: int = 2048) -> np.ndarray:
        """int32: up to `most` sequences of a component, evenly spread over its text."""
        total = self.streams[component].num_samples
        out = np.empty((min(most, total), self.seq_len + 1), TOKEN)
        for row, sequence in enumerate(np.linspace(0, total - 1, len(out)).astype(np.int64).tolist()):
            self.fill(out[row], component, sequence)
        return out.reshape(-1)

    def substitute(self, index: int, attempt: int = 0) -> np.ndarray:
        """int32[seq_len + 1] to read instead of global sample `index`: what its component draws half an epoch later
        (and the next ones, by `attempt`). It moves no cursor; it is read once more in its epoch."""
        components, cursors = self.schedule.locate(np.array([index], np.int64))
        component, stream = int(components[0]), self.streams[int(components[0])]
        raw = stream.raw(cursors) + stream.num_samples // 2 + attempt
        out = np.empty(self.seq_len + 1, TOKEN)
        self.fill(out, component, int(stream.sequences(raw)[0]))
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
        return self.samples(indices.reshape(-1)).reshape(*indices.shape, self.seq_len + 1)

    # Tracing ----------------------------------------------------------------------------------------------------

    def component_of(self, index: int) -> str:
        """The name of the component that global sample `index` is of."""
        return self.schedule.names[self.position_of(index)[0]]

    def documents_of(self, index: int) -> list[DocumentSpan]:
        """The documents behind global sample `index`, in the order of its tokens."""
        component, sequence = self.position_of(index)
        start = sequence * self.seq_len
        pieces = self.indexes[component].pieces(start, start + self.seq_len + 1)
        return [span for piece in pieces for span in self.files.spans(*piece)]

    def samples_of(self, document_id: str, epochs: int = 1, *, stop: int | None = None) -> list[int]:
        """Global indices, ascending, of the samples that hold a token of the document among the first `stop` (or
        `epochs` times the samples of all text); the step of an index is `index // global_batch_size`. Empty for a
        document that is not here."""
        stop = epochs * self.samples_per_epoch if stop is None else stop
        counts, found = self.schedule.counts(stop).tolist(), set[int]()
        for place in self.files.find([document_id]):
            for c, (index, stream) in enumerate(zip(self.indexes, self.streams, strict=True)):
                for sequence in self._sequences(index, *place):
                    for cursor in stream.cursors_of(sequence, counts[c]):
                        sample = self.schedule.index_of(c, cursor, stop)
                        assert sample is not None, "a cursor below the count of `stop` lies before it"
                        found.add(sample)
        return sorted(found)

    # Account ----------------------------------------------------------------------------------------------------

    def mixture(self, stop: int) -> list[dict[str, Any]]:
        """Per component: what its text amounts to and what the first `stop` samples read of it."""
        rows = []
        for stream, index, count in zip(self.streams, self.indexes, self.schedule.counts(stop).tolist(), strict=True):
            row = {"component": index.name, "samples": count, "share": count / stop if stop else 0.0}
            rows.append(row | {"epochs": count / stream.num_samples, **index.facts})
        return rows

    def warn_of_repeats(self, stop: int) -> list[str]:
        """Say which components the first `stop` samples repeat more than `max_epochs` times."""
        limit, said = self.config.max_epochs, []
        for row in self.mixture(stop) if self.config.components else ():
            if row["epochs"] > limit:
                said.append(
                    f"train.data.components.{row['component']}: {row['samples']:,} samples are {row['epochs']:.1f} "
                    f"epochs of its {row['tokens']:,} tokens, more than max_epochs ({limit:g}); lower its share, "
                    "train for fewer steps, or feed more of it"
                )
                log.warning(said[-1])
        return said


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
