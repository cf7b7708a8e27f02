"""Many threads on one service, without sockets and with them: nothing is lost, counted twice or held up for good."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from ._http import START, add_agent, add_wallet, client, error, in_process, ok

pytestmark = pytest.mark.long

THREADS = 8
ROUNDS = 12
OPTIONS = GapOptions(enterprise_limit=10**9, quotas="enterprise=1000000/1000000")
# For a machine that has much else to do; it takes a second or two.
PATIENCE = 60


def together(*works: Callable[[], object]) -> None:
    """Run all of these at the same time; the first error of any is raised here."""
    failed: list[BaseException] = []
    ready = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            ready.wait(PATIENCE)
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "held up for good"
    if failed:
        raise failed[0]


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.levelno >= logging.WARNING]


OTHERS = ("process, running clock", "process, file", "socket")


@pytest.fixture(
    params=["process", "socket, running clock", *(pytest.param(other, marks=pytest.mark.long) for other in OTHERS)]
)
def mock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MockService]:
    clock = None if "running" in request.param else MockClock(START)
    db = tmp_path / "state.db" if "file" in request.param else None
    make = MockServer if "socket" in request.param else MockService
    with make(clock=clock, db=db, gaps=OPTIONS, signals="scripted") as made:
        yield made


def caller(mock: MockService, tenant: str) -> httpx.Client:
    key = f"mock_full_enterprise_{tenant}"
    made = client(mock, key) if isinstance(mock, MockServer) else in_process(mock, key)
    made.timeout = httpx.Timeout(PATIENCE)
    return made


def signals_of(http: httpx.Client, emitted: threading.Event, count: int, opened: threading.Barrier) -> list[str]:
    """Ids on a stream that is opened before the first of so many signals is emitted, and read to the last."""
    with http.stream("GET", "/v1/signals/stream?chain=8453") as answer:
        assert answer.status_code == 200
        opened.wait(PATIENCE)
        found: list[str] = []
        # Without a socket, whoever reads on where nothing comes moves a frozen clock: nothing to do with this test.
        assert emitted.wait(PATIENCE)
        for line in answer.iter_lines():
            if line.startswith('data: {"type":"signal"'):
                found.append(json.loads(line[6:])["id"])
            if len(found) == count:
                return found
    raise AssertionError("the stream ended")


def test_everything_at_once(mock: MockService, caplog: pytest.LogCaptureFixture) -> None:
    opened, emitted = threading.Barrier(THREADS + 2), threading.Event()
    streamed: list[list[str]] = []
    created: list[str] = []
    ids: list[str] = []
    used: dict[str, int] = {}
    left = threading.Semaphore(0)

    def writing(number: int) -> None:
        tenant = f"t{number}"
        calls = 0
        with caller(mock, tenant) as http:
            wallet = add_wallet(http)
            for turn in range(ROUNDS):
                agent = add_agent(http, wallet, name=f"{turn}")["id"]
                created.append(agent)
                assert ok(http.patch(f"/v1/agents/{agent}", json={"name": "changed"}))["name"] == "changed"
                ok(http.get("/v1/agents?limit=100"))
                if turn % 2:
                    assert http.delete(f"/v1/agents/{agent}").status_code == 204
                calls += 3 + turn % 2
            used[tenant] = calls + 1

    def moving(number: int) -> None:
        opened.wait(PATIENCE)
        with caller(mock, "control") as http:
            for turn in range(ROUNDS):
                key = mock.create_key(tenant=f"k{number}")
                ok(http.post("/_mock/signals"))
                ids.append(mock.emit_signal().id)
                rule = mock.add_fault("status", route=f"/nowhere/{number}", status=500)
                assert http.get(f"/nowhere/{number}").status_code == 500
                assert [each.fired for each in mock.faults() if each.id == rule.id] == [1]
                mock.remove_fault(rule.id)
                mock.set_gaps(clock_skew=turn)
                mock.clock.advance(0.5)
                mock.revoke_key(key.id)
                ok(http.get("/_mock/status"))
                ok(http.get("/_mock/journal?after=5"))
        left.release()
        if number == 0:
            for _ in range(2):
                assert left.acquire(timeout=PATIENCE)
            emitted.set()

    def reading(number: int) -> None:
        with caller(mock, f"s{number}") as http:
            streamed.append(signals_of(http, emitted, 4 * ROUNDS, opened))

    works = [lambda n=n: writing(n) for n in range(THREADS)]
    works += [lambda n=n: reading(n) for n in range(THREADS)]
    together(*works, lambda: moving(0), lambda: moving(1))

    assert len(set(created)) == len(created) == THREADS * ROUNDS
    for number in range(THREADS):
        with caller(mock, f"t{number}") as http:
            assert len(ok(http.get("/v1/agents?limit=100"))["data"]) == ROUNDS // 2
            assert ok(http.get("/v1/account/usage"))["requests"]["used"] == used[f"t{number}"] + 2
    # Everybody saw every signal, once, in the same order.
    assert len(set(ids)) == 2 * ROUNDS
    assert len(set(streamed[0])) == 4 * ROUNDS
    assert all(each == streamed[0] for each in streamed)
    entries = mock.journal()
    assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
    expected = sum(used.values()) + 2 * THREADS + THREADS + 2 * ROUNDS
    assert len(entries) == expected
    status = mock.status()
    assert (status["faults"], status["agents"]) == (0, THREADS * ROUNDS // 2)
    assert quiet(caplog)


def test_one_tenant_for_all(mock: MockService) -> None:
    """Every request has its own place in the window, in the count of the period and in the counter of ids."""
    remaining: list[int] = []
    with caller(mock, "main") as http:
        wallet = add_wallet(http)

        def work() -> None:
            for _ in range(ROUNDS):
                answer = http.post("/v1/agents", json={"name": "n", "wallet_id": wallet, "chain_id": 8453})
                remaining.append(int(answer.headers["x-ratelimit-remaining"]))

        together(*[work] * THREADS)
        count = THREADS * ROUNDS
        assert len({each["id"] for each in ok(http.get("/v1/agents?limit=100"))["data"]}) == count
        assert ok(http.get("/v1/account/usage"))["requests"]["used"] == count + 3
    assert len(set(remaining)) == count
    if mock.clock.frozen:
        assert sorted(remaining, reverse=True) == list(range(10**9 - 2, 10**9 - 2 - count, -1))


def test_resets_in_between(mock: MockService, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asks sees the world before or the one after it, and streams end with it."""

    def asking(number: int) -> None:
        with caller(mock, f"t{number}") as http:
            for _ in range(2 * ROUNDS):
                assert ok(http.get("/v1/account"))["email"] == f"t{number}@example.test"
                assert len(ok(http.get("/v1/signals?chain=56"))["data"]) == 20

    def listening(number: int) -> None:
        with caller(mock, f"s{number}") as http:
            for _ in range(4):
                with http.stream("GET", "/v1/signals/stream?chain=8453") as answer:
                    assert answer.status_code == 200

    def resetting() -> None:
        for turn in range(ROUNDS):
            mock.reset(seed=turn)

    works = [lambda n=n: asking(n) for n in range(4)] + [lambda n=n: listening(n) for n in range(3)]
    together(*works, resetting)
    assert mock.status()["seed"] == ROUNDS - 1
    assert quiet(caplog)


def test_closing_while_others_ask(caplog: pytest.LogCaptureFixture) -> None:
    mock = MockService(clock=MockClock(START), gaps=OPTIONS)
    begun = threading.Semaphore(0)

    def asking() -> None:
        with caller(mock, "main") as http:
            while True:
                try:
                    answer = http.get("/v1/account")
                except MockServerError:
                    return
                if answer.status_code == 503:
                    assert error(answer, 503, "service_unavailable") == "The mock is closed."
                else:
                    ok(answer)
                begun.release()

    def closing() -> None:
        for _ in range(20):
            assert begun.acquire(timeout=PATIENCE)
        mock.close()

    together(*[asking] * 4, closing)
    assert quiet(caplog)
