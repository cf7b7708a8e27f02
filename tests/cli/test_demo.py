"""The demo: the same every time, checked by itself, and honest when something is wrong."""

import json
from typing import Any

import pytest

import tradesdk_cli.demo.story as story
from tradesdk import SystemClock
from tradesdk_mock import MockServer

from ._terminal import Terminal


@pytest.fixture(autouse=True)
def never_really_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(self: SystemClock, seconds: float) -> None:
        raise AssertionError("the demo waited in real time")

    monkeypatch.setattr(SystemClock, "sleep", sleep)


def test_it_is_the_same_every_time(trade: Terminal) -> None:
    first, second = trade("demo"), trade("demo")
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out
    assert trade("demo", "--seed", "11").out != first.out
    assert first.err.startswith('{"note":"took ')


def test_what_it_shows(trade: Terminal) -> None:
    text = trade("demo").out
    for shown in (
        "plan pro",
        "a forged signature is refused: 400 invalid_signature",
        "refused: 409 conflict",
        "3 pages; 8 open, 242 closed",
        "60x 200, 429, 200",
        "Everything is as it should be",
        "Try next",
    ):
        assert shown in text
    assert "\x1b" not in text


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_a_terminal(trade: Terminal, columns: int) -> None:
    run = trade("demo", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= columns
    assert "\x1b" not in run.out


def test_for_programs(trade: Terminal) -> None:
    told = trade("demo", "-o", "json").json
    assert told["ok"] is True
    assert len(told["steps"]) == 6
    assert told["steps"][2]["rows"][0]["name"] == "momentum"
    assert told["requests"] > 70


def test_a_terminal_without_unicode(trade: Terminal) -> None:
    run = trade("demo", encoding="ascii")
    assert run.code == 0
    assert "+ demo@" in run.out
    assert "\\u" not in run.out


def test_the_commands_it_names_work(trade: Terminal) -> None:
    for line in trade("demo", "-o", "json").json["next"]:
        if line != "trade mock serve":
            assert trade(*line.split()[1:]).code == 0


def nothing(*_: Any, **__: Any) -> None:
    return None


def faulty_populate(server: MockServer, tenant: str, *, trades: int) -> Any:
    from tradesdk_mock import seedworld

    return seedworld.populate(server.world, tenant, trades=trades - 1)


@pytest.mark.parametrize(
    ("target", "replacement", "named"),
    [
        ("tradesdk_mock.MockServer.start_agent", nothing, "an active agent could be deleted"),
        ("tradesdk_mock.MockServer.populate", faulty_populate, "249 trades, not 250"),
        ("tradesdk_mock.MockServer.stop_agent", nothing, "409 conflict"),
        (
            "tradesdk_mock.ratelimit._PER_MINUTE",
            {"free": 30, "pro": 300},
            "61 requests were answered with 30x 200, 429",
        ),
        ("tradesdk_mock.ratelimit._PER_MINUTE", {"free": 60, "pro": 3000}, "not 300 a minute"),
    ],
)
def test_it_says_what_is_wrong(
    trade: Terminal, monkeypatch: pytest.MonkeyPatch, target: str, replacement: Any, named: str
) -> None:
    monkeypatch.setattr(target, replacement)
    run = trade("demo")
    assert run.code == 1
    problem = json.loads(run.err.splitlines()[-1])
    assert problem["code"] == "demo_failed"
    assert named in problem["message"]
    assert "Everything is as it should be" not in run.out


def test_runs() -> None:
    assert story._runs([200, 200, 429, 200]) == "2x 200, 429, 200"
