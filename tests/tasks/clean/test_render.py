"""Rendering with a real Chromium, against a server on this machine."""

import http.server
import importlib.util
import threading

import pytest

from tasks.clean.extract import ExtractConfig, process
from tasks.clean.render import RenderUnavailable, find_browser
from tasks.clean.render_guard import is_public
from tasks.clean.sandbox import Limits, Sandbox, SandboxFailure, close_all
from tasks.document import Document, Dropped, Kept, Origin

LIMITS = Limits(cpu_seconds=120, wall_seconds=120, memory_mb=4096, tree=True)
SHELL = '<html><body><div id="chart">loading…</div><script src="/fill.js"></script></body></html>'
WRITE = 'document.getElementById("chart").textContent = "正文的文字都由脚本写入 " + document.title.length'
FILL = f"setTimeout(() => {{ {WRITE} }}, 200)"


class Pages(http.server.BaseHTTPRequestHandler):
    target = ""

    def do_GET(self):
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", self.target)
            self.end_headers()
            return
        body = (FILL if self.path == "/fill.js" else SHELL).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if self.path == "/fill.js" else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Pages.target = f"http://localhost:{server.server_port}/"
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def render():
    try:
        browser = find_browser(None)
    except RenderUnavailable as error:
        pytest.skip(str(error))
    opened = []

    def make(**more):
        settings = {"browser": browser, "source": "url", "timeout_seconds": 20.0, "allow_private": False, **more}
        opened.append(Sandbox("tasks.clean.render:handler", settings, LIMITS))
        return opened[-1]

    yield make
    for sandbox in opened:
        sandbox.close()


def test_text_that_a_script_writes_comes_out(render, address):
    html = render(allow_private=True).call({"html": SHELL, "url": f"http://{address}/"})["html"]
    assert "正文的文字都由脚本写入 0" in html and "loading…" not in html


def test_a_private_address_is_refused_also_behind_a_redirect(render, address):
    with pytest.raises(SandboxFailure, match="refused addresses"):
        render().call({"html": SHELL, "url": f"http://{address}/"})
    with pytest.raises(SandboxFailure, match="localhost"):
        render(private_hosts=[address]).call({"html": SHELL, "url": f"http://{address}/redirect"})
    with pytest.raises(SandboxFailure, match="only http and https"):
        render().call({"html": SHELL, "url": "file:///etc/passwd"})


def test_saved_bytes_are_rendered_without_the_network(render, address):
    sandbox = render(allow_private=True, source="bytes")
    inline = f'<div id="chart"></div><script>{FILL}</script>'
    assert "正文的文字都由脚本写入 0" in sandbox.call({"html": inline, "url": None})["html"]
    remote = f'<div id="chart">empty</div><script src="http://{address}/fill.js"></script>'
    assert "empty" in sandbox.call({"html": remote, "url": f"http://{address}/"})["html"]


def test_extract_keeps_what_rendering_brings_and_survives_its_failure(render, address):
    render()  # skips where there is no browser
    document = Document(
        id="0" * 32,
        text=SHELL,
        source="t",
        url=f"http://{address}/",
        media_type="text/html",
        origin=Origin(file="a", record=0, offset=0),
    )
    settings = {"render": True, "javascript_min_chars": 5}
    [kept] = process(iter([document]), ExtractConfig(render_private_addresses=True, **settings))
    assert isinstance(kept, Kept) and "正文的文字都由脚本写入 0" in kept.document.text
    assert kept.document.metrics["rendered"] == kept.document.metrics["javascript_page"] == 1.0
    [failed] = process(iter([document]), ExtractConfig(**settings))
    assert isinstance(failed, Kept) and failed.document.metrics["render_failed"] == 1.0
    [dropped] = process(iter([document]), ExtractConfig(render=True))
    assert isinstance(dropped, Dropped) and "refused addresses" in str(dropped.evidence["render_failed"])
    close_all()


@pytest.mark.parametrize(
    "address", ["10.1.2.3", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "64:ff9b::7f00:1"]
)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)
    assert is_public("1.1.1.1") and is_public("2606:4700::1111")


def test_a_browser_that_is_missing_is_a_clear_error():
    with pytest.raises(RenderUnavailable, match="apt install chromium"):
        find_browser("no-such-browser")
    assert importlib.util.find_spec("tasks.clean.render")
