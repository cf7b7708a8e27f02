"""The operations on a mock's world: each defined once, for Python and for the control API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from ..core.checks import checked, number
from ..core.clock import END, MockClock
from ..core.errors import MockServerError, mock_errors
from ..core.gap_options import GapOptions, Plan
from ..core.units import AgentId, ChainId, FaultId, FaultName, KeyId, Moment, Second, Seconds, Tenants
from ..market.emitted_signals import EmitRequest, MockSignal
from ..payments.settlements import cash_held
from ..state import tenants
from ..state.snapshots import Snapshots
from ..state.tenants import MockKey, Scope
from ..state.world import World
from ..trading import agent_states, population, signal_feed
from ..trading.agent_states import AgentStatus
from ..trading.population import Populated
from .assertions import RequestAssertions

if TYPE_CHECKING:
    from ..faults.catalog import FaultKind, FaultRule
    from ..faults.rules import Faults
    from ..payments.report import MockPayments


class Operations(RequestAssertions, Snapshots):
    """A part of `MockService`. The control API and the commands of `trade mock` follow from these signatures.

    So arguments have JSON types or those of `units`, and every name in an annotation is imported at runtime.
    """

    _faults: Faults

    # Keys and plans.

    def create_key(
        self,
        *,
        name: str = "bot",
        scope: Scope = "full-access",
        plan: Plan | None = None,
        tenant: str | None = None,
    ) -> MockKey:
        """Create an API key. Its value is shown only once.

        Args:
            name: what it is for.
            scope: what it may do.
            plan: of a new tenant, by default `pro`; an existing one keeps its plan.
            tenant: its owner, an existing tenant or a new one; by default a new one without agents and trades.

        Raises:
            MockServerError: an invalid scope, plan or tenant name.
        """
        with self._transaction() as world:
            return tenants.create(world, name=name, scope=scope, plan=plan, tenant=tenant)

    def list_keys(self) -> list[dict[str, object]]:
        """List keys, oldest first, without their values.

        Each has `id`, `name`, `scope`, `tenant`, `last4`, `created_at`, and as `state` `valid`, `revoked` or `expired`.
        """
        with self._reading() as world:
            return tenants.listing(world)

    def revoke_key(self, key_id: KeyId) -> None:
        """Revoke a key: requests with it get 401 from now on.

        Args:
            key_id: its id, not its value.

        Raises:
            MockServerError: an unknown id.
        """
        with self._transaction() as world:
            tenants.revoke(world, key_id)

    def expire_key(self, key_id: KeyId, at: Moment | None = None) -> None:
        """Let a key expire, now or later.

        Args:
            key_id: its id, not its value.
            at: when, in Unix seconds of the mock's clock, by default now.

        Raises:
            MockServerError: an invalid time or an unknown id.
        """
        with self._transaction() as world:
            tenants.expire(world, key_id, at)

    def rotate_key(self, key_id: KeyId) -> MockKey:
        """Revoke a key and create one of the same name, scope and tenant. The new value is shown only once.

        Args:
            key_id: its id, not its value.

        Raises:
            MockServerError: an unknown id, or the key is revoked already.
        """
        with self._transaction() as world:
            return tenants.rotate(world, key_id)

    def set_plan(self, tenant: str, plan: Plan) -> None:
        """Change a tenant's plan: an upgrade at once, a downgrade at the end of the billing period.

        Args:
            tenant: its name, as in the key `mock_full_NAME`.
            plan: the new one.

        Raises:
            MockServerError: an unknown tenant or plan.
        """
        with self._transaction() as world:
            tenants.set_plan(world, tenant, plan)

    # The world.

    def populate(self, tenant: str, *, trades: int = 250) -> Populated:
        """Give a tenant wallets, agents in every state, trades and positions. A second call changes nothing.

        Args:
            tenant: its name, as in the key `mock_full_NAME`; a new one is made, on the plan pro.
            trades: how many in all, 8 of them open; 8 to 1,000,000.
        """
        with self._transaction() as world:
            return population.populate(world, tenant, trades=trades)

    def start_agent(self, agent_id: AgentId) -> None:
        """Start an agent.

        Args:
            agent_id: its id.

        Raises:
            MockServerError: it is active already, or an unknown id.
        """
        with self._transaction() as world:
            agent_states.set_status(world, agent_id, "active", anew=True)

    def stop_agent(self, agent_id: AgentId) -> None:
        """Stop an agent.

        Args:
            agent_id: its id.

        Raises:
            MockServerError: it is idle already, or an unknown id.
        """
        with self._transaction() as world:
            agent_states.set_status(world, agent_id, "idle", anew=True)

    def set_agent_status(self, agent_id: AgentId, status: AgentStatus) -> None:
        """Set an agent's status, whatever it is now.

        Args:
            agent_id: its id.
            status: the new one.

        Raises:
            MockServerError: an unknown id or status.
        """
        with self._transaction() as world:
            agent_states.set_status(world, agent_id, status)

    def reset(self, seed: int | None = None, *, populate: Tenants = ()) -> None:
        """Delete everything but the clock and the gap options.

        Agents, trades, keys, signals and faults are gone, and open streams end.

        Args:
            seed: decides ids, prices and signals of the new world; by default it stays the same.
            populate: tenants that then get wallets, agents and trades.

        Raises:
            MockServerError: a bad tenant name; then nothing is deleted.
        """
        if isinstance(populate, str) or not all(isinstance(tenant, str) for tenant in populate):
            raise MockServerError("populate: must be names of tenants")
        for tenant in populate:
            # Before the reset: some of what it clears is not in the transaction.
            tenants.check_tenant(tenant)
        with self._transaction() as world:
            world.reset(seed)
            for tenant in populate:
                population.populate(world, tenant)

    # Signals and prices.

    def emit_signal(
        self,
        *,
        chain_id: ChainId = 8453,
        token: str | None = None,
        direction: Literal["BUY", "SELL"] | str | None = None,
        confidence: float | None = None,
        price_usd: float | None = None,
        timestamp: Second | None = None,
        at: Moment | None = None,
        after: Seconds | None = None,
    ) -> MockSignal:
        """Publish a signal, now or later.

        It is on the stream, among the latest, in the history, and in the market data of its token.
        Omitted fields follow from the seed. Agents act on it as on any signal, at the market's price, not at
        `price_usd`; they don't trade ether or unknown tokens.

        Args:
            chain_id: 8453 or 56.
            token: a symbol or an address, also of an unknown token.
            direction: BUY or SELL, in any case.
            confidence: 0 to 1.
            price_usd: in US dollars, above 0.
            timestamp: the date in the signal, in Unix seconds; by default the time of publication.
            at: when to publish it, in Unix seconds of the service, by default now.
            after: the same in seconds from now, by the mock's clock; not together with `at`.

        Raises:
            MockServerError: an invalid value.
        """
        if after is not None:
            checked("after", number(0, int(END)), after)
            if at is not None:
                raise MockServerError("after and at: a signal has one of them, not both")
        with self._transaction() as world:
            at = at if after is None else world.now() + after
            request = EmitRequest(chain_id, token, direction, confidence, price_usd, timestamp, at)
            return signal_feed.emit(world, request)

    # Payments.

    @property
    def payments(self) -> MockPayments:
        """The payments so far: settlements, payment headers that arrived, balances, and assertions about them."""
        from ..payments.report import MockPayments

        return MockPayments(self.world)

    # Faults.

    def add_fault(
        self,
        /,
        kind: FaultName,
        *,
        route: str | None = None,
        method: str | None = None,
        tenant: str | None = None,
        key: KeyId | None = None,
        query: Mapping[str, str | int | float] | None = None,
        paid: Literal["only", "never"] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        count: int | None = None,
        **parameters: Any,
    ) -> FaultRule:
        """Inject a fault.

            mock.add_fault("status", route="/v1/trades", status=503, count=2)

        Args:
            kind: what goes wrong.
            route: only this path, such as `/v1/trades`, a pattern such as `/v1/agents/{agent_id}`, or one with `*`.
            method: only `GET`, `POST` and so on.
            tenant: only requests with a key of this tenant.
            key: only requests with the key of this id.
            query: only requests with these names and values in the query.
            paid: `only` requests that carry a payment, or `never` those.
            since: from this time on, in Unix seconds of the service.
            until: before this time, in Unix seconds of the service.
            nth: only the n-th matching request, counted from 1.
            every: only every n-th matching request.
            probability: how likely, 0 to 1; the seed decides which requests.
            count: at most this many times.
            parameters: the kind's parameters, each with its value.

        Raises:
            MockServerError: an unknown kind or parameter, or an invalid value.
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
        """List the kinds of faults, with their parameters."""
        from ..faults.catalog import fault_kinds

        return fault_kinds()

    def faults(self) -> list[FaultRule]:
        """List the faults, oldest first, with how many requests each has matched and changed."""
        with self._reading():
            return self._faults.rules()

    def remove_fault(self, fault_id: FaultId) -> None:
        """Remove a fault.

        Args:
            fault_id: its id.

        Raises:
            MockServerError: an unknown id.
        """
        with self._transaction():
            self._faults.remove(fault_id)

    def clear_faults(self) -> None:
        """Remove all faults."""
        with self._transaction():
            self._faults.clear()

    # Status and settings.

    def status(self) -> dict[str, Any]:
        """Show what the mock holds: seed, clock, counts, faults.

        `gaps` has the gap options that differ from their defaults. Signals of the market are made when they are read:
        `signals` counts those up to `signals_upto`.
        """
        with self._reading() as world:
            cash_held(world)
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
        """The service's clock: freeze it, move it, share it with clients."""
        return self.world.clock

    @property
    def gaps(self) -> GapOptions:
        """The current gap options."""
        return self.world.gaps

    def set_gaps(self, /, **options: object) -> GapOptions:
        """Choose what the mock does where the service's specification says nothing.

            mock.set_gaps(write_status="200/200")

        Args:
            options: names of options, each with its value.

        Raises:
            ValueError: an unknown option or value; the message names it, and nothing is changed.
        """
        with self._transaction() as world:
            return world.set_gaps(options)

    @contextmanager
    def _transaction(self) -> Iterator[World]:
        """The transaction of a change. Open streams look for new events afterwards."""
        with self._reading() as world:
            yield world
            world.notify_streams()

    @contextmanager
    def _reading(self) -> Iterator[World]:
        """A transaction that first reads the changes of other processes."""
        with mock_errors(), self.world.transaction():
            yield self.world
