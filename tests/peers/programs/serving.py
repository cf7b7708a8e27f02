"""Serve an app on a free loopback port until the program that started this one closes our standard input."""

# The official packages live in environments of their own, so nothing of theirs is known here.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Print `{"url": …}` on one line once somebody may connect, then serve."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))

    def end() -> None:
        sys.stdin.read()
        os._exit(0)  # nobody is left who would read an answer

    threading.Thread(target=end, daemon=True).start()
    # The socket listens already: whoever connects before uvicorn accepts just waits for it.
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    server.run(sockets=[listener])
