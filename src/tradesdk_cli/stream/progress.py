"""The line that counts signals while a stream goes to a file."""

from __future__ import annotations

from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING

from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.text import counted, span

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tradesdk_cli.output.printer import Output


class SignalProgress(Progress):
    """A line that is overwritten: how many signals, and when the last one came. Nothing where there is no such line."""

    def __init__(self, out: Output) -> None:
        super().__init__(out, "signals")
        self._came = 0
        self._last: tuple[float, str] | None = None
        self._text = ""
        # The watch draws from a thread of its own, and Ctrl-C can come while this one does.
        self._drawing = RLock()

    def __enter__(self) -> SignalProgress:
        super().__enter__()
        return self

    def signal(self, event: Mapping[str, Any]) -> None:
        """One more came."""
        self._came += 1
        self._last = monotonic(), f"{event.get('direction')} {event.get('token_symbol')}"
        self.show()

    def show(self) -> None:
        """Draws the line; after something else was said, below that."""
        if self.on_line:
            with self._drawing:
                self._draw_if_new()

    def tick(self) -> None:
        """Time goes on. May be called from another thread: what was wiped there stays away."""
        with self._drawing:
            if self._shown:
                self._draw_if_new()

    def wipe(self) -> None:
        """Takes the line away."""
        with self._drawing:
            super().wipe()

    def _draw_if_new(self) -> None:
        text = f"{counted(self._came, 'signals') if self._came else 'no signals'} so far"
        if self._last is not None:
            when, what = self._last
            text += f", the last {span(monotonic() - when)} ago: {what}"
        if text != self._text or not self._shown:
            self._text = text
            self._draw(text)
