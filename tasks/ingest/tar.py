"""Tar, streamed: each member is read as whatever it is, through the same readers as a file.

Headers are read block by block instead of with `tarfile`'s streaming mode, which takes a damaged header for the end
of the archive and says nothing of what follows. Here the blocks up to the next sound header go to quarantine.

in    Stream of the unpacked archive
out   the outcomes of its members; `origin.file` is "archive.tar.zst!member"
ref   POSIX.1-2001 pax; GNU long names
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from tasks.document import Outcome
from tasks.ingest.outcomes import Outcomes
from tasks.ingest.stream import CHUNK_BYTES, Damage, Event, Stream

BLOCK = 512
MAX_METADATA_BYTES = 1 << 20  # of a pax header or a long name
EVIDENCE_BYTES = 1 << 20
ReadMember = Callable[[Iterator[Event], str, Outcomes], Iterator[Outcome]]


def read_tar(stream: Stream, outcomes: Outcomes, read_member: ReadMember) -> Iterator[Outcome]:
    """The outcomes of all members; `read_member(events, name, outcomes)` reads one."""
    long_name: str | None = None
    while not stream.at_end():
        offset = stream.position
        block = stream.read(BLOCK)
        header = _header(block)
        if header is None:
            if stream.damage and len(block) < BLOCK:
                damage, stream.damage = stream.damage, None
                yield outcomes.quarantined(block or damage.content, damage.reason, damage.detail, offset=offset)
            elif block.strip(b"\0"):
                yield _skip_to_header(stream, block, offset, outcomes)
            long_name = None
            continue
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            long_name = _metadata_name(header, _padded(stream, min(header.size, MAX_METADATA_BYTES))) or long_name
            continue
        name, long_name = long_name or header.name, None
        if not header.isreg() or header.issparse():
            yield from _not_a_file(stream, header, name, offset, outcomes)
        elif _hidden(name):
            stream.skip(_blocks(header.size))
        else:
            yield from _member(stream, header.size, name, outcomes, read_member)


def _header(block: bytes) -> tarfile.TarInfo | None:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None
    return header if header.size >= 0 else None


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _padded(stream: Stream, size: int) -> bytes:
    data = stream.read(size)
    stream.skip(_blocks(size) - size)
    return data


def _metadata_name(header: tarfile.TarInfo, data: bytes) -> str | None:
    """The name that a GNU long-name or a pax member gives to the next member."""
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    while data:  # "length key=value\n"
        length = data.split(b" ", 1)[0]
        if not length.isdigit() or not 0 < int(length) <= len(data):
            return None
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "surrogateescape")
        data = data[int(length) :]
    return None


def _not_a_file(
    stream: Stream, header: tarfile.TarInfo, name: str, offset: int, outcomes: Outcomes
) -> Iterator[Outcome]:
    """Folders, links and devices hold no text; a sparse file holds some that is not read here."""
    content = stream.read(min(header.size, EVIDENCE_BYTES)) if header.issparse() else b""
    stream.skip(_blocks(header.size) - len(content) if header.isreg() or header.issparse() else 0)
    if header.issparse():
        yield outcomes.quarantined(content, "tar_sparse", f"member {name!r} is a GNU sparse file", offset=offset)


def _hidden(name: str) -> bool:
    return any((p.startswith(".") and p not in (".", "..")) or p == "__pycache__" for p in PurePosixPath(name).parts)


def _member(stream: Stream, size: int, name: str, outcomes: Outcomes, read_member: ReadMember) -> Iterator[Outcome]:
    end = stream.position + _blocks(size)
    yield from read_member(_member_events(stream, size), name, outcomes.member(name))
    stream.skip(end - stream.position)


def _member_events(stream: Stream, size: int) -> Iterator[Event]:
    """The bytes of a member; what cuts the archive short cuts the member short."""
    while size:
        data = stream.read(min(size, CHUNK_BYTES))
        if not data:
            yield stream.damage or Damage("truncated_tar", f"the archive ends {size:,} bytes before the member does")
            stream.damage = None
            return
        size -= len(data)
        yield data


def _skip_to_header(stream: Stream, block: bytes, offset: int, outcomes: Outcomes) -> Outcome:
    """Quarantine the blocks up to the next sound header."""
    kept, length = block, len(block)
    while (block := stream.peek(BLOCK)) and _header(block) is None:
        stream.skip(len(block))
        kept += block[: EVIDENCE_BYTES - len(kept)]
        length += len(block)
    detail = f"expected a tar header, found {kept[:40]!r}; {length:,} bytes passed over to the next one"
    return outcomes.quarantined(kept, "bad_tar", detail, offset=offset)
