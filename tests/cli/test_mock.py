"""The embedded mock of `--mock`."""

import json
import sys
from pathlib import Path

import pytest

from .._requirements import install
from ._terminal import Terminal


def test_a_new_world_is_filled_and_the_same_everywhere(trade: Terminal, tmp_path: Path) -> None:
    trade("--mock", "mock", "clock", "--freeze")  # or else its agents go on trading
    first = trade("--mock", "agents", "list").lines
    second = trade("agents", "list", env={"TRADE_MOCK": "1", "TRADE_HOME": str(tmp_path / "elsewhere")}).lines
    assert [agent["id"] for agent in first] == [agent["id"] for agent in second]
    assert len(trade("--mock", "trades", "list", "--all").lines) == 250


@pytest.mark.usefixtures("worlds")
def test_worlds_are_apart(trade: Terminal) -> None:
    agent = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    assert trade("--world", "side", "agents", "delete", agent, "--yes").code == 0
    assert trade("--world", "side", "agents", "get", agent).code == 6
    assert trade("--mock", "agents", "get", agent).code == 0


@pytest.mark.usefixtures("worlds")
def test_the_key_of_the_real_service_is_not_used(trade: Terminal) -> None:
    assert trade("--mock", "account", "show", env={"TRADE_API_KEY": "real"}).json["email"].startswith("me@")
    other = trade("--mock", "account", "show", env={"TRADE_API_KEY": "mock_read_free_someone"})
    assert (other.json["email"].partition("@")[0], other.json["plan"], other.err) == ("someone", "free", "")


@pytest.mark.usefixtures("worlds")
def test_a_key_that_is_not_used_is_said_once(trade: Terminal) -> None:
    run = trade("--mock", "trades", "list", "--all", "-o", "json", env={"TRADE_API_KEY": "real-hidden"})
    assert run.code == 0
    assert [json.loads(line)["note"] for line in run.err.splitlines()] == [
        "TRADE_API_KEY is not a key of the mock: mock_full_me is used instead"
    ]


@pytest.mark.usefixtures("worlds")
def test_hints_go_on_in_the_same_world(trade: Terminal) -> None:
    assert "trade --mock agents list" in trade("--mock", "agents", "get", "nope").problem["hint"]
    assert "trade --world w agents list" in trade("agents", "get", "nope", "--world", "w").problem["hint"]
    for path in ("/v1/nope", "/v1/signals/nope"):
        hint = trade("--mock", "api", "GET", path).problem["hint"]
        assert hint == (
            "there are /v1/account, /v1/agents, /v1/wallets, /v1/trades, /v1/positions and /v1/signals; "
            "for examples: trade --mock api --help"
        )
    refused = trade("--mock", "account", "show", env={"TRADE_API_KEY": "mock_"})
    assert refused.code == 4
    assert "mock_full_NAME" in refused.problem["hint"]


@pytest.mark.usefixtures("worlds")
def test_an_age_counts_from_the_clock_of_the_world(trade: Terminal) -> None:
    """Wherever a command takes one: that clock may be hours or years from this machine's."""
    old = trade("--mock", "mock", "emit", "--chain", "base").json["id"]
    assert trade("--mock", "mock", "clock", "--freeze", "--advance", "7200").code == 0
    new = trade("--mock", "mock", "emit", "--chain", "base").json["id"]
    history = ("--mock", "signals", "history", "--chain", "base", "--all")
    last_hour = [one["id"] for one in trade(*history, "--since", "1h").lines]
    assert (new in last_hour, old in last_hour) == (True, False)
    assert old in [one["id"] for one in trade(*history, "--since", "3h", "--until", "1h").lines]
    assert trade("--mock", "market", "prices", "ETH", "--max-price", "0.05").code == 0
    for line, count in (("pay history --since 1h", 1), ("pay history --until 1h", 0), ("pay report --since 1h", 1)):
        assert len(trade("--mock", *line.split()).lines) == count, line


@pytest.mark.usefixtures("worlds")
def test_what_needs_the_mocks_own_dependencies(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("uvicorn", "tradesdk_mock.serving.uvicorn_server"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delattr("tradesdk_mock.MockServer", raising=False)
    run = trade("mock", "serve", "--port", "0")
    problem = (run.problem["message"], run.problem["hint"])
    assert (run.code, problem) == (3, ("the mock server needs uvicorn", install("uvicorn")))
    assert trade("--mock", "account", "show").code == 0
    assert trade("--mock", "mock", "gaps").code == 0
