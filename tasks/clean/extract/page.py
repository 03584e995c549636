"""Read one page: its main text, and whether a script was to fill it. This is what runs in the sandbox.

A page that a script was to fill may hold the whole text a second time for readers without one (forums write threads
into <noscript> for search engines): where that is more than what was found, it is the page's text.

in    html, and the settings of ExtractConfig that the text depends on
out   PageText
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.clean.extract.main_text import main_text
from tasks.clean.extract.shells import NOSCRIPT_TAG, javascript_evidence, noscript_text, units

MIN_NOSCRIPT_UNITS = 600  # of text: a notice that JavaScript is needed is shorter


@dataclass(frozen=True, slots=True)
class PageText:
    text: str
    method: str  # of MainText
    javascript: str | None  # the evidence that JavaScript fills the page


def read_page(html: str, settings: Mapping[str, Any]) -> PageText:
    """`settings`: the keyword arguments of `main_text`. Raises what a parser raises."""
    found = main_text(html, **settings)
    javascript = javascript_evidence(html, found.text)
    if javascript and units(noscript_text(html)) > MIN_NOSCRIPT_UNITS:
        instead = main_text(NOSCRIPT_TAG.sub("", html), **settings)
        if units(instead.text) > max(MIN_NOSCRIPT_UNITS, units(found.text)):
            return PageText(instead.text, instead.method, None)
    return PageText(found.text, found.method, javascript)


def handler(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """For `Sandbox`: {"html"} in, the fields of PageText out."""

    def handle(request: Mapping[str, Any]) -> dict[str, Any]:
        return dataclasses.asdict(read_page(request["html"], settings))

    return handle
