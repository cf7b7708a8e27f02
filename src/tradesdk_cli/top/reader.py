"""Threads that read for the board: one for lists in turn, one for each stream of signals."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES, CHAINS
from tradesdk_cli.errors import CliError
from tradesdk_cli.explain import problem_of
from tradesdk_cli.output.printer import Output
from tradesdk_cli.session import wire, wire_all
from tradesdk_cli.text import one_line
from tradesdk_cli.top.state import CONNECTING, Board, Limit, News, after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tradesdk import TradeClient
    from tradesdk_cli.session import Session

_PAGE = 100
_PAGES = 5
_CLOSED_PAGES = 1
_STREAM_AGAIN = 30.0
_TICK = 0.2
_JOIN = 2.0


_MINUTE, _SHARE, _RESERVE = 60.0, 3, 10
_ONCE = 1e12
_EVERY = {"agents": 20.0, "trades": 60.0, "usage": 120.0, "account": 600.0}
_AGENT = 60.0


class Schedule:
    """What is read next, and when: never more than a third of the rate limit in a minute. Told the time.

    Where that is too little to read everything on time, everything comes less often.
    """

    def __init__(self, interval: float, chains: Iterable[int]) -> None:
        """`interval`: seconds after which positions are read again; nothing else is read more often.

        The latest signals of `chains` are read once: from then on the streams bring them.
        """
        self._interval = interval
        self._every = {"positions": interval, **{kind: max(interval, every) for kind, every in _EVERY.items()}}
        self._every.update((f"signals {chain}", _ONCE) for chain in chains)
        self._last: dict[str, float] = {}
        self._sent: deque[float] = deque()
        self._allowed = 60 // _SHARE
        self._not_before, self._failures = 0.0, 0

    def next(self, now: float) -> str | None:
        """What to read now: `positions`, `agents`, `agent ID` …; None when nothing is due or it is too early."""
        while self._sent and self._sent[0] <= now - _MINUTE:
            self._sent.popleft()
        if now < self._not_before or len(self._sent) >= self._allowed:
            return None
        slower = max(1.0, sum(_MINUTE / every for every in self._every.values()) / self._allowed)
        late = {
            name: (now - self._last[name]) / (every * slower) if name in self._last else 1e6 - name.startswith("agent ")
            for name, every in self._every.items()
        }
        name = max(late, key=lambda name: late[name])
        if late[name] < 1:
            return None
        self._last[name] = now
        self.sent(now)
        return name

    def sent(self, now: float) -> None:
        """A request was sent."""
        self._sent.append(now)

    def agents(self, ids: list[str]) -> None:
        """These agents are to be read one by one as well."""
        wanted = {f"agent {one}": max(self._interval, _AGENT) for one in ids}
        kept = {name: every for name, every in self._every.items() if not name.startswith("agent ")}
        self._every = kept | wanted

    def learn(self, limit: Limit, *, wall: float, now: float) -> None:
        """What an answer said of the rate limit. When others have nearly used it up, the rest is left to them."""
        if limit.limit is not None and limit.limit > 0:
            self._allowed = max(1, limit.limit // _SHARE)
            if limit.remaining is not None and limit.reset is not None and limit.remaining * _RESERVE < limit.limit:
                self._not_before = max(self._not_before, now + min(max(limit.reset - wall, 0.0), _MINUTE))

    def failed(self, now: float, retry_after: float | None) -> float:
        """A read failed. Returns the seconds until the next one."""
        self._failures += 1
        pause: float = max(retry_after or 0.0, min(_MINUTE, 2.0 ** min(self._failures, 6)))
        self._not_before = max(self._not_before, now + pause)
        return pause

    def worked(self) -> None:
        """A read worked."""
        self._failures = 0


class HeldOutput(Output):
    """Notes become news, where a line on stderr would land in the middle of the board."""

    def __init__(self, output: Output, tell: Callable[[str], None]) -> None:
        vars(self).update(vars(output))
        self._tell = tell

    def note(self, text: str, **fields: Any) -> None:
        self._tell(text)

    def event(self, kind: str, text: str, **fields: Any) -> None:
        self._tell(text)


class Source:
    """Reads while it is entered, and puts what comes into `news`."""

    def __init__(self, run: Session, chain: int | None, interval: float) -> None:
        """`interval` is in seconds, `chain` the only one that is looked at."""
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._run, self._chain = run, chain
        self._over = threading.Event()
        self._chains = [chain] if chain is not None else list(CHAINS.values())
        self._schedule = Schedule(interval, self._chains)
        self._streams: list[Any] = []
        self._threads: list[threading.Thread] = []

    def first(self) -> Board:
        """Reads the account, so that what is wrong with key or address ends the command; then the board begins."""
        board = Board(target=self._run.target().text, chain=self._chain)
        account = wire(self._run.client.account.get())
        board = after(board, News("account", account, time.monotonic()))
        return after(board, News("limit", limit_of(self._run.client), time.monotonic()))

    def __enter__(self) -> Source:
        self._threads = [threading.Thread(target=self._read, name="trade-top", daemon=True)]
        for chain in self._chains:
            self._threads.append(threading.Thread(target=self._follow, args=(chain,), name="trade-top", daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join(_JOIN)  # one that waits for an answer is left behind: the process ends anyway

    def put(self, kind: str, data: Any, key: str = "") -> None:
        """Adds news of now."""
        self.news.put(News(kind, data, time.monotonic(), key))

    def drain(self, board: Board) -> Board:
        """The board with all news that have come since."""
        while True:
            try:
                board = after(board, self.news.get_nowait())
            except queue.Empty:
                return board

    def _read(self) -> None:
        while not self._over.is_set():
            job = self._schedule.next(time.monotonic())
            if job is None:
                self._over.wait(_TICK)
                continue
            try:
                for news in self._answers(job):
                    self.news.put(news)
                self._schedule.worked()
                self.put("well", None, "service")
            except Exception as error:
                if self._over.is_set():
                    return
                self._failed(job, error)
            self._learn()

    def _answers(self, job: str) -> Iterator[News]:
        sent = 0
        for news in read(self._run, job, self._chain):
            if news.kind == "page":
                sent += 1
                if sent > 1:
                    self._schedule.sent(news.at)
                continue
            if news.kind == "agents":
                self._schedule.agents([agent["id"] for agent in news.data if self._shown(agent)])
            yield news

    def _shown(self, agent: dict[str, Any]) -> bool:
        return self._chain is None or agent["chain_id"] == self._chain

    def _failed(self, job: str, error: Exception) -> None:
        problem = problem_of(error, self._run.settings.program)
        if job.startswith("agent ") and is_about_one(error):
            # Deleted since the list was read, and the next list says so; or nobody can ask for it.
            self.put("agent", {}, job.removeprefix("agent "))
            return
        pause = self._schedule.failed(time.monotonic(), getattr(error, "retry_after", None))
        self.put("problem", f"{problem.headline}; trying again in {pause:.0f} s", "service")

    def _learn(self) -> None:
        limit = limit_of(self._run.client)
        self._schedule.learn(limit, wall=self._run.now(), now=time.monotonic())
        self.put("limit", limit)

    def _follow(self, chain: int) -> None:
        from tradesdk import StreamEndedError

        name = CHAIN_NAMES[chain]
        while not self._over.is_set():
            self.put("stream", CONNECTING, name)
            try:
                with self._run.client.signals.stream(chain=chain, reports=True) as stream:
                    self._streams.append(stream)
                    if self._over.is_set():  # between opening and being known
                        stream.close()
                    self._take(stream, name)
                    return
            except StreamEndedError:
                self.put("stream", "ended by the service", name)
                return
            except Exception as error:
                if self._over.is_set():
                    return
                headline = problem_of(error, self._run.settings.program).headline
                self.put("stream", f"{headline}; trying again in {_STREAM_AGAIN:.0f} s", name)
                self._over.wait(_STREAM_AGAIN)

    def _take(self, stream: Any, name: str) -> None:
        from tradesdk import Connected, Disconnected, Gap, StreamSignal

        for item in stream:
            if isinstance(item, StreamSignal):
                self.put("signal", wire(item))
            elif isinstance(item, Connected):
                self.put("stream", "live", name)
            elif isinstance(item, Disconnected) and not self._over.is_set():
                self.put("stream", f"connecting again in {item.wait:.0f} s: {item.reason}", name)
            elif isinstance(item, Gap):
                self.put("note", f"signals of {name} may be missing: {item.reason}")


def quiet(run: Session, tell: Callable[[str], None]) -> None:
    """Has a session that has no client yet say nothing by itself, and try every request once only."""
    from dataclasses import replace

    run.settings = replace(run.settings, retries=0)
    run.out = HeldOutput(run.out, tell)


def is_about_one(error: Exception) -> bool:
    """True when reading one agent failed for what this agent is: the others can be read all the same."""
    from tradesdk import APIResponseError, InvalidArgumentError, NotFoundError

    return isinstance(error, (APIResponseError, InvalidArgumentError, NotFoundError))


def limit_of(client: TradeClient) -> Limit:
    """What the client knows of its rate limit."""
    known = client.rate_limit
    if known is None:
        return Limit()
    return Limit(known.limit, known.remaining, None if known.reset is None else known.reset.timestamp())


def read(run: Session, job: str, chain: int | None) -> Iterator[News]:
    """Reads one kind of data. Besides what it is, it yields a `page` for every request that was sent."""
    kind, _, key = job.partition(" ")
    client = run.client

    def news(what: str, data: Any) -> News:
        return News(what, data, time.monotonic(), key)

    def pages(pager: Any, most: int) -> Iterator[Any]:
        for number, page in enumerate(pager.pages(), 1):
            yield page
            if number == most:
                return

    if kind in ("agents", "positions", "trades"):
        found: list[dict[str, Any]] = []
        if kind == "trades":
            pager: Any = client.trades.list(status="closed", limit=_PAGE)
        else:
            pager = getattr(client, kind).list(limit=_PAGE)
        for page in pages(pager, _CLOSED_PAGES if kind == "trades" else _PAGES):
            yield news("page", None)
            found += wire_all(page.data)
        yield news(kind, found)
    elif kind == "agent":
        yield news("agent", wire(client.agents.get(key)))
    elif kind == "signals":
        yield news("signals", wire_all(client.signals.latest(chain=int(key), limit=50)))
    elif kind == "usage":
        yield news("usage", wire(client.account.usage()))
        yield news("money", money(run))
    else:
        yield news("account", wire(client.account.get()))


def money(run: Session) -> dict[str, Any]:
    """What was spent on market data today and what is left of the budget; or the `problem` with the ledger."""
    from tradesdk import Budget, TradeError
    from tradesdk_cli.purchase.records import spending_record

    try:
        now = run.now()
        record = spending_record(run.ledger.spending(Budget.from_environment(), now=now))
    except (TradeError, CliError) as error:
        return {"problem": one_line(str(error), 200)}
    return {name: record.get(name) for name in ("spent_today_usd", "held_today_usd", "left_today_usd", "next_call_usd")}
