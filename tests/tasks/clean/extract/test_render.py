"""Rendering with a real Chromium, against a server on this machine."""

import gzip
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import lxml.html
import psutil
import pytest
import zstandard

from tasks.clean.extract.main_text import main_text
from tasks.clean.extract.render import RenderUnavailable, find_browser
from tasks.clean.extract.sandbox import Limits, Sandbox, SandboxFailure, close_all
from tasks.clean.extract.stage import ExtractConfig, process
from tasks.document import Document, Dropped, Kept, Origin

LIMITS = Limits(cpu_seconds=120, wall_seconds=120, memory_mb=4096, tree=True)
SHELL = '<html><body><div id="chart">loading…</div><script src="/fill.js"></script></body></html>'
WRITE = 'document.getElementById("chart").textContent = "正文的文字都由脚本写入 " + document.title.length'
ERROR = "<p>There is no such page here, and this is what we say about it at length, line after line.</p>" * 20
FILL = f"setTimeout(() => {{ {WRITE} }}, 200)"


class Pages(http.server.BaseHTTPRequestHandler):
    target = ""

    def do_GET(self):
        kind = "text/html; charset=utf-8"
        if self.path == "/redirect":
            self.answer(302, "", kind)
        elif self.path == "/gone":
            self.answer(404, ERROR, kind)
        elif self.path == "/away":
            self.answer(200, '<script>location.href = "/gone"</script>', kind)
        elif self.path == "/waiting":
            self.answer(200, '<div id="app">Loading the application, please wait</div>', kind)
        elif self.path == "/fill.js":
            self.answer(200, FILL, "text/javascript")
        else:
            self.answer(200, SHELL, kind)

    def answer(self, status, text, kind):
        body = text.encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.target)
        self.send_header("Content-Type", kind)
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
        opened.append(Sandbox("tasks.clean.extract.render:handler", settings, LIMITS))
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


def document(html: str, url: str) -> Document:
    origin = Origin(file="a", record=0, offset=0)
    return Document(id="0" * 32, text=html, source="t", url=url, media_type="text/html", origin=origin)


def test_extract_keeps_what_rendering_brings_and_survives_its_failure(render, address):
    render()  # skips where there is no browser
    shell = document(SHELL, f"http://{address}/")
    settings = {"render": True, "javascript_min_chars": 5}
    [kept] = process(iter([shell]), ExtractConfig(render_private_addresses=True, **settings))
    assert isinstance(kept, Kept) and "正文的文字都由脚本写入 0" in kept.document.text
    assert kept.document.metrics["rendered"] == kept.document.metrics["javascript_page"] == 1.0
    [unfilled] = process(iter([shell]), ExtractConfig(javascript_min_chars=5))
    [failed] = process(iter([shell]), ExtractConfig(**settings))
    assert isinstance(failed, Kept) and isinstance(unfilled, Kept)
    assert failed.document.text == unfilled.document.text
    assert failed.document.metrics == {**unfilled.document.metrics, "render_failed": 1.0}
    [dropped] = process(iter([shell]), ExtractConfig(render=True))
    assert isinstance(dropped, Dropped) and "refused addresses" in str(dropped.evidence["render_failed"])
    close_all()


@pytest.mark.parametrize("path", ["gone", "away"])
def test_an_error_page_does_not_become_the_text_also_when_a_script_goes_there(render, address, path):
    render()
    config = ExtractConfig(render=True, render_private_addresses=True)
    [outcome] = process(iter([document(SHELL, f"http://{address}/{path}")]), config)
    assert isinstance(outcome, Dropped) and "HTTP 404" in str(outcome.evidence["render_failed"])
    close_all()


def test_a_page_that_is_a_shell_in_the_browser_too_is_dropped_as_one(render, address):
    render()
    empty = '<div id="app"></div><script></script>'
    config = ExtractConfig(render=True, render_private_addresses=True)
    [outcome] = process(iter([document(empty, f"http://{address}/waiting")]), config)
    assert isinstance(outcome, Dropped) and outcome.reason == "javascript_page"
    assert outcome.evidence["found"] == "loading"
    close_all()


def living(pids):
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # the browser also starts helpers that end by themselves
            yield psutil.Process(int(pid))


def test_no_browser_outlives_a_worker_that_is_killed(render):
    render()
    program = (
        "import psutil\n"
        "from tasks.clean.extract.render import find_browser\n"
        "from tasks.clean.extract.sandbox import Limits, Sandbox\n"
        "settings = dict(browser=find_browser(None), source='bytes', timeout_seconds=60.0, allow_private=False)\n"
        "limits = Limits(cpu_seconds=60, wall_seconds=60, memory_mb=4096, tree=True)\n"
        "sandbox = Sandbox('tasks.clean.extract.render:handler', settings, limits)\n"
        "sandbox.call({'html': '<p>a page</p>', 'url': None})\n"
        "print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)\n"
        "sandbox.call({'html': '<script>while (true) {}</script>', 'url': None})\n"
    )
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as owner:
        assert owner.stdout is not None
        family = list(living(owner.stdout.readline().split()))
        assert len(family) >= 4  # child, driver, browser and its helpers
        time.sleep(1)  # into the page that never ends
        owner.kill()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+", text.lower()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zh-Hans", "ja-JP", "fr-FR"])
def test_a_wiki_that_lives_in_its_script_yields_its_text_without_the_network(render, shared_data, name):
    sandbox = render(source="bytes", timeout_seconds=60.0)
    with gzip.open(shared_data / "html" / "gold.jsonl.gz", "rt", encoding="utf-8") as file:
        [gold] = [record for record in map(json.loads, file) if record["file"] == f"tiddlywiki_js/{name}.html"]
    with open(shared_data / "html" / "pages.tar.zst", "rb") as packed:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            [saved] = [archive.extractfile(member).read() for member in archive if member.name == gold["file"]]
    html = sandbox.call({"html": saved.decode(), "url": None})["html"]
    truth, before, after = words(gold["text"]), words(main_text(saved.decode()).text), words(main_text(html).text)
    shown = words(" ".join(lxml.html.document_fromstring(html).find("body").itertext()))

    def f1(found):
        return 2 * (found & truth).total() / (found.total() + truth.total())

    assert (shown & truth).total() > 0.95 * truth.total(), "the browser shows the text"
    assert f1(after) > 0.5 and f1(after) > 3 * f1(before), "and extraction finds most of it"


def test_a_browser_that_is_missing_is_a_clear_error():
    with pytest.raises(RenderUnavailable, match="apt install chromium"):
        find_browser("no-such-browser")
    assert importlib.util.find_spec("tasks.clean.extract.render")
