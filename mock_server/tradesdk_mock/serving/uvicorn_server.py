"""MockServer: the mock on a port of this machine, for as long as a `with` block lasts. uvicorn serves it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..api.pipeline import TOO_LONG
from ..control.service import MARKET_PORT, MockService
from ..core.clock import MockClock, RealTime
from ..core.errors import MockServerError
from ..core.gap_options import GapOptions
from ..core.messages import Disconnect
from .asgi import BREAK_OFF, App, Receive, Scope, Send

try:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    absent = (error.name or "").partition(".")[0]
    needed = {"uvicorn": 'pip install "uvicorn>=0.34,<1"', "h11": 'pip install "h11>=0.16,<1"'}
    if absent not in needed:
        raise
    raise ModuleNotFoundError(f"the mock server needs {absent}: {needed[absent]}", name=absent) from None

if TYPE_CHECKING:
    from ..api.pipeline import Pipeline

_GRACE = 0.05
HEADERS_WITHIN = 20.0
"""Seconds to send all headers of a request: the first since the connection, others since their first byte."""

# Our own, so that the loggers of a program that runs uvicorn itself are not changed.
log = logging.getLogger("tradesdk_mock.http")
log.setLevel(logging.ERROR)


class MockServer(MockService):
    """The service on a loopback port, in a thread of this process.

        with MockServer() as server:
            key = server.create_key()
            httpx.get(server.url + "/v1/account", headers={"Authorization": f"Bearer {key.value}"})

    It is a `MockService` with an address, and has all of its methods. All other arguments are those of `MockService`.

    Args:
        host: address to listen on.
        port: 0 lets the system choose one that is free.

    Raises:
        MockServerError: the state file can't be used, or was made with another seed; on `start` and
            `with`, the port can't be used.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | Mapping[str, object] | None = None,
        clock: MockClock | None = None,
        signals: Literal["live", "scripted"] | None = None,
        first_within: float | None = None,
        allow_remote_control: bool = False,
    ) -> None:
        super().__init__(
            seed=seed,
            db=db,
            gaps=gaps,
            clock=clock,
            signals=signals,
            first_within=first_within,
            allow_remote_control=allow_remote_control,
        )
        self._host = host
        self._port = port
        self._market_port: int | None = None
        self._server: UvicornServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Listen, and return when it responds. A `with` block starts and stops the server.

        Raises:
            MockServerError: the port is in use, or the server was already started.
        """
        if self._server is not None or self.world.closed:
            raise MockServerError("this server has been started already, or stopped")
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        server = make_server(self.pipeline, lambda: self._market_port)
        thread = threading.Thread(target=server.run, args=(listener,), name="tradesdk-mock", daemon=True)
        self._server, self._thread = server, thread
        thread.start()
        server.wait_started()
        self.world.on_gaps = self._open_market
        self._open_market()
        return self

    def _open_market(self) -> None:
        """Listen on a second port for market data once the gap option `b_port` asks for it."""
        if self.world.gaps.b_port == "another" and self._market_port is None and self._server is not None:
            listener = _listen(self._host, 0)
            self._market_port = listener.getsockname()[1]
            self._server.listen_too(listener)

    def stop(self) -> None:
        """Stop, and close open connections. Does nothing if the server isn't running."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()
            self._thread = None
        self.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = "not started" if self._server is None else f"url={self.url!r}"
        return f"MockServer({where}, seed={self.world.seed})"

    @property
    def port(self) -> int:
        """The port that it listens on; before the start, the requested one."""
        return self._port

    @property
    def url(self) -> str:
        """The address, without the version prefix: `http://127.0.0.1:PORT`. MockServerError before the start."""
        return self._address(self._port)

    @property
    def market_url(self) -> str:
        """The address of the market data: `url`, unless the gap option `b_port` gives it a port of its own."""
        return self._address(self._market_port if self.world.gaps.b_port == "another" else self._port)

    def _own_market_port(self) -> int:
        return self._market_port or MARKET_PORT

    def _address(self, port: int | None) -> str:
        if self._server is None:
            raise MockServerError("the server isn't started, so it has no address: use `with MockServer() as server:`")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set while the block runs. For the main thread."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(stop: threading.Event) -> None:
    """Wait in short turns: Python checks for signals between them, even for one that came just before a wait."""
    while not stop.wait(0.5):
        pass


