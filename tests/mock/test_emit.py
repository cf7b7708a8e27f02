"""Signals that somebody asks for: now or at a time, with any of their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from eth_utils.address import is_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError, MockService, MockSignal
from tradesdk_mock.market.emitted_signals import first_signal
from tradesdk_mock.market.indicators import LONG, SHORT
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import find, lively

from .._rows import each_of
from .._texts import texts
from ._http import BASE, BNB, HOUR, START, in_process, walk, without_past


def wire(signal: MockSignal) -> dict[str, Any]:
    """The record that is sent."""
    found = asdict(signal)
    del found["published_at"]
    return found


def service(seed: int = 7, **options: Any) -> MockService:
    made = MockService(**{"seed": seed, "clock": MockClock(START), "signals": "scripted", **options})
    if not options:
        without_past(made)
    return made


@pytest.fixture
def mock() -> Iterator[MockService]:
    with service() as made:
        yield made


def new(mock: MockService, chain: int = BASE, since: int = START) -> list[dict[str, Any]]:
    """What the history has of a chain since then."""
    with in_process(mock) as http:
        return walk(http, "/v1/signals/history", **{"chain": chain, "from": since, "limit": 100})[::-1]


def test_an_emitted_signal_is_published_at_once_and_as_it_was_asked_for(mock: MockService) -> None:
    asked: dict[str, Any] = {"chain_id": BNB, "confidence": 1, "price_usd": 2, "timestamp": START + HOUR}
    signal = mock.emit_signal(token="cake", direction="SELL", **asked)
    cake = find(7, BNB, "CAKE")
    assert cake is not None
    assert signal == MockSignal(
        **{**asked, "id": signal.id, "token_symbol": "CAKE", "token_address": cake.address, "direction": "SELL"},
        published_at=START,
    )
    assert new(mock, BNB) == [wire(signal)]
    assert new(mock) == []
    assert [mock.emit_signal(direction=each).direction for each in ("buy", "Sell", "SELL")] == ["BUY", "SELL", "SELL"]


def test_what_is_left_out_follows_from_the_seed_and_the_number_of_signals_emitted(mock: MockService) -> None:
    emitted = [mock.emit_signal() for _ in range(40)]
    with service(signals="live") as same, service(8) as other:
        assert [same.emit_signal() for _ in range(40)] == emitted
        assert [other.emit_signal().token_address for _ in range(40)] != [signal.token_address for signal in emitted]
    assert {signal.direction for signal in emitted} == {"BUY", "SELL"}
    assert len({signal.id for signal in emitted}) == 40
    assert min(len({getattr(one, name) for one in emitted}) for name in ("token_symbol", "confidence")) > 20
    for signal in emitted:
        token = find(7, BASE, signal.token_address)
        assert token in lively(7, BASE)
        assert (signal.chain_id, signal.token_symbol) == (BASE, token.symbol)
        assert signal.price_usd == prices(7).usd(token, START)
        assert 0.5 <= signal.confidence <= 1
        assert (signal.timestamp, signal.published_at) == (START, START)
    assert new(mock) == [wire(signal) for signal in emitted]


def test_what_is_asked_for_does_not_change_what_is_not(mock: MockService) -> None:
    with service() as chosen:
        for _ in range(10):
            expected, signal = mock.emit_signal(), chosen.emit_signal(price_usd=1, timestamp=5)
            assert signal == MockSignal(**{**asdict(expected), "price_usd": 1.0, "timestamp": 5})
        assert mock.emit_signal(token="AERO").direction == chosen.emit_signal().direction


def test_a_token_by_any_of_its_names(mock: MockService) -> None:
    brett = find(7, BASE, "BRETT")
    assert brett is not None
    for name in ("BRETT", "brett", brett.address, brett.address.lower(), "0x" + brett.address[2:].upper()):
        signal = mock.emit_signal(token=name)
        assert (signal.token_symbol, signal.token_address) == ("BRETT", brett.address)
        assert signal.price_usd == prices(7).usd(brett, START)


def test_tokens_that_the_market_does_not_have_are_made_up(mock: MockService) -> None:
    one, again, cased = (mock.emit_signal(token=name) for name in ("PEPE2 ☂", "PEPE2 ☂", "pepe2 ☂"))
    assert (one.token_symbol, cased.token_symbol) == ("PEPE2 ☂", "pepe2 ☂")
    assert one.token_address == again.token_address == cased.token_address
    assert one.price_usd == again.price_usd > 0
    assert is_checksum_address(one.token_address)
    unknown = "0x" + "ab" * 20
    signal = mock.emit_signal(token=unknown)
    assert (signal.token_address.lower(), signal.token_symbol) == (unknown, "TABAB")
    assert is_checksum_address(signal.token_address)
    assert signal.price_usd > 0
    # A symbol of the other chain is unknown here.
    for token in ("PEPE2 ☂", "CAKE"):
        addresses = {mock.emit_signal(token=token, chain_id=chain).token_address for chain in (BASE, BNB)}
        assert len(addresses) == 2


WRONG: dict[str, list[Any]] = {
    "chain_id": [1, "8453", 8453.0, None, 10**5_000],
    "token": ["", "x" * 33, " AERO", "A\nB", "A\x00", "\ud800", "0x12", "0X" + "a" * 40, "0x" + "g" * 40, 5],
    "direction": ["buys", "HOLD", 1, []],
    "confidence": [1.01, -0.0001, math.nan, True, "0.5"],
    "price_usd": [0, -1, math.inf, math.nan, 10**400, False],
    "timestamp": [-1, 1.5, 2**53, "now", True],
    "at": [START - 61, -1, 1e11, math.nan, math.inf, 10**400, "soon", True],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_is_refused_and_changes_nothing(mock: MockService, name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises(MockServerError, match=f"^{name}: ") as caught:
            mock.emit_signal(**{name: value})
        assert len(str(caught.value)) < 200
        assert str(caught.value).isprintable()
    assert new(mock) == []
    with service() as other:
        assert mock.emit_signal() == other.emit_signal()


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts(max_size=40),
    st.binary(max_size=3),
    st.lists(st.none()),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "chain_id": st.sampled_from([BASE, BNB]) | ANYTHING,
            "token": texts(max_size=40) | ANYTHING,
            "direction": st.sampled_from(["BUY", "SELL"]) | ANYTHING,
            "confidence": st.floats(0, 1) | ANYTHING,
            "price_usd": st.floats(0) | ANYTHING,
            "timestamp": st.integers(0, 2**53) | ANYTHING,
            "at": st.floats(START - 100, START + 100) | ANYTHING,
        },
    )
)
def test_whatever_is_asked_for_comes_out_as_a_signal_or_as_one_clear_error(given: dict[str, Any]) -> None:
    with service() as mock:
        signal, problem = None, ""
        try:
            signal = mock.emit_signal(**given)
        except MockServerError as error:
            problem = str(error)
        if signal is None:
            named, _, said = problem.partition(": ")
            assert named in given
            assert said
            assert problem.isprintable()
            assert new(mock, BASE, 0) == new(mock, BNB, 0) == []
            return
        for name, value in given.items():
            if value is not None and name not in ("token", "at"):
                assert getattr(signal, name) == (float(value) if name in ("confidence", "price_usd") else value)
        mock.clock.set(max(signal.published_at, START))
        found = new(mock, signal.chain_id, 0)
        assert found == [wire(signal)]
        assert json.loads(json.dumps(found, allow_nan=False)) == found


@each_of("chain_id", [BASE, BNB])
def test_a_prompted_signal_says_where_the_averages_stand(chain_id: int) -> None:
    market, directions = prices(7), set()
    for ordinal in range(30):
        when = START + 137.25 * ordinal
        signal, green, reason, short, long = first_signal(market, chain_id, ordinal, when)
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
        assert reason == f"The short moving average is {'above' if short > long else 'below'} the long one."
        assert green == next(back for back in range(30) if closes[back] <= closes[back + 1])
        assert first_signal(market, chain_id, ordinal, when) == (signal, green, reason, short, long)
        directions.add(signal.direction)
    assert directions == {"BUY", "SELL"}
