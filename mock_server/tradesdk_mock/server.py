"""MockServer: the mock on a port of this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
    raise ModuleNotFoundError(f'the mock server needs {absent}: pip install "tradesdk[mock]"', name=absent) from None


class MockServer:
    """The service on a loopback port, in a thread of this process.

        with MockServer() as server:
            key = server.create_key()
            httpx.get(server.url + "/v1/account", headers={"Authorization": f"Bearer {key.value}"})

    Keys of the form `mock_full_NAME` and `mock_read_NAME` need no `create_key`: the first use of one makes the tenant
    NAME, on the plan pro, or on the one in the key, as in `mock_full_free_NAME`. A tenant that exists keeps its plan,
    whatever a key of it says.

    Args:
        seed: decides every id, price and address. Without it, the state file's, or 7.
        host: address to listen on.
        port: 0 lets the system choose one that is free.
        db: a file that keeps state, seed, clock and gap options from one run to the next. Without it all is in memory.
        gaps: what to do where nothing is written. Without it, the state file's, or the defaults.
        clock: the time of the service. Share it with clients, and they wait in its time.

    Raises:
        MockServerError: the state file can't be used, or was made with another seed; on `start` and `with`, the port
            can't be used.
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
        """Listen. Returns when requests are answered. A `with` block does it, and `stop` at its end.

        Raises:
            MockServerError: the port is in use, or the server was started before.
        """
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
        if self._serving is None:
            raise MockServerError("the server isn't started, so it has no address: use `with MockServer() as server:`")
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
        """A new API key.

        Args:
            name: what to call it.
            scope: `full-access` or `read-only`.
            plan: `free`, `pro` or `enterprise`; `pro` when left out. A tenant that exists keeps the plan it has.
            tenant: whose key it is: one that exists, or a name for a new one. When left out, the key is for a new
                tenant without wallets, agents and trades; to see those of `populate`, give the same name to both.

        Raises:
            MockServerError: no such scope or plan, or not a name for a tenant.
        """
        with self._transaction() as world:
            return keys.create(world, name=name, scope=scope, plan=plan, tenant=tenant)

    def revoke_key(self, key_id: str) -> None:
        """The key is answered with 401 from now on. MockServerError when there is none of this id."""
        with self._transaction() as world:
            keys.revoke(world, key_id)

    def expire_key(self, key_id: str, at: float | None = None) -> None:
        """The key ends at the time `at` (Unix seconds on the mock's clock), by default now.

        MockServerError when that is no time, or there is no key of this id.
        """
        with self._transaction() as world:
            keys.expire(world, key_id, at)

    def rotate_key(self, key_id: str) -> MockKey:
        """Revoke a key and get one of the same name, scope and tenant."""
        with self._transaction() as world:
            return keys.rotate(world, key_id)

    def set_scope(self, key_id: str, scope: str) -> None:
        """From now on the key is `full-access` or `read-only`."""
        with self._transaction() as world:
            keys.set_scope(world, key_id, scope)

    def set_plan(self, tenant: str, plan: str) -> None:
        """An upgrade holds at once, a downgrade from the end of the billing period."""
        with self._transaction() as world:
            keys.set_plan(world, tenant, plan)

    # The world

    def populate(self, tenant: str, *, trades: int = 250) -> Seeded:
        """Give a tenant wallets, agents in every state, trades and positions. A second call changes nothing.

        Args:
            tenant: made on the plan pro when there is none of this name.
            trades: how many in all, 8 of them open; 8 to 1,000,000.
        """
        with self._transaction() as world:
            return seedworld.populate(world, tenant, trades=trades)

    def start_agent(self, agent_id: str) -> None:
        """Make it `active`. MockServerError when it is, or when there is no such agent."""
        with self._transaction() as world:
            trading.start(world, agent_id)

    def stop_agent(self, agent_id: str) -> None:
        """Make it `idle`. MockServerError when it is, or when there is no such agent."""
        with self._transaction() as world:
            trading.stop(world, agent_id)

    def set_agent_status(self, agent_id: str, status: str) -> None:
        """Move an agent to `active`, `idle`, `paused` or `error`."""
        with self._transaction() as world:
            trading.set_status(world, agent_id, status)

    def reset(self, seed: int | None = None) -> None:
        """Forget everything but the clock and the gap options; with `seed`, start another world."""
        with self._transaction() as world:
            world.reset(seed)

    # Looking and settings

    def journal(self, tenant: str | None = None) -> list[JournalEntry]:
        """The latest 10,000 requests, oldest first; with `tenant`, only its own."""
        return self.world.journal.entries(tenant)

    def clear_journal(self) -> None:
        """Forget the requests so far."""
        self.world.journal.clear()

    @property
    def clock(self) -> MockClock:
        """The time of the service: freeze it, move it, share it with clients."""
        return self.world.clock

    @property
    def gaps(self) -> GapOptions:
        """The gap options as they are now."""
        return self.world.gaps

    def set_gaps(self, **options: object) -> GapOptions:
        """Change gap options while serving: `set_gaps(write_status="200/200")`.

        Raises:
            ValueError: an unknown option or value; the message names it, and nothing is changed.
        """
        with self._transaction() as world:
            return world.set_gaps(options)

    @contextmanager
    def _transaction(self) -> Iterator[World]:
        """What a change from Python is made in: it begins with what another process did, as every request does."""
        try:
            with self.world.transaction():
                yield self.world
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
