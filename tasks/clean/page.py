"""Read one page: its main text, and whether a script was to fill it. This is what runs in the sandbox.

in    html, and the settings of ExtractConfig that the text depends on
out   PageText
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.clean.main_text import main_text
from tasks.clean.shells import javascript_evidence


@dataclass(frozen=True, slots=True)
class PageText:
    text: str
    method: str  # of MainText
    javascript: str | None  # the evidence that JavaScript fills the page


def read_page(html: str, settings: Mapping[str, Any]) -> PageText:
    """`settings`: the keyword arguments of `main_text`. Raises what a parser raises."""
    found = main_text(html, **settings)
    return PageText(found.text, found.method, javascript_evidence(html, found.text))


def handler(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """For `Sandbox`: {"html"} in, the fields of PageText out."""

    def handle(request: Mapping[str, Any]) -> dict[str, Any]:
        return dataclasses.asdict(read_page(request["html"], settings))

    return handle
