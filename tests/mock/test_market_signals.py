"""Signals as market data: the same as the account API's, dressed differently, with filters and limits."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.core.messages import Request
from tradesdk_mock.market.indicators import LONG, SHORT
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import Token, find, lively, tokens

from ._market import Market
from ._signals import emit
from ._support import START

DAY = 86_400
WAITING = "WAITING FOR SIGNAL"


@pytest.fixture(scope="module")
def shop() -> Market:
    """Nothing here changes it, and its time stands still."""
    return Market()


def seconds(record: dict[str, Any]) -> int:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["createdAt"])
    return int(datetime.fromisoformat(record["createdAt"]).timestamp())


def iso(at: float, zone: str = "Z") -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S") + zone


def history(shop: Market, identifier: str = "BRETT", **fields: object) -> list[dict[str, Any]]:
    """The history of a token; a filter that is None isn't sent."""
    sent = {name: value for name, value in fields.items() if value is not None}
    (result,) = shop.results("signal-history", identifier, **sent)
    assert result["signalCount"] == len(result["signals"]) <= 100
    found: list[dict[str, Any]] = result["signals"]
    return found


def account_history(shop: Market, address: str) -> list[dict[str, Any]]:
    """What the account API says about a token."""
    query = f"chain=8453&limit=100&token_address={address}".encode()
    headers = [(b"authorization", b"Bearer mock_full_enterprise_me")]
    reply = shop.pipeline.answer(Request("GET", "/v1/signals/history", query, headers))
    assert isinstance(reply.body, bytes)
    found: list[dict[str, Any]] = json.loads(reply.body)["data"]
    return found


def test_they_are_the_signals_of_the_account_api(shop: Market) -> None:
    brett = find(7, 8453, "BRETT")
    assert brett is not None
    mine = [record for record in history(shop) if record["signal"] != WAITING]
    theirs = account_history(shop, brett.address)
    assert len(mine) == len(theirs) > 15
    for one, other in zip(mine, theirs, strict=True):
        assert one["signal"] == other["direction"]
        assert one["signalPriceUsd"] == other["price_usd"]
        assert seconds(one) == other["timestamp"]
        assert one["crossoverDetected"] is True
        assert one["previousShortSMA"] is not None
        # A crossing from below is a buy: before it, the short average was the lower one.
        assert (one["previousShortSMA"] < one["previousLongSMA"]) == (one["signal"] == "BUY")


@pytest.mark.rule("market.signals.prices")
def test_prices_in_ether_times_the_rate_are_prices_in_usd(shop: Market) -> None:
    for token in lively(7, 8453)[::10]:
        for record in history(shop, token.symbol):
            at = seconds(record)
            assert record["signalPriceEth"] * prices(7).rate(at) == pytest.approx(record["signalPriceUsd"], rel=1e-7)
            assert record["signalPriceEth"] == pytest.approx(prices(7).eth(token, at), rel=1e-7)
            assert record["signalPriceUsd"] == prices(7).usd(token, at)
            assert 0.9 < record["previousLongSMA"] / record["signalPriceEth"] < 1.1


def test_a_price_is_also_written_out(shop: Market) -> None:
    for symbol in ("CLANKER", "BRETT", "TOBY"):
        for record in history(shop, symbol):
            usd, eth = re.fullmatch(r"\$([0-9.]+) \(([0-9.]+) ETH\)", record["signalPriceFormatted"]).groups()  # type: ignore[union-attr]
            assert float(usd) == pytest.approx(record["signalPriceUsd"], rel=1e-4)
            assert float(eth) == pytest.approx(record["signalPriceEth"], rel=1e-4)


def test_newest_first(shop: Market) -> None:
    for path in ("token-signals", "signal-history"):
        for result in shop.results(path, "BRETT", "TOSHI"):
            times = [seconds(record) for record in result["signals"]]
            assert times == sorted(times, reverse=True)
            assert START - 7 * DAY <= times[-1] <= times[0] <= START


def test_ten_unless_said_otherwise(shop: Market) -> None:
    body = {"tokens": [{"identifier": "BRETT"}, {"identifier": "TOSHI", "limit": 3}, {"identifier": "SKI", "limit": 1}]}
    results = shop.post("token-signals", body).data["results"]
    assert [result["signalCount"] for result in results] == [10, 3, 1]
    assert [len(result["signals"]) for result in results] == [10, 3, 1]
    assert [result["tokenSymbol"] for result in results] == ["BRETT", "TOSHI", "SKI"]
    assert results[0]["signals"] == history(shop)[:10]


def test_at_most_a_hundred() -> None:
    shop = Market()
    shop.results("token-signals", "BRETT")
    shop.clock.advance(DAY)
    assert len(history(shop)) == 100
    (result,) = shop.post("token-signals", {"tokens": [{"identifier": "brett", "limit": 100}]}).data["results"]
    assert result["signals"] == history(shop)
    for kind in ("BUY", "SELL"):
        assert len(history(shop, signalType=kind)) == 100


