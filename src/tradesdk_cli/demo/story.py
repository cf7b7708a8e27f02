"""Runs the lines of tour.txt on a mock with a stopped clock, and prints them: numbered steps, calls, results.

Each line begins with its kind: `##` a step · `>>>` a call that is shown and run · `!` the error that the next call
raises · `-` code that runs without being shown · `?` an assertion and its message · `=` a result, `=!` an expected
error · `%` a table · `~` events of a stream. So the code that is shown is the code that runs.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import time
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tradesdk import StreamSignal, TradeClient, TradeError
from tradesdk_cli.errors import CliError
from tradesdk_cli.mockworld import mock_server_class
from tradesdk_cli.output.columns import AGENTS, SIGNALS, Column
from tradesdk_cli.output.table import print_line, render_list
from tradesdk_cli.pay.rows import brief
from tradesdk_cli.retries import log_handler, say
from tradesdk_cli.run import wire
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tradesdk import SignalStream
    from tradesdk.types import StreamItem
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_mock import MockServer


_WIDTH_IN_A_PIPE = 100
_INDENT = 4


class Screen:
    """Prints steps."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._width = out.width or _WIDTH_IN_A_PIPE
        self._steps = 0

    def step(self, title: str) -> None:
        """Begins a step."""
        self._steps += 1
        self.print(Text())
        self.print(Text.assemble((f"{self._steps:>2}  ", "cyan"), (title, "bold")))

    def call(self, code: str) -> None:
        """A call as code, with a comment after it or, if it is too long, below it."""
        line, sign, comment = code.partition("  # ")
        parts = [line, f"# {comment}"] if sign and len(code) > self._width - 2 * _INDENT else [code]
        for part in parts:
            self.print(Text(part, style="dim"), _INDENT, _INDENT)

    def result(self, text: str, style: str = "") -> None:
        """A result."""
        self.print(Text.assemble(("✓ ", "green"), (visible(text), style)), _INDENT, 2)

    def table(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """A few rows of a result."""
        self._out.draw(lambda console: render_list(console, columns, rows, self._width, indent=_INDENT + 2))

    def end(self, headline: str, tries: Sequence[tuple[str, str]]) -> None:
        """The last lines: a summary, and commands to try next."""
        for text in (Text(), Text(headline, style="bold green"), Text(), Text("Try next", style="bold")):
            self.print(text)
        width = max(len(command) for command, _ in tries)
        narrow = any(self._width < _INDENT + width + 2 + len(what) for _, what in tries)
        for command, what in tries:
            between = "\n  " if narrow else " " * (width + 2 - len(command))
            self.print(Text.assemble((command, "cyan"), between, what), _INDENT)
        script = Path(sys.argv[0])
        if script.name == "trade" and shutil.which("trade") is None:  # called by its path, without the environment
            self.print(Text(f"(here trade is {script}; . {script.parent / 'activate'} puts it on the PATH)"), _INDENT)

    def print(self, text: Text, indent: int = 0, hang: int = 0) -> None:
        """Prints `text`, indented and wrapped; the next lines begin `hang` cells further right."""

        lines = text.wrap(self._out.console(), self._width - indent - hang) or [Text()]
        for number, line in enumerate(lines):
            line.pad_left(indent + hang * (number > 0))
            self._out.draw(partial(print_line, line=line))


START = 1_767_268_800.0
"""The mock's start time in every run: 2026-01-01 12:00 UTC."""
_SEED, _TRADES = 7, 250
_FROM_SDK = ("Budget", "Disconnected", "Ledger", "LocalSigner", "Risk", "StreamSignal")
_PUBLISHED = (("BRETT", "BUY", 0.91), ("AERO", "SELL", 0.84), ("DEGEN", "BUY", 0.78), ("PRIME", "SELL", 0.88))
_TABLES = {
    "agents": [column for column in AGENTS if column.key not in ("chain_id", "wallet_id")],
    "signals": SIGNALS[1:-2],
    "payments": (
        Column("endpoint"),
        Column("amount_usd", "number", title="usd"),
        Column("status", "state"),
        Column("submissions", "number", title="sent"),
        Column("charged", optional=True),
    ),
}
_TRY_NEXT = (
    ("trade --mock agents list", "another world, kept between commands"),
    ("trade --mock signals latest --chain base", "what the market says"),
    ("trade --mock signals stream --chain base", "the same as it happens, until Ctrl-C"),
    ("trade --mock market prices ETH --max-price 0.05", "buy with play money"),
    ("trade mock serve", "the mock for your own bot's tests"),
    ("trade --help", "all commands"),
)


def _failed(what: str) -> CliError:
    hint = "please report it, with the output of: trade --version"
    return CliError(f"the demo found something wrong: {what}", hint, code="demo_failed")


def run_tour(out: Output) -> None:
    """Runs the whole demo and prints it."""
    began = time.perf_counter()
    server_class = mock_server_class()
    from tradesdk_mock import MockClock

    clock, screen = MockClock(START), Screen(out)
    out.log = "none"  # this clock never waits
    # Without a handler, Python would print the log's warnings among the steps.
    with (
        log_handler(partial(say, out, lambda: None), logging.DEBUG if out.settings.verbose else logging.WARNING),
        _without_budgets(),
        server_class(seed=_SEED, clock=clock) as server,
        TradeClient(api_key="mock_full_demo", base_url=server.url, clock=clock) as client,
    ):
        server.populate("demo", trades=_TRADES)
        screen.print(Text(f"trade demo: real calls to the mock service inside this process (seed {_SEED})", "bold"))
        names = _names(server) | {"client": client}
        try:
            _play(screen, names)
        except TradeError as error:
            raise _failed(str(error)) from None
        finally:
            for name in ("hasty", "market"):
                if name in names:
                    names[name].close()
        screen.end(f"All checks passed: {len(server.journal())} requests, every answer checked.", _TRY_NEXT)
    out.note(f"took {time.perf_counter() - began:.1f} s")


@contextmanager
def _without_budgets() -> Iterator[None]:
    """Ignores the environment's budgets, which are for real money; the demo has its own."""
    aside = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("TRADE_BUDGET_")}
    try:
        yield
    finally:
        os.environ.update(aside)


