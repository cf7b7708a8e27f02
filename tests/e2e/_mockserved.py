"""Mock servers in processes of their own, on one state file."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tradesdk_mock import MockClock, MockService

START = 1_800_000_000
# Nothing here speaks TLS; a bare context saves every client from loading the certificate store.
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KEY = "mock_full_enterprise_main"


def begin(path: Path | None, **options: Any) -> None:
    """Make a state file whose clock stands still."""
    MockService(db=path, clock=MockClock(START), **options).close()


@contextmanager
def served(path: Path, count: int, *arguments: str) -> Iterator[list[httpx.Client]]:
    """So many servers, started at the same time; a client for each."""
    with ExitStack() as stack:
        started = [stack.enter_context(_process("--db", str(path), *arguments)) for _ in range(count)]
        clients = []
        for running in started:
            assert running.stdout is not None
            assert running.stderr is not None
            url = running.stdout.readline().strip()
            assert url.startswith("http://"), running.stderr.read()
            headers = {"Authorization": f"Bearer {KEY}"}
            client = httpx.Client(base_url=url, headers=headers, timeout=300, trust_env=False, verify=_TLS)
            clients.append(stack.enter_context(client))
        yield clients


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tradesdk_mock", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield running
        running.terminate()
        _, errors = running.communicate(timeout=300)
        assert (running.returncode, errors) == (0, "")
    finally:
        running.kill()
        running.communicate(timeout=300)
