"""Small charts side by side in one SVG, both axes logarithmic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Panel", "Series", "svg"]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555", "#882255")
WIDTH, HEIGHT = 560, 320  # of one panel, in pixels
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50  # around its axes
COLUMNS = 2
LINE = 14  # between labels
FONT = "font-family='sans-serif'"
HALO = "fill='none' stroke='#ffffff' stroke-width='4'"


class Series(NamedTuple):
    """One line: its name stands at its right end."""

    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """One chart; it has at least one series with a point above zero."""

    title: str
    x: str
    y: str
    series: Sequence[Series]


class Axis(NamedTuple):
    """Whole decades from `low` to `high`, laid over pixels `start` to `end`."""

    low: int
    high: int
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a value stands."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def svg(panels: Sequence[Panel]) -> str:
    """Return the panels as one picture; a name has the same colour in all of them."""
    names = dict.fromkeys(one.name for panel in panels for one in panel.series)
    colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    rows = -(-len(panels) // COLUMNS)
    width, height = WIDTH * min(COLUMNS, len(panels)), HEIGHT * rows
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"viewBox='0 0 {width} {height}'>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
    ]
    for place, panel in enumerate(panels):
        x, y = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT
        parts += (
            f"<g transform='translate({x} {y})'>",
            *_panel(panel, colours),
            "</g>",
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, colours: dict[str, str]) -> list[str]:
    shown = [
        Series(one.name, [(x, y) for x, y in one.points if x > 0 and y > 0])
        for one in panel.series
    ]
    shown = [one for one in shown if one.points]
    points = [point for one in shown for point in one.points]
    across = _axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        _text(middle, TOP - 18, panel.title, "middle", 14),
        _text(middle, HEIGHT - 12, panel.x, "middle", 12),
        f"<g transform='rotate(-90 16 {HEIGHT / 2})'>"
        f"{_text(16, HEIGHT / 2, panel.y, 'middle', 12)}</g>",
    ]
    for power in range(across.low, across.high + 1):
        x = across.place(10**power)
        parts.append(_line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 16, _said(power), "middle", 11))
    for power in range(up.low, up.high + 1):
        y = up.place(10**power)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 6, y + 4, _said(power), "end", 11))
    last = -math.inf
    for one in sorted(shown, key=lambda one: up.place(one.points[-1][1])):
        colour = colours[one.name]
        pixels = [(across.place(x), up.place(y)) for x, y in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        parts.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' "
            "stroke-width='2'/>"
        )
        parts += [
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>"
            for x, y in pixels
        ]
        last = max(pixels[-1][1] + 4, last + LINE)
        for paint in (HALO, f"fill='{colour}'"):
            x = pixels[-1][0] + 8
            parts.append(_text(x, last, one.name, "start", 11, paint))
    return parts


def _axis(values: Sequence[float], start: float, end: float) -> Axis:
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    return Axis(low, high, start, end)


def _said(power: int) -> str:
    if power < 0:
        return f"{10.0**power:.{-power}f}"
    return f"{10 ** (power % 3)}{('', 'k', 'M', 'G', 'T')[power // 3]}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' "
        "stroke='#dddddd'/>"
    )


def _text(
    x: float,
    y: float,
    said: str,
    anchor: str,
    size: int,
    colour: str = "fill='#222222'",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' "
        f"{FONT} {colour}>{escape(said)}</text>"
    )
