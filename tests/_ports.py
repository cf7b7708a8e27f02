"""Ports for servers that a test starts, or looks for in vain."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress


def free_port() -> int:
    """A port on which nobody listens. It is none of those that the system gives to whoever asks for any.

    So hardly anybody has it before the test's server listens on it, or while that one is restarted.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
