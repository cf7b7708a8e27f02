"""What the page about the mock begins with: a server in one terminal, and in others its stream and a signal for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

pytestmark = pytest.mark.long

TRADE = (sys.executable, "-m", "tradesdk_cli")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("TRADE_")}
    return usual | {"TRADE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def served(home: dict[str, str]) -> Iterator[dict[str, str]]:
    """What `trade mock serve --seed 7` prints of itself."""
    # A new session, so that the signal at the end goes to this process alone.
    with subprocess.Popen(
        [*TRADE, "mock", "serve", "--seed", "7", "--port", "0", "--scripted", "-o", "ndjson"],
        env=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        watchdog = threading.Timer(300, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate()
            assert (process.returncode, out) == (0, "")
            assert "Traceback" not in err
        finally:
            watchdog.cancel()
            process.kill()


def trade(served: dict[str, str], home: dict[str, str], *words: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [*TRADE, *words, "-o", "ndjson"],
        env=home | {"TRADE_BASE_URL": served["url"], "TRADE_API_KEY": served["api_key"]},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_emitted_signal_is_on_the_stream_and_in_every_list(served: dict[str, str], home: dict[str, str]) -> None:
    bearer = {"Authorization": f"Bearer {served['api_key']}"}
    with (
        httpx.Client(base_url=served["url"], headers=bearer, timeout=30) as http,
        http.stream("GET", "/v1/signals/stream", params={"chain": 8453}) as stream,
    ):
        [emitted] = trade(served, home, "mock", "emit", "--chain", "8453")
        events = (json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line)
        event = next(event for event in events if event.pop("type") == "signal")  # after a heartbeat, if it took long
        assert event == {name: emitted[name] for name in event}
        [status] = trade(served, home, "mock", "status")
        assert status["streams"] == 1
        events.close()
    [latest] = trade(served, home, "signals", "latest", "--chain", "base", "--limit", "1")
    [first] = trade(served, home, "signals", "history", "--chain", "base", "--limit", "1")
    assert latest == first == event


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_with_streams_open(number: signal.Signals, home: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*TRADE, "mock", "serve", "--seed", "7", "--port", "0", "-o", "ndjson"],
        env=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    try:
        stdout: IO[str] | None = process.stdout
        assert stdout is not None
        found = json.loads(stdout.readline())
        bearer = {"Authorization": f"Bearer {found['api_key']}"}
        with (
            httpx.Client(base_url=found["url"], headers=bearer, timeout=30) as http,
            http.stream("GET", "/v1/signals/stream", params={"chain": 8453}) as stream,
        ):
            process.send_signal(number)
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in stream.iter_bytes():
                    pass
        _, err = process.communicate(timeout=300)
        assert process.returncode == (0 if number == signal.SIGTERM else 130)
        assert "Traceback" not in err
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
