"""Let headless Chromium fill a page. This runs in a sandbox of its own, with the browser as its child.

Only pages that JavaScript fills come here. One with an address is fetched again; else, or with `source="bytes"`, what
was saved is rendered with the network shut off. All traffic goes through `render_guard.py`, which refuses private
addresses; images, media and fonts are not loaded, downloads and service workers are off, and open shadow roots become
part of the page. The result depends on the outside world: it is part of the dataset as any fetched input is.

An answer that is an error (HTTP status 400 and above, also of a page that a script went on to) fails: its text is not
the page's.

in    {"html", "url"}
out   {"html"}    of the page as it stands when the network and the text have come to rest
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.clean.extract.render_guard import Guard

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
UNWANTED = frozenset(("image", "media", "font"))
ADDRESS = "http://page.invalid/"  # RFC 2606; an origin of its own for a page that has no address
CALM_SECONDS = 0.5  # the text has not grown for this long
FLATTEN = """() => { const open = root => { for (const e of root.querySelectorAll('*')) if (e.shadowRoot) {
  open(e.shadowRoot); const box = document.createElement('div');
  box.append(...e.shadowRoot.childNodes); e.append(box) } }; open(document) }"""


class RenderUnavailable(RuntimeError):
    """There is no Playwright or no browser here."""


def find_browser(browser: str | None) -> str:
    """Path of the browser. Raises RenderUnavailable, saying what to install."""
    names = (browser,) if browser else BROWSERS
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise RenderUnavailable(
            f"extract.render needs Chromium, looked for {', '.join(names)}: install it (Debian: apt install chromium) "
            "or name it in extract.render_browser"
        )
    try:
        import playwright  # noqa: F401
    except ImportError as error:
        raise RenderUnavailable("extract.render needs Playwright: pip install 'danlu[render]'") from error
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderSettings:
    browser: str
    source: str  # "url" or "bytes"
    timeout_seconds: float
    allow_private: bool
    private_hosts: tuple[str, ...] = ()


class Renderer:
    """One browser, a fresh context a page."""

    def __init__(self, settings: RenderSettings):
        from playwright.sync_api import sync_playwright

        self.settings = settings
        self._guard = Guard(allow_private=settings.allow_private, private_hosts=settings.private_hosts)
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=settings.browser,
            chromium_sandbox=os.geteuid() != 0,  # Chromium's own refuses to run as root
            proxy={"server": f"http://127.0.0.1:{self._guard.port}", "bypass": "<-loopback>"},
            args=["--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"],
        )

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        url, saved = request["url"], None
        if not url or self.settings.source == "bytes":
            saved = request["html"]
            url = url if url and url.startswith(("http://", "https://")) else ADDRESS
        elif not url.startswith(("http://", "https://")):
            raise ValueError(f"{url}: only http and https are fetched")
        self._guard.refused.clear()
        context = self._browser.new_context(accept_downloads=False, service_workers="block", offline=False)
        try:
            return {"html": self._filled(context, url, saved)}
        finally:
            context.close()

    def _filled(self, context: Any, url: str, saved: str | None) -> str:
        deadline = time.monotonic() + self.settings.timeout_seconds
        page = context.new_page()
        served: list[bool] = []
        statuses: list[int] = []  # of each document that the page itself, not a frame in it, went to

        def answered(response: Any) -> None:
            if response.request.is_navigation_request() and response.frame == page.main_frame:
                statuses.append(response.status)

        def route(route: Any) -> None:
            if saved is not None:
                if served:
                    return route.abort()
                served.append(True)
                body = saved.encode("utf-8", "replace")
                return route.fulfill(status=200, content_type="text/html; charset=utf-8", body=body)
            return route.abort() if route.request.resource_type in UNWANTED else route.continue_()

        page.on("response", answered)
        page.route("**/*", route)
        page.goto(url, wait_until="load", timeout=self.settings.timeout_seconds * 1000)
        self._check(url, statuses)
        with contextlib.suppress(Exception):  # a page that never stops talking is read as it is at the deadline
            page.wait_for_load_state("networkidle", timeout=max(1.0, deadline - time.monotonic()) * 500)
        length = -1
        while time.monotonic() < deadline:
            now = page.evaluate("document.body ? document.body.innerText.length : 0")
            if now == length:
                break
            length = now
            page.wait_for_timeout(CALM_SECONDS * 1000)
        self._check(url, statuses)
        page.evaluate(FLATTEN)
        return page.content()

    def _check(self, url: str, statuses: list[int]) -> None:
        if not statuses or statuses[-1] >= 400:
            status = f"HTTP {statuses[-1]}" if statuses else "no answer"
            raise RuntimeError(f"{url}: {status}; refused addresses: {self._guard.refused or 'none'}")

    def close(self) -> None:
        self._browser.close()
        self._playwright.stop()
        self._guard.shutdown()


def handler(settings: Mapping[str, Any]) -> Renderer:
    """For `Sandbox`: the fields of RenderSettings."""
    return Renderer(RenderSettings(**{**settings, "private_hosts": tuple(settings.get("private_hosts", ()))}))
