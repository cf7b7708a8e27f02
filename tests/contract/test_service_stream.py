"""The live stream as the specification has it, shown on the mock over bare HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from ._golden import load
from ._wire import Wire, error_of
from .test_mock_shapes import assert_same_shape

START = 1_767_484_800


@pytest.fixture(scope="module")
def live() -> Iterator[MockServer]:
    """Its market goes on as its clock is moved."""
    with MockServer(seed=7, clock=MockClock(START)) as server:
        yield server


@pytest.fixture
def caller(live: MockServer, bare_http: httpx.Client) -> Wire:
    key = live.create_key(plan="free")
    return Wire(live, bare_http, key.value)


class Events:
    """The lines of an open stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the next event's lines, comments left out."""
        found: list[tuple[str, str]] = []
        for line in self._lines:
            if not line and found:
                return found
            name, _, value = line.partition(":")
            if name:
                found.append((name, value.removeprefix(" ")))
        raise AssertionError("the stream has ended")

    def next(self) -> Any:
        return json.loads("\n".join(value for name, value in self.fields() if name == "data"))

    def until(self, kind: str) -> Any:
        while (event := self.next())["type"] != kind:
            pass
        return event


@contextmanager
def listening(wire: Wire, chain: int = 8453) -> Iterator[Events]:
    headers = {"Authorization": f"Bearer {wire.key}"}
    url = f"{wire.server.url}/v1/signals/stream"
    with wire.http.stream("GET", url, params={"chain": chain}, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield Events(answer)


@pytest.mark.rule("stream.open", "stream.content-type")
def test_it_is_an_event_stream_and_stays_open(caller: Wire) -> None:
    with listening(caller) as events:
        assert events.answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        for _ in range(5):
            caller.server.clock.advance(60)
            assert events.next()["type"] in ("signal", "heartbeat")


@pytest.mark.rule("stream.signal.fields", "stream.heartbeat.fields")
@pytest.mark.parametrize("kind", ["signal", "heartbeat"])
def test_event_has_the_golden_shape(caller: Wire, kind: str) -> None:
    with listening(caller) as events:
        caller.server.clock.advance(60)
        assert_same_shape(events.until(kind), load(f"stream/{kind}.json"))


@pytest.mark.rule("stream.message", "stream.type")
def test_events_are_messages_whose_kind_stands_in_their_data(caller: Wire) -> None:
    with listening(caller) as events:
        caller.server.clock.advance(60)
        kinds: set[str] = set()
        while kinds != {"signal", "heartbeat"}:
            fields = events.fields()
            # An event without a name is a `message` event.
            assert dict(fields).get("event", "message") == "message"
            data = json.loads("\n".join(value for name, value in fields if name == "data"))
            assert isinstance(data, dict)
            kinds.add(data["type"])


@pytest.mark.rule("stream.signal", "stream.signal.fields")
@pytest.mark.parametrize("chain", [8453, 56])
def test_new_signals_of_the_chain_are_sent(caller: Wire, chain: int) -> None:
    with listening(caller, chain) as events:
        caller.server.clock.advance(300)
        sent = [events.until("signal") for _ in range(10)]
    assert {event["chain_id"] for event in sent} == {chain}
    assert {event["direction"] for event in sent} <= {"BUY", "SELL"}
    latest = caller.get("/signals", chain=chain, limit=100).json()["data"]
    known = {signal["id"]: signal for signal in latest}
    assert all(known[event["id"]] | {"type": "signal"} == event for event in sent)


@pytest.mark.rule("stream.heartbeat")
def test_a_heartbeat_comes_periodically(caller: Wire) -> None:
    with listening(caller, 56) as events:
        times = []
        for _ in range(3):
            caller.server.clock.advance(60)
            times.append(events.until("heartbeat")["timestamp"])
    assert times == sorted(set(times))
    assert all(isinstance(time, int) and time >= START for time in times)


@pytest.mark.rule("stream.chain")
@pytest.mark.parametrize("chain", [None, "", "base"])
def test_a_chain_is_required(caller: Wire, chain: str | None) -> None:
    query = {} if chain is None else {"chain": chain}
    answer = caller.get("/signals/stream", **query)
    assert error_of(answer) == (400, "invalid_request")
    assert "chain" in answer.json()["error"]["message"]


@pytest.mark.rule("stream.chain")
def test_only_two_chains_have_a_stream(caller: Wire) -> None:
    assert error_of(caller.get("/signals/stream", chain=1)) == (422, "validation_error")


@pytest.mark.rule("stream.bearer")
@pytest.mark.parametrize("key", [None, "nobody"])
def test_the_bearer_key_is_required(caller: Wire, key: str | None) -> None:
    assert error_of(caller.with_key(key).get("/signals/stream", chain=8453)) == (401, "unauthorized")


@pytest.mark.rule("stream.bearer")
def test_a_read_only_key_may_listen(live: MockServer, bare_http: httpx.Client) -> None:
    key = live.create_key(scope="read-only")
    with listening(Wire(live, bare_http, key.value)) as events:
        live.clock.advance(60)
        assert events.next()


@pytest.mark.rule("stream.rate-limit")
def test_it_does_not_count_against_the_rate_limit(caller: Wire) -> None:
    """A free plan has sixty requests a minute."""
    for _ in range(61):
        with listening(caller) as events:
            assert not [name for name in events.answer.headers if name.startswith("x-ratelimit")]
    answer = caller.get("/account/usage")
    assert answer.headers["x-ratelimit-remaining"] == "59"
    assert answer.json()["requests"]["used"] == 1
    for _ in range(59):
        assert caller.get("/account").status_code == 200
    assert error_of(caller.get("/account")) == (429, "rate_limited")
    with listening(caller):
        pass


@pytest.mark.rule("stream.revoked")
def test_it_ends_when_its_key_is_revoked(live: MockServer, bare_http: httpx.Client) -> None:
    key = live.create_key()
    with listening(Wire(live, bare_http, key.value)) as events:
        live.revoke_key(key.id)
        assert list(events.answer.iter_raw()) == []
