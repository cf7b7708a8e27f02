"""A fleet on a real server for the tests of its signals: its relay stores what a test says, members take it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tradesdk import Gap, StreamSignal, TradeClient
from tradesdk._fleet.bodies import stored
from tradesdk._fleet.signals import Relay
from tradesdk._postgres.server import server
from tradesdk.fleet import FleetRelay, FleetSignal, FleetSignals
from tradesdk_mock import MockServer

from .. import _answers
from .._postgres import Postgres, Proxy
from ._streamhouse import QUICKLY, key_of

CHAIN = 8453
SERVICE = "https://api.example.com"
BEGAN = 1_760_000_000
numbers = itertools.count(1)
# Members without a group and of one, where both do the same: the quick run plays one.
GROUPS = [pytest.param(None, marks=pytest.mark.long), "bots"]


def signal(when: float = BEGAN + 100, **fields: object) -> StreamSignal:
    made = _answers.signal(f"sig_{next(numbers)}", type="signal", timestamp=when)
    return StreamSignal.model_validate(made | fields)


class Fleet:
    """Tables that are empty, with members and a relay that stores what a test says."""

    def __init__(self, postgres: Postgres, schema: str) -> None:
        self.postgres, self.url, self.schema = postgres, postgres.url(), schema
        self._stack = ExitStack()
        self.relay = self.relayed()
        emptied = [f"DELETE FROM {table}" for table in ("relays", "signals", "groups", "pending", "once", "members")]  # noqa: S608
        emptied.append("ALTER TABLE signals ALTER COLUMN seq RESTART")
        self.relay.link.run(*((statement, ()) for statement in emptied))
        assert self.relay.take(BEGAN) == 0

    def relayed(self, service: str = SERVICE, lease: float = 600) -> Relay:
        relay = Relay(server(self.url, self.schema), CHAIN, service, lease=lease, keep=3600)
        self._stack.callback(relay.link.close)
        return relay

    def member(self, group: str | None = "bots", **options: object) -> FleetSignals:
        given = {"chain": CHAIN, "group": group, "base_url": SERVICE, "url": self.url, "schema": self.schema} | options
        member = FleetSignals(**given)  # type: ignore[arg-type]
        self._stack.callback(member.close)
        return member

    def publish(self, *signals: StreamSignal | Gap) -> list[str]:
        for each in signals:
            self.relay.add(stored(each))
        return [getattr(each, "id", "gap") for each in signals]

    def do(self, statement: str) -> None:
        self.postgres.do(f"SET search_path TO {self.schema}; {statement}")

    def time_passes(self) -> None:
        """All leases of signals are over."""
        self.do("UPDATE pending SET until = clock_timestamp() WHERE owner <> ''")

    def forgets(self) -> None:
        """All that is stored is old, and the service is far after it: it is deleted."""
        self.do("UPDATE relays SET position = position + 1000")
        self.grows_old()

    def grows_old(self) -> None:
        """All that is stored is old, and the relay deletes what it may."""
        self.do("UPDATE signals SET stored = stored - interval '2 hours'")
        self.relay.trim()

    def close(self) -> None:
        self._stack.close()


def joined(member: FleetSignals) -> FleetSignals:
    """A member that has a position, or a group that has one."""
    member._member.look()
    return member


def ids(member: FleetSignals, count: int) -> list[str]:
    return [item.id if isinstance(item, FleetSignal) else "gap" for item in itertools.islice(member, count)]


def through(proxy: Proxy, fleet: Fleet) -> str:
    return fleet.url.replace(f":{fleet.postgres.port}/", f":{proxy.port}/")


@contextmanager
def trading(service: MockServer) -> Iterator[TradeClient]:
    with TradeClient(api_key=key_of(service), base_url=service.url, retry=QUICKLY) as trade:
        yield trade


def emitted(service: MockServer, count: int) -> list[str]:
    return [service.emit_signal(chain_id=CHAIN).id for _ in range(count)]


@contextmanager
def running(relay: FleetRelay) -> Iterator[list[BaseException]]:
    ended: list[BaseException] = []

    def run() -> None:
        try:
            relay.run()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        relay.close()
        thread.join()


def heard(caplog: pytest.LogCaptureFixture, name: str, times: int = 1) -> Callable[[], bool]:
    return lambda: sum(getattr(record, "event", "") == name for record in caplog.records) >= times


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never happened")
