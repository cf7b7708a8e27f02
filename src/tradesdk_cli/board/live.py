"""The board on a terminal: news in, keys in, frames out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tradesdk_cli.board.drawing import Moment, draw
from tradesdk_cli.board.reader import Source, quiet
from tradesdk_cli.board.screen import Screen
from tradesdk_cli.board.view import View, pressed
from tradesdk_cli.charts.sparks import shows_ascii_only
from tradesdk_cli.errors import INTERRUPTED, Interrupted
from tradesdk_cli.stream.watching import Told, told_to_stop

if TYPE_CHECKING:
    from tradesdk_cli.board.state import Board
    from tradesdk_cli.session import Session

_BREATH = 0.1


def show_board(run: Session, chain: int | None, interval: float) -> None:
    """Shows the board until somebody quits.

    Raises:
        Interrupted: Ctrl-C, Ctrl-\\, SIGTERM or SIGHUP; the terminal is as it was.
    """
    source: Source
    out = run.out
    quiet(run, lambda text: source.put("note", text))
    source = Source(run, chain, interval)
    board = source.first()
    try:
        with told_to_stop(), Screen(out) as screen:
            source.wake = screen.wake
            with source:
                try:
                    _loop(run, source, screen, board)
                finally:
                    screen.give_back()  # first of all: what reads may take a moment to end
    except KeyboardInterrupt as interrupt:
        raise Interrupted(128 + interrupt.number if isinstance(interrupt, Told) else INTERRUPTED) from None


def _loop(run: Session, source: Source, screen: Screen, board: Board) -> None:
    view, page = View(), 5
    ascii_only = shows_ascii_only(run.out)
    while not view.over:
        if not view.paused:
            board = source.drain(board)
        now = Moment(time.monotonic(), run.now())
        columns, lines = screen.size()
        frame = draw(board, view, columns, lines, now, ascii_only=ascii_only)
        view, page = frame.view, frame.page
        screen.show(frame.lines)
        # News that come in a row are drawn together; a key is answered at once.
        keys = screen.wait(_BREATH, news=False) or screen.wait(1.0 - _BREATH)
        for key in keys:
            view = pressed(view, key, page)
        if view.paused:
            source.paused.set()
        else:
            source.paused.clear()
