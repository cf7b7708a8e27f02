"""uvicorn, made to start and stop at once and to speak the service's error format from the first byte."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..api.pipeline import TOO_LONG
from ..core.errors import MockServerError
from ..core.messages import Break
from .asgi import BREAK_OFF, App, Receive, Scope, Send

if TYPE_CHECKING:
    from ..api.pipeline import Pipeline

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
        self._additions: list[asyncio.Future[None]] = []

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

    def listen_too(self, listener: socket.socket) -> None:
        """Serve on one more listening socket; from any thread. Connections made before it begins wait."""
        assert self._loop is not None  # noqa: S101 - called after the start

        def begin() -> None:
            self._additions.append(asyncio.ensure_future(self._add(listener)))

        self._loop.call_soon_threadsafe(begin)

    async def _add(self, listener: socket.socket) -> None:
        protocol_class: Any = self.config.http_protocol_class

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = protocol_class(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        self.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listener))

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
        for addition in self._additions:
            await addition
        # First nothing more is accepted: a connection that was, a moment ago, can't join a server that is closed, and
        # would be left behind open.
        for server in self.servers:
            for listener in server.sockets:
                asyncio.get_running_loop().remove_reader(listener.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
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


def make_serving(pipeline: Pipeline, market_port: Callable[[], int | None]) -> Serving:
    class Protocol(H11Protocol):
        """Quiet; refuses what isn't even HTTP in the service's error format; can end a connection as networks do."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.logger = log
            self.access_log = False
            self.refused = False
            inner: Any = self.app

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                if self.refused:
                    return  # in the meantime its body turned out to be no HTTP
                scope[BREAK_OFF] = self.break_off
                # Whoever still waits when the server stops has nobody left to answer.
                with contextlib.suppress(asyncio.CancelledError):
                    await inner(scope, receive, send)

            self.app = app

        def break_off(self, how: Break) -> None:
            if how is Break.RESET:
                # With a linger time of zero the system sends a reset instead of an orderly end.
                with contextlib.suppress(OSError):
                    sock = self.transport.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
                return
            if how is Break.CHUNK:
                self.transport.write(b"not a length\r\n")
            self.transport.close()

        def send_400_response(self, msg: str) -> None:
            self.refused = True
            if self.cycle is not None:
                # What was begun ends as if the client had left.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                # An answer is on its way already.
                self.transport.close()
                return
            too_long = getattr(sys.exception(), "error_status_hint", 400) == 431
            reply = pipeline.refusal(TOO_LONG if too_long else "The request is not valid HTTP.")
            assert isinstance(reply.body, bytes)  # noqa: S101 - an error is sent whole
            for event in (
                h11.Response(
                    status_code=reply.status, headers=[*reply.headers, (b"connection", b"close")], reason=b"Bad Request"
                ),
                h11.Data(data=reply.body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    config = uvicorn.Config(
        App(pipeline, market_port),
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