@pytest.mark.parametrize("kind", ["BUY", "SELL", WAITING])
def test_a_type_is_a_filter(shop: Market, kind: str) -> None:
    found = history(shop, signalType=kind)
    assert {record["signal"] for record in found} == {kind}
    assert found == [record for record in history(shop, signalType="ALL") if record["signal"] == kind]


def test_all_is_a_filter_and_no_signal(shop: Market) -> None:
    every = history(shop)
    assert every == history(shop, signalType="ALL")
    assert {record["signal"] for record in every} == {"BUY", "SELL", WAITING}


def test_waiting_is_no_crossing(shop: Market) -> None:
    counts = []
    for token in lively(7, 8453)[::4]:
        found = history(shop, token.symbol, signalType=WAITING)
        counts.append(len(found))
        for record in found:
            assert record["crossoverDetected"] is False
            assert "didn't cross" in record["reason"]
    # In a week one or two a day.
    assert 7 <= sum(counts) / len(counts) <= 14
    assert min(counts) >= 3


@pytest.mark.parametrize("token", lively(7, 8453)[::6], ids=lambda token: token.symbol)
def test_waiting_is_where_the_averages_of_hours_came_close(shop: Market, token: Token) -> None:

    def close(hour: int, back: int) -> float:
        return prices(7).marks(token, hour - back)[0]

    def gap(hour: int) -> float:
        return (
            sum(close(hour, back) for back in range(SHORT)) / SHORT
            - sum(close(hour, back) for back in range(LONG)) / LONG
        )

    expected = {}
    for hour in range((START - 7 * DAY) // 3_600 + 1, START // 3_600):
        recent = [close(hour, back) for back in range(12)]
        near = abs(gap(hour)) * LONG < 0.35 * (max(recent) - min(recent))
        if near and abs(gap(hour)) < abs(gap(hour - 1)) and (gap(hour) > 0) == (gap(hour - 1) > 0):
            green = next(back for back in range(12) if close(hour, back) <= close(hour, back + 1))
            expected[hour] = (green, pytest.approx(gap(hour - 1), rel=1e-3))
    found = {
        seconds(record) // 3_600: (
            record["consecutiveGreenCandles"],
            record["previousShortSMA"] - record["previousLongSMA"],
        )
        for record in history(shop, token.symbol, signalType=WAITING)
        if seconds(record) < START // 3_600 * 3_600
    }
    assert found == expected
    crossed = {
        seconds(record) // 3_600 for kind in ("BUY", "SELL") for record in history(shop, token.symbol, signalType=kind)
    }
    assert not crossed & set(found)


def test_both_dates_are_inclusive(shop: Market) -> None:
    every = history(shop)
    first, last = every[-3], every[2]
    found = history(shop, startDate=first["createdAt"], endDate=last["createdAt"])
    assert found == every[2:-2]
    assert history(shop, startDate=first["createdAt"]) == every[:-2]
    assert history(shop, endDate=last["createdAt"]) == every[2:]
    only = history(shop, startDate=last["createdAt"], endDate=last["createdAt"])
    assert only == [last]
    assert history(shop, startDate=iso(seconds(first) + 1), endDate=iso(seconds(last) - 1)) == every[3:-3]


def test_how_a_date_may_be_written(shop: Market) -> None:
    every = history(shop)
    last = seconds(every[4])
    for written in (
        iso(last),
        iso(last).lower(),
        iso(last, ""),
        iso(last, "+00:00"),
        iso(last, ".000Z"),
        iso(last, ".000000001Z"),
        iso(last + 7_200, "+02:00"),
        iso(last - 19_800, "-0530"),
    ):
        assert history(shop, endDate=written) == every[4:], written
    assert history(shop, endDate=iso(last - 1, ".999999Z")) == every[5:]
    assert history(shop, startDate=iso(last, ".5Z")) == every[:4]
    day = iso(START)[:10]
    assert history(shop, startDate=day) == history(shop, startDate=f"{day}T00:00:00Z")
    assert history(shop, startDate=f"{day}T00:00") == history(shop, startDate=f"{day}T00:00:00Z")


def test_dates_far_away(shop: Market) -> None:
    assert history(shop, startDate="0001-01-01T00:00:00+14:00", endDate="9999-12-31T23:59:59-14:00") == history(shop)
    assert history(shop, endDate="0001-01-01") == []
    assert history(shop, startDate="9999-12-31") == []


def test_a_token_without_signals_has_an_empty_list(shop: Market) -> None:
    quiet = tokens(7, 8453)[-1]
    for path in ("token-signals", "signal-history"):
        for identifier in ("ETH", quiet.coin_id):
            (result,) = shop.results(path, identifier)
            assert (result["signalCount"], result["signals"]) == (0, [])


