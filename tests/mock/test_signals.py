"""Signals: the latest of a chain, and their history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from eth_utils.address import is_checksum_address

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.market.indicators import crossover_series, past
from tradesdk_mock.market.price_model import prices

from ._support import START, client, error, ok, walk

FIELDS = ["id", "token_address", "token_symbol", "chain_id", "direction", "confidence", "price_usd", "timestamp"]
BOTH = pytest.mark.parametrize("path", ["/v1/signals", "/v1/signals/history"])


@pytest.fixture(scope="module")
def shared() -> Iterator[MockServer]:
    """One world for these tests: none of them changes anything. Enterprise keys, so that no limit is met."""
    with MockServer(clock=MockClock(START)) as running:
        yield running


@pytest.fixture(scope="module")
def api(shared: MockServer) -> Iterator[httpx.Client]:
    with client(shared, "mock_full_enterprise_main") as http:
        yield http


@pytest.fixture(scope="module")
def history(api: httpx.Client) -> list[dict[str, Any]]:
    """A thousand signals on Base, newest first."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"chain": 8453, "limit": 100}
    for _ in range(10):
        page = ok(api.get("/v1/signals/history", params=query))
        found += page["data"]
        query["cursor"] = page["next_cursor"]
    return found


def test_what_a_signal_is(history: list[dict[str, Any]]) -> None:
    for signal in history:
        assert list(signal) == FIELDS
        assert signal["chain_id"] == 8453
        assert signal["direction"] in ("BUY", "SELL")
        assert isinstance(signal["confidence"], float)
        assert 0 <= signal["confidence"] <= 1
        assert isinstance(signal["price_usd"], float)
        assert signal["price_usd"] > 0
        assert isinstance(signal["timestamp"], int)
        assert signal["timestamp"] <= START
        assert is_checksum_address(signal["token_address"])
    assert len({signal["id"] for signal in history}) == 1_000
    assert len({signal["token_symbol"] for signal in history}) > 10
    times = [signal["timestamp"] for signal in history]
    assert times == sorted(times, reverse=True)


def test_latest_is_the_top_of_the_history(api: httpx.Client, history: list[dict[str, Any]]) -> None:
    assert ok(api.get("/v1/signals?chain=8453")) == {"data": history[:20]}
    assert ok(api.get("/v1/signals?chain=8453&limit=100")) == {"data": history[:100]}
    assert ok(api.get("/v1/signals?chain=8453&limit=1")) == {"data": history[:1]}


def test_latest_with_a_confidence(api: httpx.Client, history: list[dict[str, Any]]) -> None:
    edge = history[30]["confidence"]
    found = ok(api.get("/v1/signals", params={"chain": 8453, "min_confidence": edge}))["data"]
    assert found == [signal for signal in history if signal["confidence"] >= edge][:20]
    assert history[30] in found or len(found) == 20
    for text in ("0", "1", "0.0", "1.0", ".5", "5e-1", "1."):
        ok(api.get("/v1/signals", params={"chain": 8453, "min_confidence": text}))


def test_the_other_chain(api: httpx.Client) -> None:
    found = walk(api, "/v1/signals/history", chain=56, limit=100)
    assert [signal["id"] for signal in reversed(found)] == [row[1] for row in past(prices(7), START) if row[4] == 56]
    assert {signal["chain_id"] for signal in found} == {56}


def test_signals_are_the_same_for_every_tenant(shared: MockServer, api: httpx.Client) -> None:
    with client(shared, "mock_read_other") as other:
        assert other.get("/v1/signals?chain=56").content == api.get("/v1/signals?chain=56").content


def test_history_of_one_token_in_any_spelling(api: httpx.Client, history: list[dict[str, Any]]) -> None:
    token = history[5]["token_address"]
    expected = [signal for signal in history if signal["token_address"] == token]
    for spelled in (token, token.lower(), "0x" + token[2:].upper()):
        found = walk(api, "/v1/signals/history", chain=8453, token_address=spelled, limit=100)
        assert found[: len(expected)] == expected
        assert {signal["token_address"] for signal in found} == {token}
    unknown = "0x" + "ab" * 20
    assert ok(api.get("/v1/signals/history", params={"chain": 8453, "token_address": unknown})) == {"data": []}


@pytest.mark.parametrize("token", ["ETH", "0x12", "0x" + "g" * 40, "0x" + "a" * 41, "a" * 40])
def test_a_token_that_is_no_address(api: httpx.Client, token: str) -> None:
    answer = api.get("/v1/signals/history", params={"chain": 8453, "token_address": token})
    assert error(answer, 422, "validation_error").startswith("token_address: ")


def test_history_between_two_times_includes_both(api: httpx.Client, history: list[dict[str, Any]]) -> None:
    newest, oldest = history[10]["timestamp"], history[40]["timestamp"]
    found = walk(api, "/v1/signals/history", **{"chain": 8453, "from": oldest, "to": newest, "limit": 9})
    assert found == [signal for signal in history if oldest <= signal["timestamp"] <= newest]
    assert {newest, oldest} <= {signal["timestamp"] for signal in found}
    assert ok(api.get("/v1/signals/history", params={"chain": 8453, "from": newest, "to": oldest})) == {"data": []}
    after = walk(api, "/v1/signals/history", **{"chain": 8453, "from": newest})
    assert after == [signal for signal in history if signal["timestamp"] >= newest]


