"""Everything that can be done to a mock's world: each operation once, for Python and for the control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..core.clock import MockClock
from ..core.errors import MockServerError
from ..core.gap_options import GapOptions
from ..state import tenants
from ..state.snapshots import Snapshots
from ..state.tenants import MockKey
from ..trading import agent_states, population
from ..trading.population import Populated
from .assertions import RequestAssertions
from .scripted_signals import Scripting

if TYPE_CHECKING:
    from ..faults.catalog import FaultKind
    from ..faults.rules import FaultRule, Faults
    from ..payments.report import MockPayments


class Operations(Scripting, RequestAssertions, Snapshots):
    """A part of `MockService`. `http` derives the control API from these signatures.

    So arguments have types that JSON has, and every name in an annotation is imported at runtime.
    """

    _faults: Faults

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

    def list_keys(self) -> list[dict[str, object]]:
        """Every key without its value, oldest first.

        Each has `id`, `name`, `scope`, `tenant`, `last4`, `created_at`, and as `state` `valid`, `revoked` or `expired`.
        """
        with self._reading() as world:
            return tenants.listing(world)

    def revoke_key(self, key_id: str) -> None:
        """Refuse requests with this key (401) from now on. MockServerError for an unknown id."""
        with self._transaction() as world:
            tenants.revoke(world, key_id)

    def expire_key(self, key_id: str, at: float | None = None) -> None:
        """Let a key expire at `at` (Unix seconds on the mock's clock), by default now.

        MockServerError for an invalid time or an unknown id.
        """
        with self._transaction() as world:
            tenants.expire(world, key_id, at)

    def rotate_key(self, key_id: str) -> MockKey:
        """Revoke a key and get one of the same name, scope and tenant. MockServerError when it is revoked already."""
        with self._transaction() as world:
            return tenants.rotate(world, key_id)

    def set_scope(self, key_id: str, scope: str) -> None:
        """Make a key `full-access` or `read-only`."""
        with self._transaction() as world:
            tenants.set_scope(world, key_id, scope)

    def set_plan(self, tenant: str, plan: str) -> None:
        """Change a tenant's plan: an upgrade holds at once, a downgrade from the end of the billing period."""
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
        """Make an agent `active`. MockServerError when it is active already, or for an unknown id."""
        with self._transaction() as world:
            agent_states.start(world, agent_id)

    def stop_agent(self, agent_id: str) -> None:
        """Make an agent `idle`. MockServerError when it is idle already, or for an unknown id."""
        with self._transaction() as world:
            agent_states.stop(world, agent_id)

    def set_agent_status(self, agent_id: str, status: str) -> None:
        """Move an agent to `active`, `idle`, `paused` or `error`."""
        with self._transaction() as world:
            agent_states.set_status(world, agent_id, status)

    def reset(self, seed: int | None = None, scenario: str | None = None, *, populate: Sequence[str] = ()) -> None:
        """Forget everything but the clock and the gap options; with `seed` or `scenario`, start another world.

        `populate`: tenants that get wallets, agents and trades.

        MockServerError for an unknown scenario or a bad tenant name; then nothing is forgotten.
        """
        if isinstance(populate, str) or not all(isinstance(tenant, str) for tenant in populate):
            raise MockServerError("populate: must be names of tenants")
        for tenant in populate:
            # Before the reset: not all that it forgets is in the transaction.
            tenants.check_tenant(tenant)
        with self._transaction() as world:
            world.reset(seed, scenario)
            for tenant in populate:
                population.populate(world, tenant)

    # Payments

    @property
    def payments(self) -> MockPayments:
        """What was paid: settlements, payment headers that arrived, balances, and assertions about them."""
        from ..payments.report import MockPayments

        return MockPayments(self.world)

    # Faults

    def add_fault(
        self,
        /,
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
        """Inject a fault: `add_fault("status", route="/v1/trades", status=503, count=2)`.

        Args:
            kind: one of `fault_kinds()`.
            route: a path such as `/v1/agents/agt_1`, a pattern such as `/v1/agents/{agent_id}`, or one with `*`;
                every path when left out.
            method: `GET`, `POST` and so on.
            tenant: only requests with one of its keys.
            key: only requests with the key of this id.
            query: names and values that the query must have: `{"chain": "8453"}`.
            paid: `only` requests that carry a payment, or `never` those.
            since: from this time on, in Unix seconds of the service. For a stream, the time when it opens counts.
            until: before this time.
            nth: only the n-th matching request, counted from 1.
            every: every n-th matching request.
            probability: 0 to 1; which requests are hit follows from the seed.
            count: at most this many times.
            parameters: those of the kind.

        Raises:
            MockServerError: an unknown kind or parameter, or a value that it can't have.
        """
        with self._transaction():
            return self._faults.add(
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
        """The kinds of faults, with their parameters."""
        from ..faults.catalog import describe

        return describe()

    def faults(self) -> list[FaultRule]:
        """The rules, oldest first, with how often each was matched and applied."""
        with self._reading():
            return self._faults.rules()

    def remove_fault(self, fault_id: str) -> None:
        """Remove a rule. MockServerError for an unknown id."""
        with self._transaction():
            self._faults.remove(fault_id)

    def clear_faults(self) -> None:
        """Remove all rules."""
        with self._transaction():
            self._faults.clear()

    # Status and settings

    def status(self) -> dict[str, Any]:
        """Seed, clock, gap options, and counts."""
        with self._reading() as world:
            count = world.store.value
            usual = GapOptions().as_dict()
            # Signals are made when a request needs them: those since then are not counted.
            upto = world.store.get_meta("signals_upto")
            return {
                "seed": world.seed,
                "now": world.clock.now(),
                # Differs under the gap option `clock_skew`.
                "service_now": world.now(),
                "frozen": world.clock.frozen,
                "speed": world.clock.speed,
                "market": world.market,
                "scenario": world.scenario,
                "price_failure": world.price_failure(),
                "db": world.store.path,
                "tenants": [name for (name,) in world.store.all("SELECT name FROM tenants ORDER BY name")],
                "keys": count("SELECT count(*) FROM keys"),
                "agents": count("SELECT count(*) FROM agents"),
                "trades": count("SELECT count(*) FROM trades"),
                "signals": count("SELECT count(*) FROM signals"),
                "signals_upto": None if upto is None else float(upto),
                "settlements": count("SELECT count(*) FROM settlements"),
                "streams": len(world.subscribers),
                "faults": count("SELECT count(*) FROM faults"),
                "gaps": {name: value for name, value in world.gaps.as_dict().items() if value != usual[name]},
            }

    @property
    def clock(self) -> MockClock:
        """The time of the service: freeze it, move it, share it with clients."""
        return self.world.clock

    @property
    def gaps(self) -> GapOptions:
        """The gap options as they are now."""
        return self.world.gaps

    def set_gaps(self, /, **options: object) -> GapOptions:
        """Change gap options while serving: `set_gaps(write_status="200/200")`.

        Raises:
            ValueError: an unknown option or value; the message names it, and nothing is changed.
        """
        with self._transaction() as world:
            return world.set_gaps(options)
