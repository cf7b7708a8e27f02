"""`python -m tradesdk_mock`: the same server without `trade`."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock.__main__ import main


@contextlib.contextmanager
def module(*argv: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # the program under test
        [sys.executable, "-m", "tradesdk_mock", "--port", "0", *argv], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_options() -> None:
    with module("--scripted", "--freeze", "--gap", "b_port=another") as process:
        assert process.stdout is not None
        url, market_url = process.stdout.readline().strip(), process.stdout.readline().strip()
        status = httpx.get(f"{url}/_mock/status", trust_env=False).json()
        assert (status["market"], status["frozen"]) == ("scripted", True)
        assert market_url.startswith("http://127.0.0.1:")
        assert market_url != url
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


class SignalOnFirstLine(io.StringIO):
    """Standard output whose reader stops the server as soon as it knows the address."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        if not self.getvalue():
            super().write(text)
            signal.raise_signal(self._number)
            return len(text)
        return super().write(text)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_has_the_address_can_stop_it(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    out = SignalOnFirstLine(number)
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["serve", "--port", "0"] if number == signal.SIGTERM else ["--port", "0"]) == 0
    assert out.getvalue().startswith("http://127.0.0.1:")


def test_another_word_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["server", "--port", "0"])
    assert "invalid choice: 'server'" in capsys.readouterr().err


def test_remote_control_is_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from tradesdk_mock import MockServer

    allowed: list[object] = []
    original = MockServer.__init__

    def looked_at(server: MockServer, **options: object) -> None:
        allowed.append(options["allow_remote_control"])
        original(server)

    monkeypatch.setattr(MockServer, "__init__", looked_at)
    monkeypatch.setattr("tradesdk_mock.serving.uvicorn_server.wait_for", lambda stop: None)
    assert main(["--port", "0"]) == 0
    assert main(["--port", "0", "--allow-remote-control"]) == 0
    assert allowed == [False, True]


def test_a_state_keeps_its_market_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[dict[str, Any]] = []

    def meanwhile(stop: object) -> None:
        found.append(httpx.get(f"{capsys.readouterr().out.split()[0]}/_mock/status", trust_env=False).json())

    monkeypatch.setattr("tradesdk_mock.serving.uvicorn_server.wait_for", meanwhile)
    file = str(tmp_path / "kept.sqlite3")
    for argv in (("--scripted", "--gap", "write_status=200/200"), ("--gap", "order=oldest")):
        assert main(["--port", "0", "--db", file, *argv]) == 0
    assert [status["market"] for status in found] == ["scripted", "scripted"]
    assert found[1]["gaps"] == {"write_status": "200/200", "order": "oldest"}
