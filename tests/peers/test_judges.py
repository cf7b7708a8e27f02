"""Programs of others that judge payments and MCP servers: our client, the mock's seven paid routes, `trade mcp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import MockServer

from .environments import HERE

pytestmark = pytest.mark.peers
SECONDS = 300
TOKENS = {"tokens": [{"identifier": "ETH"}]}
PAID = {
    "token-signals": TOKENS,
    "token-prices": TOKENS,
    "signal-history": TOKENS,
    "token-win-rate": TOKENS,
    "token-avg-prices": TOKENS,
    "top-performers": {"sortBy": "winRate"},
    "aggregate-metrics": {},
}
MCP = (Path(sys.executable).with_name("trade"), "--mock", "mcp")


def run(*command: str | Path, home: Path, folder: Path = HERE, codes: tuple[int, ...] = (0,)) -> str:
    """What a judge prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(home), "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def test_a_client_that_asks_what_became_of_its_payment(environment: Callable[[str], Path], tmp_path: Path) -> None:
    """hostile-facilitator: ten ways to take the money and not to say so; one purchase, settled once in each."""
    judge = environment("judges") / "bin" / "hostile-facilitator"
    report = tmp_path / "report.json"
    client = (sys.executable, "-m", "programs.client_judged")
    run(judge, "test", "--client-timeout", "1.5", "--json", report, "--", *client, home=tmp_path)
    rows = json.loads(report.read_text())["results"]
    assert len(rows) == 10
    assert {row["mode"]: (row["verdict"], row["distinct"]) for row in rows} == {
        row["mode"]: ("pass", 1) for row in rows
    }


def test_the_offers_of_the_mock(environment: Callable[[str], Path], tmp_path: Path) -> None:
    """x402-conformance: what all paid routes answer before payment. It sends GET: a server between makes it POST."""
    judge = environment("judges") / "bin" / "x402conf"
    with MockServer(signals="scripted") as mock, asked_by_get(mock.url) as url:
        printed = run(judge, "resource", "--fail-on-error", *(f"{url}/v1/{name}" for name in PAID), home=tmp_path)
    print(printed)
    assert printed.count('"pass": true') == 7 * len(PAID)
    assert '"pass": false' not in printed


@contextmanager
def asked_by_get(mock: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = httpx.post(mock + self.path, json=PAID[self.path.rpartition("/")[2]], trust_env=False)
            self.send_response(found.status_code)
            for header, value in found.headers.items():
                if header not in ("connection", "content-encoding", "transfer-encoding"):
                    self.send_header(header, value)
            self.end_headers()
            self.wfile.write(found.content)

        def log_message(self, *ignored: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_hostile_ai_client(environment: Callable[[str], Path], tmp_path: Path) -> None:
    """agent-security-harness: what it can judge over standard input and output, all but one point is as it wants it.

    Lines that are no JSON-RPC are passed over without an answer by the MCP SDK that `trade mcp` uses.
    """
    judge = environment("judges") / "bin" / "agent-security"
    report = tmp_path / "report.json"
    command = " ".join(map(str, MCP))
    arguments = ("test", "mcp", "--transport", "stdio", "--command", command, "--report", report)
    run(judge, *arguments, home=tmp_path, codes=(1,))
    found = json.loads(report.read_text())
    judged = {row["test_id"]: row["passed"] for row in found["results"] if not row["not_evaluated"]}
    assert len(judged) == 16
    assert [name for name, passed in judged.items() if not passed] == ["MCP-008"]


@pytest.mark.skipif(not os.environ.get("PEERS_NODE"), reason="run by scripts/peers --node")
def test_the_inspector(environment: Callable[[str], Path], tmp_path: Path) -> None:
    """The official MCP inspector lists the tools and calls one."""
    inspect = environment("node") / "node_modules" / ".bin" / "mcp-inspector"

    def ask(*method: str, code: int = 0) -> dict[str, object]:
        words: tuple[str | Path, ...] = ("--cli", "--connect-timeout", "120000", "--method", *method, *MCP)
        return dict(json.loads(run(inspect, *words, home=tmp_path, folder=tmp_path, codes=(code,))))

    tools = ask("tools/list")["tools"]
    assert isinstance(tools, list)
    assert {"account", "agents", "payments"} <= {tool["name"] for tool in tools}
    called = ask("tools/call", "--tool-name", "account")
    assert called["isError"] is False
    assert "acc_" in json.dumps(called)
    refused = ask("tools/call", "--tool-arg", "id=agt_nobody", "--tool-name", "agents", code=5)
    assert refused["isError"] is True
    assert "not_found" in json.dumps(refused), "its client checks structured content of errors, too"
