"""Signals as market data: those of the account API in another form, and WAITING FOR SIGNAL."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.market.indicators import LONG, SHORT
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import Token, lively, tokens

from ._buyer import Shop, open_shop
from ._http import START

pytestmark = pytest.mark.long

DAY = 86_400
WAITING = "WAITING FOR SIGNAL"


@pytest.fixture(scope="module")
def shop() -> Shop:
    """Nothing here changes it, and its time stands still."""
    return open_shop()


def seconds(record: dict[str, Any]) -> int:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["createdAt"])
    return int(datetime.fromisoformat(record["createdAt"]).timestamp())


def iso(at: float, zone: str = "Z") -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S") + zone


def history(shop: Shop, identifier: str = "BRETT", **fields: object) -> list[dict[str, Any]]:
    """The history of a token; a filter that is None isn't sent."""
    sent = {name: value for name, value in fields.items() if value is not None}
    (result,) = shop.results("signal-history", identifier, **sent)
    assert result["signalCount"] == len(result["signals"]) <= 100
    found: list[dict[str, Any]] = result["signals"]
    return found


@pytest.mark.rule("market.signals.prices")
def test_prices_in_ether_and_usd_and_written_out(shop: Shop) -> None:
    for token in lively(7, 8453)[::10]:
        for record in history(shop, token.symbol):
            at, eth, usd = seconds(record), record["signalPriceEth"], record["signalPriceUsd"]
            assert eth * prices(7).rate(at) == pytest.approx(usd, rel=1e-7)
            assert eth == pytest.approx(prices(7).eth(token, at), rel=1e-7)
            assert usd == prices(7).usd(token, at)
            assert 0.9 < record["previousLongSMA"] / eth < 1.1
            written = re.fullmatch(r"\$([0-9.]+) \(([0-9.]+) ETH\)", record["signalPriceFormatted"])
            assert written is not None
            assert [float(each) for each in written.groups()] == pytest.approx([usd, eth], rel=1e-4)


@pytest.mark.parametrize("token", lively(7, 8453)[::6], ids=lambda token: token.symbol)
def test_waiting_is_where_the_averages_of_hours_came_close(shop: Shop, token: Token) -> None:

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
    waiting = history(shop, token.symbol, signalType=WAITING)
    found = {
        seconds(record) // 3_600: (
            record["consecutiveGreenCandles"],
            record["previousShortSMA"] - record["previousLongSMA"],
        )
        for record in waiting
        if seconds(record) < START // 3_600 * 3_600
    }
    assert found == expected
    assert 3 <= len(waiting) <= 21, "in a week one or two a day"
    assert {(record["crossoverDetected"], "didn't cross" in record["reason"]) for record in waiting} == {(False, True)}
    crossed = {
        seconds(record) // 3_600 for kind in ("BUY", "SELL") for record in history(shop, token.symbol, signalType=kind)
    }
    assert not crossed & set(found)


def test_how_a_date_may_be_written(shop: Shop) -> None:
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
    # And dates far away.
    assert history(shop, startDate="0001-01-01T00:00:00+14:00", endDate="9999-12-31T23:59:59-14:00") == every
    assert history(shop, endDate="0001-01-01") == history(shop, startDate="9999-12-31") == []


def test_a_token_without_signals_has_an_empty_list(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("token-signals", "signal-history"):
        for result in shop.results(path, "ETH", tokens(7, 8453)[-1].coin_id):
            assert (result["signalCount"], result["signals"]) == (0, [])
    # Nor are any looked for since the world was made: the averages of ether never differ.
    monkeypatch.setattr("tradesdk_mock.api.market_signals._near", lambda *args: pytest.fail("searched"))
    assert history(shop, "eth", signalType=WAITING) == []


def test_time_brings_new_ones_and_leaves_the_old_ones() -> None:
    """Whether it passes in one jump or several. No answer has more than a hundred."""
    shop, other = open_shop(), open_shop()
    other.results("token-signals", "SKI")
    before = history(shop, "SKI", signalType=WAITING)
    shop.clock.advance(DAY)
    for _ in range(4):
        other.clock.advance(DAY / 4)
        other.results("token-signals", "SKI")
    after = history(shop, "SKI", signalType=WAITING)
    assert after[-len(before) :] == before
    assert len(after) > len(before)
    newest = history(shop, "SKI")
    assert newest == history(other, "SKI")
    assert len(newest) == 100
    (result,) = shop.post("token-signals", {"tokens": [{"identifier": "ski", "limit": 100}]}).data["results"]
    assert result["signals"] == newest
    for kind in ("BUY", "SELL"):
        found = history(shop, "SKI", signalType=kind)
        assert len(found) == 100
        assert START < seconds(found[0]) <= shop.clock.now()


def test_in_a_scripted_market_only_what_is_emitted_comes() -> None:
    shop = open_shop(signals="scripted")
    before = history(shop)
    shop.clock.advance(10 * DAY)
    shop.emit_signal(token="BRETT", chain_id=56)
    assert history(shop) == before
    shop.emit_signal(token="BRETT", direction="SELL", price_usd=0.0912)
    (newest, *rest) = history(shop)
    assert rest == before
    assert (newest["signal"], newest["signalPriceUsd"]) == ("SELL", 0.0912)
    assert newest["signalPriceEth"] == pytest.approx(0.0912 / prices(7).rate(START + 10 * DAY), rel=1e-7)
    assert newest["createdAt"] == iso(START + 10 * DAY)
    assert newest["previousShortSMA"] is newest["previousLongSMA"] is None


@settings(deadline=None, max_examples=50)
@given(
    timestamp=st.integers(0, 2**53 - 1),
    price=st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False),
)
def test_whatever_is_emitted_can_be_shown(timestamp: int, price: float) -> None:
    shop = open_shop(signals="scripted")
    shop.emit_signal(token="BRETT", timestamp=timestamp, price_usd=price)
    date = iso(min(timestamp, 253_402_300_799))
    found = history(shop, startDate=date, endDate=None if timestamp > 253_402_300_799 else date)
    assert price in [record["signalPriceUsd"] for record in found]
    assert {record["createdAt"] for record in found} == {date}
