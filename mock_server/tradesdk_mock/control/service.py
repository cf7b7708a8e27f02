"""MockService: the whole service as an object, with everything that can be done to it. Needs no sockets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..core.clock import MockClock
from ..core.errors import MockServerError
from ..core.gap_options import GapOptions
from ..state import tenants
from ..state.snapshots import Snapshots
from ..state.tenants import MockKey
from ..state.world import World
from ..trading import agent_states, population
from ..trading.population import Populated
from .assertions import JournalChecks
from .scripted_signals import Scripting

if TYPE_CHECKING:
    from ..api.pipeline import Engine
    from ..faults.active import FaultKind, FaultRule
    from ..in_process.httpx_transport import MockTransport
    from ..payments.report import MockPayments


class MockService(Scripting, JournalChecks, Snapshots):
    """The service in this process, without a socket: clients reach it through `transport`.

        with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
            http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"})

    Keys of the form `mock_full_NAME` and `mock_read_NAME` need no `create_key`: the first use of one makes the tenant
    NAME, on the plan pro, or on the one in the key, as in `mock_full_free_NAME`. A tenant that exists keeps its plan,
    whatever a key of it says.

    Args:
        seed: decides every id, price and address. Without it, the state file's, or 7.
        db: a file that keeps state, seed, clock and gap options from one run to the next. Without it all is in memory.
        gaps: what to do where nothing is written. `GapOptions` are all of them; of a mapping, such as
            `{"order": "oldest"}`, those that it names. What isn't given is the state file's, or a default.
        clock: the time of the service. Share it with clients, and they wait in its time.
        signals: `live`: new ones come as time goes on; `scripted`: only those of `emit_signal`. Without it, the state
            file's, or `live`. Another than the file's holds from now on, for every process that uses the file.
        scenario: the course of the market, by name: `trending`, `choppy`, `crash`, `quiet`, `whipsaw`, or `ordinary`.
            Without it, the state file's, or `ordinary`.
        first_within: a stream is sent its first signal within so many seconds; None leaves that to the market.
        allow_remote_control: the control API answers other machines, too.

    Raises:
        MockServerError: the state file can't be used, or was made with another seed or scenario.
        ValueError: an unknown gap option, or a value that it doesn't have.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        db: str | os.PathLike[str] | None = None,
        gaps: GapOptions | Mapping[str, object] | None = None,
        clock: MockClock | None = None,
        signals: Literal["live", "scripted"] | None = None,
        scenario: str | None = None,
        first_within: float | None = None,
        allow_remote_control: bool = False,
    ) -> None:
        self.world = World(
            seed=seed, db=db, gaps=gaps, clock=clock, market=signals, scenario=scenario, first_within=first_within
        )
        self._allow_remote_control = allow_remote_control
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The service as a function from a request to a reply."""
        if self._engine is None:
            # Loaded here: whoever only looks at a state file needs none of the endpoints.
            from ..api.pipeline import Engine

            self._engine = Engine(self.world, allow_remote_control=self._allow_remote_control)
        return self._engine

    def transport(self) -> MockTransport:
        """A transport for `httpx.Client` and `httpx.AsyncClient` alike, streams and faults included.

        Any host in a URL will do; `url` and `market_url` are two that clients accept without https. Where a read would
        have to wait and the clock stands still, the clock is moved on to what comes next, as its `sleep` does.
        """
        from ..in_process.httpx_transport import MockTransport

        return MockTransport(self)

    @property
    def url(self) -> str:
        """An address for clients of `transport`, without the version prefix."""
        return "http://localhost"

    @property
    def market_url(self) -> str:
        """The address of the market data: `url`, unless the gap option `b_port` gives it a port of its own."""
        return f"{self.url}:8402" if self.world.gaps.b_port == "another" else self.url

    def close(self) -> None:
        """Let go of the state; open streams end. Doing it again does nothing."""
        self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.world.seed})"

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
            return tenants.create(world, name=name, scope=scope, plan=plan, tenant=tenant)

    def revoke_key(self, key_id: str) -> None:
        """The key is answered with 401 from now on. MockServerError when there is none of this id."""
        with self._transaction() as world:
            tenants.revoke(world, key_id)

    def expire_key(self, key_id: str, at: float | None = None) -> None:
        """The key ends at the time `at` (Unix seconds on the mock's clock), by default now.

        MockServerError when that is no time, or there is no key of this id.
        """
        with self._transaction() as world:
            tenants.expire(world, key_id, at)

    def rotate_key(self, key_id: str) -> MockKey:
        """Revoke a key and get one of the same name, scope and tenant. MockServerError when it is revoked already."""
        with self._transaction() as world:
            return tenants.rotate(world, key_id)

    def set_scope(self, key_id: str, scope: str) -> None:
        """From now on the key is `full-access` or `read-only`."""
        with self._transaction() as world:
            tenants.set_scope(world, key_id, scope)

    def set_plan(self, tenant: str, plan: str) -> None:
        """An upgrade holds at once, a downgrade from the end of the billing period."""
        with self._transaction() as world:
            tenants.set_plan(world, tenant, plan)

    # The world

    def populate(self, tenant: str, *, trades: int = 250) -> Populated:
        """Give a tenant wallets, agents in every state, trades and positions. A second call changes nothing.

        Args:
            tenant: made on the plan pro when there is none of this name.
            trades: how many in all, 8 of them open; 8 to 1,000,000.
        """
        with self._transaction() as world:
            return population.populate(world, tenant, trades=trades)

    def start_agent(self, agent_id: str) -> None:
        """Make it `active`. MockServerError when it is, or when there is no such agent."""
        with self._transaction() as world:
            agent_states.start(world, agent_id)

    def stop_agent(self, agent_id: str) -> None:
        """Make it `idle`. MockServerError when it is, or when there is no such agent."""
        with self._transaction() as world:
            agent_states.stop(world, agent_id)

    def set_agent_status(self, agent_id: str, status: str) -> None:
        """Move an agent to `active`, `idle`, `paused` or `error`."""
        with self._transaction() as world:
            agent_states.set_status(world, agent_id, status)

    def reset(self, seed: int | None = None, scenario: str | None = None) -> None:
        """Forget everything but the clock and the gap options; with `seed` or `scenario`, start another world.

        MockServerError when there is no such scenario.
        """
        with self._transaction() as world:
            world.reset(seed, scenario)

    # Payments

    @property
    def payments(self) -> MockPayments:
        """What was paid: settlements, payment headers that arrived, balances, and assertions about them."""
        from ..payments.report import MockPayments

        return MockPayments(self.world)

    # Faults

    def add_fault(
        self,
        kind: str,
        *,
        route: str | None = None,
        method: str | None = None,
        tenant: str | None = None,
        key: str | None = None,
        query: Mapping[str, str | int | float] | None = None,
        paid: Literal["only", "never"] | None = None,
        since: float | None = None,
        until: float | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        count: int | None = None,
        **parameters: Any,
    ) -> FaultRule:
        """Let something go wrong: `add_fault("status", route="/v1/trades", status=503, count=2)`.

        Args:
            kind: one of `fault_kinds()`.
            route: a path such as `/v1/agents/agt_1`, a pattern such as `/v1/agents/{agent_id}`, or one with `*`;
                every path when left out.
            method: `GET`, `POST` and so on.
            tenant: only requests with one of its keys.
            key: only requests with the key of this id.
            query: names and values that the query must have: `{"chain": "8453"}`.
            paid: `only` requests that carry a payment, or `never` those.
            since: from this time on, in Unix seconds of the service. A stream is met when it is opened.
            until: before this time.
            nth: only the n-th matching request, counted from 1.
            every: every n-th matching request.
            probability: 0 to 1; which requests are hit follows from the seed.
            count: this often, then no more.
            parameters: of the kind.

        Raises:
            MockServerError: an unknown kind or parameter, or a value that it can't have.
        """
        with self._transaction() as world:
            return world.faults.add(
                kind,
                route=route,
                method=method,
                tenant=tenant,
                key=key,
                query=query,
                paid=paid,
                since=since,
                until=until,
                nth=nth,
                every=every,
                probability=probability,
                count=count,
                **parameters,
            )

    def fault_kinds(self) -> list[FaultKind]:
        """What can go wrong, with the parameters of each kind."""
        from ..faults.active import describe

        return describe()

    def faults(self) -> list[FaultRule]:
        """The rules, oldest first, with how often they were met and played."""
        with self._transaction() as world:
            return world.faults.rules()

    def remove_fault(self, fault_id: str) -> None:
        """Take a rule back. MockServerError when there is none of this id."""
        with self._transaction() as world:
            world.faults.remove(fault_id)

    def clear_faults(self) -> None:
        """Take every rule back."""
        with self._transaction() as world:
            world.faults.clear()

    # Looking and settings

    def status(self) -> dict[str, Any]:
        """Seed, clock, counts, faults and warnings: what `GET /_mock/status` says."""
        return self.control("GET", "status")

    def control(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What the control API answers to `method /_mock/{path}`.

        Raises:
            MockServerError: it refuses; the message says why.
        """
        from ..core.messages import Request

        target, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        headers = [(b"content-type", b"application/json")]
        reply = self.engine.answer(
            Request(method, f"/_mock/{target}", query.encode(), headers, content, client="127.0.0.1")
        )
        assert isinstance(reply.body, bytes)  # noqa: S101 - control answers are never streams
        found: dict[str, Any] = json.loads(reply.body)
        if reply.status != 200:
            raise MockServerError(found["error"]["message"])
        return found

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
