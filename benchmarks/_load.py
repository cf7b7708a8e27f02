"""GETs over open connections, at a cost of a few microseconds each, to measure the server."""

from __future__ import annotations

import selectors
import socket
from typing import Self


class Load:
    """Connections to one server that repeat a request, each as soon as it was answered.

    They are open within a `with` block. A server that closes one after its answer is asked on a new one.
    """

    def __init__(self, port: int, path: str, *, key: str, connections: int) -> None:
        self._address = ("127.0.0.1", port)
        self._connections = connections
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n"
        self._request = f"{head}Authorization: Bearer {key}\r\n\r\n".encode()
        self.last = b""

    def __enter__(self) -> Self:
        self._selector = selectors.DefaultSelector()
        for _ in range(self._connections):
            self._open()
        return self

    def __exit__(self, *failure: object) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def run(self, times: int) -> None:
        """Send `times` requests in all, and read every answer."""
        sent = 0
        idle = [key.fileobj for key in self._selector.get_map().values()]
        for connection in idle[:times]:
            assert isinstance(connection, socket.socket)
            connection.sendall(self._request)
            sent += 1
        answered = 0
        while answered < times:
            for key, _ in self._selector.select(30):
                connection, answer = key.fileobj, key.data
                assert isinstance(connection, socket.socket)
                piece = connection.recv(262_144)
                answer += piece
                if piece and not is_whole(answer):
                    continue
                answered += 1
                assert answer.startswith(b"HTTP/1.1 200 "), bytes(answer[:300])
                self.last = bytes(answer)
                answer.clear()
                if not piece or b"\r\nconnection: close" in self.last[:1_000].lower():
                    self._selector.unregister(connection)
                    connection.close()
                    connection = self._open()
                if sent < times:
                    connection.sendall(self._request)
                    sent += 1

    def _open(self) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(connection, selectors.EVENT_READ, bytearray())
        return connection


def is_whole(answer: bytearray) -> bool:
    """Whether an answer is complete, by its headers."""
    head, found, content = bytes(answer).partition(b"\r\n\r\n")
    if not found:
        return False
    lower = head.lower()
    _, found, rest = lower.partition(b"\r\ncontent-length:")
    if found:
        return len(content) >= int(rest.partition(b"\r\n")[0])
    return b"\r\ntransfer-encoding: chunked" in lower and content.endswith(b"0\r\n\r\n")
