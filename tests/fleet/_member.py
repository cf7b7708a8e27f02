"""Processes of a fleet that tests kill: relays and members. They start from a server that has imported everything."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tradesdk import RetryPolicy, TradeClient
from tradesdk._fleet.client import load_redis
from tradesdk._sync.fleet import relay as _relay
from tradesdk._sync.fleet import shared_stream as _shared_stream

PRELOADED = (_relay, _shared_stream, load_redis("redis"))  # before processes are forked
QUICKLY = RetryPolicy(base=0.05, jitter=0.5, cap=0.5)
CHAIN = 8453


@dataclass(frozen=True)
class Place:
    """Where a process works: the fleet's server, the service, and a folder for what it writes down."""

    server: str
    service: str
    key: str
    folder: Path
    lease: float

    def client(self) -> TradeClient:
        return TradeClient(api_key=self.key, base_url=self.service, retry=QUICKLY)


def relay(place: Place, name: str) -> None:
    """Relay until killed."""
    _log(place, name)
    with (
        place.client() as client,
        client.signals.relay(chain=CHAIN, redis=place.server, member=name, lease=place.lease, settle=0.2) as offered,
    ):
        (place.folder / f"{name}.started").touch()
        offered.wait()


def member(place: Place, name: str, group: str | None, seconds: float) -> None:
    """Write down each signal before asking for the next: when, its id and whether it was marked."""
    _log(place, name)
    with (
        place.client() as client,
        client.signals.shared(chain=CHAIN, redis=place.server, group=group, member=name, lease=place.lease) as stream,
        (place.folder / f"{name}.{os.getpid()}.taken").open("ab", buffering=0) as file,
    ):
        (place.folder / f"{name}.started").touch()
        for each in stream:
            marks = f"{int(each.redelivered)}{int(each.replayed)}{int(each.late)}"
            file.write(f"{time.monotonic_ns()} {each.id} {marks}\n".encode())
            if seconds:
                time.sleep(seconds)


def _log(place: Place, name: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(filename=place.folder / f"{name}.log", level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)


class Processes:
    """Starts, kills, pauses and ends processes."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.fleet._member"])
        self.running: dict[str, BaseProcess] = {}

    def relay(self, name: str) -> None:
        self._start(name, relay, (self.place, name))

    def member(self, name: str, group: str | None = "bots", seconds: float = 0.0) -> None:
        self._start(name, member, (self.place, name, group, seconds))

    def _start(self, name: str, target: Any, arguments: Sequence[Any]) -> None:
        started = self.place.folder / f"{name}.started"
        started.unlink(missing_ok=True)
        process = self._context.Process(target=target, args=tuple(arguments), name=name, daemon=True)
        process.start()
        self.running[name] = process

    def wait_started(self, *names: str, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        for name in names:
            while not (self.place.folder / f"{name}.started").exists():
                assert time.monotonic() < end, name
                time.sleep(0.01)

    def send(self, name: str, number: int) -> None:
        pid = self.running[name].pid
        assert pid is not None
        os.kill(pid, number)

    def kill(self, name: str) -> None:
        self.send(name, signal.SIGKILL)
        self.running.pop(name).join()

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            with suppress(Exception):
                process.join(10)


@dataclass(frozen=True)
class Taken:
    """A line that a member wrote."""

    at: int
    id: str
    redelivered: bool
    replayed: bool
    late: bool
    life: str


def taken(folder: Path) -> list[Taken]:
    """What all members took, in the order of time."""
    found = []
    for file in folder.glob("*.taken"):
        for line in file.read_text().splitlines():
            at, signal_id, marks = line.split()
            found.append(Taken(int(at), signal_id, marks[0] == "1", marks[1] == "1", marks[2] == "1", file.stem))
    return sorted(found, key=lambda each: each.at)


@dataclass(frozen=True)
class Verdict:
    """What became of the signals that were published."""

    lost: int
    doubles: int
    unmarked: int
    disorder: int
    strange: int


def judged(published: Sequence[str], found: Sequence[Taken]) -> Verdict:
    """Each signal at least once; of its deliveries at most one without the mark; in order but for those marked."""
    places = {signal_id: place for place, signal_id in enumerate(published)}
    times: dict[str, list[Taken]] = {}
    last: dict[str, int] = {}
    disorder = strange = 0
    for each in found:
        place = places.get(each.id)
        if place is None:
            strange += 1
            continue
        times.setdefault(each.id, []).append(each)
        if not each.redelivered:
            if place < last.get(each.life, -1):
                print("out of order", each, place, last[each.life])
                disorder += 1
            last[each.life] = max(place, last.get(each.life, -1))
    doubles = sum(len(each) > 1 for each in times.values())
    unmarked = sum(sum(not one.redelivered for one in each) > 1 for each in times.values())
    return Verdict(len(places) - len(times), doubles, unmarked, disorder, strange)
