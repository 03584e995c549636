"""The order in which one component's sequences are drawn, skips and all, as a function of a cursor.

Three numbers: the *cursor* counts what was read; the *raw position* counts what would have been read if nothing had
been skipped (epoch * sequences + place in the epoch); the *sequence* is a cut of the component's text. Epochs are
keyed permutations. A skip begins at a cursor: from there on, sequences that hold a skipped document are passed over
in every epoch, or the raw position jumps over a range. Each skip opens a span of cursors of which raw positions are
again computed, not stored; what is kept are the few sequences passed over.

in    number of sequences, key, spans
out   cursor <-> raw position <-> sequence
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from training.data.files import DataError
from training.permutation import Permutation


@dataclass(frozen=True, slots=True)
class Span:
    """From `cursor` on, reading goes from raw position `raw` on and passes over the sequences `left_out`."""

    cursor: int
    raw: int
    left_out: np.ndarray  # int64, sorted


class Stream:
    """One component's draws."""

    def __init__(self, name: str, num_samples: int, key: Callable[[int], bytes]):
        """`key(epoch)` keys the permutation of an epoch."""
        self.name, self.num_samples = name, num_samples
        self.permutation = functools.lru_cache(maxsize=4)(lambda epoch: Permutation(num_samples, key(epoch)))
        self.head = np.empty(0, np.int64)  # sequences of the first places of epoch 0, in the curriculum's order
        self.places = functools.lru_cache(maxsize=32)(self._places)
        self.spans = [Span(0, 0, np.empty(0, np.int64))]

    # Curriculum -------------------------------------------------------------------------------------------------

    def order_head(self, length: int, difficulty: Callable[[np.ndarray], np.ndarray]) -> None:
        """Put the first `length` draws in ascending order of `difficulty(sequences)`, ties as they are."""
        drawn = self.permutation(0).at_many(np.arange(min(length, self.num_samples)))
        self.head = drawn[np.argsort(difficulty(drawn), kind="stable")]

    # Raw positions ----------------------------------------------------------------------------------------------

    def sequences(self, raw: np.ndarray) -> np.ndarray:
        """int64: the sequence at each raw position."""
        found = np.empty(len(raw), np.int64)
        epochs, places = np.divmod(raw, self.num_samples)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            found[here] = self.permutation(epoch).at_many(places[here])
        if len(self.head):
            early = raw < len(self.head)
            found[early] = self.head[raw[early]]
        return found

    def place(self, sequence: int, epoch: int) -> int:
        """Where in an epoch a sequence is drawn."""
        place = self.permutation(epoch).inverse(sequence)
        if epoch == 0 and place < len(self.head):
            return int(np.flatnonzero(self.head == sequence)[0])
        return place

    # Skips ------------------------------------------------------------------------------------------------------

    def leave_out(self, cursor: int, sequences: np.ndarray) -> None:
        """From `cursor` on, pass over these as well. Raises DataError when none is left."""
        left_out = np.union1d(self.spans[-1].left_out, sequences)
        if len(left_out) >= self.num_samples:
            raise DataError(
                f"train.data.skip: the documents named are in every sequence of component {self.name!r}; "
                "give it the share 0 instead"
            )
        self.spans.append(Span(cursor, self.raw_of(cursor), left_out))

    def jump(self, cursor: int, to: int) -> None:
        """From `cursor` on, go on where cursor `to` would have been."""
        self.spans.append(Span(cursor, self.raw_of(to), self.spans[-1].left_out))

    def raw_of(self, cursor: int) -> int:
        return int(self.raw(np.array([cursor]))[0])

    def raw(self, cursors: np.ndarray) -> np.ndarray:
        """int64: the raw position of each cursor."""
        if len(self.spans) == 1:
            return cursors
        found = np.empty(len(cursors), np.int64)
        spans = np.searchsorted([span.cursor for span in self.spans], cursors, side="right") - 1
        for s in np.unique(spans).tolist():
            here = spans == s
            found[here] = self._raw_in(s, cursors[here])
        return found

    def _raw_in(self, s: int, cursors: np.ndarray) -> np.ndarray:
        span = self.spans[s]
        if not len(span.left_out):
            return span.raw + (cursors - span.cursor)
        per_epoch = self.num_samples - len(span.left_out)
        epochs, ordinals = np.divmod(self._ordinal(s, span.raw) + (cursors - span.cursor), per_epoch)
        places = np.empty(len(cursors), np.int64)
        for epoch in np.unique(epochs).tolist():
            here, out = epochs == epoch, self.places(s, epoch)
            # the j-th place that is not in `out` is j + how many of `out` lie at or before it
            places[here] = ordinals[here] + np.searchsorted(out - np.arange(len(out)), ordinals[here], side="right")
        return epochs * self.num_samples + places

    def _ordinal(self, s: int, raw: int) -> int:
        """How many raw positions before `raw` span s would read, counted from raw 0."""
        epoch, place = divmod(raw, self.num_samples)
        per_epoch = self.num_samples - len(self.spans[s].left_out)
        return epoch * per_epoch + place - int(np.searchsorted(self.places(s, epoch), place))

    def _places(self, s: int, epoch: int) -> np.ndarray:
        """Sorted places in an epoch of what span s passes over."""
        return np.sort([self.place(sequence, epoch) for sequence in self.spans[s].left_out.tolist()]).astype(np.int64)

    def cursors_of(self, sequence: int, stop: int) -> Iterator[int]:
        """The cursors below `stop` that read a sequence, ascending."""
        if stop <= 0:
            return
        for epoch in range(self.raw_of(stop - 1) // self.num_samples + 1):  # raw positions ascend with the cursor
            raw = epoch * self.num_samples + self.place(sequence, epoch)
            for s, span in enumerate(self.spans):
                after = self.spans[s + 1].cursor if s + 1 < len(self.spans) else stop
                if raw < span.raw or sequence in span.left_out:
                    continue
                cursor = span.cursor + self._ordinal(s, raw) - self._ordinal(s, span.raw)
                if cursor < min(after, stop):
                    yield cursor
                    break
