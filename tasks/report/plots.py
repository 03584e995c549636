"""Curves as inline SVG, byte for byte the same for the same points.

Only numbers are drawn: names of sources and corpus text never enter a plot (the fonts of the machine that draws
need not know the script), they are HTML beside it. Axis text stays `<text>`, so it follows the page's font and its
dark mode; long runs are thinned to a minimum and a maximum per bucket, so that a spike of one step stays visible.

in    {label: [(step, value), …]} per panel
out   a string "<svg …>…</svg>" without script, link or date
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]

MAX_POINTS = 800  # twice the pixels that a phone has across
MAX_TICKS = 6  # more are chosen by the axis
INK = "#0a0b0c"  # a colour that no series uses: replaced by currentColor, so the page's theme decides
COLOURS = ("#c2410c", "#2563eb", "#0d9488", "#9333ea", "#be123c", "#4d7c0f")  # readable on white and on near-black
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One set of axes: what is drawn and how its axis reads."""

    title: str
    series: Mapping[str, Sequence[Point]]
    log_scale: bool = False
    reference: float | None = None  # a horizontal dashed line, e.g. ln(vocab_size) for the loss
    reference_label: str = ""
    x_label: str = "step"
    log_x: bool = False


def thin(points: Sequence[Point], max_points: int = MAX_POINTS) -> list[Point]:
    """At most about `max_points` of the finite points: lowest and highest of each bucket of steps, order kept."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(finite) <= max_points:
        return finite
    size = math.ceil(len(finite) / (max_points // 2))
    kept: list[Point] = []
    for start in range(0, len(finite), size):
        bucket = finite[start : start + size]
        ends = {min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])}
        kept.extend(sorted(ends))
    return kept


def draw(panel: Panel) -> str:
    """The panel as an `<svg>` element that scales with its container."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    series = {label: thin(points) for label, points in panel.series.items()}
    settings: Any = {**STYLE, "svg.hashsalt": f"danlu {panel.title}"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(5.2, 2.7))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.13, 0.17, 0.82, 0.76))  # room for the last label
        for (label, points), colour in zip(series.items(), COLOURS, strict=False):
            x = [p[0] for p in points]
            y = [p[1] for p in points]
            marker = "o" if len(points) <= 30 else ""
            axes.plot(x, y, color=colour, linewidth=1.5, label=label, marker=marker, markersize=3)
        if panel.reference is not None:
            axes.axhline(panel.reference, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)
            axes.annotate(
                panel.reference_label, (0.99, panel.reference), xycoords=("axes fraction", "data"),
                xytext=(0, -3), textcoords="offset points", ha="right", va="top", fontsize=8,
            )  # fmt: skip
        positive = all(y > 0 for points in series.values() for _, y in points)
        if panel.log_scale and positive:
            axes.set_yscale("log")
        axes.set_xlabel(panel.x_label, labelpad=2)
        if panel.log_x:
            axes.set_xscale("log")
            places = sorted({x for points in series.values() for x, _ in points})
            if len(places) <= MAX_TICKS:
                axes.set_xticks(places)
                axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.margins(x=0.01)
        axes.grid(True, color=INK, alpha=0.12, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.patch.set_visible(False)
        figure.patch.set_visible(False)
        if len(series) > 1:
            axes.legend(frameon=False, fontsize=8, loc="best")
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return clean(stream.getvalue(), panel.title)


def clean(svg: str, title: str) -> str:
    """Cut the XML prologue, metadata and fixed size; make ids unique to the plot and the ink follow the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>\s*", "", svg, flags=re.DOTALL)  # its rule "*" would reach the whole page
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    prefix = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = svg.replace(INK, "currentColor").replace("<svg ", f'<svg role="img" aria-label="{prefix}" ', 1)
    return re.sub(r"[ \t]+\n", "\n", svg).strip()
