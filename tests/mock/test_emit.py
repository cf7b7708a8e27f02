"""Signals that somebody asks for: now or at a time, with any of their fields."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import pytest
from eth_utils.address import is_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock
from tradesdk_mock.market.emitted_signals import prompted
from tradesdk_mock.market.indicators import LONG, SHORT
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import find, lively
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import signal_feed
from tradesdk_mock.trading.signal_feed import MockSignal

from ._signals import BASE, BNB, HOUR, emit, new, wire, world
from ._support import START


def test_an_emitted_signal_is_published_at_once_and_as_it_was_asked_for() -> None:
    made = world()
    signal = emit(made, chain_id=BNB, token="cake", direction="SELL", confidence=1, price_usd=2, timestamp=START - HOUR)
    cake = find(7, BNB, "CAKE")
    assert cake is not None
    assert (signal.token_symbol, signal.token_address, signal.chain_id) == ("CAKE", cake.address, BNB)
    assert (signal.direction, signal.confidence, signal.price_usd, signal.timestamp) == ("SELL", 1.0, 2.0, START - HOUR)
    assert signal.published_at == START
    assert new(made, BNB) == [wire(signal)]
    assert new(made, BASE) == []
    assert list(wire(signal)) == list(signal_feed.FIELDS)


def test_what_is_left_out_follows_from_the_seed_and_the_number_of_signals_emitted() -> None:
    made, same, other = world(), world("live"), World(seed=8, clock=MockClock(START), market="scripted")
    emitted = [emit(made) for _ in range(40)]
    assert [emit(same) for _ in range(40)] == emitted
    assert [emit(other).token_address for _ in range(40)] != [signal.token_address for signal in emitted]
    assert {signal.chain_id for signal in emitted} == {BASE}
    assert {signal.direction for signal in emitted} == {"BUY", "SELL"}
    assert len({signal.id for signal in emitted}) == 40
    assert len({signal.token_symbol for signal in emitted}) > 20
    assert len({signal.confidence for signal in emitted}) > 20
    for signal in emitted:
        token = find(7, BASE, signal.token_address)
        assert token in lively(7, BASE)
        assert signal.token_symbol == token.symbol
        assert signal.price_usd == prices(7).usd(token, START)
        assert 0.5 <= signal.confidence <= 1
        assert (signal.timestamp, signal.published_at) == (START, START)
    assert new(made) == [wire(signal) for signal in emitted]


def test_what_is_asked_for_does_not_change_what_is_not() -> None:
    plain, chosen = world(), world()
    for _ in range(10):
        expected, signal = emit(plain), emit(chosen, price_usd=1, timestamp=5)
        assert signal == MockSignal(**{**asdict(expected), "price_usd": 1.0, "timestamp": 5})
    assert emit(plain, token="AERO").direction == emit(chosen).direction


def test_a_direction_in_any_case() -> None:
    made = world()
    assert [emit(made, direction=each).direction for each in ("buy", "Sell", "SELL")] == ["BUY", "SELL", "SELL"]


def test_a_token_by_any_of_its_names() -> None:
    made = world()
    brett = find(7, BASE, "BRETT")
    assert brett is not None
    for name in ("BRETT", "brett", brett.address, brett.address.lower(), "0x" + brett.address[2:].upper()):
        signal = emit(made, token=name)
        assert (signal.token_symbol, signal.token_address) == ("BRETT", brett.address)
        assert signal.price_usd == prices(7).usd(brett, START)


def test_tokens_that_the_market_does_not_have_are_made_up() -> None:
    made = world()
    one, again, cased = (emit(made, token=name) for name in ("PEPE2 ☂", "PEPE2 ☂", "pepe2 ☂"))
    assert (one.token_symbol, cased.token_symbol) == ("PEPE2 ☂", "pepe2 ☂")
    assert one.token_address == again.token_address == cased.token_address
    assert one.price_usd == again.price_usd > 0
    assert is_checksum_address(one.token_address)
    assert emit(made, token="PEPE2 ☂", chain_id=BNB).token_address != one.token_address
    unknown = "0x" + "ab" * 20
    signal = emit(made, token=unknown)
    assert signal.token_address.lower() == unknown
    assert is_checksum_address(signal.token_address)
    assert signal.token_symbol == "TABAB"
    assert signal.price_usd > 0
    # A symbol of the other chain is unknown here.
    assert emit(made, token="CAKE", chain_id=BASE).token_address != emit(made, token="CAKE", chain_id=BNB).token_address


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"chain_id": 1}, "chain_id"),
        ({"chain_id": "8453"}, "chain_id"),
        ({"chain_id": 8453.0}, "chain_id"),
        ({"chain_id": None}, "chain_id"),
        ({"chain_id": 10**5_000}, "chain_id"),
        ({"token": ""}, "token"),
        ({"token": "x" * 33}, "token"),
        ({"token": " AERO"}, "token"),
        ({"token": "A\nB"}, "token"),
        ({"token": "A\x00"}, "token"),
        ({"token": "\ud800"}, "token"),
        ({"token": "0x12"}, "token"),
        ({"token": "0X" + "a" * 40}, "token"),
        ({"token": "0x" + "g" * 40}, "token"),
        ({"token": 5}, "token"),
        ({"direction": "buys"}, "direction"),
        ({"direction": "HOLD"}, "direction"),
        ({"direction": 1}, "direction"),
        ({"direction": []}, "direction"),
        ({"confidence": 1.01}, "confidence"),
        ({"confidence": -0.0001}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"confidence": "0.5"}, "confidence"),
        ({"price_usd": 0}, "price_usd"),
        ({"price_usd": -1}, "price_usd"),
        ({"price_usd": math.inf}, "price_usd"),
        ({"price_usd": math.nan}, "price_usd"),
        ({"price_usd": 10**400}, "price_usd"),
        ({"price_usd": False}, "price_usd"),
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": 1.5}, "timestamp"),
        ({"timestamp": 2**53}, "timestamp"),
        ({"timestamp": "now"}, "timestamp"),
        ({"timestamp": True}, "timestamp"),
        ({"at": START - 61}, "at"),
        ({"at": -1}, "at"),
        ({"at": 1e11}, "at"),
        ({"at": math.nan}, "at"),
        ({"at": math.inf}, "at"),
        ({"at": 10**400}, "at"),
        ({"at": "soon"}, "at"),
        ({"at": True}, "at"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_can_not_be_is_refused_and_changes_nothing(given: dict[str, Any], named: str) -> None:
    made = world()
    with pytest.raises(ValueError, match=f"^{named}: ") as caught:
        emit(made, **given)
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()
    assert new(made) == []
    assert emit(made) == emit(world())


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=3),
    st.lists(st.none()),
)


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "chain_id": st.sampled_from([BASE, BNB]) | ANYTHING,
            "token": st.text(max_size=40) | ANYTHING,
            "direction": st.sampled_from(["BUY", "SELL"]) | ANYTHING,
            "confidence": st.floats(0, 1) | ANYTHING,
            "price_usd": st.floats(0) | ANYTHING,
            "timestamp": st.integers(0, 2**53) | ANYTHING,
            "at": st.floats(START - 100, START + 100) | ANYTHING,
        },
    )
)
def test_whatever_is_asked_for_comes_out_as_a_signal_or_as_one_clear_error(given: dict[str, Any]) -> None:
    made = World(seed=7, clock=MockClock(START), market="scripted")
    made.store.set_meta("signals_upto", repr(START))  # no past: it takes long to make
    signal, problem = None, ""
    try:
        signal = emit(made, **given)
    except ValueError as error:
        problem = str(error)
    if signal is None:
        named, _, said = problem.partition(": ")
        assert named in given
        assert said
        assert problem.isprintable()
        assert signal_feed.last_seq(made) == 0
        return
    for name, value in given.items():
        if value is not None and name not in ("token", "at"):
            assert getattr(signal, name) == (float(value) if name in ("confidence", "price_usd") else value)
    made.clock.set(max(signal.published_at, START))
    found = new(made, signal.chain_id, after=0)
    assert found == [wire(signal)]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_wrong_date_is_published_as_it_is() -> None:
    made = world()
    years = [0, 5, 99_999_999_999, 2**53 - 1]
    assert [emit(made, timestamp=year).timestamp for year in years] == years
    assert [record["timestamp"] for record in new(made)] == years


@pytest.mark.parametrize("chain_id", [BASE, BNB])
def test_a_prompted_signal_says_where_the_averages_stand(chain_id: int) -> None:
    market, directions = prices(7), set()
    for ordinal in range(30):
        when = START + 137.25 * ordinal
        signal, green, reason, short, long = prompted(market, chain_id, ordinal, when)
        token = find(7, chain_id, signal.token_symbol)
        assert token in lively(7, chain_id)
        assert (signal.timestamp, signal.published_at) == (int(when), when)
        assert signal.price_usd == market.usd(token, when)
        # Closes of the last candles that were over by then, the newest one first.
        minute = int(when) // 60
        closes = [market.marks(token, (minute - back) // 60)[(minute - back) % 60] for back in range(30)]
        assert short == pytest.approx(sum(closes[:SHORT]) / SHORT, rel=1e-12)
        assert long == pytest.approx(sum(closes[:LONG]) / LONG, rel=1e-12)
        assert signal.direction == ("BUY" if short > long else "SELL")
        assert reason == f"The short moving average stands {'above' if short > long else 'below'} the long one."
        assert green == next(back for back in range(30) if closes[back] <= closes[back + 1])
        assert prompted(market, chain_id, ordinal, when) == (signal, green, reason, short, long)
        directions.add(signal.direction)
    assert directions == {"BUY", "SELL"}
