"""Charts in the terminal: a line chart over time with marks, axes and a legend.

A cell of the terminal has two by four Braille dots, for finer lines. Terminals without Braille get plain characters.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.output.formats import utc
from tradesdk_cli.text import is_unicode, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tradesdk_cli.output.printer import Output


LEAST_WIDTH, LEAST_HEIGHT = 30, 8
_LABEL = 16
_LARGEST = 1e100
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_LINE, _AXIS = "cyan", "dim"
_SIGNS = {False: "│└─┤┈", True: "|+-+."}
"""Edge, corner, bar, tick and dot, with and without Unicode."""
_MARKS = {
    "BUY": ("▲", "^", "green", 1, "BUY"),
    "SELL": ("▼", "v", "red", -1, "SELL"),
    "now": ("◆", "@", "yellow", 0, "with open positions"),
}
"""Sign with and without Unicode, color, rows below the line, and words."""
_MONTH = 2592000
_TIME_STEPS = (60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 7776000, 31536000)


@dataclass(frozen=True)
class Mark:
    """A mark in the chart. `kind` is `BUY`, `SELL` or `now`; `at` is in Unix seconds."""

    kind: str
    at: float
    value: float


@dataclass(frozen=True)
class Chart:
    """The content of a chart.

    Attributes:
        title: the title; untrusted text is escaped.
        points: Unix seconds and value, oldest first; at least one.
        line: the meaning of the line, for the legend.
        marks: marks on the line.
        base: the value of a dotted line, if within the range: zero for results.
        notes: lines below.
    """

    title: str
    points: Sequence[tuple[float, float]]
    line: str
    marks: Sequence[Mark] = ()
    base: float | None = None
    notes: Sequence[str] = ()


def draw(chart: Chart, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
    """The chart in lines of at most `width` cells; `height` includes everything but wrapped notes."""
    width, height = max(LEAST_WIDTH, width), max(LEAST_HEIGHT, height)
    notes = [visible(note) for note in chart.notes]
    rows = max(3, height - 4 - len(notes))
    # No price is this large; sums and distances of larger values would be infinite.
    points = [(at, max(-_LARGEST, min(_LARGEST, value))) for at, value in chart.points]
    marks = [replace(mark, value=max(-_LARGEST, min(_LARGEST, mark.value))) for mark in chart.marks]
    values = [value for _, value in points] + [mark.value for mark in marks]
    low, high = min(values), max(values)
    if high - low <= max(abs(low), abs(high)) * 1e-9:  # some room around a single value
        room = abs(high) * 0.05 or 1.0
        low, high = low - room, high + room
    ticks = value_ticks(low, high, max(3, min(6, rows // 3)))
    low, high = min(low, ticks[0][0]), max(high, ticks[-1][0])
    labels = max(len(text) for _, text in ticks)
    columns = max(8, width - labels - 2)
    begin, end = points[0][0], max(points[-1][0], *(mark.at for mark in marks), points[0][0])
    canvas = _Canvas(begin, end, low, high, (columns, rows))
    canvas.line(points)
    for mark in marks:  # beside the line, so that it stays visible: BUY below, SELL above
        sign, plain, style, below, _ = _MARKS[mark.kind]
        canvas.sign(mark.at, mark.value, plain if ascii_only else sign, style, below)
    edge, corner, bar, tick, dot = tuple(_SIGNS[ascii_only])
    if chart.base is not None and low < chart.base < high:
        canvas.dotted(chart.base, dot)
    by_row = {canvas.row(value): text for value, text in ticks}
    lines = [cut(Text(visible(chart.title), style="bold"), width)]
    for row, content in enumerate(canvas.rows(ascii_only=ascii_only)):
        text = by_row.get(row, "")
        lines.append(Text.assemble((text.rjust(labels) + " " + (tick if text else edge), _AXIS), content))
    lines.append(Text(" " * (labels + 1) + corner + bar * columns, style=_AXIS))
    lines.append(Text(" " * (labels + 2) + _time_axis(canvas), style=_AXIS))
    lines += _legend(chart, width, ascii_only=ascii_only)
    for note in notes:
        lines += [Text(line, style="dim") for line in textwrap.wrap(note, width, break_on_hyphens=False)]
    return lines


class _Canvas:
    """A range of time and value, in cells of two by four dots."""

    def __init__(self, begin: float, end: float, low: float, high: float, size: tuple[int, int]) -> None:
        self.begin, self.end, self._low, self._high = begin, end, low, high
        self.columns, self._rows = size
        self._dots = [[0] * self.columns for _ in range(self._rows)]
        self._signs: dict[tuple[int, int], tuple[str, str]] = {}

    def across(self, at: float, steps: int) -> int:
        """The position of a time, in `steps` of the width."""
        if self.end <= self.begin:
            return steps // 2
        return min(steps - 1, max(0, round((at - self.begin) / (self.end - self.begin) * (steps - 1))))

    def _down(self, value: float) -> int:
        """The position of a value in dots from the top."""
        steps = self._rows * 4
        return min(steps - 1, max(0, round((self._high - value) / (self._high - self._low) * (steps - 1))))

    def row(self, value: float) -> int:
        """The row of a value in cells."""
        return self._down(value) // 4

    def line(self, points: Sequence[tuple[float, float]]) -> None:
        dots = [(self.across(at, self.columns * 2), self._down(value)) for at, value in points]
        for (x, y), (right, down) in zip(dots, dots[1:] or dots, strict=False):
            steps = max(abs(right - x), abs(down - y), 1)
            for step in range(steps + 1):
                across, below = x + round((right - x) * step / steps), y + round((down - y) * step / steps)
                self._dots[below // 4][across // 2] |= _BITS[below % 4][across % 2]

    def sign(self, at: float, value: float, sign: str, style: str, beside: int) -> None:
        row = min(self._rows - 1, max(0, self.row(value) + beside))
        self._signs[row, self.across(at, self.columns)] = (sign, style)

    def dotted(self, value: float, sign: str) -> None:
        for column in range(0, self.columns, 2):
            if not self._dots[self.row(value)][column]:
                self._signs.setdefault((self.row(value), column), (sign, _AXIS))

    def rows(self, *, ascii_only: bool) -> Iterator[Text]:
        for row, cells in enumerate(self._dots):
            text = Text()
            for column, dots in enumerate(cells):
                dot = " " if not dots else "*" if ascii_only else chr(0x2800 + dots)
                text.append(*self._signs.get((row, column), (dot, _LINE)))
            text.rstrip()
            yield text


def value_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most `most` + 1 round values from just below `low` to just above `high`, lowest first, each with its label."""

    def numbers(step: float) -> tuple[int, int]:
        return math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)

    power = 10.0 ** (math.floor(math.log10((high - low) / most)) - 1)
    steps = [(factor, factor * power * ten) for ten in (1, 10, 100) for factor in (1, 2, 2.5, 5)]
    factor, step = next(one for one in steps if numbers(one[1])[1] - numbers(one[1])[0] <= most)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9) + (factor == 2.5))
    first, last = numbers(step)
    found = []
    for value in (number * step for number in range(first, last + 1)):
        text = f"{round(value, decimals) + 0.0:,.{decimals}f}"  # + 0.0 turns -0.0 into 0.0
        found.append((value, text if len(text) <= _LABEL else f"{value:.3g}"))
    return found


