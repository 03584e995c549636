"""A proxy between the browser and the network that refuses private addresses.

All traffic of the browser goes through it: pages, sub-requests, redirects, web sockets. It resolves a name once, checks
every address and connects to the one it checked, so that a second answer of the name server (rebinding) finds no way
in. Refused: whatever is not a global unicast address (private, loopback, link-local with the cloud metadata address,
multicast, reserved), with the IPv4 address inside a mapped or 6to4 IPv6 one judged as itself.

ref   RFC 9110, section 9.3.6 (CONNECT); IANA special-purpose address registries, by way of `ipaddress`
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import socketserver
import threading
from urllib.parse import urlsplit

MAX_HEAD_BYTES = 65_536
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0


class Refused(Exception):
    """The address is not one the browser may reach."""


def is_public(address: str) -> bool:
    """Whether `address` is out in the internet."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is not None:
            return is_public(str(inner))
        if parsed in ipaddress.ip_network("64:ff9b::/96"):  # NAT64
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
    return parsed.is_global and not parsed.is_multicast


class Guard(socketserver.ThreadingTCPServer):
    """Listens on a port of the loopback interface. `private_hosts`: "host:port" that may be private all the same."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *, allow_private: bool = False, private_hosts: tuple[str, ...] = ()):
        super().__init__(("127.0.0.1", 0), _Connection)
        self.allow_private, self.private_hosts = allow_private, frozenset(private_hosts)
        self.refused: list[str] = []  # "host:port (address)" of each refusal
        threading.Thread(target=self.serve_forever, name="render-guard", daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to the address that was checked. Raises Refused, OSError."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address in found:
            if not (self.allow_private or f"{host}:{port}" in self.private_hosts or is_public(str(address[0]))):
                self.refused.append(f"{host}:{port} ({address[0]})")
                raise Refused(self.refused[-1])
        return socket.create_connection((str(found[0][4][0]), port), timeout=CONNECT_SECONDS)


class _Connection(socketserver.BaseRequestHandler):
    server: Guard

    def handle(self) -> None:
        client: socket.socket = self.request
        client.settimeout(IDLE_SECONDS)
        with contextlib.suppress(OSError, ValueError):
            head, rest = self._head(client)
            lines = head.split(b"\r\n")
            method, target, version = lines[0].decode("latin-1").split(" ", 2)
            split = urlsplit(f"//{target}" if method == "CONNECT" else target)
            if split.scheme not in ("", "http") or not split.hostname:
                raise ValueError(target)
            try:
                upstream = self.server.connect(split.hostname, split.port or 80)
            except (Refused, OSError):
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\nConnection: close\r\n\r\nrefused")
                return
            with upstream:
                upstream.settimeout(IDLE_SECONDS)
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    upstream.sendall(rest)
                else:  # one request a connection: the next may be for another host
                    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
                    hop = (b"proxy-connection:", b"connection:")
                    kept = [line for line in lines[1:] if not line.lower().startswith(hop)]
                    first = f"{method} {path} {version}".encode("latin-1")
                    upstream.sendall(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]) + rest)
                _pump(client, upstream)

    @staticmethod
    def _head(client: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(8192)
            if not piece or len(data) > MAX_HEAD_BYTES:
                raise ValueError("no request head")
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest


def _pump(one: socket.socket, other: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([one, other], [], [], IDLE_SECONDS)
        if not ready:
            return
        for source in ready:
            data = source.recv(65_536)
            if not data:
                return
            (other if source is one else one).sendall(data)