@BOTH
@pytest.mark.parametrize(
    ("query", "status", "code", "named"),
    [
        ("", 400, "invalid_request", "chain"),
        ("chain=", 400, "invalid_request", "chain"),
        ("chain=base", 400, "invalid_request", "chain"),
        ("chain=8453.0", 400, "invalid_request", "chain"),
        ("chain=%d9%a1", 400, "invalid_request", "chain"),
        ("chain=8453&chain=56", 400, "invalid_request", "chain"),
        ("chain=1", 422, "validation_error", "chain"),
        ("chain=8453&limit=0", 422, "validation_error", "limit"),
        ("chain=8453&limit=101", 422, "validation_error", "limit"),
        ("chain=8453&limit=-1", 422, "validation_error", "limit"),
        ("chain=8453&limit=ten", 400, "invalid_request", "limit"),
        ("chain=8453&limit=1e1", 400, "invalid_request", "limit"),
        ("chain=8453&limit=" + "9" * 30, 400, "invalid_request", "limit"),
    ],
)
def test_what_can_be_wrong_with_both(
    api: httpx.Client, path: str, query: str, status: int, code: str, named: str
) -> None:
    assert error(api.get(f"{path}?{query}"), status, code).startswith(f"{named}: ")


@pytest.mark.parametrize(
    ("value", "status"),
    [("-0.1", 422), ("1.1", 422), ("1e9", 422), ("nan", 400), ("inf", 400), ("high", 400), ("", 400), ("0,5", 400)],
)
def test_confidences_out_of_range(api: httpx.Client, value: str, status: int) -> None:
    answer = api.get("/v1/signals", params={"chain": 8453, "min_confidence": value})
    message = error(answer, status, "validation_error" if status == 422 else "invalid_request")
    assert message.startswith("min_confidence: ")


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("value", ["yesterday", "1.5", "2026-01-01T00:00:00Z", "9" * 40, ""])
def test_times_that_are_none(api: httpx.Client, name: str, value: str) -> None:
    answer = api.get("/v1/signals/history", params={"chain": 8453, name: value})
    assert error(answer, 400, "invalid_request").startswith(f"{name}: ")


def test_a_query_that_can_not_be_read(api: httpx.Client) -> None:
    error(api.get("/v1/signals?chain=8453&x=%ff"), 400, "invalid_request")
    error(api.get("/v1/agents?" + "&".join(f"a{n}=1" for n in range(200))), 400, "invalid_request")
    ok(api.get("/v1/signals?chain=8453&unknown=1"))


def minute() -> list[str]:
    """The ids of what Base publishes in the first minute."""
    return [row[1] for row in crossover_series(prices(7), 8453).between(START, START + 60)]


@pytest.fixture
def own(server: MockServer) -> Iterator[httpx.Client]:
    """Of a server that the test has for itself."""
    with client(server) as http:
        yield http


def test_new_signals_come_as_time_goes_on(server: MockServer, own: httpx.Client) -> None:
    before = ok(own.get("/v1/signals?chain=8453&limit=100"))["data"]
    server.clock.advance(60)
    latest = ok(own.get("/v1/signals?chain=8453&limit=100"))["data"]
    new = [signal for signal in latest if signal not in before]
    assert [signal["id"] for signal in reversed(new)] == minute()
    assert latest == new + before[: 100 - len(new)]
    assert all(START <= signal["timestamp"] <= START + 60 for signal in new)
    assert ok(own.get("/v1/signals/history?chain=8453&limit=100"))["data"] == latest


def test_an_emitted_signal_is_among_the_latest_and_in_the_history(server: MockServer, own: httpx.Client) -> None:
    signal = server.emit_signal(token="BRETT", direction="BUY", confidence=0.97, price_usd=0.5)
    record = {name: getattr(signal, name) for name in FIELDS}
    for path in ("/v1/signals", "/v1/signals/history"):
        assert ok(own.get(path, params={"chain": 8453}))["data"][0] == record
        assert record not in ok(own.get(path, params={"chain": 56}))["data"]
    assert record in ok(own.get("/v1/signals?chain=8453&min_confidence=0.97"))["data"]
    found = walk(own, "/v1/signals/history", chain=8453, token_address=signal.token_address, limit=100)
    assert found[0] == record
    assert {each["token_symbol"] for each in found} == {"BRETT"}


def test_a_signal_dated_in_the_future_stays_on_top(server: MockServer, own: httpx.Client) -> None:
    signal = server.emit_signal(timestamp=99_999_999_999)
    server.clock.advance(60)
    found = walk(own, "/v1/signals/history", **{"chain": 8453, "from": START, "limit": 3})
    assert [each["id"] for each in found].index(signal.id) == 0
    assert len(found) == 1 + len(minute())


def test_a_page_goes_on_where_it_ended_while_signals_come(server: MockServer, own: httpx.Client) -> None:
    server.set_gaps(history_lag=2)
    whole = ok(own.get("/v1/signals/history?chain=8453&limit=100"))["data"]
    page = ok(own.get("/v1/signals/history?chain=8453&limit=10"))
    found = page["data"]
    while len(found) < 100:
        server.clock.advance(7)
        server.emit_signal()
        page = ok(own.get("/v1/signals/history", params={"chain": 8453, "limit": 10, "cursor": page["next_cursor"]}))
        found += page["data"]
    assert found == whole


def test_a_history_that_lags_behind(server: MockServer, own: httpx.Client) -> None:
    server.set_gaps(history_lag=2)
    old = ok(own.get("/v1/signals/history?chain=56&limit=5"))["data"]
    signal = server.emit_signal(chain_id=56, timestamp=START - 5)
    seen = []
    for _ in range(4):
        assert signal.id in {each["id"] for each in ok(own.get("/v1/signals?chain=56"))["data"]}
        history = ok(own.get("/v1/signals/history?chain=56&limit=100"))["data"]
        seen.append(signal.id in {each["id"] for each in history})
        server.clock.advance(1)
    assert seen == [False, False, True, True]
    assert ok(own.get("/v1/signals/history?chain=56&limit=5"))["data"] != old
