"""What a damaged compressed file still gives."""

from __future__ import annotations

import gzip
import json
import random

import pytest
import zstandard

from tasks.ingest.stream import Stream
from tasks.ingest.unpack import UNPACK, gunzip


def lines(start: int, stop: int) -> bytes:
    noise = random.Random(start)
    return b"".join(json.dumps({"text": f"{n} {noise.random()}"}).encode() + b"\n" for n in range(start, stop))


def test_a_truncated_gzip_gives_its_good_prefix_and_one_quarantined_record(read, summary):
    packed = gzip.compress(lines(0, 1000))
    outcomes = read("a.jsonl.gz", packed[: len(packed) // 2])
    reasons = summary(outcomes)
    assert reasons[-1] == "truncated_gzip" and set(reasons[:-1]) == {"kept"}
    assert len(reasons) > 400
    assert [json.loads(line)["text"] for line in lines(0, len(reasons) - 1).splitlines()] == [
        o.document.content.decode() for o in outcomes[:-1]
    ]
    assert lines(0, 1000).splitlines()[len(reasons) - 1].startswith(outcomes[-1].content)


def test_after_a_damaged_gzip_member_the_next_one_is_read(read, summary):
    members = [gzip.compress(lines(n * 10, n * 10 + 10)) for n in range(4)]
    broken = bytearray(members[1])
    broken[40:60] = bytes(20)
    reasons = summary(read("a.jsonl.gz", members[0] + bytes(broken) + members[2] + members[3]))
    assert reasons[:10] == ["kept"] * 10 and reasons[-20:] == ["kept"] * 20
    assert set(reasons[10:-20]) & {"bad_gzip", "gzip_checksum"}


def test_a_gzip_member_cut_off_before_the_next_does_not_take_it_along(read, summary):
    first, second = gzip.compress(lines(0, 300)), gzip.compress(lines(300, 310))
    reasons = summary(read("a.jsonl.gz", first[:-2000] + second))
    assert reasons[-10:] == ["kept"] * 10
    assert {"bad_gzip", "gzip_checksum"} & set(reasons)


def test_zeros_after_gzip_are_padding(read, summary):
    assert summary(read("a.jsonl.gz", gzip.compress(lines(0, 3)) + bytes(1000))) == ["kept"] * 3


def test_a_wide_zstd_window_is_read():
    content = random.Random(0).randbytes(1 << 16) * 40
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compress(content)
    stream = Stream(UNPACK["zst"]([packed]))
    assert stream.read(len(content) + 1) == content and stream.damage is None


def test_after_a_damaged_zstd_frame_the_next_one_is_read(read, summary):
    frames = [zstandard.compress(lines(n * 10, n * 10 + 10)) for n in range(3)]
    broken = bytearray(frames[1])
    broken[8:30] = b"\xff" * 22
    reasons = summary(read("a.jsonl.zst", frames[0] + bytes(broken) + frames[2]))
    assert reasons == ["kept"] * 10 + ["bad_zstd"] + ["kept"] * 10


@pytest.mark.parametrize("kind", ["zst", "bz2", "xz"])
def test_a_cut_off_stream_is_reported(kind, read, summary):
    import bz2
    import lzma

    pack = {"zst": zstandard.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind]
    packed = pack(lines(0, 2000))
    reasons = summary(read("a.jsonl", packed[: len(packed) * 2 // 3]))
    assert reasons[-1] == f"truncated_{kind}".replace("zst", "zstd")


def test_a_small_file_that_unpacks_to_much_comes_in_bounded_pieces():
    pieces = [len(event) for event in gunzip([gzip.compress(bytes(50 << 20))]) if isinstance(event, bytes)]
    assert sum(pieces) == 50 << 20 and max(pieces) <= 1 << 20
