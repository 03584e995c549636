"""The proxy before the browser: what it refuses and what it lets through, over real sockets."""

import socket
import socketserver
import threading

import pytest

from tasks.clean.extract.render_guard import Guard, Refused, is_public

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Origin(socketserver.BaseRequestHandler):
    """Remembers the head of each request, and answers."""

    def handle(self):
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += self.request.recv(4096)
        self.server.heads.append(data)
        self.request.sendall(ANSWER)


@pytest.fixture
def origin():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Origin) as server:
        server.heads = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def guard():
    with Guard() as guard:
        yield guard
        guard.shutdown()


def ask(guard: Guard, *pieces: bytes) -> bytes:
    """All that the guard sends back."""
    with socket.create_connection(("127.0.0.1", guard.port), timeout=10) as connection:
        answer = b""
        for number, piece in enumerate(pieces):
            if number:
                answer += connection.recv(65_536)
            connection.sendall(piece)
        while data := connection.recv(65_536):
            answer += data
        return answer


@pytest.mark.parametrize(
    "target", ["127.0.0.1:443", "localhost:443", "[::1]:443", "169.254.169.254:443", "[::ffff:10.0.0.1]:8443"]
)
def test_a_tunnel_to_a_private_address_is_refused(guard, target):
    assert b"403 Forbidden" in ask(guard, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert len(guard.refused) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/", "http://0x7f.1/"])
def test_a_request_for_a_private_address_is_refused(guard, url):
    assert b"403 Forbidden" in ask(guard, f"GET {url} HTTP/1.1\r\n\r\n".encode())
    assert len(guard.refused) == 1


def test_a_private_host_may_be_let_through_by_name_and_port(origin):
    address = f"127.0.0.1:{origin.server_address[1]}"
    with Guard(private_hosts=(address,)) as guard:
        request = f"GET http://{address}/a?b=c HTTP/1.1\r\nHost: {address}\r\nProxy-Connection: keep-alive\r\n\r\n"
        assert ask(guard, request.encode()) == ANSWER
        tunnel = f"CONNECT {address} HTTP/1.1\r\n\r\n".encode()
        assert ask(guard, tunnel, b"GET /inside HTTP/1.1\r\n\r\n").endswith(ANSWER)
        with pytest.raises(Refused):
            guard.connect("127.0.0.1", 1)
        guard.shutdown()
    assert origin.heads[0].startswith(b"GET /a?b=c HTTP/1.1\r\n") and b"Proxy-Connection" not in origin.heads[0]
    assert origin.heads[1].startswith(b"GET /inside")


@pytest.mark.parametrize("request_head", [b"nonsense\r\n\r\n", b"GET ftp://a.invalid/ HTTP/1.1\r\n\r\n", b"\r\n\r\n"])
def test_what_is_no_request_gets_no_answer_and_the_guard_goes_on(guard, request_head):
    assert ask(guard, request_head) == b""
    assert b"403 Forbidden" in ask(guard, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "127.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:10.0.0.1",
        "fe80::1%eth0",
        "fd00::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_that_are_public(address):
    assert is_public(address)
