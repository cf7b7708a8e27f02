"""Measures side by side: every subject once a round, in a new order each round, so that a busy machine affects all.

What counts is CPU time, which other programs disturb least; wall time is printed beside it.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import median

Probe = Callable[[], tuple[float, float]]
"""One measurement: seconds of CPU, seconds of wall time."""


@dataclass(frozen=True)
class Figures:
    """What one subject took, round by round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Bar:
    """`ours` may take at most `factor` times what `peer` takes: of CPU, or wall time where a server does the work."""

    ours: str
    peer: str
    factor: float
    by_wall: bool = False


def measure(subjects: Mapping[str, Probe], *, rounds: int, warm_up: int = 2) -> dict[str, Figures]:
    """Every subject `rounds` times, after some rounds that don't count."""
    figures = {name: Figures() for name in subjects}
    order = list(subjects)
    for number in range(-warm_up, rounds):
        random.shuffle(order)
        for name in order:
            cpu, wall = subjects[name]()
            if number >= 0:
                figures[name].cpu.append(cpu)
                figures[name].wall.append(wall)
    return figures


def in_process(call: Callable[[], object], *, times: int) -> Probe:
    """Times one call in this process: the mean of `times` in a row."""

    def probe() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            call()
        return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times

    return probe


def process(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Probe:
    """Times a process from start to end; its output is thrown away, and it must end with 0."""
    path = shutil.which(command[0])
    assert path is not None, f"{command[0]} is not installed"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "_TRADE_"))}
    environment = {**clean, "TERM": "dumb", "COLUMNS": "80", **(env or {})}
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]

    def probe() -> tuple[float, float]:
        wall = time.perf_counter()
        child = os.posix_spawn(path, list(command), environment, file_actions=silence)
        _, status, usage = os.wait4(child, 0)
        wall = time.perf_counter() - wall
        assert status == 0, f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}"
        return usage.ru_utime + usage.ru_stime, wall

    return probe


def installed(name: str) -> bool:
    """Whether a peer is there to be measured; says so when it isn't."""
    try:
        version(name)
    except PackageNotFoundError:
        print(f"({name} is not installed and left out)")
        return False
    return True


def report(title: str, figures: Mapping[str, Figures], bars: Sequence[Bar], *, unit: str, peers: Sequence[str]) -> bool:
    """Print medians, ratios and verdicts; True when every bar holds. Ratios are medians of the rounds' ratios."""
    scale = {"ms": 1e3, "µs": 1e6}[unit]
    rounds = len(next(iter(figures.values())).cpu)
    versions = ", ".join(f"{name} {version(name)}" for name in ("tradesdk", *peers))
    print(f"{title}\n{rounds} rounds; Python {platform.python_version()}, {os.cpu_count()} cores; {versions}\n")
    width = max(map(len, figures))
    print(f"{'':{width}}  {'CPU ' + unit:>9}  {'wall ' + unit:>9}")
    for name, taken in figures.items():
        print(f"{name:{width}}  {median(taken.cpu) * scale:9.1f}  {median(taken.wall) * scale:9.1f}")
    print()
    held = True
    for bar in bars:
        ours, peer = (one.wall if bar.by_wall else one.cpu for one in (figures[bar.ours], figures[bar.peer]))
        ratio = median(a / b for a, b in zip(ours, peer, strict=True))
        held &= verdict(ratio <= bar.factor, f"{bar.ours} = {ratio:.2f} x {bar.peer}  (bar {bar.factor:g})")
    print()
    return held


def verdict(good: bool, text: str) -> bool:
    """Print whether a bar holds."""
    print(f"{'ok  ' if good else 'MISS'}  {text}")
    return good


def finish(held: bool) -> None:
    """End the program: 1 when a bar was missed."""
    sys.exit(0 if held else 1)
