"""What the mock costs until it answers: CPU of a fresh process up to its first answer, and the same without a socket.

Listening isn't enough: the kernel accepts connections before a server reads them. So requests are sent until one
is answered, and the server is then killed, which adds nothing.
"""

import sys
import tempfile
from pathlib import Path

from _measure import Bar, Probe, finish, installed, measure, process, report
from _mocks import KEY, Process, Subject, subjects

ROUNDS = 25
ACCOUNT = f'"/v1/account", headers={{"Authorization": "Bearer {KEY}"}}'
IN_PROCESS = {
    "import httpx": "import httpx",
    "httpx, MockService, an answer": (
        "import httpx; from tradesdk_mock import MockService; mock = MockService(); "
        "http = httpx.Client(transport=mock.transport(), base_url=mock.url); "
        f"assert http.get({ACCOUNT}).status_code == 200"
    ),
    "httpx, MockServer, an answer over a socket": (
        "import httpx; from tradesdk_mock import MockServer; mock = MockServer().start(); "
        f"assert httpx.Client(base_url=mock.url).get({ACCOUNT}).status_code == 200"
    ),
}


def until_answer(subject: Subject) -> Probe:
    """CPU of the server's whole life, which ends with its first answer; wall time until that answer has arrived."""

    def probe() -> tuple[float, float]:
        server = Process(subject)
        return server.end(), server.took

    return probe


def peers_of(*names: str) -> list[str]:
    return [name for name in names if installed(name)]


with tempfile.TemporaryDirectory() as home:
    servers: dict[str, Probe] = {name: until_answer(subject) for name, subject in subjects(Path(home)).items()}
    held = report(
        "A server in a process of its own, until its first answer",
        measure(servers, rounds=ROUNDS),
        [Bar("the mock", "empty Starlette app", 1.3)],
        unit="ms",
        peers=peers_of("uvicorn", "pydantic", "starlette", "moto"),
    )
report(
    "In the program's own process, from its start to an answer through httpx",
    measure({name: process([sys.executable, "-c", code]) for name, code in IN_PROCESS.items()}, rounds=ROUNDS),
    [],
    unit="ms",
    peers=["httpx"],
)
finish(held)
