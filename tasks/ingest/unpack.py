"""Decompression that loses only what is damaged.

    gzip       member by member; after damage it goes on at the next member that can be found
    zstd       frame by frame, windows up to 2**27; after damage it goes on at the next frame
    bz2, xz, lz4   stream by stream; after damage the rest is one damaged stretch

The bytes before the damage come out to the last one zlib can give (a failing chunk is fed again, byte by byte).
Output comes in bounded pieces, so that a small file that unpacks to terabytes does not fill memory.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import zstandard
from fastwarc.stream_io import Lz4Reader

from tasks.ingest.stream import CHUNK_BYTES, Damage, Event, Member

OUTPUT_BYTES = 1 << 20  # of one piece of output
KEPT_BYTES = 1 << 20  # of a damaged stretch that are kept as evidence
RETRY_BYTES = 256 << 10  # how far back the next gzip member is looked for: a damaged member may run into it
ZSTD_WINDOW = 1 << 27  # what `zstd --long` writes
ZSTD_INPUT_BYTES = 1 << 10  # one call unpacks at most 2**10 / 4 run-length blocks of 128 KiB = 32 MiB
GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = tuple(bytes([0x50 + n, 0x2A, 0x4D, 0x18]) for n in range(16))
LZ4_MAGIC = b"\x04\x22\x4d\x18"


class Feed:
    """Compressed input: a buffer with its offset in the file."""

    def __init__(self, events: Iterable[Event]):
        self._events = iter(events)
        self.data = b""
        self.offset = 0  # of data[0] in the file
        self.damage: Damage | None = None  # of an outer layer: what is here ends with it

    def fill(self, size: int) -> bool:
        """Have at least `size` bytes in `data`, or all there is; False when nothing is left."""
        while len(self.data) < size and self.damage is None:
            event = next(self._events, None)
            if event is None:
                break
            if isinstance(event, Damage):
                self.damage = event
            elif isinstance(event, bytes):
                self.data += event
        return bool(self.data)

    def take(self, size: int) -> bytes:
        data, self.data = self.data[:size], self.data[size:]
        self.offset += len(data)
        return data

    def unread(self, data: bytes) -> None:
        self.data = data + self.data
        self.offset -= len(data)

    def skip_until(self, find: Callable[[bytes], int], overlap: int) -> tuple[bytes, int]:
        """Pass over data up to where `find` says (-1: nowhere in this chunk); the first of it, and its length."""
        kept, length, wanted = b"", 0, CHUNK_BYTES + overlap
        while self.fill(wanted):
            at, ended = find(self.data), len(self.data) < wanted
            passed = self.take(at if at >= 0 else len(self.data) - (0 if ended else overlap))
            length += len(passed)
            kept += passed[: KEPT_BYTES - len(kept)]
            if at >= 0:
                break
        return kept, length


def gunzip(events: Iterable[Event]) -> Iterator[Event]:
    """Unpack gzip: any number of members, damage between and inside them."""
    feed = Feed(events)
    while feed.fill(CHUNK_BYTES):
        if feed.data.startswith(GZIP_MAGIC):
            yield Member(feed.offset)
            yield from _gzip_member(feed)
            continue
        kept, length = feed.skip_until(_next_gzip_member, 4096)
        if kept.strip(b"\0"):  # zeros: padding of tapes and of tar
            yield Damage("bad_gzip_header", f"{length:,} bytes between gzip members are not gzip", kept)
    if feed.damage:
        yield feed.damage


def _gzip_member(feed: Feed) -> Iterator[Event]:
    """Unpack the member that the feed stands at."""
    start = feed.offset
    unzip = zlib.decompressobj(31)
    recent = b""
    while not unzip.eof:
        if not feed.fill(1):
            if feed.damage is None:
                yield _cut_off_member(feed, start, recent)
            return
        piece = feed.take(CHUNK_BYTES)
        recent = (recent + piece)[-(RETRY_BYTES + CHUNK_BYTES) :]
        rest = piece
        while rest and not unzip.eof:
            before = unzip.copy()
            try:
                output = unzip.decompress(rest, OUTPUT_BYTES)
            except zlib.error as error:
                yield from _salvage(before, rest)
                yield _skip_damaged_member(feed, start, recent, error)
                return
            if output:
                yield output
            rest = unzip.unconsumed_tail
    feed.unread(unzip.unused_data)


def _salvage(unzip: Any, data: bytes) -> Iterator[bytes]:
    """The output before the error, fed byte by byte."""
    try:
        for i in range(len(data)):
            if output := unzip.decompress(data[i : i + 1]):
                yield output
    except zlib.error:
        return


def _cut_off_member(feed: Feed, start: int, recent: bytes) -> Damage:
    """The file ends inside the member: truncated, unless damage made it swallow the members that follow."""
    end = feed.offset
    feed.unread(recent)
    first = feed.take(1)  # past this member's own magic
    if _next_gzip_member(feed.data) >= 0:
        feed.unread(first)
        return _pass_over(feed, start, "bad_gzip", "it has no end, and another begins inside it")
    feed.take(len(feed.data))
    detail = f"the gzip member at byte {start:,} is cut off: the file ends at byte {end:,} inside it"
    return Damage("truncated_gzip", detail)


def _skip_damaged_member(feed: Feed, start: int, recent: bytes, error: zlib.error) -> Damage:
    """Go to the next member, which may lie behind us; what is passed over is the damage."""
    feed.unread(recent)
    kind = "gzip_checksum" if "incorrect data check" in str(error) or "length check" in str(error) else "bad_gzip"
    return _pass_over(feed, start, kind, str(error))


def _pass_over(feed: Feed, start: int, kind: str, why: str) -> Damage:
    """Go to the next member after where the feed stands."""
    inside = feed.take(1) if feed.offset == start else b""  # past this member's own magic
    kept, length = feed.skip_until(_next_gzip_member, 4096)
    detail = f"the gzip member at byte {start:,} is damaged ({why}); {length + len(inside):,} bytes were passed over"
    return Damage(kind, detail, inside + kept)


def _next_gzip_member(data: bytes) -> int:
    """Where a gzip member begins that unpacks for a while; -1 when there is none."""
    at = data.find(GZIP_MAGIC)
    while at >= 0:
        try:
            if at + 18 <= len(data) and zlib.decompressobj(31).decompress(data[at : at + RETRY_BYTES], 4096):
                return at
        except zlib.error:
            pass
        at = data.find(GZIP_MAGIC, at + 1)
    return -1


def unzstd(events: Iterable[Event]) -> Iterator[Event]:
    """Unpack zstd: any number of frames, skippable ones between them."""
    feed = Feed(events)
    while feed.fill(CHUNK_BYTES):
        if feed.data.startswith(ZSTD_MAGIC):
            yield from _zstd_frame(feed)
        elif feed.data.startswith(ZSTD_SKIPPABLE) and len(feed.data) >= 8:
            left = 8 + int.from_bytes(feed.data[4:8], "little")
            while left and feed.fill(1):
                left -= len(feed.take(min(left, CHUNK_BYTES)))
        else:
            kept, length = feed.skip_until(lambda data: data.find(ZSTD_MAGIC), 3)
            yield Damage("bad_zstd", f"{length:,} bytes are not zstd", kept)
    if feed.damage:
        yield feed.damage


def _zstd_frame(feed: Feed) -> Iterator[Event]:
    start = feed.offset
    unpack = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
    while not unpack.eof:
        if not feed.fill(1):
            if feed.damage is None:
                yield Damage("truncated_zstd", f"the zstd frame at byte {start:,} is cut off at byte {feed.offset:,}")
            return
        piece = feed.take(ZSTD_INPUT_BYTES)
        try:
            output = unpack.decompress(piece)
        except zstandard.ZstdError as error:
            feed.unread(piece)
            first = feed.take(4) if feed.offset == start else b""
            kept, length = feed.skip_until(lambda data: data.find(ZSTD_MAGIC), 3)
            detail = f"the zstd frame at byte {start:,} is damaged ({error}); {length + len(first):,} bytes passed over"
            yield Damage("bad_zstd", detail, first + kept)
            return
        if output:
            yield output
    feed.unread(unpack.unused_data)


def _unpack_streams(events: Iterable[Event], new: Callable[[], Any], name: str, padding: bytes) -> Iterator[Event]:
    """Unpack bz2 or xz, whose decompressors share an interface."""
    feed = Feed(events)
    while feed.fill(1):
        if padding and not feed.data.strip(padding):  # xz streams may be padded with zeros
            feed.take(len(feed.data))
            continue
        unpack, start = new(), feed.offset
        while not unpack.eof:
            if unpack.needs_input and not feed.fill(1):
                if feed.damage is None:
                    yield Damage(f"truncated_{name}", f"the {name} stream at byte {start:,} is cut off")
                break
            piece = feed.take(CHUNK_BYTES) if unpack.needs_input else b""
            try:
                output = unpack.decompress(piece, OUTPUT_BYTES)
            except (OSError, lzma.LZMAError, EOFError) as error:
                feed.unread(piece)
                kept, _ = feed.skip_until(lambda data: -1, 0)
                yield Damage(f"bad_{name}", f"the {name} stream at byte {start:,} is damaged ({error})", kept)
                break
            if output:
                yield output
        else:
            feed.unread(unpack.unused_data)
    if feed.damage:
        yield feed.damage


def unbz2(events: Iterable[Event]) -> Iterator[Event]:
    """Unpack bz2."""
    return _unpack_streams(events, bz2.BZ2Decompressor, "bz2", b"")


def unxz(events: Iterable[Event]) -> Iterator[Event]:
    """Unpack xz."""
    return _unpack_streams(events, lzma.LZMADecompressor, "xz", b"\0")


class _FeedFile:
    """A Feed as the file object that FastWARC's reader asks for."""

    def __init__(self, feed: Feed):
        self._feed = feed

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        self._feed.fill(1)
        return self._feed.take(size)

    def tell(self) -> int:
        return self._feed.offset


