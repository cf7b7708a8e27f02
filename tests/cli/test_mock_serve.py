"""`trade mock serve`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import tradesdk_cli.commands.mock.serve as serving
from tradesdk_mock import MockServer
from tradesdk_mock.serving import uvicorn_server as mock_server

from ._terminal import Run, Stream, Terminal
from .test_processes import started

pytestmark = pytest.mark.long


class Serving:
    """What `mock serve` serves, asked while it serves."""

    def __init__(self, trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        self._trade = trade
        self._patch = monkeypatch
        self.answers: dict[str, Any] = {}

    def __call__(self, *argv: str, ask: tuple[str, ...] = ()) -> Run:
        served: list[MockServer] = []
        original = MockServer.start

        def start(server: MockServer) -> MockServer:
            served.append(server)
            return original(server)

        def meanwhile(stop: object) -> None:
            for path in ask:
                self.answers[path] = httpx.get(
                    f"http://127.0.0.1:{served[0].port}/_mock/{path}", trust_env=False
                ).json()

        self._patch.setattr(MockServer, "start", start)
        self._patch.setattr(serving, "_wait_for", meanwhile)
        return self._trade("mock", "serve", "--port", "0", *argv)


@pytest.fixture
def serve(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Serving:
    return Serving(trade, monkeypatch)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses beyond this machine are accepted, and stay on it all the same."""
    original = mock_server._listen
    monkeypatch.setattr(mock_server, "_listen", lambda host, port: original("127.0.0.1", port))


def notes(run: Run) -> list[str]:
    return [json.loads(line)["note"] for line in run.err.splitlines()]


def test_what_it_says(serve: Serving) -> None:
    run = serve("--seed", "11", "--gap", "write_status=200/200", "--gap", "order=oldest", ask=("status", "gaps"))
    assert run.code == 0
    said = run.json
    assert {name: said[name] for name in said if name != "url"} == {
        "api_key": "mock_full_me",
        "read_only_key": "mock_read_me",
        "seed": 11,
    }
    export, buying, ledger, curl, described = notes(run)
    assert f"TRADE_WALLET_KEY={'0x' + '01' * 32}" in buying
    assert "TRADE_MARKET_BASE_URL" not in buying
    assert ledger.endswith("export TRADE_HOME=$(mktemp -d)")
    assert export.endswith(f"TRADE_BASE_URL={said['url']} TRADE_API_KEY=mock_full_me")
    assert shlex.split(curl.partition(": ")[2]) == [
        "curl",
        "-N",
        "-H",
        "Authorization: Bearer mock_full_me",
        f"{said['url']}/v1/signals/stream?chain=8453",
    ]
    assert described == f"OpenAPI description: {said['url']}/openapi.json"
    assert (serve.answers["status"]["seed"], serve.answers["status"]["trades"]) == (11, 250)
    assert serve.answers["status"]["gaps"] == {"write_status": "200/200", "order": "oldest"}
    assert {"order", "oldest"} <= {*map(str, serve.answers["gaps"]["data"][5].values())}


def test_gap_options_of_a_file(serve: Serving, tmp_path: Path) -> None:
    file = tmp_path / "service.json"
    file.write_text('{"order": "oldest", "heartbeat": 1, "write_status": "201/201"}')
    serve("--gaps", str(file), "--gap", "write_status=200/200", ask=("status",))
    assert serve.answers["status"]["gaps"] == {"order": "oldest", "heartbeat": 1, "write_status": "200/200"}
    for text, said in (("[]", "must be an object"), ("{", "is not JSON"), ('{"mood": 1}', "no gap option 'mood'")):
        file.write_text(text)
        run = serve("--gaps", str(file))
        assert (run.code, said in run.problem["message"]) == (2, True)
    run = serve("--gaps", str(tmp_path / "none"))
    assert (run.code, run.problem["hint"]) == (2, "trade doctor --service --gaps FILE writes such a file")


def test_empty_and_kept(serve: Serving, tmp_path: Path) -> None:
    file = tmp_path / "kept.sqlite3"
    serve("--empty", "--db", str(file), ask=("status",))
    assert serve.answers["status"]["agents"] == 0
    serve("--tenant", "you", "--db", str(file))
    serve("--empty", "--db", str(file), ask=("status",))
    assert serve.answers["status"]["tenants"] == ["you"]


def test_the_market(serve: Serving) -> None:
    serve(ask=("status",))
    usual = serve.answers["status"]
    assert (usual["market"], usual["frozen"], usual["speed"]) == ("live", False, 1)
    serve("--scripted", ask=("status",))
    assert serve.answers["status"]["market"] == "scripted"


def test_a_market_url_of_its_own_is_shown(serve: Serving) -> None:
    run = serve("--gap", "b_port=another")
    said = run.json
    assert said["market_url"].startswith("http://127.0.0.1:")
    assert said["market_url"] != said["url"]
    assert notes(run)[1].endswith(f" TRADE_MARKET_BASE_URL={said['market_url']}")


