"""A server of HTTP/2 on a loopback port. Without TLS, so a client has to know what it speaks."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from ._hostile import listening

Step = bytes | float | None
"""What is sent, a pause in seconds, or nothing more on an open stream. At the end of the steps the answer is over."""


@dataclass
class Http2Server:
    url: str
    asked: list[tuple[int, str]] = field(default_factory=list)
    """The number of the connection, from 0, and the path of each request."""

    def paths(self, connection: int) -> list[str]:
        return [path for number, path in self.asked if number == connection]


@contextlib.contextmanager
def http2_server(answer: Callable[[str], tuple[str, Iterable[Step]]]) -> Iterator[Http2Server]:
    """`answer` says the content type and the steps for a path."""
    numbers = itertools.count()

    def serve(connection: socket.socket) -> None:
        number = next(numbers)
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        with contextlib.suppress(OSError):
            connection.sendall(state.data_to_send())
            while received := connection.recv(65_536):
                for event in state.receive_data(received):
                    if isinstance(event, h2.events.RequestReceived):
                        path = dict(event.headers)[b":path"].decode().partition("?")[0]
                        server.asked.append((number, path))
                        kind, steps = answer(path)
                        state.send_headers(event.stream_id, [(b":status", b"200"), (b"content-type", kind.encode())])
                        for step in steps:
                            if step is None:
                                break
                            if isinstance(step, bytes):
                                state.send_data(event.stream_id, step)
                            else:
                                time.sleep(step)
                        else:
                            state.end_stream(event.stream_id)
                connection.sendall(state.data_to_send())

    with listening(serve) as port:
        server = Http2Server(f"http://127.0.0.1:{port}")
        yield server
