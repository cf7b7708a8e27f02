"""uvicorn, made to start and stop at once and to speak the service's error format from the first byte."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from pydantic_core import to_json
from uvicorn.protocols.http.h11_impl import H11Protocol

from .app import build_app
from .errors import MockServerError, invalid
from .web import error_answer, http_date

if TYPE_CHECKING:
    from .world import World

_GRACE = 0.05

# Ours, so that a program that runs uvicorn itself finds its loggers untouched.
log = logging.getLogger("tradesdk_mock.http")
log.setLevel(logging.ERROR)


class Serving(uvicorn.Server):
    """Runs in a thread of its own; signals are left to the main thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._started_event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_event: asyncio.Event | None = None
        self._failure: BaseException | None = None

    def run(self, sockets: list[socket.socket] | socket.socket | None = None) -> None:
        """Serve on the listening sockets until `stop`."""
        listeners = [sockets] if isinstance(sockets, socket.socket) else sockets
        try:
            with asyncio.Runner() as runner:
                runner.run(self.serve(listeners))
        except BaseException as error:
            # Raised where someone waits, not in a thread that nobody looks at.
            self._failure = error
        finally:
            self._started_event.set()

    def wait_started(self) -> None:
        self._started_event.wait()
        if self._failure is not None:
            raise MockServerError(f"the server didn't start: {self._failure}") from self._failure

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None and self._stop_event is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_event.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_event = asyncio.Event()
        await super().startup(sockets)
        self._started_event.set()

    async def main_loop(self) -> None:
        # uvicorn's own loop looks ten times a second whether it is time to go.
        assert self._stop_event is not None  # noqa: S101 - set in startup
        await self._stop_event.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let what is being answered finish for a moment, close every connection."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        tasks = set(self.server_state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        # One turn for the connections to hear of it, then every request that was waiting for its body ends.
        await asyncio.sleep(0)
        if self.server_state.tasks:
            await asyncio.wait(set(self.server_state.tasks), timeout=_GRACE)


def make_serving(world: World) -> Serving:
    class Protocol(H11Protocol):
        """Quiet, and what isn't even HTTP is refused in the service's error format too."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.logger = log
            self.access_log = False

        def send_400_response(self, msg: str) -> None:
            answer = error_answer(invalid("The request is not valid HTTP."), world)
            content = to_json(answer.data)
            headers = [
                (b"date", http_date(world.now())),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(content)),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=answer.status, headers=headers, reason=b"Bad Request"),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    config = uvicorn.Config(
        build_app(world),
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
    )
    return Serving(config)
