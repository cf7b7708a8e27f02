"""Sixteen members in four processes, one key of 300 requests a minute, minutes of the mock: kills, pauses, no server.

The mock's clock runs faster than real time; the members have the same clock, and give its time to the script.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk import TradeClient
from tradesdk.fleet import RedisRateLimiter
from tradesdk_mock import MockServer

from .._redis_server import RedisServer, drawn_engines

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
SPEED = 20.0
LIMIT = 300


def fitting_speed(mock: MockServer, server: RedisServer) -> float:
    """How fast the clock may run, so that a minute of it is enough for twice the requests that it allows."""
    with (
        RedisRateLimiter(server.url, prefix="before") as limiter,
        TradeClient(api_key="mock_full_pro_before", base_url=mock.url, rate_limiter=limiter) as client,
    ):
        client.account.get()
        began = time.monotonic()
        for _ in range(50):
            client.account.get()
        took = (time.monotonic() - began) / 50
    mock.clear_journal()
    return min(SPEED, 60 / (2 * LIMIT * took))


class Fleet:
    def __init__(self, mock: MockServer, server: RedisServer, minutes: float) -> None:
        self.mock, self.server = mock, server
        self.speed = fitting_speed(mock, server)
        mock.clock.move(speed=self.speed)
        shown, real, speed, _ = mock.clock.state()
        self._settings = {
            "key": "mock_full_pro_fleet",
            "mock": mock.url,
            "redis": server.url,
            "clock": [shown, real, speed],
            "members": 4,
        }
        self.processes = [self._started() for _ in range(4)]
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
        self._until = mock.clock.now() + minutes * 60
        for process in self.processes:
            self._let_go(process)

    def start(self) -> None:
        """Four members more."""
        self.processes.append(self._started())
        self._let_go(self.processes[-1])

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fleet._rate_member", json.dumps(self._settings)]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _let_go(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{self._until}\n")
        process.stdin.flush()

    def left(self) -> float:
        """Real seconds to the end."""
        return (self._until - self.mock.clock.now()) / self.speed

    def wait(self, seconds: float) -> None:
        """Seconds of the mock's clock."""
        time.sleep(seconds / self.speed)

    def end(self) -> Counter[str]:
        """What the members that live counted."""
        counts: Counter[str] = Counter()
        for process in self.processes:
            said, _ = process.communicate(timeout=max(0.0, self.left()) + 300)
            if process.returncode == 0:
                counts.update(json.loads(said.splitlines()[-1]))
        return counts

    def windows(self) -> list[int]:
        """How many requests the mock let through in each of its windows; nothing is left out."""
        times = [entry.at for entry in self.mock.journal() if entry.status == 200]
        windows: list[int] = []
        start = -60
        for at in sorted(times):
            if not start <= at < start + 60:
                start = int(at)
                windows.append(0)
            windows[-1] += 1
        return windows

    def refused(self) -> int:
        return sum(entry.status == 429 for entry in self.mock.journal())


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as mock:
        yield mock


@pytest.fixture(params=drawn_engines())
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(request.param, tmp_path, durable=False) as server:
        yield server


def test_sixteen_members_use_the_whole_window_and_no_more(mock: MockServer, redis: RedisServer) -> None:
    fleet = Fleet(mock, redis, minutes=5)
    counts = fleet.end()
    windows = fleet.windows()
    print(f"\n{redis.engine}: windows {windows}, {fleet.refused()} refused, {dict(counts)}")
    assert fleet.refused() == 0
    assert counts["answered"] == sum(windows)
    assert counts["rate_limit_alone"] == 0
    full = windows[:-1]  # the last one is cut off by the end
    assert len(full) >= 3  # four, where a busy machine sends them within a minute of the mock
    assert max(windows) <= LIMIT
    assert sum(full) >= 0.95 * LIMIT * len(full)


@pytest.mark.parametrize("redis", ["valkey"], indirect=True)
def test_members_that_are_killed_or_paused_cost_no_429(mock: MockServer, redis: RedisServer) -> None:
    """A claim is held for a minute of the mock, three seconds here; pauses are shorter."""
    draw = random.Random(int(os.environ.get("TRADE_SEED") or 7))
    fleet = Fleet(mock, redis, minutes=4)
    kills = pauses = 0
    time.sleep(2)
    while fleet.left() > 2:
        process = draw.choice([each for each in fleet.processes if each.poll() is None])
        if kills < pauses or (kills == pauses and draw.random() < 0.5):  # of any two in a row, each once
            process.kill()
            process.wait()
            fleet.start()
            kills += 1
        else:
            process.send_signal(signal.SIGSTOP)
            time.sleep(draw.uniform(0.1, 1.0))
            process.send_signal(signal.SIGCONT)
            pauses += 1
        time.sleep(draw.uniform(0.1, 0.5))
    fleet.end()
    windows = fleet.windows()
    print(f"\n{kills} kills, {pauses} pauses: windows {windows}, {fleet.refused()} refused")
    assert kills > 1
    assert fleet.refused() == 0
    assert max(windows) <= LIMIT


@pytest.mark.parametrize("redis", ["valkey"], indirect=True)
@pytest.mark.parametrize("trouble", ["killed", "paused"])
def test_without_the_server_they_go_on_with_their_share(mock: MockServer, redis: RedisServer, trouble: str) -> None:
    fleet = Fleet(mock, redis, minutes=6)
    fleet.wait(60)
    before = len(fleet.mock.journal())
    redis.kill() if trouble == "killed" else redis.pause()
    time.sleep(2)  # until a server that is paused is given up
    fleet.wait(120)  # who waits for a reset notices nothing before it
    alone = len(fleet.mock.journal()) - before
    redis.start() if trouble == "killed" else redis.go_on()
    counts = fleet.end()
    windows = fleet.windows()
    print(f"\n{trouble}: windows {windows}, {alone} while it was away, {fleet.refused()} refused, {dict(counts)}")
    assert counts["rate_limit_alone"] == counts["rate_limit_shared"] >= 16
    assert alone > LIMIT / 2
    assert max(windows) <= LIMIT
    assert fleet.refused() <= 0.05 * sum(windows)