def unlz4(events: Iterable[Event]) -> Iterator[Event]:
    """Unpack lz4 frames (a form of WARC); after damage the rest is one damaged stretch."""
    feed = Feed(events)
    reader = Lz4Reader(cast(Any, _FeedFile(feed)), fsspec_args=False)
    try:
        while output := reader.read(OUTPUT_BYTES):
            yield output
    except (OSError, ValueError, EOFError) as error:
        kept, _ = feed.skip_until(lambda data: -1, 0)
        yield Damage("bad_lz4", f"lz4 damaged before byte {feed.offset:,} ({error})", kept)
    if feed.damage:
        yield feed.damage


UNPACK: dict[str, Callable[[Iterable[Event]], Iterator[Event]]] = {
    "gz": gunzip,
    "zst": unzstd,
    "bz2": unbz2,
    "xz": unxz,
    "lz4": unlz4,
}


def compression_of(head: bytes) -> str | None:
    """The key of UNPACK whose magic `head` begins with."""
    if head.startswith(GZIP_MAGIC):
        return "gz"
    if head.startswith((ZSTD_MAGIC, *ZSTD_SKIPPABLE)):
        return "zst"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    if head.startswith(LZ4_MAGIC):
        return "lz4"
    return "xz" if head.startswith(b"\xfd7zXZ\0") else None