def _names(server: MockServer) -> dict[str, Any]:
    """Names for the tour's lines. The wallet's key is public: it holds only play money."""
    import tradesdk

    here: dict[str, Any] = {"base_url": server.url, "clock": server.clock}
    return {
        **{name: getattr(tradesdk, name) for name in _FROM_SDK},
        "TradeClient": partial(tradesdk.TradeClient, **here),
        "MarketClient": partial(tradesdk.MarketClient, **here),
        "private_key": hashlib.sha256(f"trade demo {_SEED}".encode()).hexdigest(),
        "forged": "0x" + "11" * 64 + "1b",
        "publish_when_open": partial(_publish_when_open, server),
        "until_five_signals": _until_five_signals,
        "server": server,
        "brief": brief,
        "START": START,
    }


def _play(screen: Screen, names: dict[str, Any]) -> None:
    import tradesdk

    def value(code: str) -> Any:
        return eval(code, names)  # noqa: S307  # our own lines

    expected: tuple[str, str] | None = None
    lines = files("tradesdk_cli").joinpath("demo", "tour.txt").read_text(encoding="utf-8").splitlines()
    for kind, _, text in (line.partition(" ") for line in filter(None, lines)):
        code, _, wrong = (part.strip() for part in text.partition(" | "))
        match kind:
            case "##":
                screen.step(text)
            case "!":
                expected = code, wrong
            case ">>>" | "-":
                if kind == ">>>":
                    screen.call(text)
                try:
                    exec(text, names)  # noqa: S102  # our own lines
                except tradesdk.TradeError as error:
                    if expected is None or type(error).__name__ != expected[0]:
                        raise
                    names["error"], expected = error, None
                if kind == ">>>" and expected is not None:
                    raise _failed(expected[1])
            case "?":
                if not value(code):
                    raise _failed(wrong)
            case "%":
                table, _, rows = text.partition(" ")
                found = [row if isinstance(row, dict) else wire(row) for row in value(rows)]
                screen.table(_TABLES[table], found)
            case "~":
                for item in value(text):
                    if isinstance(item, tradesdk.StreamSignal):
                        came = " (from the history)" if item.replayed else ""
                        signal_text = f"{item.direction:<4} {item.token_symbol:<5} {item.confidence:.0%} at "
                        screen.result(f"{signal_text}{item.price_usd:.4g} USD{came}")
                    elif isinstance(item, tradesdk.Connected):
                        screen.result("connected" if item.connects == 1 else "connected again")
                    elif isinstance(item, tradesdk.Disconnected):
                        screen.result(f"cut: {item.reason}", "yellow")
            case _:
                screen.result(text.format_map(names), "yellow" if kind == "=!" else "")


def _publish_when_open(server: MockServer, stream: SignalStream[Any]) -> list[str]:
    """Opens the stream and publishes five signals; their ids."""
    stream.__enter__()
    return [
        server.emit_signal(token=token, direction=direction, confidence=confidence).id
        for token, direction, confidence in (*_PUBLISHED, ("BRETT", "SELL", 0.95))
    ]


def _until_five_signals(stream: SignalStream[StreamItem]) -> Iterator[StreamItem]:
    """The events of the stream until all published signals have arrived."""
    left = 5
    for item in stream:
        yield item
        left -= isinstance(item, StreamSignal)
        if left == 0:
            return
