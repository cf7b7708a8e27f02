"""What reads for the board: a thread for lists in turn, and one for each stream of signals."""

from __future__ import annotations

import queue
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES, CHAINS
from tradesdk_cli.errors import CliError
from tradesdk_cli.explain import problem_of
from tradesdk_cli.output.printer import Output
from tradesdk_cli.session import wire, wire_all
from tradesdk_cli.text import one_line
from tradesdk_cli.top.state import CONNECTING, Board, News, after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tradesdk_cli.session import Session

_PAGE, _PAGES = 100, 5
_SHARE, _USUAL_LIMIT = 3, 60
_ROUND = 60.0
_STREAM_AGAIN = 30.0
_TICK, _JOIN = 0.2, 2.0


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
        """`interval`: seconds after which positions are read again; `chain`: the only one that is looked at."""
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._run, self._chain, self._interval = run, chain, interval
        self._over = threading.Event()
        self._chains = [chain] if chain is not None else list(CHAINS.values())
        self._agents: list[str] = []
        self._streams: list[Any] = []
        self._threads: list[threading.Thread] = []

    def first(self) -> Board:
        """Reads the account, so that what is wrong with key or address ends the command; then the board begins."""
        board = Board(target=self._run.target().text, chain=self._chain)
        for news in read(self._run, "account"):
            board = after(board, news)
        return board

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
        """Positions after each interval and the rest once a minute, with at most a third of the rate limit."""
        due = {"positions": 0.0, "rest": 0.0}
        rest, last, failures = self._rest(), "", 0
        while not self._over.is_set():
            now = time.monotonic()
            ready = [name for name in due if due[name] <= now]
            if not ready:
                self._over.wait(min(_TICK, min(due.values()) - now))
                continue
            turn = next((name for name in ready if name != last), ready[0])
            job, again = ("positions", self._interval) if turn == "positions" else next(rest)
            last, due[turn] = turn, now + again
            try:
                for news in read(self._run, job):
                    self.news.put(news)
                    if news.kind == "agents":
                        self._agents = [one["id"] for one in news.data if self._chain in (None, one["chain_id"])]
                self.put("well", None, "service")
                failures, pause = 0, 0.0
            except Exception as error:
                if self._over.is_set():
                    return
                failures += 1
                pause = self._failed(job, error, failures)
            limit = self._run.client.rate_limit
            self._over.wait(max(pause, _ROUND * _SHARE / ((limit and limit.limit) or _USUAL_LIMIT)))

    def _rest(self) -> Iterator[tuple[str, float]]:
        """What is read besides positions, each with the seconds until the next one: at first there are none."""
        first = ["agents", *(f"signals {chain}" for chain in self._chains)]  # the streams bring later signals
        again = 0.0
        while True:
            for job in (*first, *(["agents"] if not first else []), "trades", "usage", "account"):
                yield job, again
            for agent in self._agents:
                yield f"agent {agent}", again
            first, again = [], _ROUND / (4 + len(self._agents))

    def _failed(self, job: str, error: Exception, failures: int) -> float:
        """Says so, and returns the seconds until the next request."""
        if job.startswith("agent ") and is_about_one(error):
            # Deleted since the list was read, and the next list says so; or nobody can ask for it.
            self.put("agent", {}, job.removeprefix("agent "))
            return 0.0
        pause: float = max(getattr(error, "retry_after", None) or 0.0, min(60.0, 2.0 ** min(failures, 6)))
        headline = problem_of(error, self._run.settings.program).headline
        self.put("problem", f"{headline}; trying again in {pause:.0f} s", "service")
        return pause

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
                self.put("signals", [wire(item)])
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


def read(run: Session, job: str) -> Iterator[News]:
    """Reads one kind of data: a word, and a key after it."""
    kind, _, key = job.partition(" ")
    client = run.client

    def pages(pager: Any, most: int) -> list[dict[str, Any]]:
        return [item for page in islice(pager.pages(), most) for item in wire_all(page.data)]

    readers: dict[str, Callable[[], Any]] = {
        "account": lambda: wire(client.account.get()),
        "usage": lambda: wire(client.account.usage()),
        "agents": lambda: pages(client.agents.list(limit=_PAGE), _PAGES),
        "positions": lambda: pages(client.positions.list(limit=_PAGE), _PAGES),
        "trades": lambda: pages(client.trades.list(status="closed", limit=_PAGE), 1),
        "agent": lambda: wire(client.agents.get(key)),
        "signals": lambda: wire_all(client.signals.latest(chain=int(key), limit=50)),
    }
    yield News(kind, readers[kind](), time.monotonic(), key)
    yield News("limit", client.rate_limit, time.monotonic())
    if kind == "usage":
        yield News("money", money(run), time.monotonic())


def money(run: Session) -> dict[str, Any]:
    """What was spent on market data today and what is left of the budget; or the `problem` with the ledger."""
    from tradesdk import Budget, TradeError
    from tradesdk_cli.pay.records import spending_record

    try:
        return spending_record(run.ledger.spending(Budget.from_environment(), now=run.now()))
    except (TradeError, CliError) as error:
        return {"problem": one_line(str(error), 200)}
