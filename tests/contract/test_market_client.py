"""Requests that the SDK makes for market data, sent to the mock, and the mock's answers read by the SDK."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from tradesdk import RawResponse
from tradesdk import _market as market
from tradesdk._market import MarketRequest, TokenQuery
from tradesdk._response import Headers
from tradesdk_mock import GapOptions, MockClock, MockServer

from .._clock import START

FIVE = ["BRETT", "toshi", "degen-base", "ICYSEA", "0x4200000000000000000000000000000000000006"]


@pytest.fixture(scope="module", params=["off", "on"], ids=["as specified", "with what comes later"])
def open_market(request: pytest.FixtureRequest) -> Iterator[MockServer]:
    """Market data for nothing, with 200 signals of one token."""
    gaps = GapOptions(paywall="open", unknown_values=request.param)
    with MockServer(seed=7, gaps=gaps, clock=MockClock(START)) as server:
        server.populate("somebody")
        for number in range(200):
            server.emit_signal(token="BRETT", direction="SELL" if number % 2 else "BUY")
        yield server


def sent(server: MockServer, http: httpx.Client, asked: MarketRequest[Any]) -> tuple[Any, Any]:
    """What the SDK makes of the mock's answer, and what stands in it."""
    request = asked.request
    answer = http.request(
        request.method,
        server.url + request.target,
        content=request.body,
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    raw = RawResponse(200, Headers(answer.headers.multi_items()), answer.content)
    return request.decode(request.method, server.url + request.target, raw), answer.json()["data"]


def left_over(model: BaseModel) -> set[str]:
    found = set(model.model_extra or ())
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else ():
            found |= left_over(item)
    return found


ASKED: list[tuple[MarketRequest[Any], str]] = [
    (market.token_signals(["BRETT", TokenQuery("toshi", 100), *FIVE[2:]], limit=3), "results"),
    (market.signal_history(FIVE), "results"),
    (market.signal_history(["BRETT"], signal_type="WAITING FOR SIGNAL"), "results"),
    (market.token_prices(FIVE), "results"),
    (market.token_win_rate(FIVE), "results"),
    (market.token_avg_prices(FIVE), "results"),
    (market.top_performers("winRate"), "tokens"),
    (market.top_performers("ROI", limit=1), "tokens"),
    (market.aggregate_metrics(), ""),
    (market.supported_tokens(limit=500), "tokens"),
]


@pytest.mark.parametrize(("asked", "where"), ASKED, ids=[case[0].request.path for case in ASKED])
def test_what_the_mock_answers_is_read_whole(
    open_market: MockServer, bare_http: httpx.Client, asked: MarketRequest[Any], where: str
) -> None:
    data, wire = sent(open_market, bare_http, asked)
    assert json.loads(data.model_dump_json(exclude_unset=True)) == wire
    items = getattr(data, where) if where else [data]
    assert items
    assert asked.tokens in (None, len(items))
    assert left_over(data) == ({"introduced_later"} if open_market.gaps.unknown_values == "on" else set())


def test_signals_between_two_of_them(open_market: MockServer, bare_http: httpx.Client) -> None:
    """Both ends are the very moments of signals, to the microsecond, and count."""
    data, _ = sent(open_market, bare_http, market.signal_history(["BRETT"]))
    every = data.results[0].signals
    assert len(every) == 100
    assert [one.created_at for one in every] == sorted((one.created_at for one in every), reverse=True)
    newest, oldest = every[10].created_at, every[30].created_at
    data, _ = sent(open_market, bare_http, market.signal_history(["BRETT"], oldest, newest))
    found = data.results[0].signals
    assert [one for one in every if oldest <= one.created_at <= newest] == found
    assert found
    later = newest + timedelta(days=400)
    data, _ = sent(open_market, bare_http, market.signal_history(["BRETT"], later))
    assert data.results[0].signals == []


def test_limits_are_the_tokens_own(open_market: MockServer, bare_http: httpx.Client) -> None:
    asked = market.token_signals(["BRETT", TokenQuery("TOSHI", 1)], limit=100)
    data, _ = sent(open_market, bare_http, asked)
    assert [len(one.signals) == one.signal_count for one in data.results] == [True, True]
    brett, toshi = data.results
    assert brett.signal_count == 100
    assert toshi.signal_count <= 1
