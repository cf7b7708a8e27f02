"""The embedded mock of `--mock`, and `trade mock`."""

import json
from pathlib import Path
from typing import Any

import pytest

import tradesdk_cli.commands.mock as commands
from tradesdk_cli.control import ControlProblem, control
from tradesdk_cli.errors import ConfigProblem
from tradesdk_mock import GapOptions, MockServer

from ._services import Scripted
from ._terminal import Run, Terminal


def test_state_is_kept_between_processes(trade: Terminal) -> None:
    wallet = trade.process("--mock", "wallets", "list", "--chain", "base").lines[0]["id"]
    line = f"--mock agents create --name kept --wallet-id {wallet} --chain-id 8453 --yes -o json"
    made = trade.process(*line.split()).json
    listed = trade.process("--mock", "agents", "list", "-o", "json").json
    assert {key: listed[0][key] for key in ("id", "name", "status")} == {
        "id": made["id"],
        "name": "kept",
        "status": "idle",
    }
    assert (trade.home / "mock" / "default.sqlite3").is_file()


def test_a_new_world_is_filled_and_the_same_everywhere(trade: Terminal, tmp_path: Path) -> None:
    first = trade("--mock", "agents", "list").lines
    second = trade("agents", "list", env={"TRADE_MOCK": "1", "TRADE_HOME": str(tmp_path / "elsewhere")}).lines
    assert [agent["id"] for agent in first] == [agent["id"] for agent in second]
    assert len(trade("--mock", "trades", "list", "--all").lines) == 250


def test_worlds_are_apart(trade: Terminal) -> None:
    agent = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    assert trade("--world", "side", "agents", "delete", agent, "--yes").code == 0
    assert trade("--world", "side", "agents", "get", agent).code == 6
    assert trade("--mock", "agents", "get", agent).code == 0


def test_the_key_of_the_real_service_is_not_used(trade: Terminal) -> None:
    assert trade("--mock", "account", "show", env={"TRADE_API_KEY": "real"}).json["email"].startswith("me@")
    other = trade("--mock", "account", "show", env={"TRADE_API_KEY": "mock_read_free_someone"})
    assert (other.json["email"].partition("@")[0], other.json["plan"], other.err) == ("someone", "free", "")


def test_a_key_that_is_not_used_is_said_once(trade: Terminal) -> None:
    run = trade("--mock", "trades", "list", "--all", "-o", "json", env={"TRADE_API_KEY": "real-hidden"})
    assert run.code == 0
    assert [json.loads(line)["note"] for line in run.err.splitlines()] == [
        "TRADE_API_KEY is not a key of the mock: mock_full_me is used instead"
    ]
    piped = trade("--mock", "account", "show", "--api-key-stdin", stdin="mock_read_me", env={"TRADE_API_KEY": "real"})
    assert (piped.code, piped.err) == (0, "")


def test_keys_that_the_mock_made_keep_their_scope(trade: Terminal) -> None:
    made = trade("--mock", "mock", "key", "create", "--name", "eyes", "--scope", "read-only", "--tenant", "me").json
    trade.env["TRADE_API_KEY"] = made["value"]
    shown = trade("--mock", "account", "show")
    assert (shown.json["api_key_last4"], shown.err) == (made["last4"], "")
    agent = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    assert trade("--mock", "agents", "delete", agent, "--yes").code == 5


def test_hints_go_on_in_the_same_world(trade: Terminal) -> None:
    assert "trade --mock agents list" in trade("--mock", "agents", "get", "nope").problem["hint"]
    assert "trade --world w agents list" in trade("agents", "get", "nope", "--world", "w").problem["hint"]
    refused = trade("--mock", "account", "show", env={"TRADE_API_KEY": "mock_"})
    assert refused.code == 4
    assert "mock_full_NAME" in refused.problem["hint"]


