"""The example that tries a rule on the past: its arithmetic, and what it can't know."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Signal, TradeClient
from tradesdk_mock import MockClock, MockService

from . import _answers

pytestmark = pytest.mark.long

example = importlib.import_module("backtest_a_rule")
BORN, DAY, MONEY = example.BORN, example.DAY, example.MONEY
Purse, Rule = example.Purse, example.Rule

TOKEN = "0x532f27101965dd16442E59d40670FaF5eBB142E4"
SURE = Rule(confidence=0.8, memory=3_600, margin=0.01, stop=0.05, target=0.2, fee=0.01)
# A rule that finds something to do within hours.
HASTY = Rule(confidence=0.6, memory=3_600, margin=0.0005, stop=0.004, target=0.01)


def signal(minute: float, price: float, direction: str = "SELL", confidence: float = 0.1, token: str = TOKEN) -> Signal:
    about = {"token_address": token, "direction": direction, "confidence": confidence, "price_usd": price}
    return Signal.model_validate(_answers.signal(f"sig_{minute}", timestamp=BORN + int(minute * 60), **about))


def lived(*signals: Signal, rule: Any = SURE, money: float = 1_000) -> Any:
    purse = Purse(rule, money)
    for each in signals:
        purse.take(each)
    return purse


# Its arithmetic


def test_a_trade_to_the_cent() -> None:
    """Bought and sold at the price after the one that it was decided on, and a fee each time."""
    purse = lived(
        signal(0, 1.0),
        signal(1, 1.1, "BUY", 0.9),  # wanted here,
        signal(2, 1.2),  # bought here,
        signal(3, 1.5),  # at its target here,
        signal(4, 1.4),  # sold here
        signal(5, 9.9),
    )
    assert purse.money == pytest.approx(1_000 * 0.99 / 1.2 * 1.4 * 0.99)
    assert purse.units == 0
    assert purse.result.trades == [pytest.approx(0.99 / 1.2 * 1.4 * 0.99 - 1)]
    bought = 1_000 * 0.99 / 1.2
    assert purse.result.worth == [
        pytest.approx(value) for value in (1_000, 1_000, bought * 1.2, bought * 1.5, bought * 1.4 * 0.99, purse.money)
    ]
    assert purse.result.held == [pytest.approx(990 * price) for price in (1.0, 1.1, 1.2, 1.5, 1.4, 9.9)]
    assert purse.result.times == [BORN + 60 * minute for minute in range(6)]


@pytest.mark.parametrize(
    ("direction", "confidence", "price", "wanted"),
    [
        ("BUY", 0.8, 1.1, "BUY"),
        ("BUY", 0.79, 1.1, None),
        ("SELL", 0.9, 1.1, None),
        ("BUY", 0.9, 1.005, None),  # not far enough from the average
        ("BUY", 0.9, 0.9, None),
        ("hold", 0.9, 1.1, None),  # a direction that nobody knows yet
    ],
)
def test_when_it_buys(direction: str, confidence: float, price: float, wanted: str | None) -> None:
    assert lived(signal(0, 1.0), signal(0, price, direction, confidence)).wanted == wanted


@pytest.mark.parametrize(
    ("direction", "confidence", "price", "wanted"),
    [
        ("SELL", 0.1, 1.139, "SELL"),  # 5 % below what was paid
        ("SELL", 0.1, 1.141, None),
        ("BUY", 1.0, 1.0, "SELL"),  # a stop is a stop
        ("SELL", 0.1, 1.439, None),
        ("SELL", 0.1, 1.441, "SELL"),  # 20 % above
        ("BUY", 1.0, 1.2, None),
    ],
)
def test_when_it_sells(direction: str, confidence: float, price: float, wanted: str | None) -> None:
    before = signal(0, 1.0), signal(0, 1.1, "BUY", 0.9), signal(1, 1.2)
    assert lived(*before, signal(2, price, direction, confidence)).wanted == wanted


def test_it_sells_when_the_trend_has_turned() -> None:
    before = signal(0, 1.0), signal(0, 1.1, "BUY", 0.9), signal(1, 1.2), signal(600, 1.2)
    assert lived(*before, signal(601, 1.18, "SELL", 0.9)).wanted == "SELL"
    assert lived(*before, signal(601, 1.18, "SELL", 0.7)).wanted is None
    assert lived(*before, signal(601, 1.195, "SELL", 0.9)).wanted is None


def test_the_average_forgets() -> None:
    """After the time of its memory a price that stands still has been taken over by 63 %."""
    assert lived(signal(0, 1.0), signal(60, 2.0)).average == pytest.approx(1.632, abs=0.001)
    minutes = [signal(minute, 2.0) for minute in range(1, 61)]
    assert lived(signal(0, 1.0), *minutes).average == pytest.approx(1.632, abs=0.001)


@pytest.mark.parametrize(
    ("values", "fall"),
    [([], 0.0), ([5.0], 0.0), ([1.0, 2.0, 3.0], 0.0), ([4.0, 2.0, 8.0, 6.0], 0.5), ([4.0, 3.0, 8.0, 2.0], 0.75)],
)
def test_the_deepest_fall(values: list[float], fall: float) -> None:
    assert example.drawdown(values) == fall


SIGNALS = st.lists(
    st.tuples(
        st.integers(1, 400),
        st.floats(0.5, 2),
        st.sampled_from(["BUY", "SELL"]),
        st.floats(0.5, 1),
        st.sampled_from(["0xa", "0xb"]),
    ),
    min_size=1,
    max_size=40,
)
Drawn = list[tuple[int, float, str, float, str]]


def in_order(drawn: Drawn) -> list[Signal]:
    minute = 0
    found: list[Signal] = []
    for wait, price, direction, confidence, token in drawn:
        minute += wait
        found.append(signal(minute, price, direction, confidence, token))
    return found


@given(SIGNALS, st.integers(0, 40))
def test_what_comes_later_changes_nothing_that_was(drawn: Drawn, cut: int) -> None:
    signals, symbols = in_order(drawn), {"0xa": "A", "0xb": "B"}
    whole, part = (example.run(symbols, some, HASTY) for some in (signals, signals[:cut]))
    seen = len(part.together.times)
    assert seen == len(signals[:cut])
    assert whole.together.worth[:seen] == part.together.worth
    assert whole.together.held[:seen] == part.together.held
    for address, result in part.tokens.items():
        assert whole.tokens[address].trades[: len(result.trades)] == result.trades


@given(SIGNALS)
def test_together_is_the_sum_of_the_tokens(drawn: Drawn) -> None:
    done = example.run({"0xa": "A", "0xb": "B"}, in_order(drawn), HASTY)
    tokens = list(done.tokens.values())
    for name in ("worth", "held"):
        last = [(getattr(result, name) or [MONEY / 2])[-1] for result in tokens]
        assert getattr(done.together, name)[-1] == pytest.approx(sum(last))
    assert sorted(done.together.trades) == sorted(trade for result in tokens for trade in result.trades)
    assert len(done.together.times) == sum(len(result.times) for result in tokens)


def test_what_has_no_price_and_what_was_not_chosen_is_passed_over() -> None:
    signals = [signal(0, 1.0), signal(1, 0.0), signal(2, -1.0), signal(3, 2.0, token="0xb"), signal(4, 3.0)]
    done = example.run({TOKEN: "BRETT"}, signals, SURE)
    assert done.together.times == [BORN, BORN + 240]
    assert done.together.held == pytest.approx([MONEY * 0.99, MONEY * 0.99 * 3])


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0, 30, [0, 5, 10, 15, 20, 25, 30]),
        (-8.3, 12.1, [-5, 0, 5, 10]),
        (0.11, 0.43, [0.2, 0.3, 0.4]),
        (0, 0, [0]),
    ],
)
def test_round_numbers_beside_the_picture(low: float, high: float, found: list[float]) -> None:
    assert example.round_numbers(low, high) == pytest.approx(found)


# On a mock


@contextmanager
def mocked() -> Iterator[tuple[MockService, TradeClient]]:
    with (
        MockService(seed=7, clock=MockClock(BORN)) as mock,
        httpx.Client(transport=mock.transport()) as http,
        TradeClient(api_key="mock_read_enterprise_me", base_url=mock.url, http_client=http, clock=mock.clock) as client,
    ):
        yield mock, client


def test_followed_live_it_does_the_same() -> None:
    """Signals as the stream hands them out lead to the same trades as those read from the history afterwards."""
    end = BORN + 3_600
    with mocked() as (mock, client):
        symbols = example.tokens_before(client, BORN, 5)

        def happening() -> Iterator[Signal]:
            with client.signals.stream(chain=8453, since=BORN) as stream:
                for found in stream:
                    if found.timestamp.timestamp() > end:
                        return
                    yield found

        live = example.run(symbols, happening(), HASTY)
        assert mock.clock.now() > end
    with mocked() as (mock, client):
        mock.clock.advance(3_660)
        later = example.backtest(client, BORN, end, 5, HASTY)
    assert later == live
    assert len(live.together.trades) > 1


def test_tokens_are_chosen_by_what_was_before() -> None:
    with mocked() as (mock, client):
        before = example.tokens_before(client, BORN, 5)
        mock.emit_signal(token="BRETT", direction="BUY", confidence=0.9, at=BORN + 10)
        mock.clock.advance(3_600)
        assert example.tokens_before(client, BORN, 5) == before
        latest = example.tokens_before(client, BORN + 3_600, 5)
    assert len(before) == len(latest) == 5
    assert latest != before


def test_nothing_to_choose_from() -> None:
    with mocked() as (_, client), pytest.raises(SystemExit, match="no signals before that time"):
        example.backtest(client, BORN - 30 * DAY, BORN - 29 * DAY, 5, HASTY)
