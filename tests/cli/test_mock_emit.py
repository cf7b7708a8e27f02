"""`trade mock emit signal`."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from ._terminal import Terminal

EMIT = ("mock", "emit", "signal")


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server without signals of its own, on a clock that stands still; `trade` is set to it."""
    with MockServer(signals="scripted", clock=MockClock(1_800_000_000.0)) as running:
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def latest(trade: Terminal, chain: str = "base") -> list[str]:
    return [signal["id"] for signal in trade("signals", "latest", "--chain", chain, "--limit", "100").lines]


def test_a_signal_is_everywhere_at_once(trade: Terminal, served: MockServer) -> None:
    url = f"{served.url}/v1/signals/stream?chain=8453"
    headers = {"Authorization": "Bearer mock_read_me"}
    with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as stream:
        run = trade(*EMIT, "--chain", "8453")
        [signal] = run.lines
        for line in stream.iter_lines():
            if '"signal"' in line:
                assert signal["id"] in line
                break
        else:
            pytest.fail("the stream ended")
    assert (run.err, signal["published_at"], signal["timestamp"]) == ("", 1_800_000_000.0, 1_800_000_000)
    assert latest(trade)[0] == signal["id"]
    history = trade("signals", "history", "--chain", "base", "--limit", "1").lines
    assert history[0]["id"] == signal["id"]


def test_everything_that_can_be_said_of_a_signal(trade: Terminal, served: MockServer) -> None:
    line = "--chain bnb --token NEW --direction sell --confidence 0.25 --price 1.5 --timestamp 1799999999"
    [signal] = trade(*EMIT, *line.split()).lines
    said = {
        "token_symbol": "NEW",
        "chain_id": 56,
        "direction": "SELL",
        "confidence": 0.25,
        "price_usd": 1.5,
        "timestamp": 1_799_999_999,
    }
    assert {name: signal[name] for name in said} == said
    assert trade(*EMIT, "--direction", "BUY").lines[0]["direction"] == "BUY"


def test_later(trade: Terminal, served: MockServer) -> None:
    run = trade(*EMIT, "--in", "30", "--count", "3", "--every", "5", tty=True, columns=200, env={"NO_COLOR": "1"})
    assert [line.split()[-1] for line in run.out.splitlines()[1:]] == ["08:00:30Z", "08:00:35Z", "08:00:40Z"]
    assert run.err == (
        "3 to come, the last in 40 s on the mock's clock, which stands still: trade mock clock --advance moves it\n"
    )
    sooner, later = (signal["id"] for signal in trade(*EMIT, "--in", "20", "--count", "2", "--every", "20").lines)
    before = latest(trade)
    assert sooner not in before
    served.clock.advance(35)
    assert latest(trade)[0] != before[0]
    assert sooner in latest(trade)
    assert later not in latest(trade)
    at = trade(*EMIT, "--at", "1800000100")
    assert at.lines[0]["published_at"] == 1_800_000_100
    assert "1 to come, the last in 65 s" in at.err
    served.clock.resume()
    assert "stands still" not in trade(*EMIT, "--in", "60").err


def test_several_at_once(trade: Terminal, served: MockServer) -> None:
    run = trade(*EMIT, "--count", "5", "-o", "json")
    assert len({signal["id"] for signal in run.json}) == 5
    assert {signal["published_at"] for signal in run.json} == {1_800_000_000.0}


def test_the_embedded_world_keeps_it(trade: Terminal) -> None:
    trade("--mock", "mock", "clock", "--freeze")
    [signal] = trade("--mock", *EMIT, "--chain", "bnb").lines
    found = trade("--mock", "signals", "latest", "--chain", "bnb").lines
    assert found[0]["id"] == signal["id"]


def test_it_fits(trade: Terminal, served: MockServer) -> None:
    for columns in (60, 80, 120):
        run = trade(*EMIT, tty=True, columns=columns, env={"NO_COLOR": "1"})
        assert run.code == 0
        assert all(len(line) <= columns for line in run.out.splitlines())


def test_bad_values(trade: Terminal, served: MockServer) -> None:
    for line in (
        "--in 5 --at 1800000000",
        "--every 5",
        "--confidence 1.1",
        "--confidence nan",
        "--price -1",
        "--count 0",
        "--count 10001",
        "--in -1",
        "--direction hold",
        "--chain 1",
    ):
        run = trade(*EMIT, *line.split())
        assert run.problem["code"] == "usage", line
        assert run.code == 2
    for line in ("--price 0", "--timestamp -5", "--token 0x123", "--at 1e12"):
        run = trade(*EMIT, *line.split())
        assert (run.code, run.problem["status"]) == (8, 400), (line, run.err)
    assert served.status()["signals"] == trade("mock", "status").json["signals"]
