"""The servers that are measured: the mock, an empty Starlette app, moto's and Prism. Each is a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from _measure import installed

HERE = Path(__file__).parent
KEY = "mock_full_bench"
PATIENCE = 60.0

STARLETTE = """
import sqlite3, sys

import pydantic, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def account(request):
    return JSONResponse({"id": "acc_44baa7a16b405d60a7db8c08", "email": "bench@example.test", "plan": "pro"})


app = Starlette(routes=[Route("/v1/account", account)])
uvicorn.run(app, port=int(sys.argv[1]), loop="asyncio", http="h11", ws="none", log_level="error", access_log=False)
"""
"""As lean as uvicorn starts with h11, which the mock serves with, too; more speed or weight would be other packages."""

EXAMPLE = {"id": "acc_44baa7a16b405d60a7db8c08", "email": "bench@example.test", "plan": "pro"}
OPENAPI = {
    "openapi": "3.0.3",
    "info": {"title": "One route", "version": "1"},
    "paths": {
        "/v1/account": {
            "get": {
                "responses": {
                    "200": {
                        "description": "The account",
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "object",
                                    "required": [*EXAMPLE],
                                    "properties": {name: {"type": "string"} for name in EXAMPLE},
                                },
                                "example": EXAMPLE,
                            }
                        },
                    }
                }
            }
        }
    },
}


@dataclass(frozen=True)
class Subject:
    """A server that can be started. `{port}` in the command becomes the port; `path` answers a GET with 200."""

    command: Sequence[str]
    path: str


def subjects(folder: Path) -> dict[str, Subject]:
    """The mock and what is installed of the others; the files that they need are written into `folder`."""
    if not installed("starlette"):
        sys.exit("It is what the mock is measured against: install benchmarks/requirements.txt first.")
    found = {
        "the mock": Subject(
            [sys.executable, "-m", "tradesdk_mock", "--port", "{port}", "--gap", "enterprise_limit=1000000000"],
            "/v1/account",
        ),
        "empty Starlette app": Subject([sys.executable, "-c", STARLETTE, "{port}"], "/v1/account"),
    }
    if installed("moto"):
        moto = str(Path(sys.executable).parent / "moto_server")
        found["moto server"] = Subject([moto, "-p", "{port}"], "/")
    node = prism()
    if node is not None:
        document = folder / "openapi.json"
        document.write_text(json.dumps(OPENAPI))
        found["Prism"] = Subject([str(node), "mock", "-p", "{port}", "-v", "fatal", str(document)], "/v1/account")
    return found


def prism() -> Path | None:
    """Prism's command in this environment, where `npm install --prefix` has put it; says so when it isn't there."""
    command = Path(sys.prefix) / "node_modules" / ".bin" / "prism"
    if command.exists() and shutil.which("node"):
        return command
    print("(Prism is not installed and left out)")
    return None


class Process:
    """A server that runs, from the moment that it has answered. It is killed: its end is not measured."""

    def __init__(self, subject: Subject, *, core: int | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        command = [part.replace("{port}", str(self.port)) for part in subject.command]
        began = time.perf_counter()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        self.pid = self._child.pid
        try:
            self._await(subject.path, began + PATIENCE)
        except BaseException:
            self.end()
            raise
        self.took = time.perf_counter() - began

    def _await(self, path: str, until: float) -> None:
        while True:
            assert self._child.poll() is None, f"{self._child.args!r} ended with {self._child.returncode}"
            assert time.perf_counter() < until, f"{self._child.args!r} gave no answer"
            with contextlib.suppress(ConnectionRefusedError):
                assert self.ask("GET", path)[0] == 200
                return
            time.sleep(0.001)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """One request on a connection of its own: (status, content)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def cpu(self) -> float:
        """Seconds of CPU that all of its threads have had, those included that have ended. Linux only."""
        # What clock_getcpuclockid(3) gives: the clock that counts the CPU time of this process.
        return time.clock_gettime(~self.pid << 3 | 2)

    def end(self) -> float:
        """Kill it; the seconds of CPU that it has had in its life."""
        self._child.kill()
        _, _, usage = os.wait4(self.pid, 0)
        self._child.returncode = -9
        return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def served(subject: Subject, *, core: int | None = None) -> Iterator[Process]:
    """The server, running until the block ends; on one core, where the system can tie it to one."""
    process = Process(subject, core=core if hasattr(os, "sched_setaffinity") else None)
    try:
        yield process
    finally:
        process.end()
