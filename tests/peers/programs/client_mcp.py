"""The official Python client of the Model Context Protocol, 1.x or 2.x: starts a server, and calls its tools.

It reads a line of JSON for each thing to do, and answers by one: first `{"command", "args", "env"}`, then
`{"tool", "arguments"}`, perhaps with `within`, the seconds after which it gives up.
"""

import json
import sys
from typing import Any

import anyio
import anyio.to_thread
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def plain(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json")


def say(told: object) -> None:
    print(json.dumps(told), flush=True)


async def heard() -> Any:
    line = await anyio.to_thread.run_sync(sys.stdin.readline)
    return json.loads(line) if line else None


async def main() -> None:
    server = StdioServerParameters(**await heard())
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        say([plain(tool) for tool in (await session.list_tools()).tools])
        while (asked := await heard()) is not None:
            try:
                with anyio.fail_after(asked.get("within", 60)):
                    result = plain(await session.call_tool(asked["tool"], asked["arguments"]))
            except TimeoutError:
                say({"gave_up": True})
            except Exception as error:
                say({"refused": f"{type(error).__name__}: {error}"})
            else:
                texts = [one["text"] for one in result["content"]]
                structured = result.get("structuredContent")
                say({"error": bool(result.get("isError")), "structured": structured, "text": texts[0]})


anyio.run(main)