def _time_axis(canvas: _Canvas) -> str:
    """Times in UTC below the axis, each beginning at its position."""
    span = canvas.end - canvas.begin
    if span <= 0:
        text = _moment(canvas.begin, 0)
        return " " * max(0, canvas.columns // 2 - len(text) // 2) + text
    most = max(1, canvas.columns // 12)
    step = next((step for step in _TIME_STEPS if span / step <= most), _TIME_STEPS[-1])
    line, at = "", math.ceil(canvas.begin / step) * step
    while at <= canvas.end and len(line) < canvas.columns:
        text, position = _moment(at, step), canvas.across(at, canvas.columns)
        if position >= len(line) + (2 if line else 0) and position + len(text) <= canvas.columns:
            line = line.ljust(position) + text
        at += step
    return line or _moment(canvas.begin, 0)[: canvas.columns]


def _moment(at: float, step: int) -> str:
    """Labels of times, with the date at the start of a day or when alone; months are names, to avoid confusion."""
    if (moment := utc(at)) is None:
        return str(at)
    if step == 0:
        return f"{moment:%d %b %Y %H:%M}"
    if step >= _MONTH:
        return f"{moment:%d %b %Y}"
    return f"{moment:%d %b}" if step >= 86400 or (moment.hour == 0 and moment.minute == 0) else f"{moment:%H:%M}"


def _legend(chart: Chart, width: int, *, ascii_only: bool) -> list[Text]:
    parts = [Text.assemble(("*" if ascii_only else "⣀⡠⠔", _LINE), f" {chart.line}")]
    for kind, (sign, plain, style, _, words) in _MARKS.items():
        if any(mark.kind == kind for mark in chart.marks):
            parts.append(Text.assemble((plain if ascii_only else sign, style), f" {words}"))
    line = Text("   ").join(parts)
    return [line] if cell_len(line.plain) <= width else [cut(part, width) for part in parts]


def cut(text: Text, width: int) -> Text:
    """`text`, cut to `width` cells."""
    text.truncate(width, overflow="ellipsis")
    return text


def shows_ascii_only(out: Output) -> bool:
    """True when blocks and Braille cannot be shown: another encoding than UTF-8, or a simple terminal."""
    return not is_unicode(out.stdout.encoding) or out.environ.get("TERM") in ("dumb", "linux")
