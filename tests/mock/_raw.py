"""Bytes on a socket: for what no client library would send."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from collections.abc import Sequence

import httpx

from tradesdk_mock import MockServer

from ._support import FULL

HOST = b"Host: a\r\n"
KEY = f"Authorization: Bearer {FULL}\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """With a host and a key."""
    return line + b" HTTP/1.1\r\n" + HOST + KEY + b"".join(headers) + b"\r\n" + body


def get(target: bytes, *headers: bytes) -> bytes:
    return request(b"GET " + target, *headers)


def post(*headers: bytes, body: bytes = b"{}") -> bytes:
    """A new agent, in JSON."""
    return request(b"POST /v1/agents", JSON, *headers, body=body)


def connect(server: MockServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def exchange(server: MockServer, *sent: bytes, half_close: bool = True) -> bytes:
    """Everything that comes back until the server closes. With `half_close`, it is told that nothing more will come."""
    received = b""
    with connect(server) as wire:
        # It may close before it has read everything.
        with contextlib.suppress(OSError):
            for piece in sent:
                wire.sendall(piece)
            if half_close:
                wire.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while chunk := wire.recv(65_536):
                received += chunk
    return received


def one_answer(wire: socket.socket) -> httpx.Response:
    """The next answer on a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(wire)
    length = int(re.search(rb"content-length: (\d+)", received)[1])  # type: ignore[index]  # an answer has one
    while len(received.partition(b"\r\n\r\n")[2]) < length:
        received += _some(wire)
    (answer,) = answers(received)
    return answer


def _some(wire: socket.socket) -> bytes:
    received = wire.recv(65_536)
    assert received, "hung up"
    return received


def reset(wire: socket.socket) -> None:
    """Leave without a goodbye."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def answers(received: bytes, *, bodies: bool = True) -> list[httpx.Response]:
    """The answers in what was received, all of them whole. `bodies`: False for those to HEAD."""
    found: list[httpx.Response] = []
    while received:
        head, ended, received = received.partition(b"\r\n\r\n")
        assert ended, head
        first, *lines = head.split(b"\r\n")
        version, status, _ = first.split(b" ", 2)
        assert version == b"HTTP/1.1"
        headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
        answer = httpx.Response(int(status), headers=headers)
        length = int(answer.headers.get("content-length", 0)) if bodies else 0
        assert len(received) >= length
        found.append(httpx.Response(int(status), headers=headers, content=received[:length] if bodies else None))
        received = received[length:]
    return found


def codes(found: Sequence[httpx.Response]) -> list[tuple[int, str | None]]:
    """Status and error code of answers; an error must have the service's form."""
    seen: list[tuple[int, str | None]] = []
    for answer in found:
        code = None
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/json"
            (inner,) = answer.json().values()
            assert set(inner) == {"code", "message"}
            assert inner["message"].isprintable()
            code = inner["code"]
        seen.append((answer.status_code, code))
    return seen
