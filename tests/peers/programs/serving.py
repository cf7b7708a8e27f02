"""Serve apps on free loopback ports until the program that started this one closes our standard input."""

# The official packages live in environments of their own, so nothing of theirs is known here.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from typing import Any

import uvicorn


def serve(apps: dict[str, Any]) -> None:
    """Print `{NAME: URL, …}` on one line once somebody may connect, then serve."""
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in apps}

    def end() -> None:
        sys.stdin.read()
        os._exit(0)  # nobody is left who would read an answer

    async def run() -> None:
        servers = {
            name: uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")) for name, app in apps.items()
        }
        await asyncio.gather(*(server.serve(sockets=[listeners[name]]) for name, server in servers.items()))

    threading.Thread(target=end, daemon=True).start()
    # The sockets listen already: whoever connects before uvicorn accepts just waits for it.
    urls = {name: f"http://127.0.0.1:{listener.getsockname()[1]}" for name, listener in listeners.items()}
    print(json.dumps(urls), flush=True)
    asyncio.run(run())
