"""The board without a terminal of its own: a snapshot, or a line for every change."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tradesdk import TradeError
from tradesdk_cli.board.reader import Source, is_about_one, limit_of, quiet, read
from tradesdk_cli.board.state import Board, Item, News, after, changes, snapshot
from tradesdk_cli.board.view import Moment, View, draw, header
from tradesdk_cli.charts.chart import shows_ascii_only
from tradesdk_cli.choices import CHAINS
from tradesdk_cli.errors import Interrupted, UsageProblem
from tradesdk_cli.explain import problem_of
from tradesdk_cli.interrupts import exit_code_of, told_to_stop
from tradesdk_cli.output.cells import moment
from tradesdk_cli.text import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

_WIDTH = 120
_SHARE = 3
_SIGNALS = 10
_PLENTY = 1000
_LOOK = 0.5


def once(run: Session, chain: int | None) -> None:
    """Reads everything once and prints it: one object for programs, tables for people."""
    out = run.out.readable()
    board = _read_all(run, chain)
    if not out.draws(many=False):
        run.out.one(snapshot(board, run.target().fields, run.now()))
        return
    now = Moment(time.monotonic(), run.now())
    board = replace(board, signals=board.signals[:_SIGNALS])
    rows = 40 + len(board.agents) + len(board.positions) + len(board.signals)
    frame = draw(board, View(), out.width or _WIDTH, rows, now, ascii_only=shows_ascii_only(out))
    lines = frame.lines[:-1]  # without the keys
    for line in lines:
        # The bar that shows where the keys go is only a heading here.
        line.spans = [span._replace(style="bold") if span.style == "bold reverse" else span for span in line.spans]
        line.rstrip()
    while len(lines) > 1 and not lines[-1].plain:
        lines.pop()

    def show(console: Console) -> None:
        from tradesdk_cli.output.table import print_line

        for line in lines:
            print_line(console, line)

    out.draw(show)


def _read_all(run: Session, chain: int | None) -> Board:
    """The board after reading everything once. Of many agents only so many results as a third of the limit allows."""
    board = Board(target=run.target().text, chain=chain)
    chains = [chain] if chain is not None else list(CHAINS.values())
    for job in ("account", "agents", "positions", "trades", "usage", *(f"signals {each}" for each in chains)):
        board = _with(run, board, job)
    limit = limit_of(run.client)
    room = max(1, (limit.limit or 60) // _SHARE)
    active = sorted(board.agents, key=lambda agent: agent["status"] != "active")
    for agent in active[:room]:
        board = _with_agent(run, board, agent)
    if len(active) > room:
        program = run.settings.program
        run.out.note(
            f"results were read of {room} of {len(active)} agents, to leave most of the rate limit; "
            f"all: {program} agents list --results --all"
        )
    return after(board, News("limit", limit_of(run.client), time.monotonic()))


def _with_agent(run: Session, board: Board, agent: Item) -> Board:
    """The board with the results of an agent; where they cannot be read, that is said, and the list has to do."""
    try:
        return _with(run, board, f"agent {agent['id']}")
    except TradeError as error:
        if not is_about_one(error):
            raise
        headline = problem_of(error, run.settings.program).headline
        run.out.note(f"the results of {one_line(agent['name'], 60)} could not be read: {headline}")
        return after(board, News("agent", {}, time.monotonic(), agent["id"]))


def _with(run: Session, board: Board, job: str) -> Board:
    for news in read(run, job, board.chain):
        if news.kind != "page":
            board = after(board, news)
    return board


def follow_changes(run: Session, chain: int | None, interval: float) -> None:
    """Prints a line for every change.

    Raises:
        Interrupted: Ctrl-C or SIGTERM, for it does not end by itself.
        ClosedPipe: nobody reads any more.
    """
    out = run.out.readable() if run.out.on_terminal else run.out
    if out.format_for(many=True) not in ("table", "ndjson"):
        raise UsageProblem("with --interval there is a line for every change", "use -o ndjson, or --once")
    quiet(run, out.note)
    source = Source(run, chain, interval, latest=False)
    try:
        with told_to_stop():
            board = source.first()
            _say_where(out, board, run)
            with source:
                while True:
                    board = _say_changes(out, run, source, board)
                    time.sleep(_LOOK)
    except KeyboardInterrupt as interrupt:
        out.after_ctrl_c()
        raise Interrupted(exit_code_of(interrupt)) from None


def _say_changes(out: Output, run: Session, source: Source, board: Board) -> Board:
    now = source.drain(board)
    for kind, text, about in changes(board, now):
        _say(out, run, kind, text, about)
    return now


def _say_where(out: Output, board: Board, run: Session) -> None:
    text = header(board, _PLENTY, Moment(time.monotonic(), run.now()), ascii_only=True)[0].plain
    if out.format_for(many=True) == "table":
        _print(out, text)
    else:
        out.line({"type": "begin", "time": int(run.now()), "target": run.target().fields})


def _say(out: Output, run: Session, kind: str, text: str, about: Any) -> None:
    if out.format_for(many=True) == "table":
        _print(out, f"{moment(run.now())[11:]}  {kind:<8}  {visible(text, 300)}")
    else:
        out.line({"type": kind, "time": int(run.now()), "text": visible(text, 300), "about": dict(about)})


def _print(out: Output, text: str) -> None:
    from rich.text import Text

    from tradesdk_cli.output.table import print_line

    out.draw(lambda console: print_line(console, Text(text)))
