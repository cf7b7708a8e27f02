"""The example bot, really killed: every signal is acted on exactly once, in order, wherever its process ends."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import StreamSignal, TradeClient
from tradesdk_mock import MockClock, MockServer, MockService

from .. import _answers
from .._pages import ROOT
from .._seeds import drawn

BOT = ROOT / "examples" / "signal_bot.py"
TOKENS = ("BRETT", "AERO", "DEGEN", "LINK")
LAST = "PRIME"  # no other signal has this token

# The bot with a shorter settling time, which kills itself at one place, the nth time that it comes there:
# `act`: acted on it, not committed; `book`: committed, not acknowledged; `replace`: the checkpoint is written anew, and
# not yet in its place; `write`: a line of it is about to be written; `ack`: acknowledged. Nothing of the bot itself is
# changed.
DRIVER = """
import os, signal, sys
from pathlib import Path
from tradesdk import SignalStream, TradeClient
from tradesdk._stream import checkpoint
checkpoint.WAIT = 0.0  # a write for each signal
sys.path.insert(0, sys.argv[1])
import signal_bot

place, left = sys.argv[3], int(sys.argv[4])

def die(here):
    global left
    if here == place:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def watched(owner, name, here, before=False):
    real = getattr(owner, name)
    def call(*args, **options):
        if before:
            die(here)
        result = real(*args, **options)
        if not before:
            die(here)
        return result
    setattr(owner, name, call)

def say(text):
    print(text, flush=True)
    if text.startswith("following"):
        watched(os, "write", "write", before=True)
    else:
        die("book")

watched(signal_bot.Book, "_act", "act")
watched(SignalStream, "ack", "ack")
watched(os, "replace", "replace", before=True)
with TradeClient() as client:
    signal_bot.run(client, Path(sys.argv[2]), say=say, settle=0.1)
"""

# What was done, in order and without a key that could hide a second time.
WATCH = """
    CREATE TABLE acts (number INTEGER PRIMARY KEY, what TEXT, symbol TEXT);
    CREATE TRIGGER bought AFTER INSERT ON positions BEGIN
        INSERT INTO acts (what, symbol) VALUES ('bought', new.symbol); END;
    CREATE TRIGGER more AFTER UPDATE ON positions BEGIN
        INSERT INTO acts (what, symbol) VALUES ('bought', new.symbol); END;
    CREATE TRIGGER sold AFTER DELETE ON positions BEGIN
        INSERT INTO acts (what, symbol) VALUES ('sold', old.symbol); END;
