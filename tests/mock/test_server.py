"""The server as a thing that starts and stops."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tradesdk_mock
from tradesdk_mock import MockClock, MockServer, MockServerError
from tradesdk_mock.__main__ import main

from .._requirements import install
from ._http import FULL, START, client, connection, ok


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_after_the_block_nothing_is_left_but_what_happened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    loggers = [logging.getLogger(f"uvicorn.{name}") for name in ("error", "access")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    threads = set(threading.enumerate())
    with MockServer() as server, MockServer() as other:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert server.port != other.port
        for running in (server, other):
            with client(running) as http:
                ok(http.get("/v1/account"))
    assert set(threading.enumerate()) <= threads
    assert [record for record in caplog.records if record.name == "uvicorn.access"] == [], "the journal has them"
    assert [(logger.level, logger.propagate) for logger in loggers] == before
    assert [entry.path for entry in server.journal()] == ["/v1/account"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    # The same port is free again at once.
    with MockServer(port=server.port) as again, client(again) as http:
        ok(http.get("/v1/account"))


def test_stopping_does_not_wait_for_clients() -> None:
    server = MockServer().start()
    idle = socket.create_connection(("127.0.0.1", server.port))
    half = socket.create_connection(("127.0.0.1", server.port))
    head = f"POST /v1/agents HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {FULL}\r\nContent-Length: 50\r\n\r\n"
    half.sendall(head.encode() + b"{")
    with client(server) as http:
        ok(http.get("/v1/account"))
        started = time.monotonic()
        server.stop()
        # Generous: it takes a few milliseconds, and 50 more for the request that never comes to its end.
        assert time.monotonic() - started < 30
    for wire in (idle, half):
        wire.settimeout(5)
        assert wire.recv(100) == b""
        wire.close()


def test_stopping_does_not_wait_for_answers_that_are_held_back(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server = MockServer(clock=MockClock(START)).start()
    server.add_fault("latency", route="/v1/account", seconds=3_600)
    server.add_fault("drip", route="/v1/agents", seconds=3_600)
    wires = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
    for wire, path in zip(wires, ("account", "agents"), strict=True):
        wire.sendall(f"GET /v1/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {FULL}\r\n\r\n".encode())
    # It reads what came first, first.
    with client(server) as http:
        ok(http.get("/v1/trades"))
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 30
    for wire in wires:
        wire.close()
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_a_server_has_an_address_from_its_start_on() -> None:
    for server in (MockServer(), MockServer(port=8787)):
        with pytest.raises(MockServerError, match="isn't started"):
            _ = server.url
        assert repr(server) == "MockServer(not started, seed=7)"
        server.stop()
        server.stop()
    with MockServer(seed=3) as running:
        url = running.url
        assert repr(running) == f"MockServer(url='http://127.0.0.1:{running.port}', seed=3)"
        with pytest.raises(MockServerError, match="already"):
            running.start()
        for options, message in (
            ({"port": running.port}, str(running.port)),
            ({"port": 99_999}, "65535"),
            ({"host": "no.such.host.invalid"}, r"no\.such\.host\.invalid"),
        ):
            with pytest.raises(MockServerError, match=message), MockServer(**options):
                pass
        running.stop()
    assert running.url == url, "what was used can be told afterwards"


def test_ipv6() -> None:
    try:
        server = MockServer(host="::1").start()
    except MockServerError:
        pytest.skip("this machine has no IPv6 loopback")
    try:
        assert server.url.startswith("http://[::1]:")
        with client(server) as http:
            ok(http.get("/v1/account"))
            ok(http.get("/_mock/status"))
    finally:
        server.stop()


WALLET = """
import json, sys, threading, urllib.request
from tradesdk_mock import MockServer
with MockServer() as server:
    request = urllib.request.Request(server.url + "/v1/wallets", method="POST", data=sys.argv[1].encode(), headers={
        "Content-Type": "application/json", "Authorization": "Bearer mock_full_x"})
    assert "eth_keys" not in sys.modules
    with urllib.request.urlopen(request, timeout=30) as answer: print(answer.status)
    assert "eth_keys" in sys.modules
print(threading.active_count())
"""
HEAVY = "eth_keys pydantic.main httpx tradesdk tradesdk_cli typer"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (
            "import sys, tradesdk_mock; print(*(n for n in sys.modules if 'tradesdk' in n or n == 'typing'))",
            "tradesdk_mock",
        ),
        pytest.param(
            "import sys\nfrom tradesdk_mock import MockServer\nwith MockServer(): pass\n"
            f"print(*{{*sys.modules}} & {{*{HEAVY.split()}}})",
            "",
            marks=pytest.mark.long,
        ),
        # The signature library is loaded with the first wallet, and leaves no thread.
        pytest.param(WALLET, "201 1", marks=pytest.mark.long),
    ],
    ids=["import", "start", "first wallet"],
)
def test_what_is_loaded(code: str, printed: str) -> None:
    done = python(code, json.dumps(connection()))
    assert (" ".join(done.stdout.split()), done.stderr) == (printed, "")


@pytest.mark.long
@pytest.mark.parametrize("absent", ["uvicorn", "h11"])
def test_a_missing_extra_is_named(absent: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{absent!r}] = None\n"
        "import tradesdk_mock\n"
        "tradesdk_mock.GapOptions, tradesdk_mock.MockClock\n"
        "try:\n"
        "    tradesdk_mock.MockServer\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
        "from tradesdk_mock import MockServer\n"
    )
    done = python(code)
    expected = f"the mock server needs {absent}: {install(absent)}"
    assert done.stdout.strip() == expected, done.stderr
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {expected}"
    assert done.stderr.count("Traceback") == 1


def test_public_names() -> None:
    names = vars(tradesdk_mock)["__all__"]
    assert {"MockServer", "MockService", "control_operations"} < set(names)
    for name in names:
        assert getattr(tradesdk_mock, name) is not None
    assert dir(tradesdk_mock) == sorted(names)
    with pytest.raises(AttributeError, match="nothing"):
        getattr(tradesdk_mock, "nothing")  # noqa: B009  # type checkers know that there is none


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for word in ("--port", "--seed", "--db", "--populate", "--gap", "mock_full_"):
        assert word in shown
    assert "(default: 8787)" in shown, "where `trade mock serve` listens too"
    assert "(default: nothing is filled)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gap", "mood=good"], "no gap option 'mood'"),
        (["--gap", "order=random"], "order"),
        (["--port", "99999"], "65535"),
        (["--db", "/dev/null/x"], "state file"),
        (["--port", "0", "--populate", "a b"], "tenant name"),
    ],
)
def test_mistakes_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.long
def test_a_connection_of_the_last_moment_is_closed() -> None:
    """Python 3.11 leaves one open that is accepted while its server closes."""
    code = (
        "import gc, socket, sys, warnings\n"
        "warnings.simplefilter('error')\n"
        "sys.unraisablehook = lambda left: print(left.exc_value)\n"
        "from tradesdk_mock import MockServer\n"
        "for turn in range(60):\n"
        "    with MockServer() as server:\n"
        "        late = socket.create_connection(('127.0.0.1', server.port))\n"
        "        if turn % 3 == 0:\n"
        "            server.set_gaps(b_port='another')\n"
        "    late.close()\n"
        "gc.collect()\n"
    )
    done = python(code)
    assert (done.stdout, done.stderr) == ("", "")