def test_what_it_says_is_enough_to_buy(serve: Serving, trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines, pasted into another terminal, buy market data there, and not from the ledger that is there."""
    bought: list[Run] = []

    def in_another_terminal(stop: object) -> None:
        assert isinstance(sys.stderr, Stream)
        said = "\n".join(notes(Run(0, "", sys.stderr.written())))
        exported = dict(word.split("=", 1) for word in said.split() if word.startswith("TRADE_"))
        assert exported.pop("TRADE_HOME") == "$(mktemp"
        home = trade.home / "rehearsal"
        home.mkdir()
        bought.append(
            trade("market", "prices", "ETH", "--max-price", "0.03", env={**exported, "TRADE_HOME": str(home)})
        )

    monkeypatch.setattr(serving, "_wait_for", in_another_terminal)
    trade("mock", "serve", "--port", "0")
    (run,) = bought
    assert run.code == 0, run.err
    assert [one["symbol"] for one in run.lines] == ["ETH"]
    assert not (trade.home / "ledger.sqlite3").exists()


@pytest.mark.parametrize(("host", "here"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])  # noqa: S104  # see everywhere
def test_beyond_this_machine(serve: Serving, everywhere: None, host: str, here: str) -> None:
    run = serve("--host", host, ask=("status",))
    export, _, _, curl, described, control_note = notes(run)
    assert f"TRADE_BASE_URL=http://{here}:" in export
    assert f"http://{here}:" in curl
    assert f"http://{here}:" in described
    assert "--allow-remote-control" in control_note
    assert "not control it" in control_note
    opened = serve("--host", host, "--allow-remote-control")
    assert notes(opened)[-1] == f"everyone who can reach {host} can control this mock (--allow-remote-control)"


def test_remote_control_is_the_servers(serve: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[bool] = []
    original = MockServer.__init__

    def looked_at(server: MockServer, **options: Any) -> None:
        allowed.append(options["allow_remote_control"])
        original(server, **options)

    monkeypatch.setattr(MockServer, "__init__", looked_at)
    serve()
    serve("--allow-remote-control")
    assert allowed == [False, True]


def test_it_refuses(serve: Serving, trade: Terminal, server: MockServer) -> None:
    assert serve("--gap", "nonsense=1").problem["code"] == "usage"
    assert serve("--gap", "order").code == 2
    assert serve("--gap", "order=oldest", "--gap", "order=newest").code == 2
    taken = trade("mock", "serve", "--port", str(server.port))
    assert taken.code == 1
    assert "--port 0" in taken.problem["hint"]
    elsewhere = serve("--host", "203.0.113.1")
    assert elsewhere.code == 1
    assert "--host" in elsewhere.problem["hint"]
    assert "--port" not in elsewhere.problem["hint"]
    nameless = serve("--tenant", "a/b")
    assert "--help" in nameless.problem["hint"]


def test_it_refuses_a_file(serve: Serving, tmp_path: Path) -> None:
    nowhere = serve("--db", str(tmp_path / "nodir" / "x.db"))
    assert nowhere.code == 1
    assert nowhere.problem["hint"].startswith(f"the folder {tmp_path / 'nodir'} does not exist")
    kept = str(tmp_path / "x.db")
    assert serve("--db", kept, "--seed", "7").code == 0
    other = serve("--db", kept, "--seed", "8")
    assert other.code == 1
    assert other.problem["hint"] == "leave out --seed, or choose another --db FILE; this one is unchanged"
    folder = serve("--db", str(tmp_path))
    assert folder.problem["hint"] == "choose another --db FILE; this one is unchanged"
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"garbage")
    assert serve("--db", str(damaged)).problem["hint"] == folder.problem["hint"]
    assert damaged.read_bytes() == b"garbage"


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.long), (signal.SIGTERM, 0)]
)
def test_it_ends_while_streams_are_open(trade: Terminal, number: signal.Signals, code: int) -> None:
    with started(trade, "mock", "serve", "--port", "0", "-o", "ndjson") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {said['api_key']}"}
        url = f"{said['url']}/v1/signals/stream?chain=8453"
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as stream:
            pieces = stream.iter_raw()
            assert b"data:" in next(pieces), "the first signal comes soon"
            process.send_signal(number)
            with pytest.raises(httpx.TransportError):
                for _ in pieces:
                    pass
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (code, "")
        assert "Traceback" not in err
    port = int(said["url"].rpartition(":")[2])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_state_keeps_its_market_and_options(serve: Serving, tmp_path: Path) -> None:
    file = str(tmp_path / "kept.sqlite3")
    serve("--db", file, "--scripted", "--gap", "write_status=200/200")
    for argv in ((), ("--gap", "order=oldest")):
        serve("--db", file, *argv, ask=("status",))
        assert serve.answers["status"]["market"] == "scripted"
    assert serve.answers["status"]["gaps"] == {"write_status": "200/200", "order": "oldest"}
    serve("--db", file, "--live", ask=("status",))
    assert serve.answers["status"]["market"] == "live"
