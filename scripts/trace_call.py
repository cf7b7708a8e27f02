"""Shows which files a call enters, and how often it jumps from one to another.

    python scripts/trace_call.py                      the totals of every call
    python scripts/trace_call.py tick sdk-get         these calls, with a table of their files
    python scripts/trace_call.py --order agents       also the files in the order in which they are entered
    python scripts/trace_call.py --package sdk        the totals of the calls that are traced in the SDK

Every call runs in this process, in a world of its own with a frozen clock: once to warm up, then once traced. Only the
files of one package count: those of `tradesdk_mock`, those of `tradesdk` for calls that begin with `sdk-`, and those of
`tradesdk_cli` for those that begin with `cli-`: whole commands on the embedded mock.

What is counted is the start of a function of the package. A generator that is resumed starts again; a function that
ends is not counted, so coming back to the caller's file shows when that file starts its next function.

    entries   functions that were started
    files     different files in which they stand
    moves     starts in another file than the start before
    returns   moves to a file that was entered before: the moves that a reader makes beyond opening each file once.
              So returns = moves - (files - 1).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from types import FrameType

import httpx

import tradesdk
import tradesdk_cli
import tradesdk_mock
from tradesdk import Budget, Ledger, LocalSigner, MarketClient, TradeClient
from tradesdk_cli.__main__ import main as trade
from tradesdk_mock import MockClock, MockService

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mock._paying import offer_of, pay

START = 1_800_000_000
KEY = "mock_full_main"
FOLDERS = {"mock": tradesdk_mock.__file__, "sdk": tradesdk.__file__, "cli": tradesdk_cli.__file__}
Call = Callable[[], object]


@dataclass
class Trace:
    """The files in which functions started, in order, as paths below their package."""

    package: str
    entries: list[str] = field(default_factory=list)

    @property
    def order(self) -> list[str]:
        """Without the starts that stay in the same file."""
        return self.entries[:1] + [after for before, after in pairwise(self.entries) if before != after]

    def totals(self) -> dict[str, int]:
        order = self.order
        moves, files = max(0, len(order) - 1), len(set(order))
        return {"files": files, "entries": len(self.entries), "moves": moves, "returns": len(order) - files}


@contextmanager
def tracing(package: str) -> Iterator[Trace]:
    """Note the functions that start meanwhile, in this thread and in those that it starts."""
    folder = Path(FOLDERS[package] or "").parent
    found, known = Trace(package), dict[str, str | None]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        path = frame.f_code.co_filename
        if path not in known:
            inside = Path(path).is_relative_to(folder)
            known[path] = Path(path).relative_to(folder).as_posix() if inside else None
        name = known[path]
        if name is not None:
            found.entries.append(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@dataclass
class World:
    """A populated world, and clients that reach it without a socket."""

    mock: MockService
    http: httpx.Client
    trade: TradeClient
    market: MarketClient

    def get(self, path: str) -> httpx.Response:
        answer = self.http.get(path, headers={"Authorization": f"Bearer {KEY}"})
        return answer.raise_for_status()


@contextmanager
def world() -> Iterator[World]:
    clock = MockClock(START)
    with ExitStack() as stack:
        mock = stack.enter_context(MockService(seed=7, clock=clock))
        mock.populate("main")
        http = stack.enter_context(httpx.Client(transport=mock.transport(), base_url=mock.url, trust_env=False))
        trade = stack.enter_context(TradeClient(api_key=KEY, base_url=mock.url, clock=clock, http_client=http))
        ledger = Ledger(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ledger.sqlite3")
        stack.callback(ledger.close)
        signer, budget = LocalSigner.from_key("0x" + "03" * 32), Budget(per_day="1")
        market = MarketClient(
            signer=signer, budget=budget, ledger=ledger, base_url=mock.url, clock=clock, http_client=http
        )
        yield World(mock, http, trade, stack.enter_context(market))


def agents(world: World) -> Call:
    """GET /v1/agents?limit=2."""
    return lambda: world.get("/v1/agents?limit=2")


def paid(world: World) -> Call:
    """POST /v1/token-prices twice: answered with 402, and with the prices once it is paid."""
    numbers, body = count(1), {"tokens": [{"identifier": "BRETT"}]}

    def call() -> None:
        asked = world.http.post("/v1/token-prices", json=body)
        # Signed by a library: nothing of that is in a traced file.
        payment = pay(offer_of(asked.headers), world.mock.clock.now(), next(numbers))
        world.http.post("/v1/token-prices", json=body, headers=payment).raise_for_status()

    return call


def tick(world: World) -> Call:
    """60 seconds pass with every agent active, then GET /v1/positions brings them up to date."""
    for agent in world.get("/v1/agents?limit=100").json()["data"]:
        world.mock.set_agent_status(agent["id"], "active")

    def call() -> None:
        world.mock.clock.advance(60)
        world.get("/v1/positions")

    return call


def stream(world: World) -> Call:
    """GET /v1/signals/stream, until the first signal has come."""

    def call() -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        with world.http.stream("GET", "/v1/signals/stream?chain=8453", headers=headers, timeout=60) as answer:
            next(line for line in answer.iter_lines() if line.startswith("data:") and '"signal"' in line)

    return call


def sdk_get(world: World) -> Call:
    """client.agents.list(limit=2).first()"""
    return lambda: world.trade.agents.list(limit=2).first()


def sdk_paid(world: World) -> Call:
    """client.token_prices(["BRETT"]), paid."""
    return lambda: world.market.token_prices(["BRETT"])


def sdk_stream(world: World) -> Call:
    """client.signals.stream(chain=8453), until the first signal has come."""

    def call() -> None:
        with world.trade.signals.stream(chain=8453) as signals:
            next(iter(signals))

    return call


def command(*words: str) -> Callable[[World], Call]:
    """A command of `trade`, by what is typed behind it."""

    def made(_: World) -> Call:
        def call() -> None:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = trade(["--mock", *words])
            if code != 0:
                raise RuntimeError(said.getvalue())

        return call

    made.__doc__ = f"trade --mock {' '.join(words)}"
    return made


COMMANDS = {
    "cli-list": command("agents", "list", "-o", "json"),
    "cli-update": command("agents", "update", "base-slow", "--stop-loss-pct", "4", "--yes"),
    "cli-stream": command("signals", "stream", "--chain", "base", "--count", "1", "--since", "1h"),
    "cli-prices": command("market", "prices", "ETH", "--max-price", "0.05"),
    "cli-top": command("top", "--once"),
}
CALLS: dict[str, Callable[[World], Call]] = {
    call.__name__.replace("_", "-"): call for call in (agents, paid, tick, stream, sdk_get, sdk_paid, sdk_stream)
} | COMMANDS


def package_of(name: str) -> str:
    return {"sdk": "sdk", "cli": "cli"}.get(name.partition("-")[0], "mock")


def traced(name: str) -> Trace:
    """One of `CALLS`, traced the second time."""
    with world() as made, tempfile.TemporaryDirectory() as home:
        os.environ["TRADE_HOME"] = home
        call = CALLS[name](made)
        call()
        with tracing(package_of(name)) as found:
            call()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", nargs="*", metavar="CALL", help=f"by default all of: {', '.join(CALLS)}")
    parser.add_argument(
        "--package", choices=["mock", "sdk", "cli", "all"], default="all", help="only calls traced in it"
    )
    parser.add_argument("--order", action="store_true", help="print the files in the order in which they are entered")
    chosen = parser.parse_args()
    for name in chosen.calls:
        if name not in CALLS:
            parser.error(f"{name!r} is not a call; there are: {', '.join(CALLS)}")
    names = [name for name in chosen.calls or CALLS if chosen.package in (package_of(name), "all")]
    traces = {name: traced(name) for name in names}
    for name, found in traces.items():
        if chosen.calls:
            print(f"{name}: {CALLS[name].__doc__}")
            entries, visits = Counter(found.entries), Counter(found.order)
            print(f"  {'file':<32}{'entries':>9}{'visits':>9}")
            for file in dict.fromkeys(found.order):
                print(f"  {file:<32}{entries[file]:>9}{visits[file]:>9}")
            print()
        if chosen.order:
            print(f"{name} enters {' > '.join(found.order)}\n")
    print(f"{'call':<14}{'files':>9}{'entries':>9}{'moves':>9}{'returns':>9}")
    for name, found in traces.items():
        print(f"{name:<14}" + "".join(f"{number:>9,}" for number in found.totals().values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
