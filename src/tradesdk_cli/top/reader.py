"""The state of the board, and its readers: one thread for lists, and one for each stream of signals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tradesdk import (
    APIResponseError,
    Budget,
    Connected,
    Disconnected,
    Gap,
    InvalidArgumentError,
    NotFoundError,
    StreamEndedError,
    StreamSignal,
    TradeError,
)
from tradesdk_cli.choices import CHAIN_NAMES, CHAINS
from tradesdk_cli.errors import CliError
from tradesdk_cli.explain import problem_of
from tradesdk_cli.output.printer import Output
from tradesdk_cli.pay.rows import spending_fields
from tradesdk_cli.run import Run, wire, wire_all
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import RateLimit


SIGNALS_KEPT = 200
_STATS = ("total_pnl_usd", "win_rate_pct", "total_trades")

Item = Mapping[str, Any]


@dataclass
class Board:
    """All data, as the service sent it. Threads `put` new data; stored data is never changed in place.

    Attributes:
        target: the service, for people.
        chain: the only chain to show; None: all.
        money: today's spending on market data, and what is left of the budget; or the `problem` with the ledger.
        details: whole agents, by id; empty if that failed.
        streams: the state of each chain's stream.
        problem: why the last request failed; None if it did not.
        now: Unix seconds by the clock of the service.
        read_at: when each part was read, by that clock.
    """

    target: str = ""
    chain: int | None = None
    account: Item | None = None
    usage: Item | None = None
    limit: RateLimit | None = None
    money: Item | None = None
    agents: Sequence[Item] = ()
    details: Mapping[str, Item] = field(default_factory=dict)
    positions: Sequence[Item] = ()
    signals: Sequence[Item] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    note: str = ""
    now: Callable[[], float] = time.time
    read_at: Mapping[str, float] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def put(self, part: str, data: Any, key: str = "") -> None:
        """Stores new data; `key` is the agent of `details` and the chain of `streams`."""
        with self._lock:
            if part == "signals":  # unique, newest first
                known = {signal["id"]: signal for signal in (*data, *self.signals)}
                data = sorted(known.values(), key=lambda signal: -signal["timestamp"])[:SIGNALS_KEPT]
            elif part in ("details", "streams"):
                data = {**getattr(self, part), key: data}
            elif part in ("agents", "positions") and self.chain is not None:
                data = [item for item in data if item.get("chain_id") == self.chain]
            setattr(self, part, data)
            self.read_at = {**self.read_at, part: self.now()}

    def agent_rows(self) -> list[dict[str, Any]]:
        """One row per agent, with `open`, `unrealized_pnl_usd`, and its statistics.

        Those are empty until the whole agent was read, and None when it has none.
        """
        rows = []
        for agent in self.agents:
            mine = [position for position in self.positions if position.get("agent_id") == agent["id"]]
            whole = self.details.get(agent["id"])
            stats = {} if whole is None else whole.get("stats") or {}
            row = {
                **agent,
                **{name: "" if whole is None else stats.get(name) for name in _STATS},
                "open": len(mine) if "positions" in self.read_at else None,
                "unrealized_pnl_usd": sum(position["unrealized_pnl_usd"] for position in mine) if mine else None,
            }
            rows.append(row)
        return rows


_PAGE, _MOST = 100, 500
_SHARE, _USUAL_LIMIT = 3, 60
_INTERVAL, _ROUND = 2.0, 60.0
"""Seconds between reads of positions, and of everything else."""
_STREAM_AGAIN = 30.0
_TICK, _JOIN = 0.2, 2.0


class HeldOutput(Output):
    """Shows notes on the board, where a line on stderr would garble it."""

    def __init__(self, output: Output, board: Board) -> None:
        vars(self).update(vars(output))
        self._board = board

    def note(self, *parts: str, **fields: Any) -> None:
        self._board.put("note", " · ".join(parts))

    def event(self, kind: str, text: str, **fields: Any) -> None:
        self.note(text)


class Source:
    """Updates a board while it is entered."""

    def __init__(self, run: Run, board: Board) -> None:
        self._run, self._board = run, board
        self._over = threading.Event()
        self._chains = chains_of(board)
        self._streams: list[Any] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Source:
        work: list[Callable[[], None]] = [self._read, *(partial(self._follow, chain) for chain in self._chains)]
        self._threads = [threading.Thread(target=one, name="trade-top", daemon=True) for one in work]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join(_JOIN)  # a thread that waits for an answer is abandoned: the process ends anyway

    def _read(self) -> None:
        """Positions every two seconds and the rest once a minute, with at most a third of the rate limit."""
        due = {"positions": 0.0, "rest": 0.0}
        rest, last, failures = self._rest(), "", 0
        while not self._over.is_set():
            now = time.monotonic()
            ready = [name for name in due if due[name] <= now]
            if not ready:
                self._over.wait(min(_TICK, min(due.values()) - now))
                continue
            turn = next((name for name in ready if name != last), ready[0])
            job, again = ("positions", _INTERVAL) if turn == "positions" else next(rest)
            last, due[turn] = turn, now + again
            try:
                read(self._run, self._board, job)
                self._board.put("problem", None)
                failures, pause = 0, 0.0
            except Exception as error:
                if self._over.is_set():
                    return
                failures += 1
                pause = self._failed(job, error, failures)
            limit = self._run.client.rate_limit
            self._over.wait(max(pause, _ROUND * _SHARE / ((limit and limit.limit) or _USUAL_LIMIT)))

    def _rest(self) -> Iterator[tuple[str, float]]:
        """The reads besides positions, each with the seconds until the next one; at first without pauses."""
        first = ["agents", *(f"signals {chain}" for chain in self._chains)]  # later signals come from the streams
        again = 0.0
        while True:
            for job in (*first, *(["agents"] if not first else []), "usage", "account"):
                yield job, again
            agents = [agent["id"] for agent in self._board.agents]
            for agent in agents:
                yield f"details {agent}", again
            first, again = [], _ROUND / (3 + len(agents))

    def _failed(self, job: str, error: Exception, failures: int) -> float:
        """Shows the error, and returns the seconds until the next request."""
        if skipped(self._board, job, error):
            return 0.0
        pause: float = max(getattr(error, "retry_after", None) or 0.0, min(60.0, 2.0 ** min(failures, 6)))
        headline = problem_of(error, self._run.settings.program).headline
        self._board.put("problem", f"{headline}; trying again in {pause:.0f} s")
        return pause

    def _follow(self, chain: int) -> None:
        name = CHAIN_NAMES[chain]
        while not self._over.is_set():
            self._board.put("streams", "connecting", name)
            try:
                with self._run.client.signals.stream(chain=chain, reports=True) as stream:
                    self._streams.append(stream)
                    if self._over.is_set():  # between opening and storing it
                        stream.close()
                    self._take(stream, name)
                    return
            except StreamEndedError:
                self._board.put("streams", "ended by the service", name)
                return
            except Exception as error:
                if self._over.is_set():
                    return
                headline = problem_of(error, self._run.settings.program).headline
                self._board.put("streams", f"{headline}; trying again in {_STREAM_AGAIN:.0f} s", name)
                self._over.wait(_STREAM_AGAIN)

    def _take(self, stream: Any, name: str) -> None:
        for item in stream:
            if isinstance(item, StreamSignal):
                self._board.put("signals", [wire(item)])
            elif isinstance(item, Connected):
                self._board.put("streams", "live", name)
            elif isinstance(item, Disconnected) and not self._over.is_set():
                self._board.put("streams", f"connecting again in {item.wait:.0f} s: {item.reason}", name)
            elif isinstance(item, Gap):
                self._board.put("note", f"signals of {name} may be missing: {item.reason}")


def chains_of(board: Board) -> list[int]:
    """The shown chains."""
    return [board.chain] if board.chain is not None else list(CHAINS.values())


def skipped(board: Board, job: str, error: Exception) -> bool:
    """True when only this agent cannot be read: its data is invalid, or it was deleted."""
    kind, _, agent = job.partition(" ")
    if kind != "details" or not isinstance(error, (APIResponseError, InvalidArgumentError, NotFoundError)):
        return False
    board.put("details", {}, agent)
    return True


def read(run: Run, board: Board, job: str) -> None:
    """Reads one part of the board, named by a word and a key."""
    part, _, key = job.partition(" ")
    client = run.client
    readers: dict[str, Callable[[], Any]] = {
        "account": lambda: wire(client.account.get()),
        "usage": lambda: wire(client.account.usage()),
        "agents": lambda: wire_all(client.agents.list(limit=_PAGE, max_items=_MOST)),
        "positions": lambda: wire_all(client.positions.list(limit=_PAGE, max_items=_MOST)),
        "details": lambda: wire(client.agents.get(key)),
        "signals": lambda: wire_all(client.signals.latest(chain=int(key), limit=50)),
    }
    board.put(part, readers[part](), key)
    board.put("limit", client.rate_limit)
    if part == "usage":
        try:
            money = spending_fields(run.ledger.spending(Budget.from_environment(), now=run.now()))
        except (TradeError, CliError) as error:
            money = {"problem": one_line(str(error), 200)}
        board.put("money", money)