def _listen(host: str, port: int) -> socket.socket:
    # The system takes larger numbers modulo 65,536.
    if not 0 <= port <= 65_535:
        raise MockServerError(f"can't listen on port {port}: a port is a number from 0 to 65535")
    try:
        family, kind, number, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
    except OSError as error:
        raise MockServerError(f"can't listen on {host} port {port}: {error}") from error
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise MockServerError(f"can't listen on {host} port {port}: {error}") from error
    return listener


class UvicornServer(uvicorn.Server):
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
                loop: Any = runner.get_loop()
                if isinstance(loop, asyncio.BaseEventLoop):
                    loop.time = RealTime.monotonic  # type: ignore[method-assign]  # a test may freeze the machine's time
                runner.run(self.serve(listeners))
        except BaseException as error:
            # Raised in the thread that waits for the start.
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
        # uvicorn's own loop wakes ten times a second.
        assert self._stop_event is not None  # noqa: S101 - set in startup
        await self._stop_event.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, give running responses a moment, close every connection."""
        for addition in self._additions:
            await addition
        # First stop accepting: a connection accepted now can't join a closed server, and would stay open.
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
        # One turn for the connections to notice; then requests that wait for their bodies end.
        await asyncio.sleep(0)
        if self.server_state.tasks:
            await asyncio.wait(set(self.server_state.tasks), timeout=_GRACE)


def make_server(pipeline: Pipeline, market_port: Callable[[], int | None]) -> UvicornServer:
    class Protocol(H11Protocol):
        """An HTTP connection: it does not log, refuses invalid HTTP in the service's format, and can break."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.logger = log
            self.access_log = False
            self.refused = False
            self.headers_due: asyncio.TimerHandle | None = None
            inner: Any = self.app

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                if self.refused:
                    return  # the body turned out to be invalid HTTP
                scope[BREAK_OFF] = self.break_off
                # The server stops: there is no connection left for a response.
                with contextlib.suppress(asyncio.CancelledError):
                    await inner(scope, receive, send)

            self.app = app

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.headers_due = self.loop.call_later(HEADERS_WITHIN, transport.close)

        def handle_events(self) -> None:
            super().handle_events()
            begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
            if not begun:
                self._no_headers_due()
            elif self.headers_due is None:
                self.headers_due = self.loop.call_later(HEADERS_WITHIN, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._no_headers_due()
            super().connection_lost(exc)

        def _no_headers_due(self) -> None:
            if self.headers_due is not None:
                self.headers_due.cancel()
                self.headers_due = None

        def break_off(self, how: Disconnect) -> None:
            if how is Disconnect.RESET:
                # With a linger time of zero the system sends a reset instead of an orderly end.
                with contextlib.suppress(OSError):
                    sock = self.transport.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
                return
            if how is Disconnect.CHUNK:
                self.transport.write(b"not a length\r\n")
            self.transport.close()

        def send_400_response(self, msg: str) -> None:
            self.refused = True
            if self.cycle is not None:
                # A running request ends as if the client had left.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                # A response is already being sent.
                self.transport.close()
                return
            too_long = getattr(sys.exception(), "error_status_hint", 400) == 431
            response = pipeline.refusal(TOO_LONG if too_long else "The request is not valid HTTP.")
            assert isinstance(response.body, bytes)  # noqa: S101 - an error is sent whole
            headers = [*response.headers, (b"connection", b"close")]
            head = h11.Response(status_code=response.status, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=response.body), h11.EndOfMessage()):
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
    return UvicornServer(config)