def test_every_form_of_an_identifier_finds_the_token(shop: Market) -> None:
    brett = find(7, 8453, "BRETT")
    assert brett is not None
    wanted = shop.results("token-signals", "BRETT")
    for name in (brett.address, brett.address.lower(), brett.address.upper(), "based-brett", "BASED-BRETT", "brett"):
        assert shop.results("token-signals", name) == wanted
    assert wanted[0]["tokenAddress"] == brett.address


def test_time_brings_new_ones_and_leaves_the_old_ones() -> None:
    shop = Market()
    before = history(shop, "SKI", signalType=WAITING)
    shop.clock.advance(2 * DAY)
    after = history(shop, "SKI", signalType=WAITING)
    assert after[-len(before) :] == before
    assert len(after) > len(before)
    assert seconds(after[0]) <= shop.clock.now()
    assert START < seconds(history(shop, "SKI", signalType="BUY")[0]) <= shop.clock.now()


def test_waiting_or_advancing_is_the_same() -> None:
    one, two = Market(), Market()
    one.results("token-signals", "SKI")
    one.clock.advance(DAY)
    two.results("token-signals", "SKI")
    for _ in range(4):
        two.clock.advance(DAY / 4)
        two.results("token-signals", "SKI")
    assert history(one, "SKI") == history(two, "SKI")


def test_in_a_scripted_market_only_what_is_emitted_comes() -> None:
    shop = Market(signals="scripted")
    before = history(shop)
    shop.clock.advance(10 * DAY)
    assert history(shop) == before
    emit(shop.world, token="BRETT", direction="SELL", price_usd=0.0912)
    (newest, *rest) = history(shop)
    assert rest == before
    assert newest["signal"] == "SELL"
    assert newest["signalPriceUsd"] == 0.0912
    assert newest["signalPriceEth"] == pytest.approx(0.0912 / prices(7).rate(START + 10 * DAY), rel=1e-7)
    assert newest["createdAt"] == iso(START + 10 * DAY)
    assert newest["previousShortSMA"] is None
    assert newest["previousLongSMA"] is None


@settings(deadline=None, max_examples=50)
@given(
    timestamp=st.integers(0, 2**53 - 1),
    price=st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False),
)
def test_whatever_is_emitted_can_be_shown(timestamp: int, price: float) -> None:
    shop = Market(signals="scripted")
    emit(shop.world, token="BRETT", timestamp=timestamp, price_usd=price)
    date = iso(min(timestamp, 253_402_300_799))
    found = history(shop, startDate=date, endDate=None if timestamp > 253_402_300_799 else date)
    assert price in [record["signalPriceUsd"] for record in found]
    assert {record["createdAt"] for record in found} == {date}


def test_a_signal_of_a_token_of_another_chain_is_no_one_of_base() -> None:
    shop = Market(signals="scripted")
    before = history(shop)
    emit(shop.world, token="BRETT", chain_id=56)
    assert history(shop) == before


def test_unknown_values_in_everything_but_the_wrapper() -> None:
    answer = Market(unknown_values="on").post("token-signals", {"tokens": [{"identifier": "BRETT"}]})
    (result,) = answer.data["results"]
    for record in (answer.data, result, *result["signals"]):
        assert record["introduced_later"] == {"since": "next"}
    assert {record["signal"] for record in result["signals"]} == {"HOLD"}


def test_one_unknown_token_is_404_for_all(shop: Market) -> None:
    answer = shop.post(
        "token-signals", {"tokens": [{"identifier": "BRETT"}, {"identifier": "\x1b[31mNOPE" + "x" * 99}]}
    )
    assert answer.status == 404
    assert answer.error.startswith("No token '\\x1b[31mNOPExxx")
    for wrong in ("CAKE", "0x" + "00" * 20, "0x", "brett ", "BRETT\x00"):
        assert shop.post("token-prices", {"tokens": [{"identifier": wrong}]}).status == 404


def test_unknown_tokens_may_be_left_out() -> None:
    shop = Market(unknown_token="partial")
    body = {"tokens": [{"identifier": "NOPE", "limit": 1}, {"identifier": "TOSHI", "limit": 2}, {"identifier": "X"}]}
    (result,) = shop.post("token-signals", body).data["results"]
    assert (result["tokenSymbol"], result["signalCount"]) == ("TOSHI", 2)
    assert shop.post("token-signals", {"tokens": [{"identifier": "NOPE"}]}).status == 404


def test_records_come_one_after_the_other(shop: Market) -> None:
    """No signal twice: of a token there is never more than one in an hour."""
    times = [seconds(record) for record in history(shop, "AERO") if record["signal"] != WAITING]
    assert all(earlier > later for earlier, later in pairwise(times))


def test_ether_is_not_looked_for_since_the_world_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tradesdk_mock.api.market_signals._near", lambda *args: pytest.fail("its averages never differ")
    )
    assert history(Market(), "eth", signalType=WAITING) == []
