"""Signals and prices that a test asks for, through the object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError, MockService

from ._support import FULL, START


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        yield mock


def history(mock: MockService, chain: int = 8453) -> list[tuple[str, str, int]]:
    """(token, direction, seconds since the start) of what was published since then, oldest first."""
    with httpx.Client(
        transport=mock.transport(), base_url=mock.url, headers={"Authorization": f"Bearer {FULL}"}
    ) as http:
        found = http.get("/v1/signals/history", params={"chain": chain, "from": START}).json()["data"]
    return [(one["token_symbol"], one["direction"], one["timestamp"] - START) for one in reversed(found)]


def test_a_script_is_played_as_the_clock_gets_there(mock: MockService) -> None:
    made = mock.emit_signals(
        [
            {"token": "BRETT", "direction": "BUY", "confidence": 0.9},
            {"token": "AERO", "direction": "SELL", "after": 40},
            {"token": "TOSHI", "direction": "BUY", "after": 20.5, "price_usd": 2.0},
            {"token": "CAKE", "direction": "BUY", "chain_id": 56},
        ]
    )
    assert [signal.published_at - START for signal in made] == [0, 40, 20.5, 0]
    assert (made[0].confidence, made[2].price_usd) == (0.9, 2.0)
    assert history(mock) == [("BRETT", "BUY", 0)]
    assert history(mock, 56) == [("CAKE", "BUY", 0)]
    mock.clock.advance(39)
    assert history(mock) == [("BRETT", "BUY", 0), ("TOSHI", "BUY", 20)]
    mock.clock.advance(1)
    assert history(mock) == [("BRETT", "BUY", 0), ("TOSHI", "BUY", 20), ("AERO", "SELL", 40)]


def test_the_script_begins_at_the_services_time(mock: MockService) -> None:
    mock.set_gaps(clock_skew=600)
    (made,) = mock.emit_signals([{"after": 5}])
    assert made.published_at == START + 605


def test_a_series_comes_at_even_steps(mock: MockService) -> None:
    made = mock.emit_series(token="BRETT", direction="BUY", after=5, count=3, every=10)
    assert [signal.published_at - START for signal in made] == [5, 15, 25]
    assert history(mock) == []
    mock.clock.advance(15)
    assert history(mock) == [("BRETT", "BUY", 5), ("BRETT", "BUY", 15)]
    together = mock.emit_series(count=2, at=START + 60)
    assert [signal.published_at - START for signal in together] == [60, 60]
    assert len({signal.id for signal in (*made, *together)}) == 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"count": 0}, "count: must be from 1 to 10,000"),
        ({"count": 10_001}, "count: must be from 1 to 10,000"),
        ({"every": -1}, "every: must be from 0 to 86,400 seconds"),
        ({"after": -1}, "after: must be seconds from now, and not beside at"),
        ({"after": 1, "at": START + 1}, "after: must be seconds from now, and not beside at"),
        ({"count": 2, "every": 60, "confidence": 2}, "confidence: must be"),
        ({"count": 3, "at": 1e11 - 1, "every": 86_400}, "at: "),
    ],
)
def test_a_series_that_can_not_be_publishes_nothing(mock: MockService, given: dict[str, Any], words: str) -> None:
    with pytest.raises(MockServerError, match=f"^{words}"):
        mock.emit_series(**given)
    mock.clock.advance(86_400)
    assert (mock.status()["signals"], history(mock)) == (0, [])


def test_an_empty_script(mock: MockService) -> None:
    assert mock.emit_signals([]) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"confidence": 1.5}, "signal 2: confidence: must be a number from 0.0 to 1.0, not 1.5"),
        ({"chain_id": 1}, "signal 2: chain_id: must be 8453 or 56, not 1"),
        ({"after": -1}, "signal 2: after: must be seconds from now, not -1"),
        ({"after": float("nan")}, "signal 2: after: must be seconds from now, not nan"),
        ({"after": 10**30}, "signal 2: after: must be seconds from now, not 1000"),
        ({"after": True}, "signal 2: after: must be seconds from now, not True"),
        ({"after": "5"}, "signal 2: after: must be seconds from now, not '5'"),
        ({"after": 9.9e10}, "signal 2: at: "),
        (
            {"at": START},
            "signal 2: 'at' is not one of after, chain_id, token, direction, confidence, price_usd, timestamp",
        ),
        ({"tokens": "BRETT"}, "signal 2: 'tokens' is not one of"),
        ("BRETT", "signal 2: must be a dictionary of arguments, not 'BRETT'"),
    ],
    ids=str,
)
def test_all_of_a_script_or_nothing(mock: MockService, wrong: Any, said: str) -> None:
    with pytest.raises(MockServerError) as caught:
        mock.emit_signals([{"token": "BRETT"}, wrong, {"token": "AERO", "after": 5}])
    assert str(caught.value).startswith(said)
    mock.clock.advance(60)
    assert history(mock) == []


@pytest.mark.parametrize("wrong", [{"token": "BRETT"}, "BRETT", None], ids=str)
def test_what_is_no_script(mock: MockService, wrong: Any) -> None:
    with pytest.raises(MockServerError, match="script: must be a list of signals, not of type"):
        mock.emit_signals(wrong)
    assert history(mock) == []


def test_a_signal_that_can_not_be(mock: MockService) -> None:
    with pytest.raises(MockServerError, match="direction: must be BUY or SELL, not 'HOLD'"):
        mock.emit_signal(direction="HOLD")
    with pytest.raises(MockServerError, match="is in the past"):
        mock.emit_signal(at=START - 3_600)


def test_prices_fail_on_request(mock: MockService) -> None:
    mock.set_gaps(paywall="open")
    asked = {"tokens": [{"identifier": "BRETT"}]}
    with httpx.Client(transport=mock.transport(), base_url=mock.market_url) as http:
        for failing, status in ((False, 200), (True, 502), (["AERO"], 200), (["brett"], 502), (False, 200)):
            mock.set_price_failure(failing)
            assert http.post("/v1/token-prices", json=asked).status_code == status