"""


class Market:
    """Signals that the mock publishes, and what a bot should have done on them."""

    def __init__(self, server: MockServer, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._held: dict[str, int] = {}
        self.ids: list[str] = []
        self.acts: list[tuple[str, str]] = []

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self._emit(self._chance.choice(TOKENS), self._chance.choice(("BUY", "SELL")))

    def publish_the_last(self) -> None:
        self._emit(LAST, "SELL")

    def _emit(self, token: str, direction: Any) -> None:
        self.ids.append(self._server.emit_signal(token=token, direction=direction, confidence=0.9).id)
        if direction == "BUY" and sum(self._held.values()) < 5:
            self._held[token] = self._held.get(token, 0) + 1
            self.acts.append(("bought", token))
        elif direction == "SELL" and self._held.pop(token, 0):
            self.acts.append(("sold", token))


@contextmanager
def bot(server: MockServer, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "PYTEST_"))}
    env = {**clean, "TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        too_long = threading.Timer(300, child.kill)
        too_long.start()
        try:
            yield child
        finally:
            too_long.cancel()
            child.kill()


def wait_for(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    said = []
    for line in child.stdout:
        said.append(line)
        if word in line:
            return
    pytest.fail(f"it ended with {child.wait()} and never said {word!r}:\n{''.join(said)}")


def run_and_kill(server: MockServer, market: Market, file: Path, place: str, number: int, seed: int) -> None:
    """One life of the bot, to its end at `place`, or at any moment when that is empty."""
    chance = random.Random(seed)
    with bot(server, "-c", DRIVER, BOT.parent, file, place or "nowhere", str(number)) as child:
        if place != "replace":  # it is first written before that is said
            wait_for(child, "following")
        market.publish(number + 3)
        if not place:
            time.sleep(chance.uniform(0, 0.4))
            child.kill()
        assert child.wait(120) == -signal.SIGKILL
    market.publish(2)  # nobody is there


def killed_often(tmp_path: Path, lives: list[tuple[str, int]], seed: int) -> None:
    file = tmp_path / "bot.sqlite3"
    load_bot().Book(file).close()
    with closing(sqlite3.connect(file)) as database:
        database.executescript(WATCH)
    with MockServer(seed=7, signals="scripted") as server:
        market = Market(server, seed)
        for life, (place, number) in enumerate(lives):
            run_and_kill(server, market, file, place, number, seed * 1000 + life)
        with bot(server, BOT, file) as child:  # as it is, to its regular end
            wait_for(child, "following")
            market.publish_the_last()
            wait_for(child, LAST)
            child.terminate()
            assert child.wait() == 0
        streams = len(server.requests("GET", "/v1/signals/stream"))
    with closing(sqlite3.connect(file)) as database:
        taken = [row[0] for row in database.execute("SELECT signal_id FROM taken ORDER BY rowid")]
        acts = database.execute("SELECT what, symbol FROM acts ORDER BY number").fetchall()
        assert database.execute("SELECT * FROM missed").fetchall() == []
    assert taken == market.ids
    assert acts == market.acts
    assert streams == len(lives) + 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing can be killed like this here")
class TestKilled:
    @pytest.mark.long
    def test_wherever_it_hurts(self, tmp_path: Path) -> None:
        killed_often(tmp_path, [("act", 2), ("book", 4), ("replace", 1), ("write", 3), ("", 6)], seed=1)

    @pytest.mark.long
    @pytest.mark.parametrize("seeds", drawn("TRADE_BOT_SEEDS", 1, together=1))
    def test_at_any_moment(self, tmp_path: Path, seeds: range) -> None:
        for seed in seeds:
            chance = random.Random(seed)
            places = ["act", "book", "write", "ack", "", "", "", ""]
            lives = [(chance.choice(places), chance.randint(1, 12)) for _ in range(12)]
            killed_often(tmp_path, [*lives, ("replace", 1)], seed)


# What it decides, without a process of its own.


def load_bot() -> Any:
    spec = importlib.util.spec_from_file_location("signal_bot", BOT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Enough(Exception):
    pass


def until(count: int, lines: list[str]) -> Callable[[str], None]:
    def say(text: str) -> None:
        lines.append(text)
        if len(lines) == count:
            raise Enough

    return say


@contextmanager
def in_process() -> Iterator[tuple[MockService, TradeClient]]:
    with (
        MockService(seed=7, clock=MockClock(1_800_000_000), signals="scripted") as mock,
        httpx.Client(transport=mock.transport()) as http,
        TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=mock.clock) as client,
    ):
        yield mock, client


def live(client: TradeClient, mock: MockService, file: Path, lines: int) -> list[str]:
    """What the bot says until it has said so many lines."""
    said: list[str] = []
    with pytest.raises(Enough):
        load_bot().run(client, file, clock=mock.clock, say=until(lines, said))
    return said


def test_what_it_does(tmp_path: Path) -> None:
    """Buys, sells what it holds, and holds no more than it may."""
    script: list[tuple[str, Any, float]] = [
        ("BRETT", "BUY", 1.0),
        ("BRETT", "BUY", 2.0),
        ("BRETT", "SELL", 1.5),
        ("BRETT", "SELL", 1.5),
    ]
    script += [(token, "BUY", 2.0) for token in ("AERO", "DEGEN", "LINK", "PRIME", "BRETT", "TOSHI")]
    with in_process() as (mock, client):
        for place, (token, side, price) in enumerate(script):
            at = 1_800_000_010 + place
            mock.emit_signal(token=token, direction=side, confidence=0.9, price_usd=price, at=at)
        mock.emit_signal(token="KEYCAT", direction="BUY", confidence=0.69, at=1_800_000_015)  # not sure enough
        said = live(client, mock, tmp_path / "bot.sqlite3", 1 + len(script))
    actions = ["bought", "bought", "sold, +25.00 USD", "nothing to do", *["bought"] * 5, "nothing to do"]
    assert said[0] == "following; 0 signals are in the book"
    assert said[1:] == [
        f"{side:<4} {token:<7} {action}" for (token, side, _), action in zip(script, actions, strict=True)
    ]


def test_on_old_signals_nothing_is_bought(tmp_path: Path) -> None:
    with in_process() as (mock, client):
        mock.emit_signal(token="BRETT", direction="BUY", confidence=0.9, at=1_800_000_010)
        live(client, mock, tmp_path / "bot.sqlite3", 2)
        mock.emit_signal(token="AERO", direction="BUY", confidence=0.9)
        mock.clock.advance(3600)
        said = live(client, mock, tmp_path / "bot.sqlite3", 3)
    assert said[1:] == ["BUY  BRETT   was in the book already", "BUY  AERO    too old"]


NOW = 1_800_000_000
ADDRESS = "0x532f27101965dd16442E59d40670FaF5eBB142E4"


def take(book: Any, *, later: float = 0, **fields: Any) -> str | None:
    """What it does on a signal that it gets so many seconds later."""
    known = _answers.signal(f"sig_{book.taken()}", token_address=ADDRESS, direction="BUY", price_usd=2.0, timestamp=NOW)
    action: str | None = book.take(StreamSignal.model_validate({"type": "signal"} | known | fields), NOW + later)
    return action


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Any]:
    with closing(load_bot().Book(tmp_path / "bot.sqlite3")) as book:
        yield book


def test_what_it_holds_is_sold_however_late_the_signal_comes(book: Any) -> None:
    assert take(book) == "bought"
    assert take(book, later=301) == "too old"
    assert take(book, later=86_400, direction="SELL", price_usd=1.0) == "sold, -50.00 USD"
    assert take(book, later=86_400, direction="SELL") == "nothing to do"
    assert book.positions() == {}


@pytest.mark.parametrize("direction", ["BUY", "SELL"])
@pytest.mark.parametrize("price", [0, -1.0])
def test_without_a_price_nothing_is_done(book: Any, direction: str, price: float) -> None:
    assert take(book) == "bought"
    assert take(book, direction=direction, price_usd=price) == "no price"
    assert list(book.positions().values()) == ["BRETT"]
    assert book.taken() == 2


def test_tokens_that_share_a_symbol_are_tokens_of_their_own(book: Any) -> None:
    addresses = [f"0x{number:040x}" for number in range(9)]
    done = [take(book, token_address=address, token_symbol="ETH") for address in addresses]
    assert done == ["bought"] * 5 + ["nothing to do"] * 4
    assert book.positions() == dict.fromkeys(addresses[:5], "ETH")
    assert take(book, token_address=addresses[7], token_symbol="ETH", direction="SELL") == "nothing to do"
    assert take(book, token_address=addresses[2], token_symbol="ETH", direction="SELL") == "sold, +0.00 USD"
    assert take(book, token_address=addresses[7], token_symbol="ETH") == "bought"


def test_a_gap_is_in_the_book(tmp_path: Path) -> None:
    file = tmp_path / "bot.sqlite3"
    with in_process() as (mock, client):
        for after in (10, 20):
            mock.emit_signal(token="BRETT", confidence=0.9, after=after)
        live(client, mock, file, 2)
        mock.add_fault("status", route="/v1/signals/history", status=500)
        said = live(client, mock, file, 2)
    assert said[1].startswith("signals may be missing: the history cannot be read: 500")
    with closing(sqlite3.connect(file)) as database:
        [(start, _, reason)] = islice(database.execute("SELECT * FROM missed"), 2)
    assert start == "2027-01-15T08:00:00+00:00"  # where the checkpoint stands: the first signal was not acknowledged
    assert reason in said[1]
