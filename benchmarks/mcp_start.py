"""From the start of `trade mcp` to its first answer to tools/list, beside an empty server of the same SDK."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _measure import Bar, Probe, finish, measure, report

ROUNDS = 15
EMPTY = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def no_tools(ctx, params):
    return types.ListToolsResult(tools=[])


async def main():
    server = Server("empty", on_list_tools=no_tools)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


anyio.run(main)
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
REQUEST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode() + b"\n"


def first_answer(command: Sequence[str], home: str) -> Probe:
    """Times a server up to its first answer; the CPU time has its end as well."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRADE_")}

    def probe() -> tuple[float, float]:
        wall = time.perf_counter()
        with subprocess.Popen(
            command,
            env={**clean, "TRADE_HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(REQUEST)
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            wall = time.perf_counter() - wall
            assert "tools" in answer["result"], answer
            server.stdin.close()
            _, status, usage = os.wait4(server.pid, 0)
            server.returncode = os.waitstatus_to_exitcode(status)
        assert server.returncode == 0
        return usage.ru_utime + usage.ru_stime, wall

    return probe


with tempfile.TemporaryDirectory() as home:
    empty = Path(home, "empty.py")
    empty.write_text(EMPTY)
    options = ("mcp", "--write", "--spend", "0.50")
    figures = measure(
        {
            "empty server": first_answer([sys.executable, str(empty)], home),
            "trade mcp": first_answer([str(Path(sys.executable).parent / "trade"), *options], home),
        },
        rounds=ROUNDS,
    )

finish(report("Start to first tools/list", figures, [Bar("trade mcp", "empty server", 1.2)], unit="ms", peers=["mcp"]))
