"""Signals as the specification has them, shown on the mock over bare HTTP: the latest, and history."""

from typing import Any

import pytest

from tradesdk_mock import MockServer

from .._rows import each_of
from ._wire import Wire, error_of, walk

FIELDS = ["id", "token_address", "token_symbol", "chain_id", "direction", "confidence", "price_usd", "timestamp"]
BOTH = pytest.mark.parametrize("path", ["/signals", "/signals/history"])


@pytest.fixture(scope="module")
def history(service: MockServer) -> list[Any]:
    """The signals on Base up to now, newest first."""
    return walk(Wire(service, "mock_full_enterprise_signals"), "/signals/history", chain=8453, limit=100)


@BOTH
@pytest.mark.rule("signals.latest.chain signals.history.chain chain.others error.400.missing error.400.malformed")
@each_of(
    ("query", "named", "status"),
    [
        *((query, "chain", 400) for query in ("", "chain=", "chain=base", "chain=8453.0", "chain=%d9%a1")),
        ("chain=8453&chain=56", "chain", 400),
        ("chain=1", "chain", 422),
        ("chain=0", "chain", 422),
        ("chain=8453&x=%ff", "", 400),
    ],
)
def test_a_chain_is_required_and_one_of_two(wire: Wire, path: str, query: str, named: str, status: int) -> None:
    answer = wire.get(f"{path}?{query}")
    assert error_of(answer, named) == (status, {400: "invalid_request", 422: "validation_error"}[status])


@BOTH
@pytest.mark.rule("chain.known signals.latest signals.history signal.direction signal.confidence")
@each_of("chain", [8453, 56])
def test_signals_are_of_the_chain_asked_for(wire: Wire, path: str, chain: int) -> None:
    signals = wire.get(path, chain=chain, limit=100, unknown=1).json()["data"]
    for signal in signals:
        assert list(signal) == FIELDS
        assert signal["chain_id"] == chain
        assert type(signal["confidence"]) is float
        assert 0.0 <= signal["confidence"] <= 1.0
        assert signal["price_usd"] > 0
        assert signal["timestamp"] <= wire.server.clock.now()
    assert {signal["direction"] for signal in signals} == {"BUY", "SELL"}
    assert len({signal["id"] for signal in signals}) == len(signals)


@pytest.mark.rule("signals.latest signals.latest.no-cursor signals.history.order")
def test_latest_are_the_newest_of_history_and_have_no_cursor(wire: Wire, history: list[Any]) -> None:
    for limit in (1, 20, 100):
        assert wire.get("/signals", chain=8453, limit=limit).json() == {"data": history[:limit]}
    times = [one["timestamp"] for one in history]
    assert times == sorted(times, reverse=True)
    assert len({one["id"] for one in history}) == len(history) > 500


@pytest.mark.rule("signals.latest.min_confidence")
def test_least_confidence_includes_the_bound_itself(wire: Wire, history: list[Any]) -> None:
    bound = sorted(signal["confidence"] for signal in history[:100])[50]
    chosen = wire.get("/signals", chain=8453, limit=40, min_confidence=bound).json()["data"]
    assert chosen == [signal for signal in history if signal["confidence"] >= bound][:40]
    assert min(signal["confidence"] for signal in chosen) == bound


@pytest.mark.rule("signals.latest.min_confidence.range")
def test_least_confidence_is_between_zero_and_one(wire: Wire) -> None:
    for value in ("0", "1", "0.0", "1.0", ".5", "5e-1", "1."):
        assert wire.get("/signals", chain=8453, min_confidence=value).status_code == 200
    for value in ("-0.01", "1.01", "1e9", "nan", "inf", "high", "", "0,5"):
        assert error_of(wire.get("/signals", chain=8453, min_confidence=value), "min_confidence")[0] in (400, 422)


@pytest.mark.rule("signals.history.token_address", "error.422.token-address", "error.422.message")
def test_history_of_one_token(wire: Wire, history: list[Any]) -> None:
    token = history[5]["token_address"]
    expected = [one for one in history if one["token_address"] == token]
    assert 0 < len(expected) < len(history)
    for spelled in (token, token.lower(), "0x" + token[2:].upper()):
        assert walk(wire, "/signals/history", chain=8453, token_address=spelled, limit=100) == expected
    assert wire.get("/signals/history", chain=8453, token_address="0x" + "ab" * 20).json() == {"data": []}
    for wrong in ("ETH", "0x12", "0x" + "g" * 40, "0x" + "a" * 41, "a" * 40):
        answer = wire.get("/signals/history", chain=8453, token_address=wrong)
        assert error_of(answer, "token_address") == (422, "validation_error")


@pytest.mark.rule("signals.history.from", "signals.history.to")
@pytest.mark.parametrize(("oldest", "newest"), [(60, 20), (30, None), (None, 500), (20, 60)])
def test_history_between_two_moments(wire: Wire, history: list[Any], oldest: int | None, newest: int | None) -> None:
    """Both are included; a beginning after the end leaves nothing."""
    since, until = (None if one is None else history[one]["timestamp"] for one in (oldest, newest))
    bounds = {name: at for name, at in (("from", since), ("to", until)) if at is not None}
    found = walk(wire, "/signals/history", chain=8453, limit=100, **bounds)
    assert found == [one for one in history if (since or 0) <= one["timestamp"] <= (until or 1e11)]
    assert bool(found) is ((oldest, newest) != (20, 60))


@pytest.mark.rule("signals.history.from", "signals.history.to")
@pytest.mark.parametrize("name", ["from", "to"])
def test_moments_are_whole_unix_seconds(wire: Wire, name: str) -> None:
    for value in ("yesterday", "2026-01-01T00:00:00Z", "1.5", "9" * 40, ""):
        assert error_of(wire.get("/signals/history", chain=8453, **{name: value}), name)[0] in (400, 422)
