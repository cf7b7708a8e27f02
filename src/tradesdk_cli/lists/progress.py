"""How far long work is, on stderr: one line that is overwritten on a terminal, elsewhere a line now and then."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from tradesdk_cli.output.stderr import columns_of
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.output.printer import Output

APPEARS_AFTER = 0.5
"""Seconds of work that nobody needs to be told about."""
_EVERY_LINE, _EVERY_NOTE = 0.1, 10.0
_WIPE = "\r\x1b[K"


class Progress:
    """Counts what is done of something long, and says so while it is the progress of `out`.

    Args:
        out: on whose stderr it is said.
        what: what is counted, in the plural.
        total: how many there will be; None when nobody knows.
        done: how many there are from an earlier run. They are counted, but say nothing about the pace.
        at_once: from the beginning, not only when it takes long.
    """

    def __init__(
        self, out: Output, what: str, total: int | None = None, *, done: int = 0, at_once: bool = False
    ) -> None:
        self._out, self._what, self._total = out, what, total
        self._done, self._idle_done = done, done
        self._begin = monotonic()
        self._after = 0.0 if at_once else APPEARS_AFTER
        self.on_line = out.stderr.isatty() and out.environ.get("TERM") != "dumb"
        """True when it is a line that is overwritten."""
        self._said = self._begin - _EVERY_LINE if self.on_line else self._begin
        self._more: tuple[str, ...] = ()
        self._fields: dict[str, Any] = {}
        self._shown = False

    def __enter__(self) -> Progress:
        self._out.progress = self
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()
        self._out.progress = None

    def step(self, done: int, *more: str, free: bool = False, **fields: Any) -> None:
        """So many are done now.

        Args:
            done: all that there are, those of earlier runs too.
            more: what else is worth saying.
            free: the last ones took no time, so they say nothing about the pace.
            fields: what programs are told besides.
        """
        if free:
            self._idle_done += done - self._done
        self._done, self._more, self._fields = done, more, fields
        self._show()

    def waits(self, seconds: float, until: str, why: str) -> bool:
        """Says that nothing happens for some seconds. False when there is no line that could say it, and all of why."""
        if not self.on_line:
            return False
        text = one_line(f"{self._counted}, waiting {seconds:.0f} s, until {until}{why}")
        if fitted(text, columns_of(self._out.stderr) - 1) != text:
            self.wipe()
            return False
        self._draw(text)
        return True

    def wipe(self) -> None:
        """Takes the line away, so that something else can stand there. The next step brings it back."""
        if self._shown:
            print(_WIPE, end="", file=self._out.stderr, flush=True)
            self._shown = False

    def clear(self) -> None:
        """The same for what the terminal itself has written there, which is ^C."""
        self.wipe()
        if self.on_line:
            print(_WIPE, end="", file=self._out.stderr, flush=True)
        else:
            self._out.after_ctrl_c()

    def _show(self) -> None:
        now = monotonic()
        if now - self._begin < self._after:
            return
        if now - self._said < (_EVERY_LINE if self.on_line else _EVERY_NOTE):
            return
        self._said = now
        pace = self._pace(now)
        left = None if self._total is None or not pace else max(0, self._total - self._done) / pace
        parts = [self._counted, *self._more]
        if pace:
            parts.append(_per_time(pace))
        if left:
            parts.append(f"{span(left)} left")
        text = ", ".join(parts)
        if self.on_line:
            self._draw(text)
            return
        fields = {"done": self._done, "total": self._total, "per_second": round(pace, 3), **self._fields}
        if left is not None:
            fields["seconds_left"] = round(left, 1)
        self._out.event("progress", text, **fields)

    def _pace(self, now: float) -> float:
        """How many a second, since this run began."""
        return (self._done - self._idle_done) / max(now - self._begin, 0.001)

    @property
    def _counted(self) -> str:
        if self._total is None:
            return counted(self._done, self._what)
        return f"{self._done} of {counted(self._total, self._what)}"

    def _draw(self, text: str) -> None:
        stderr = self._out.stderr
        encoding = stderr.encoding or "utf-8"
        text = one_line(text).encode(encoding, "backslashreplace").decode(encoding)
        print(f"{_WIPE}{fitted(text, columns_of(stderr) - 1)}", end="", file=stderr, flush=True)
        self._shown = True


def counted(number: int, things: str) -> str:
    """`1 trade`, `2 trades`; `things` is the plural."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


def fitted(text: str, cells: int) -> str:
    """`text`, cut to so many cells of a terminal; the last ones show that it was."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(cells - 3, 0)).rstrip(" ,") + "..."[: max(cells, 0)]


def _per_time(pace: float) -> str:
    if pace < 0.1:
        return f"{pace * 3600:.0f} an hour"
    if pace < 1:
        return f"{pace * 60:.0f} a minute"
    return f"{pace:.0f} a second" if pace >= 10 else f"{pace:.1f} a second"


def span(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`: as exactly as somebody who waits wants to know it."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
