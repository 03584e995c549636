"""A stream of bytes that goes on after damage.

A decompressor yields events: `bytes`, `Member` (a compressed member begins here) and `Damage` (something could not be
read; what follows is readable again, or the end). `Stream` turns events into reads and lines. A read stops short at
damage; the reader sees `stream.damage`, accounts for it, clears it, and reads on. So no reader needs to know what
its bytes were packed in, and the good prefix of a broken file is always delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Member:
    """A compressed member (gzip) begins at this offset of the file as it is."""

    offset: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch that could not be read."""

    reason: str
    detail: str
    content: bytes = b""  # of the file as it is, as far as it was kept


Event = bytes | Member | Damage


def file_events(file: IO[bytes]) -> Iterator[Event]:
    """The bytes of an open file, in chunks."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


class Stream:
    """Buffered reads over events."""

    def __init__(self, events: Iterable[Event], position: int = 0):
        self._events = iter(events)
        self._buffer = bytearray()
        self._marks: list[tuple[int, int]] = []  # (position in this stream, offset in the file) of members
        self._ended = False
        self.position = position  # of the next byte to be read
        self.damage: Damage | None = None  # why the last read stopped short; set to None to go on

    def _fill(self) -> bool:
        """Take one more event; False at the end and at damage."""
        if self._ended or self.damage:
            return False
        event = next(self._events, None)
        if event is None:
            self._ended = True
            return False
        if isinstance(event, Damage):
            self.damage = event
            return False
        if isinstance(event, Member):
            self._marks.append((self.position + len(self._buffer), event.offset))
        else:
            self._buffer += event
        return True

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, fewer before damage or the end; nothing is consumed."""
        while len(self._buffer) < size and self._fill():
            pass
        return bytes(self._buffer[:size])

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer before damage or the end."""
        data = self.peek(size)
        self._consume(len(data))
        return data

    def skip(self, size: int) -> int:
        """Pass over `size` bytes without holding them; the number passed."""
        left = size
        while left and (self._buffer or self._fill()):
            step = min(left, len(self._buffer))
            self._consume(step)
            left -= step
        return size - left

    def read_line(self, limit: int, *, stop_at_member: bool = False) -> bytes:
        """Up to and with the next newline; without one: `limit` bytes, or all before damage, the end or a member."""
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            searched = len(self._buffer)
            if end >= 0 or searched >= limit or not self._fill():
                break
        size = min(limit, end + 1 if end >= 0 else len(self._buffer))
        if stop_at_member and (mark := self.next_member()) is not None:
            size = min(size, mark - self.position)
        data = bytes(self._buffer[:size])
        self._consume(size)
        return data

    def unread(self, data: bytes) -> None:
        """Put back bytes that were read last."""
        self._buffer[:0] = data
        self.position -= len(data)

    def at_end(self) -> bool:
        """No byte and no damage is left."""
        while not self._buffer and self._fill():
            pass
        return not self._buffer and self.damage is None

    def next_member(self) -> int | None:
        """Where the next known member after this position begins (what is buffered is known)."""
        return next((mark for mark, _ in self._marks if mark > self.position), None)

    def member_between(self, start: int, end: int) -> int | None:
        """Where a member begins strictly between two positions."""
        return next((mark for mark, _ in self._marks if start < mark < end), None)

    def begins_member(self, position: int) -> bool:
        """A compressed member begins at `position`."""
        return any(mark == position for mark, _ in self._marks)

    def rest_of_member(self, limit: int) -> bool:
        """Buffer the rest of the member we are in, `limit` bytes at most; False when it ends in damage."""
        while self.next_member() is None and len(self._buffer) < limit and self._fill():
            pass
        return self.damage is None or self.next_member() is not None

    def file_offset(self, position: int) -> int:
        """Offset in the file as it is: of the member that holds `position`, or `position` in a file without members."""
        offset = None
        for mark, start in self._marks:
            if mark <= position:
                offset = start
        return position if offset is None else offset

    def _consume(self, size: int) -> None:
        del self._buffer[:size]
        self.position += size
        # The newest mark behind us is the member we are in; those before it are no longer asked for, except that a
        # WARC record still asks for its own start: keep a few.
        if len(self._marks) > 64:
            behind = [mark for mark in self._marks if mark[0] <= self.position]
            self._marks = behind[-8:] + self._marks[len(behind) :]
