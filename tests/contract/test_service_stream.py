"""The live stream as the specification has it, shown on the mock over bare HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from .._clock import START
from .._rows import each_of
from ._golden import load
from ._market import differences
from ._wire import Wire, error_of, numbers
from .conftest import tenants


@pytest.fixture(scope="module")
def live() -> Iterator[MockServer]:
    """Its market goes on as its clock is moved."""
    with MockServer(seed=7, clock=MockClock(START)) as server:
        yield server


@pytest.fixture
def caller(live: MockServer, bare_http: httpx.Client) -> Wire:
    key = live.create_key(plan="free", tenant=f"caller-{next(tenants)}")
    return Wire(live, key.value, bare_http)


class Events:
    """The lines of an open stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def next(self) -> Any:
        """The next event. One without a name is a `message` event, whose kind is in its data."""
        found: list[tuple[str, str]] = []
        while (line := next(self._lines)) or not found:
            name, _, value = line.partition(":")
            if name:
                found.append((name, value.removeprefix(" ")))
        assert dict(found).get("event", "message") == "message"
        return json.loads("\n".join(value for name, value in found if name == "data"))

    def until(self, kind: str) -> Any:
        while (event := self.next())["type"] != kind:
            assert event["type"] in ("signal", "heartbeat")
        return event


@contextmanager
def listening(wire: Wire, chain: int = 8453) -> Iterator[Events]:
    headers = {"Authorization": f"Bearer {wire.key}"}
    url = f"{wire.server.url}/v1/signals/stream"
    with wire.http.stream("GET", url, params={"chain": chain}, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield Events(answer)


@pytest.mark.rule(
    "stream.open stream.content-type stream.message stream.type stream.heartbeat",
    "stream.signal.fields stream.heartbeat.fields",
)
def test_it_is_an_event_stream_and_stays_open(caller: Wire) -> None:
    begun = caller.server.clock.now()
    with listening(caller) as events:
        assert events.answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        beats = []
        for _ in range(3):
            caller.server.clock.advance(60)
            seen = dict[str, Any]()
            while set(seen) != {"signal", "heartbeat"}:
                event = events.next()
                seen[event["type"]] = event
                assert differences(event, load(f"stream/{event['type']}.json")) == []
            beats.append(seen["heartbeat"]["timestamp"])
    assert beats == sorted(set(beats))
    assert all(begun < beat <= begun + 180 for beat in beats)


@pytest.mark.rule("stream.signal", "stream.signal.fields")
@pytest.mark.parametrize("chain", [8453, 56])
def test_new_signals_of_the_chain_are_sent(caller: Wire, chain: int) -> None:
    with listening(caller, chain) as events:
        caller.server.clock.advance(300)
        sent = [events.until("signal") for _ in range(10)]
    assert {event["chain_id"] for event in sent} == {chain}
    latest = caller.get("/signals", chain=chain, limit=100).json()["data"]
    known = {signal["id"]: signal for signal in latest}
    assert all({"type": "signal"} | known[event["id"]] == event for event in sent)


@pytest.mark.rule("stream.chain")
@each_of(
    ("query", "status"),
    [
        *((query, 400) for query in ("", "chain=", "chain=base", "chain=8453.0", "chain=8453&chain=56")),
        *(("chain=1", 422), ("chain=-8453", 422)),
    ],
)
def test_a_chain_is_required_and_one_of_two(wire: Wire, query: str, status: int) -> None:
    answer = wire.get(f"/signals/stream?{query}")
    assert error_of(answer, "chain") == (status, {400: "invalid_request", 422: "validation_error"}[status])
    assert wire.server.status()["streams"] == 0


@pytest.mark.rule("stream.bearer")
def test_a_read_only_key_may_listen(caller: Wire) -> None:
    with listening(caller.with_key(caller.server.create_key(scope="read-only").value)) as events:
        caller.server.clock.advance(60)
        assert events.next()


@pytest.mark.rule("stream.rate-limit")
def test_it_does_not_count_against_the_rate_limit(caller: Wire) -> None:
    """A free plan has sixty requests a minute."""
    caller = Wire(caller.server, caller.key)  # in process: sockets are not the point, and there are many
    for _ in range(61):
        with listening(caller) as events:
            assert not [name for name in events.answer.headers if name.startswith("x-ratelimit")]
    answer = caller.get("/account/usage")
    assert (numbers(answer)[1], answer.json()["requests"]["used"]) == (59, 1)
    for _ in range(59):
        assert caller.get("/account").status_code == 200
    assert error_of(caller.get("/account")) == (429, "rate_limited")
    with listening(caller):
        pass


@pytest.mark.rule("stream.revoked")
def test_it_ends_when_its_key_is_revoked(caller: Wire) -> None:
    key = caller.server.create_key()
    with listening(caller.with_key(key.value)) as events:
        caller.server.revoke_key(key.id)
        assert list(events.answer.iter_raw()) == []
