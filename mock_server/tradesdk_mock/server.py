"""MockServer: the mock on a port of this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from . import keys, seedworld, trading
from .clock import MockClock
from .errors import ApiError, MockServerError
from .gaps import GapOptions
from .journal import JournalEntry
from .keys import MockKey
from .seedworld import Seeded
from .world import World

try:
    from .serving import Serving, make_serving
except ModuleNotFoundError as error:
    absent = (error.name or "").partition(".")[0]
    if absent not in ("starlette", "uvicorn", "h11"):
        raise
    raise ModuleNotFoundError(f'the mock server needs {absent}: pip install "tradesdk[mock]"', name=absent) from error


class MockServer:
    """The service on a loopback port, in a thread of this process.

        with MockServer() as server:
            key = server.create_key()
            httpx.get(server.url + "/v1/account", headers={"Authorization": f"Bearer {key.value}"})

    `db` is a file that keeps the state, the clock's offset and the seed from one run to the next; without it all is
    in memory. `seed` (7 for a new state) decides every id, price and address. `port` 0 lets the system choose.
    A `clock` that is given may be shared with clients, so that they wait in its time.

    MockServerError: the port is in use, or the state file can't be used.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | None = None,
        clock: MockClock | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._serving: Serving | None = None
        self._thread: threading.Thread | None = None
        self.world = World(seed=seed, db=db, gaps=gaps, clock=clock)

    # Running

    def start(self) -> MockServer:
        """Listen. Returns when requests are answered."""
        if self._serving is not None:
            raise MockServerError("this server has been started already")
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        serving = make_serving(self.world)
        thread = threading.Thread(target=serving.run, args=(listener,), name="tradesdk-mock", daemon=True)
        self._serving, self._thread = serving, thread
        thread.start()
        serving.wait_started()
        return self

    def stop(self) -> None:
        """End; open connections are closed. Does nothing when it isn't running."""
        if self._serving is not None and self._thread is not None:
            self._serving.stop()
            self._thread.join()
            self._thread = None
        self.world.close()

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

    def __enter__(self) -> MockServer:
        try:
            return self.start()
        except BaseException:
            self.world.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """Where it listens, without the version prefix: `http://127.0.0.1:PORT`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    # Keys and plans

    def create_key(
        self,
        *,
        name: str = "bot",
        scope: str = "full-access",
        plan: str | None = None,
        tenant: str | None = None,
    ) -> MockKey:
        """A new API key. Without `tenant` it gets one of its own, on `plan` (default pro)."""
        return keys.create(self.world, name=name, scope=scope, plan=plan, tenant=tenant)

    def revoke_key(self, key_id: str) -> None:
        keys.revoke(self.world, key_id)

    def expire_key(self, key_id: str, at: float | None = None) -> None:
        """The key ends at `at` (Unix seconds on the mock's clock), by default now."""
        keys.expire(self.world, key_id, at)

    def rotate_key(self, key_id: str) -> MockKey:
        """Revoke a key and get one of the same name, scope and tenant."""
        return keys.rotate(self.world, key_id)

    def set_scope(self, key_id: str, scope: str) -> None:
        keys.set_scope(self.world, key_id, scope)

    def set_plan(self, tenant: str, plan: str) -> None:
        """An upgrade holds at once, a downgrade from the end of the billing period."""
        keys.set_plan(self.world, tenant, plan)

    # The world

    def populate(self, tenant: str, *, trades: int = 250) -> Seeded:
        """Give a tenant wallets, agents in every state, trades and positions. A second call changes nothing."""
        return seedworld.populate(self.world, tenant, trades=trades)

    def start_agent(self, agent_id: str) -> None:
        """MockServerError when it is running already."""
        _plainly(trading.start, self.world, agent_id)

    def stop_agent(self, agent_id: str) -> None:
        """MockServerError when it is stopped already."""
        _plainly(trading.stop, self.world, agent_id)

    def set_agent_status(self, agent_id: str, status: str) -> None:
        """Move an agent to `active`, `idle`, `paused` or `error`."""
        _plainly(trading.set_status, self.world, agent_id, status)

    def reset(self, seed: int | None = None) -> None:
        """Forget everything but the clock and the gap options; with `seed`, start another world."""
        self.world.reset(seed)

    # Looking and settings

    def journal(self, tenant: str | None = None) -> list[JournalEntry]:
        """The requests so far, oldest first; with `tenant`, only its own."""
        return self.world.journal.entries(tenant)

    def clear_journal(self) -> None:
        self.world.journal.clear()

    @property
    def clock(self) -> MockClock:
        return self.world.clock

    @property
    def gaps(self) -> GapOptions:
        return self.world.gaps

    def set_gaps(self, **options: object) -> GapOptions:
        """Change gap options while serving: `set_gaps(write_status="200/200")`. ValueError names what is wrong."""
        return self.world.set_gaps(options)


def _plainly(move: Callable[..., None], *args: object) -> None:
    try:
        move(*args)
    except ApiError as error:
        raise MockServerError(error.message) from None


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
