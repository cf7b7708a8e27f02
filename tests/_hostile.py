"""A server on a loopback port that may answer anything at all, byte by byte."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import responses


@dataclass
class Visit:
    """One request on one connection. `number` counts all requests of the server from 0, `nth` those of its
    connection."""

    number: int
    nth: int
    head: bytes
    body: bytes
    _socket: socket.socket
    _ended: threading.Event

    @property
    def request(self) -> tuple[str, str, dict[str, str]]:
        """Method, path, and headers by their names in small letters."""
        first, *lines = self.head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        return method, path, {name.lower(): value.strip() for name, _, value in pairs}

    def send(self, *pieces: bytes) -> bool:
        """False when the client has left."""
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError:
            return False
        return True

    def hold(self, seconds: float | None = None) -> None:
        """Say nothing until the client leaves or the server ends, `seconds` at most."""
        self._socket.settimeout(seconds)
        with contextlib.suppress(OSError):
            self._socket.recv(1)

    def drip(self, piece: bytes, every: float) -> int:
        """Send `piece` again and again until the client leaves or the server ends; how often it was."""
        times = 0
        while not self._ended.wait(every) and self.send(piece):
            times += 1
        return times

    def close(self) -> None:
        """End the connection in good order."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def reset(self) -> None:
        """Break the connection off."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


Answering = Callable[[Visit], None]


@dataclass
class HostileServer:
    port: int
    visits: list[Visit] = field(default_factory=list)
    connections: int = 0
    most_open: int = 0
    now_open: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settled(self, *, open_connections: int) -> bool:
        """Whether soon no more than so many connections are open. It takes a moment until a server sees an end."""
        with self.changed:
            return self.changed.wait_for(lambda: self.now_open <= open_connections, timeout=60)


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A loopback port. `serve` runs in a thread for each connection; at the end they are all broken off."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                sockets.append(connection)
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in sockets:
            one.close()


@contextlib.contextmanager
def hostile(answering: Answering) -> Iterator[HostileServer]:
    """`answering` runs in a thread for each request; afterwards the connection continues unless it was closed."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with server.changed:
            server.connections += 1
            server.now_open += 1
            server.most_open = max(server.most_open, server.now_open)
        try:
            for nth, (head, body) in enumerate(_requests(connection)):
                with server.changed:
                    visit = Visit(len(server.visits), nth, head, body, connection, ended)
                    server.visits.append(visit)
                answering(visit)
        except OSError:
            pass  # the connection is over, by whichever side
        finally:
            connection.close()
            with server.changed:
                server.now_open -= 1
                server.changed.notify_all()

    with listening(serve) as port:
        server = HostileServer(port)
        try:
            yield server
        finally:
            ended.set()


def _requests(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    pending = b""
    while True:
        while b"\r\n\r\n" not in pending:
            if not (more := connection.recv(65_536)):
                return
            pending += more
        head, _, pending = pending.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        while len(pending) < length:
            if not (more := connection.recv(65_536)):
                return
            pending += more
        body, pending = pending[:length], pending[length:]
        yield head, body


def answer(
    body: bytes = b"",
    *,
    status: str | int = "200 OK",
    kind: str | None = "application/json",
    length: int | None = None,
    **more: str,
) -> bytes:
    """A whole answer. `length` claims another length than the body has."""
    if isinstance(status, int):
        status = f"{status} {responses.get(status, 'Unknown')}"
    lines = [f"HTTP/1.1 {status}"]
    if kind is not None:
        lines.append(f"content-type: {kind}")
    if not status.startswith("204"):
        lines.append(f"content-length: {len(body) if length is None else length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(sent: bytes) -> Answering:
    """The same answer to everything."""

    def answering(visit: Visit) -> None:
        visit.send(sent)

    return answering
