"""A proxy that cuts a connection before a request reaches the server, or before its reply gets back."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import Literal


class CuttingProxy:
    """Forwards to `port`, which may be changed: the next connection goes there.

    Attributes:
        requests: how many requests were answered or cut since `arm`.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests = 0
        self._at = 0
        self._when: Literal["before", "after"] = "before"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._stopped = False
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def arm(self, at: int, when: Literal["before", "after"]) -> None:
        """Cut at request number `at` from here on, counted from 1; 0: never."""
        self.requests, self._at, self._when = 0, at, when

    def cut(self) -> None:
        """Cut all connections now."""
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._stopped = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else its thread waits on, and may serve the next proxy's port
        self._listener.close()
        self._accepting.join()
        self.cut()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._stopped:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            self._open |= {client, server}
            try:
                self._forward(client, server)
            finally:
                self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            is_asked = False
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr] # a socket
                    if not data:
                        return
                    if key.fileobj is client:
                        if not is_asked:
                            self.requests += 1
                            is_asked = True
                            if self.requests == self._at and self._when == "before":
                                return
                        server.sendall(data)
                    else:
                        if self.requests == self._at and self._when == "after":
                            return
                        is_asked = False
                        client.sendall(data)
