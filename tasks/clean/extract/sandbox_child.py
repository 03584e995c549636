"""The child's side of `sandbox.py`: read a request, call the handler, answer; and the wire that both speak.

    python -m tasks.clean.extract.sandbox_child SOCKET_FD OWNER_PID TARGET SETTINGS_JSON ADDRESS_SPACE_MB

wire  request and answer alike: two u64 little-endian lengths, then as many bytes of UTF-8 JSON, then of UTF-8 texts:
      long strings of the message, one behind the other, which JSON would escape at 5 % of what reading a page costs;
      "texts" in the JSON has their keys and lengths in bytes. Lone surrogates pass ("surrogatepass")
ref   proc(5): /proc/self/clear_refs (5 resets VmHWM), /proc/self/status; malloc_trim(3)
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LENGTHS = struct.Struct("<QQ")
LONG_CHARS = 1000
MESSAGE_LIMIT_BYTES = 1 << 31
TRIM_MB = 64  # a page that left this much more behind: hand free memory back before the next

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def encode(message: Mapping[str, Any]) -> bytes:
    """`message` as it goes over the wire."""
    texts = {
        key: value.encode("utf-8", "surrogatepass")
        for key, value in message.items()
        if isinstance(value, str) and len(value) > LONG_CHARS
    }
    rest = {key: value for key, value in message.items() if key not in texts}
    head = json.dumps({"message": rest, "texts": {key: len(text) for key, text in texts.items()}}).encode()
    return b"".join([LENGTHS.pack(len(head), sum(map(len, texts.values()))), head, *texts.values()])


def receive(connection: socket.socket) -> dict[str, Any]:
    """The next message. Raises EOFError when the other side is gone or talks nonsense, TimeoutError in time."""
    lengths = LENGTHS.unpack(_read(connection, LENGTHS.size))
    if sum(lengths) > MESSAGE_LIMIT_BYTES:
        raise EOFError(f"a message of {sum(lengths):,} bytes, limit {MESSAGE_LIMIT_BYTES:,}")
    body, end = memoryview(_read(connection, sum(lengths))), lengths[0]
    try:
        head = json.loads(bytes(body[:end]))
        message: dict[str, Any] = head["message"]
        for key, length in head["texts"].items():
            message[key] = str(body[end : end + length], "utf-8", "surrogatepass")
            end += length
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EOFError(f"not a message: {error!r}") from error
    return message


def _read(connection: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view, got = memoryview(buffer), 0
    while got < length:
        count = connection.recv_into(view[got:])
        if count == 0:
            raise EOFError("connection closed")
        got += count
    return buffer


def answer(handler: Handler, request: Mapping[str, Any]) -> dict[str, Any]:
    """What the handler says, or how it failed, with what it took in memory."""
    _reset_peak()
    try:
        reply: dict[str, Any] = {"result": handler(request)}
    except MemoryError as error:
        reply = {"failure": "memory", "detail": repr(error)}
    except Exception as error:  # a third-party parser on hostile input: whatever it raises, the owner is told
        reply = {"failure": "failed", "detail": repr(error)[:2000]}
    return {**reply, **memory_mb()}


def memory_mb() -> dict[str, float]:
    """Resident now (`rest_mb`), and at most since the last reset (`peak_mb`)."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return {"rest_mb": int(lines["VmRSS"].split()[0]) / 1024, "peak_mb": int(lines["VmHWM"].split()[0]) / 1024}
    except (OSError, KeyError):  # no /proc: the owner's samples alone decide
        return {"rest_mb": 0.0, "peak_mb": 0.0}


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _limit_address_space(extra_mb: int) -> None:
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        limit = (int(lines["VmSize"].split()[0]) << 10) + (extra_mb << 20)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def serve(connection: socket.socket, handler: Handler) -> None:
    """Answer until the owner closes its end."""
    first = last = memory_mb()
    connection.sendall(encode(first))
    while True:
        try:
            request = receive(connection)
        except EOFError:
            return
        reply = answer(handler, request)
        if reply["rest_mb"] - last["rest_mb"] > TRIM_MB:
            del request
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
            reply["rest_mb"] = memory_mb()["rest_mb"]
        last = reply
        connection.sendall(encode(reply))


def main(arguments: list[str]) -> None:
    from training.processes import die_with_parent

    descriptor, owner, target, settings, address_space_mb = arguments
    die_with_parent(int(owner))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the owner decides what it means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # short of memory: this process first, not the worker
    logging.disable()  # what matters is in the answers
    module, _, function = target.partition(":")
    handler = getattr(importlib.import_module(module), function)(json.loads(settings))
    if int(address_space_mb):
        _limit_address_space(int(address_space_mb))
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            serve(connection, handler)
        finally:
            close = getattr(handler, "close", None)
            if close is not None:
                close()


if __name__ == "__main__":
    main(sys.argv[1:])