def test_without_the_mocks_own_dependencies(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

    monkeypatch.setattr("tradesdk_mock.__getattr__", missing)
    monkeypatch.delattr("tradesdk_mock.MockServer", raising=False)
    run = trade("--mock", "account", "show")
    assert (run.code, run.problem["hint"]) == (3, "pip install 'tradesdk[mock]'")
    assert "uvicorn" in run.problem["message"]


# trade mock


def test_gaps(trade: Terminal) -> None:
    run = trade("mock", "gaps")
    assert [gap["name"] for gap in run.lines] == list(GapOptions().as_dict())
    assert [row.split()[0] for row in trade("mock", "gaps", "-o", "table").out.splitlines()[1:]] == list(
        GapOptions().as_dict()
    )


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_gaps_on_a_terminal_are_explained_in_full(trade: Terminal, columns: int) -> None:
    run = trade("mock", "gaps", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert (run.code, run.err) == (0, "")
    assert all(len(line) <= columns for line in run.out.splitlines())
    words = " ".join(run.out.split())
    for gap in GapOptions.describe():
        assert f"{gap.name}={gap.default} " in words
        assert " ".join(gap.text.split()) in words


class Serving:
    """What `mock serve` serves, asked while it serves."""

    def __init__(self, trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        self._trade = trade
        self._patch = monkeypatch
        self.answers: dict[str, Any] = {}

    def __call__(self, *argv: str, ask: tuple[str, ...] = ()) -> Run:
        from tradesdk_mock import MockServer

        served: list[MockServer] = []
        original = MockServer.start

        def start(server: MockServer) -> MockServer:
            served.append(server)
            return original(server)

        def meanwhile() -> None:
            for path in ask:
                self.answers[path] = control(served[0].url, "GET", path)

        self._patch.setattr(MockServer, "start", start)
        self._patch.setattr(commands, "_until_stopped", meanwhile)
        return self._trade("mock", "serve", "--port", "0", *argv)


@pytest.fixture
def serve(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Serving:
    return Serving(trade, monkeypatch)


def test_serve(serve: Serving) -> None:
    run = serve("--seed", "11", "--gap", "write_status=200/200", "--gap", "order=oldest", ask=("status", "gaps"))
    assert run.code == 0
    said = run.json
    assert (said["api_key"], said["read_only_key"]) == ("mock_full_me", "mock_read_me")
    assert f"TRADE_BASE_URL={said['url']} TRADE_API_KEY=mock_full_me" in run.err
    assert (serve.answers["status"]["seed"], serve.answers["status"]["trades"]) == (11, 250)
    options = serve.answers["gaps"]["options"]
    assert (options["write_status"], options["order"]) == ("200/200", "oldest")


def test_serve_empty_and_kept(serve: Serving, tmp_path: Path) -> None:
    file = tmp_path / "kept.sqlite3"
    serve("--empty", "--db", str(file), ask=("status",))
    assert serve.answers["status"]["agents"] == 0
    serve("--tenant", "you", "--db", str(file))
    serve("--empty", "--db", str(file), ask=("status",))
    assert serve.answers["status"]["tenants"] == ["you"]


def test_serve_refuses(serve: Serving, trade: Terminal, server: MockServer) -> None:
    assert serve("--gap", "nonsense=1").problem["code"] == "usage"
    assert serve("--gap", "order").code == 2
    taken = trade("mock", "serve", "--port", str(server.port))
    assert taken.code == 1
    assert "--port 0" in taken.problem["hint"]
    elsewhere = serve("--host", "203.0.113.1")
    assert elsewhere.code == 1
    assert "--host" in elsewhere.problem["hint"]
    assert "--port" not in elsewhere.problem["hint"]
    nameless = serve("--tenant", "a/b")
    assert "--help" in nameless.problem["hint"]


def test_control_of_a_server_and_of_the_embedded_world(own: Terminal, trade: Terminal) -> None:
    agent = next(agent["id"] for agent in own("agents", "list").lines if agent["status"] == "idle")
    assert own("mock", "agent", agent, "start").json == {"id": agent, "status": "active"}
    assert own("agents", "get", agent).json["status"] == "active"
    again = own("mock", "agent", agent, "start")
    assert (again.code, again.problem["code"], again.problem["status"]) == (7, "conflict", 409)
    assert "running already" in again.problem["message"]
    assert again.problem["hint"] == "see what there is: trade agents list"
    assert own("mock", "agent", agent, "paused").json["status"] == "paused"
    assert own("mock", "agent", agent, "stop").json["status"] == "idle"
    missing = own("mock", "agent", "agt_nope", "stop")
    assert (missing.code, missing.problem["code"]) == (6, "not_found")
    elsewhere = trade("--mock", "mock", "agent", "agt_nope", "start")
    assert (elsewhere.code, elsewhere.problem["hint"]) == (6, "see what there is: trade --mock agents list")
    aside = trade("--world", "w", "mock", "agent", "agt_nope", "start")
    assert aside.problem["hint"] == "see what there is: trade --world w agents list"
    nameless = own("mock", "key", "create", "--name", "n", "--tenant", "a/b")
    assert (nameless.code, nameless.problem["status"]) == (8, 400)

    before = trade("--mock", "mock", "clock").json["now"]
    frozen = trade("--mock", "mock", "clock", "--freeze", "--advance", "3600").json
    assert frozen["frozen"] is True
    assert frozen["now"] >= before + 3600
    assert trade("--mock", "mock", "clock").json == frozen, "kept"
    moved = trade("--mock", "mock", "clock", "--set", str(frozen["now"] + 10)).json
    assert moved["now"] == pytest.approx(frozen["now"] + 10)
    back = trade("--mock", "mock", "clock", "--set", str(before - 60))
    assert back.code == 8
    assert "needs --allow-backwards" in back.problem["message"]
    assert "True" not in back.problem["message"]
    gone = trade("--mock", "mock", "clock", "--set", str(before - 60), "--allow-backwards").json
    assert gone["now"] == pytest.approx(before - 60)
    assert trade("--mock", "mock", "clock", "--resume").json["frozen"] is False
    assert trade("--mock", "mock", "status").json["agents"] == 6


def test_keys(trade: Terminal) -> None:
    made = trade("--mock", "mock", "key", "create", "--name", "eyes", "--scope", "read-only", "--tenant", "me").json
    assert made["scope"] == "read-only"
    listed = trade("--mock", "mock", "key", "list").lines
    assert any(key["id"] == made["id"] for key in listed)
    assert made["value"] not in str(listed)


def test_control_speaks_to_this_machine_only(trade: Terminal, service: Scripted) -> None:
    for url in ("https://api.example.com", "http://10.0.0.1:80", "http://example.com"):
        run = trade("mock", "status", env={"TRADE_BASE_URL": url})
        assert run.code == 3
    with pytest.raises(ConfigProblem):
        control("http://169.254.1.1", "GET", "status")
    service.says(200, b"<html>")
    with pytest.raises(ControlProblem, match="no mock server"):
        control(service.url, "GET", "status")
    service.says(404, b"<html>")
    with pytest.raises(ControlProblem, match="no mock server"):
        control(service.url, "GET", "status")
    service.fails(400, "x", "no\x1b")
    refused = trade("mock", "status", env={"TRADE_BASE_URL": service.url})
    assert (refused.code, refused.problem["message"]) == (8, "the mock refused: no\\x1b")
    unusable = trade("mock", "status", env={"TRADE_BASE_URL": "http://u:hidden@[x"})
    assert unusable.code == 3
    assert "hidden" not in unusable.err
    nobody = trade("mock", "status", env={"TRADE_BASE_URL": "http://127.0.0.1:1"})
    assert (nobody.code, nobody.problem["code"]) == (1, "mock")
    assert "trade mock serve" in nobody.problem["hint"]
