"""MockServer: the mock on a port of this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Literal, Self

from ..control.service import MARKET_PORT, MockService
from ..core.clock import MockClock
from ..core.errors import MockServerError
from ..core.gap_options import GapOptions

try:
    from .uvicorn_server import Serving, make_serving
except ModuleNotFoundError as error:
    absent = (error.name or "").partition(".")[0]
    if absent not in ("uvicorn", "h11"):
        raise
    raise ModuleNotFoundError(f'the mock server needs {absent}: pip install "tradesdk[mock]"', name=absent) from None


class MockServer(MockService):
    """The service on a loopback port, in a thread of this process.

        with MockServer() as server:
            key = server.create_key()
            httpx.get(server.url + "/v1/account", headers={"Authorization": f"Bearer {key.value}"})

    It is a `MockService` with an address: everything that can be done to that one can be done to it, and all other
    arguments are that one's.

    Args:
        host: address to listen on.
        port: 0 lets the system choose one that is free.

    Raises:
        MockServerError: the state file can't be used, or was made with another seed or scenario; on `start` and
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
        scenario: str | None = None,
        first_within: float | None = None,
        allow_remote_control: bool = False,
    ) -> None:
        super().__init__(
            seed=seed,
            db=db,
            gaps=gaps,
            clock=clock,
            signals=signals,
            scenario=scenario,
            first_within=first_within,
            allow_remote_control=allow_remote_control,
        )
        self._host = host
        self._port = port
        self._market_port: int | None = None
        self._serving: Serving | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Listen. Returns when requests are answered. A `with` block does it, and `stop` at its end.

        Raises:
            MockServerError: the port is in use, or the server was started before.
        """
        if self._serving is not None or self.world.closed:
            raise MockServerError("this server has been started already, or stopped")
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        serving = make_serving(self.engine, lambda: self._market_port)
        thread = threading.Thread(target=serving.run, args=(listener,), name="tradesdk-mock", daemon=True)
        self._serving, self._thread = serving, thread
        thread.start()
        serving.wait_started()
        self.world.on_gaps = self._open_market
        self._open_market()
        return self

    def _open_market(self) -> None:
        """A port of its own for market data, from the moment that the gap option `b_port` asks for it."""
        if self.world.gaps.b_port == "another" and self._market_port is None and self._serving is not None:
            listener = _listen(self._host, 0)
            self._market_port = listener.getsockname()[1]
            self._serving.listen_too(listener)

    def stop(self) -> None:
        """End; open connections are closed. Does nothing when it isn't running."""
        if self._serving is not None and self._thread is not None:
            self._serving.stop()
            self._thread.join()
            self._thread = None
        self.close()

    def wait(self) -> None:
        """Serve until SIGINT or SIGTERM. For a program that is a server and nothing else; from its main thread."""
        ended = threading.Event()

        def end(number: int, frame: FrameType | None) -> None:
            ended.set()

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ended.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

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
        where = "not started" if self._serving is None else f"url={self.url!r}"
        return f"MockServer({where}, seed={self.world.seed})"

    @property
    def port(self) -> int:
        """Where it listens; before the start, what was asked for."""
        return self._port

    @property
    def url(self) -> str:
        """Where it listens, without the version prefix: `http://127.0.0.1:PORT`. MockServerError before the start."""
        return self._address(self._port)

    @property
    def market_url(self) -> str:
        """The address of the market data: `url`, unless the gap option `b_port` gives it a port of its own."""
        return self._address(self._market_port if self.world.gaps.b_port == "another" else self._port)

    def _is_market_port(self, port: int | None) -> bool:
        return self.world.gaps.b_port == "another" and port == (self._market_port or MARKET_PORT)

    def _address(self, port: int | None) -> str:
        if self._serving is None:
            raise MockServerError("the server isn't started, so it has no address: use `with MockServer() as server:`")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    # The system would take a larger number modulo 65,536.
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
