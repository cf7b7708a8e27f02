"""A small bot that trades on paper and acts on each signal exactly once, even after kill -9.

    python signal_bot.py [BOOK.sqlite3]

It writes a signal's id and its action in one transaction, and then acknowledges the signal. If it is killed in between,
the signal comes again, and its id is in the book.

With TRADE_API_KEY and TRADE_BASE_URL set, it follows the service until Ctrl-C or SIGTERM; its position is in a
second file beside the book, BOOK.checkpoint.json. Without both, it runs on a mock in this process, which takes a
second, and crashes once.
"""

import logging
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

from tradesdk import Clock, Gap, StreamSignal, SystemClock, TradeClient
from tradesdk_mock import MockClock, MockService

BASE = 8453
SURE = 0.7  # minimum confidence
STAKE = 100.0  # USD for each BUY
MOST = 5  # maximum of open stakes
STALE = 300.0  # seconds; an older BUY is ignored, as the price has changed

TABLES = """
    CREATE TABLE IF NOT EXISTS taken (signal_id TEXT PRIMARY KEY, time REAL NOT NULL, action TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS positions (token TEXT PRIMARY KEY, symbol TEXT NOT NULL, stakes INTEGER NOT NULL,
        units REAL NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS results (signal_id TEXT PRIMARY KEY, symbol TEXT NOT NULL, usd REAL NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS missed (start TEXT NOT NULL, end TEXT NOT NULL, reason TEXT NOT NULL) STRICT;
"""


class Book:
    """What the bot has done and what it holds, in a file."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file, isolation_level=None)  # BEGIN and COMMIT are written out below
        self._database.executescript(TABLES)

    def take(self, signal: StreamSignal, now: float) -> str | None:
        """Act on a signal, in one transaction; return what was done, or None if it was done before."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        with database:  # COMMIT at its end, or ROLLBACK
            if database.execute("SELECT 1 FROM taken WHERE signal_id = ?", [signal.id]).fetchone():
                return None
            action = self._act(signal, now)
            database.execute("INSERT INTO taken VALUES (?, ?, ?)", [signal.id, signal.timestamp.timestamp(), action])
        return action

    def _act(self, signal: StreamSignal, now: float) -> str:
        database, token = self._database, signal.token_address
        if signal.price_usd <= 0:
            return "no price"
        held = database.execute("SELECT stakes, units FROM positions WHERE token = ?", [token]).fetchone()
        if signal.direction == "SELL" and held:
            stakes, units = held
            result = units * signal.price_usd - stakes * STAKE
            database.execute("DELETE FROM positions WHERE token = ?", [token])
            database.execute("INSERT INTO results VALUES (?, ?, ?)", [signal.id, signal.token_symbol, result])
            return f"sold, {result:+.2f} USD"
        if signal.direction == "BUY" and now - signal.timestamp.timestamp() > STALE:
            return "too old"
        [stakes] = database.execute("SELECT coalesce(sum(stakes), 0) FROM positions").fetchone()
        if signal.direction == "BUY" and stakes < MOST:
            database.execute(
                "INSERT INTO positions VALUES (?, ?, 1, ?) "
                "ON CONFLICT (token) DO UPDATE SET stakes = stakes + 1, units = units + excluded.units",
                [token, signal.token_symbol, STAKE / signal.price_usd],
            )
            return "bought"
        return "nothing to do"

    def missed(self, gap: Gap) -> None:
        """Signals of that time may be missing: check the positions."""
        row = [gap.start.isoformat(), gap.end.isoformat(), gap.reason]
        self._database.execute("INSERT INTO missed VALUES (?, ?, ?)", row)

    def positions(self) -> dict[str, str]:
        """Symbols of what it holds, by address (symbols are not unique)."""
        return dict(self._database.execute("SELECT token, symbol FROM positions ORDER BY rowid"))

    def taken(self) -> int:
        [count] = self._database.execute("SELECT count(*) FROM taken").fetchone()
        return int(count)

    def close(self) -> None:
        self._database.close()


def run(
    client: TradeClient,
    file: Path,
    *,
    clock: Clock | None = None,
    say: Callable[[str], object] = print,
    settle: float = 3.0,
) -> None:
    """Follow the signals. The run may be killed at any time: the next one continues."""
    clock = clock or SystemClock()
    checkpoint = file.with_suffix(".checkpoint.json")
    with (
        closing(Book(file)) as book,
        client.signals.stream(
            chain=BASE, min_confidence=SURE, checkpoint=checkpoint, manual_ack=True, reports=True, settle=settle
        ) as stream,
    ):
        say(f"following; {book.taken()} signals are in the book")
        for item in stream:
            if isinstance(item, StreamSignal):
                action = book.take(item, clock.now())
                say(f"{item.direction:<4} {item.token_symbol:<7} {action or 'was in the book already'}")
                stream.ack(item)  # only when it is in the book
            elif isinstance(item, Gap):
                book.missed(item)
                say(f"signals may be missing: {item.reason}")


class Crash(Exception):
    """Raised in the rehearsal instead of kill -9."""


def rehearse() -> None:
    """Two runs. The first crashes at the worst moment: the signal is in the book, but not acknowledged."""
    clock = MockClock(1_800_000_000)

    def until(lines: int) -> Callable[[str], None]:
        said: list[str] = []

        def say(text: str) -> None:
            print(text)
            said.append(text)
            if len(said) == lines:
                raise Crash

        return say

    with (
        tempfile.TemporaryDirectory() as folder,
        MockService(seed=7, clock=clock) as mock,
        httpx.Client(transport=mock.transport()) as http,
        TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=clock) as client,
    ):
        mock.add_fault("drop", route="/v1/signals/stream", after=4, how="reset", nth=2)
        for lines in (5, 10):
            try:
                run(client, Path(folder) / "bot.sqlite3", clock=clock, say=until(lines))
            except Crash:
                print("-- crash --")
                clock.advance(20)
        with closing(Book(Path(folder) / "bot.sqlite3")) as book:
            print(f"{book.taken()} signals in the book, positions: {', '.join(book.positions().values())}")


def stop(number: int, frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        with TradeClient() as client:
            run(client, Path(sys.argv[1] if len(sys.argv) > 1 else "signal_bot.sqlite3"))
    else:
        rehearse()
