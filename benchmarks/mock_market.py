"""The mock's market: a simulated day, a page from the middle of a million signals, ten thousand agents in one world.

The requests go to the service without a socket; mock_gets.py measures them over HTTP.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from _measure import in_process, measure, report, verdict

from tradesdk_mock import GapOptions, MockClock, MockService
from tradesdk_mock.core.messages import Request

BEGIN = 1_800_000_000
DAY = 86_400
DAYS, ROUNDS, TIMES = 5, 15, 20
SIGNALS = 1_000_000
TENANTS, AGENTS_EACH = 10, 1_000
DAY_BAR, PAGE_BAR = 3.0, 0.005
"""Seconds."""


def ask(mock: MockService, path: str, *, tenant: str = "bench", body: object = None, method: str = "") -> Any:
    """The answer of the service, which has to be one of the 200s."""
    headers = [(b"authorization", f"Bearer mock_full_enterprise_{tenant}".encode())]
    content = b"" if body is None else json.dumps(body).encode()
    if content:
        headers.append((b"content-type", b"application/json"))
    target, _, query = path.partition("?")
    response = mock.pipeline.respond(
        Request(method or ("POST" if content else "GET"), target, query.encode(), headers, content)
    )
    assert response.status // 100 == 2, (path, response)
    assert isinstance(response.body, bytes)
    return json.loads(response.body) if response.body else {}


def timed(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def simulated_days() -> bool:
    """Each day with the agents of a populated and of the background tenant, up to the first answer after it."""
    clock = MockClock(BEGIN)
    with MockService(clock=clock, gaps=GapOptions(paywall="open")) as mock:
        mock.populate("bench")
        ask(mock, "/v1/aggregate-metrics", body={})
        taken = []
        for _ in range(DAYS):
            clock.advance(DAY)
            taken.append(timed(lambda: ask(mock, "/v1/positions")))
        there = mock.status()
        day = median(cpu for cpu, _ in taken)
        print(f"a simulated day: {day:.2f} s of CPU, {median(wall for _, wall in taken):.2f} s of wall time")
        print(
            f"   after {DAYS} days: {there['signals']:,} signals, {there['trades']:,} trades, {there['agents']} agents"
        )
        return verdict(day <= DAY_BAR, f"a simulated day: {day:.2f} s of CPU  (bar {DAY_BAR:g} s)")


def a_million_signals() -> bool:
    """A page from the middle, beside the same rows read with sqlite3 and written as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file, clock = Path(folder) / "world.db", MockClock(BEGIN)
        with MockService(db=file, clock=clock) as mock:
            while mock.status()["signals"] < SIGNALS:
                clock.advance(DAY)
                ask(mock, "/v1/signals?chain=8453&limit=1")
            middle = int(BEGIN + (clock.now() - BEGIN) / 2)
            first = ask(mock, f"/v1/signals/history?chain=8453&limit=100&to={middle}")
            path = f"/v1/signals/history?chain=8453&limit=100&to={middle}&cursor={first['next_cursor']}"
            last = first["data"][-1]
            bare = sqlite3.connect(file)
            columns = "id, token_address, token_symbol, chain_id, direction, confidence, price_usd, timestamp"

            def rows() -> str:
                cursor = bare.execute(
                    f"SELECT {columns} FROM signals WHERE chain_id = 8453 AND timestamp < ?"  # noqa: S608 - our own names
                    " ORDER BY timestamp DESC, seq DESC LIMIT 100",
                    (last["timestamp"],),
                )
                names = [name for name, *_ in cursor.description]
                return json.dumps([dict(zip(names, row, strict=True)) for row in cursor])

            assert len(ask(mock, path)["data"]) == len(json.loads(rows())) == 100
            ours, peer = "a page from the middle of a million signals", "the same rows with sqlite3 and json"
            figures = measure(
                {ours: in_process(lambda: ask(mock, path), times=TIMES), peer: in_process(rows, times=TIMES)},
                rounds=ROUNDS,
            )
            report("A page of history", figures, [], unit="ms", peers=())
            bare.close()
            print(f"{mock.status()['signals']:,} signals, the file has {file.stat().st_size / 2**20:.0f} MiB")
            page = median(figures[ours].wall)
            return verdict(page < PAGE_BAR, f"{ours}: {page * 1e3:.2f} ms of wall time  (bar {PAGE_BAR * 1e3:.0f} ms)")


def ten_thousand_agents() -> None:
    """All of them active: what others have to wait for."""
    clock = MockClock(BEGIN)
    gaps = GapOptions(enterprise_limit=60_000, paywall="open")
    with MockService(clock=clock, gaps=gaps) as mock:
        began = time.perf_counter()
        for number in range(TENANTS):
            tenant = f"t{number}"
            ask(mock, "/v1/account", tenant=tenant)  # a key's first use gives its plan
            mock.populate(tenant)
            for wallet in ask(mock, "/v1/wallets", tenant=tenant)["data"]:
                for agent in range((AGENTS_EACH - 6) // 2):
                    body = {
                        "name": f"a{agent}",
                        "wallet_id": wallet["id"],
                        "chain_id": wallet["chain_id"],
                        "risk": {"stop_loss_pct": 1 + agent % 5, "take_profit_pct": 2 + agent % 11},
                        "min_confidence": 0.8 + agent % 20 / 100,
                    }
                    made = ask(mock, "/v1/agents", tenant=tenant, body=body)
                    mock.start_agent(made["id"])
            clock.advance(60)
        print(f"{mock.status()['agents']:,} agents, made and started in {time.perf_counter() - began:.0f} s")
        some = ask(mock, "/v1/agents?status=active&limit=1", tenant="t3")["data"][0]["id"]

        def later(seconds: float, path: str, **more: Any) -> Callable[[], object]:
            def call() -> object:
                clock.advance(seconds)
                return ask(mock, path, tenant="t3", **more)

            return call

        for name, seconds, call in (
            ("the first hour", 3_600, "/v1/positions"),
            ("another hour", 3_600, "/v1/positions"),
            ("the next six seconds", 6, "/v1/positions"),
            ("a page of 100 positions", 0, "/v1/positions?limit=100"),
            ("a page of 100 agents", 0, "/v1/agents?limit=100"),
            ("one agent", 0, f"/v1/agents/{some}"),
        ):
            cpu, wall = timed(later(seconds, call))
            print(f"{name:28}{cpu * 1e3:10.1f} ms of CPU {wall * 1e3:10.1f} ms of wall time")
        for name, more, path in (
            ("a change of one agent", {"body": {"max_positions": 4}, "method": "PATCH"}, f"/v1/agents/{some}"),
            ("aggregate metrics", {"body": {}}, "/v1/aggregate-metrics"),
            ("top performers", {"body": {"sortBy": "ROI"}}, "/v1/top-performers"),
        ):
            cpu, wall = timed(later(0, path, **more))
            print(f"{name:28}{cpu * 1e3:10.1f} ms of CPU {wall * 1e3:10.1f} ms of wall time")
        print(f"{mock.status()['trades']:,} trades")


if __name__ == "__main__":
    held = simulated_days()
    held &= a_million_signals()
    ten_thousand_agents()
    sys.exit(0 if held else 1)
