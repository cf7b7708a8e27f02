"""Signals as the specification has them, shown on the mock over bare HTTP: the latest, and history."""

from typing import Any

import pytest

from ._wire import Wire, error_of

BOTH = ["/signals", "/signals/history"]


@pytest.mark.rule("signals.latest.chain", "signals.history.chain", "error.400.missing")
@pytest.mark.parametrize("path", BOTH)
def test_chain_is_required(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert error_of(answer) == (400, "invalid_request")
    assert "chain" in answer.json()["error"]["message"]


@pytest.mark.rule("chain.others", "signals.latest.chain", "signals.history.chain")
@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("chain", ["1", "0", "base"])
def test_only_two_chains_have_signals(wire: Wire, path: str, chain: str) -> None:
    assert error_of(wire.get(path, chain=chain))[0] in (400, 422)


@pytest.mark.rule("chain.known", "signals.latest", "signals.history")
@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("chain", [8453, 56])
def test_signals_are_of_the_chain_asked_for(wire: Wire, path: str, chain: int) -> None:
    signals = wire.get(path, chain=chain, limit=100).json()["data"]
    assert {signal["chain_id"] for signal in signals} == {chain}


@pytest.mark.rule("signal.direction", "signal.confidence")
@pytest.mark.parametrize("path", BOTH)
def test_values_are_those_written(wire: Wire, path: str) -> None:
    signals = wire.get(path, chain=8453, limit=100).json()["data"]
    assert {signal["direction"] for signal in signals} == {"BUY", "SELL"}
    assert all(0.0 <= signal["confidence"] <= 1.0 for signal in signals)
    assert len({signal["id"] for signal in signals}) == len(signals)


@pytest.mark.rule("signals.latest.no-cursor")
def test_latest_has_no_cursor(wire: Wire) -> None:
    assert list(wire.get("/signals", chain=8453, limit=1).json()) == ["data"]


@pytest.mark.rule("signals.latest")
@pytest.mark.parametrize("chain", [8453, 56])
def test_latest_are_the_newest_of_history(wire: Wire, chain: int) -> None:
    latest = wire.get("/signals", chain=chain, limit=10).json()["data"]
    newest = wire.get("/signals/history", chain=chain, limit=10).json()["data"]
    assert sorted(one["id"] for one in latest) == sorted(one["id"] for one in newest)


@pytest.mark.rule("signals.latest.min_confidence")
def test_least_confidence_includes_the_bound_itself(wire: Wire) -> None:
    signals = wire.get("/signals", chain=8453, limit=100).json()["data"]
    bound = sorted(signal["confidence"] for signal in signals)[len(signals) // 2]
    chosen = wire.get("/signals", chain=8453, limit=100, min_confidence=bound).json()["data"]
    assert min(signal["confidence"] for signal in chosen) == bound
    wanted = {signal["id"] for signal in signals if signal["confidence"] >= bound}
    assert wanted <= {signal["id"] for signal in chosen}
    assert 0 < len(wanted) < len(signals)


@pytest.mark.rule("signals.latest.min_confidence.range")
@pytest.mark.parametrize("value", ["-0.01", "1.01", "nan", "high"])
def test_least_confidence_is_between_zero_and_one(wire: Wire, value: str) -> None:
    answer = wire.get("/signals", chain=8453, min_confidence=value)
    assert error_of(answer)[0] in (400, 422)
    assert "min_confidence" in answer.json()["error"]["message"]


@pytest.mark.rule("signals.latest.min_confidence.range")
@pytest.mark.parametrize("value", ["0", "1", "0.0", "1.0"])
def test_the_ends_of_the_confidence_range_are_fine(wire: Wire, value: str) -> None:
    assert wire.get("/signals", chain=8453, min_confidence=value).status_code == 200


def history(wire: Wire, **query: Any) -> list[Any]:
    found: list[Any] = []
    while True:
        page = wire.get("/signals/history", chain=8453, limit=100, **query).json()
        found += page["data"]
        if "next_cursor" not in page or len(found) >= 300:
            return found
        query["cursor"] = page["next_cursor"]


@pytest.mark.rule("signals.history.order")
def test_history_is_newest_first_across_pages(wire: Wire) -> None:
    times = [signal["timestamp"] for signal in history(wire)]
    assert times == sorted(times, reverse=True)
    assert len(times) > 100


@pytest.mark.rule("signals.history.token_address")
def test_history_of_one_token(wire: Wire) -> None:
    everything = history(wire)
    token = everything[0]["token_address"]
    only = history(wire, token_address=token)
    assert {signal["token_address"] for signal in only} == {token}
    assert {one["id"] for one in everything if one["token_address"] == token} <= {one["id"] for one in only}
    assert len({signal["token_address"] for signal in everything}) > 1


@pytest.mark.rule("error.422.token-address", "error.422.message")
@pytest.mark.parametrize("address", ["BRETT", "0x12", "0x" + "zz" * 20])
def test_a_token_address_that_cannot_be_one_is_a_validation_error(wire: Wire, address: str) -> None:
    answer = wire.get("/signals/history", chain=8453, token_address=address)
    assert error_of(answer) == (422, "validation_error")
    assert "token_address" in answer.json()["error"]["message"]


@pytest.mark.rule("signals.history.to")
def test_history_between_two_moments(wire: Wire) -> None:
    everything = history(wire)
    newest, oldest = everything[20]["timestamp"], everything[60]["timestamp"]
    within = history(wire, to=newest, from_=oldest)
    assert within == [one for one in everything if oldest <= one["timestamp"] <= newest]
    assert within


@pytest.mark.rule("signals.history.from")
def test_history_from_a_moment_on(wire: Wire) -> None:
    everything = history(wire)
    since = everything[30]["timestamp"]
    assert [one["id"] for one in history(wire, from_=since)] == [
        one["id"] for one in everything if one["timestamp"] >= since
    ]


@pytest.mark.rule("signals.history.to")
def test_history_up_to_a_moment(wire: Wire) -> None:
    everything = history(wire)
    until = everything[30]["timestamp"]
    assert {one["timestamp"] for one in history(wire, to=until)} & {one["timestamp"] for one in everything[:30]} <= {
        until
    }
    assert history(wire, to=until)[0]["timestamp"] == until


@pytest.mark.rule("signals.history.from", "signals.history.to")
@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("value", ["yesterday", "2026-01-01", "1.5"])
def test_moments_are_whole_unix_seconds(wire: Wire, name: str, value: str) -> None:
    answer = wire.get("/signals/history", chain=8453, **{name: value})
    assert error_of(answer)[0] in (400, 422)
    assert name in answer.json()["error"]["message"]
