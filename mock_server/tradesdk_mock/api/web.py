"""The account side of a request: key, rate limit, scope, the endpoint itself, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core import rate_limit
from ..core.errors import ApiError, forbidden, internal, missing, no_route, wrong_method
from ..core.messages import NEW_FIELD, Answer, Request, error_answer
from ..core.rate_limit import Verdict, rate_headers
from ..state import tenants
from ..state.world import World
from ..trading import background_tenant, population, signal_feed
from .validation import Query, json_body

log = logging.getLogger("tradesdk_mock")


@dataclass(slots=True)
class Call:
    """One authenticated request, as an endpoint sees it."""

    world: World
    caller: tenants.Principal
    request: Request

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    def param(self, name: str) -> str:
        return self.request.params[name]

    def owned(self, kind: str, columns: Sequence[str]) -> dict[str, Any]:
        """The record that the path's `{kind}_id` names; 404 when the caller has none of this id."""
        ident = self.param(f"{kind}_id")
        found = self.world.store.records(columns, f"{kind}s WHERE id = ? AND tenant = ?", (ident, self.tenant))
        if not found:
            raise missing(kind, ident)
        return found[0]

    def query(self) -> Query:
        return Query(self.request.query, self.world.gaps)

    def json(self) -> dict[str, Any]:
        """The JSON object that was sent; 400 when it isn't one."""
        return json_body(self.request.headers, self.request.content)

    def shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record as it leaves: under the gap option `unknown_values`, with things that no client knows."""
        if self.world.gaps.unknown_values == "on":
            record.update(NEW_FIELD)
            if "status" in record:
                record["status"] = "hibernating" if "wallet_id" in record else "settling"
        return record


Handler = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a method of a path does.

    Attributes:
        needs: what the key must allow. `account` is a read whose scope isn't written down (a gap option).
        live: a stream: outside the rate limit, and not counted.
        trading: it shows or touches what agents do: they get up to date before.
        option: it exists only under the gap option `no_routes=routes`.
        ready, load: heavy imports that it needs, and whether they are there.
    """

    handler: Handler
    needs: Literal["read", "account", "write"] = "read"
    live: bool = False
    trading: bool = False
    option: bool = False
    ready: Callable[[], bool] | None = None
    load: Callable[[], None] | None = None


Endpoints = Mapping[str, Endpoint]
Routes = list[tuple[str, dict[str, Endpoint]]]


@dataclass(slots=True)
class Decision:
    """An answer and what it came from. What is answered has been committed."""

    answer: Answer
    error: str | None = None
    caller: tenants.Principal | None = None


def decide(world: World, request: Request, endpoints: Endpoints) -> Decision:
    """The answer of the account API; without endpoints, of a path that doesn't exist. Never raises."""
    caller: tenants.Principal | None = None
    verdict: Verdict | None = None
    failure: ApiError | None = None
    answer: Answer | None = None
    live = False
    try:
        with world.transaction():
            now = world.now()
            # An error answer of the service is a result like any other: what led to it (a key made on first
            # use, a request counted) is kept. Only a crash undoes the transaction.
            try:
                if not request.path.startswith("/v1/"):
                    raise no_route(request.path)
                endpoint = endpoints.get(request.method)
                if endpoint is not None and endpoint.option and world.gaps.no_routes == "404":
                    endpoint = None
                live = endpoint is not None and endpoint.live
                caller = tenants.authenticate(world, request.headers)
                if not live:
                    limit = rate_limit.per_minute(caller.plan, world.gaps)
                    verdict = world.limiter.hit(caller.key_id, limit, now)
                    _admit(world, caller, verdict, now)
                if endpoint is None:
                    raise _nothing_here(world, request, endpoints)
                _permit(world, caller, endpoint)
                if caller.tenant == background_tenant.BACKGROUND_TENANT:
                    population.ensure_background_tenant(world)
                if endpoint.trading:
                    signal_feed.up_to_date(world)
                answer = endpoint.handler(Call(world, caller, request))
            except ApiError as error:
                failure = error
    except ApiError as error:
        failure = error
    except Exception:
        log.exception("%s %r crashed", request.method, request.path)
        failure = internal()
    if failure is not None or answer is None:
        failure = failure or internal()
        answer = error_answer(failure, world.gaps)
    if not live and (answer.status not in (401, 404) or world.gaps.rate_headers == "always"):
        answer.headers += rate_headers(verdict or rate_limit.untouched(world.gaps, world.now()))
    return Decision(answer, failure.code if failure else None, caller)


def _nothing_here(world: World, request: Request, endpoints: Endpoints) -> ApiError:
    """404 for a path that doesn't exist, 405 for one that exists with other methods."""
    hidden = world.gaps.no_routes == "404"
    methods = sorted(method for method, each in endpoints.items() if not (hidden and each.option))
    return wrong_method(request.method, methods) if methods else no_route(request.path)


def _admit(world: World, caller: tenants.Principal, verdict: Verdict, now: float) -> None:
    """Count the request, or refuse it with 429."""
    gaps = world.gaps
    if not verdict.allowed:
        raise rate_limit.exceeded(verdict.reset, now, f"More than {verdict.limit} requests a minute.")
    quota = gaps.quota(caller.plan)[0]
    if gaps.request_quota == "429" and caller.requests_used >= quota:
        raise rate_limit.exceeded(caller.reset_at, now, f"The period's {quota} requests are used up.")
    caller.requests_used += 1
    world.store.run("UPDATE tenants SET requests_used = requests_used + 1 WHERE name = ?", (caller.tenant,))


def _permit(world: World, caller: tenants.Principal, endpoint: Endpoint) -> None:
    if caller.scope == "full-access" or endpoint.needs == "read":
        return
    if endpoint.needs == "write":
        raise forbidden("A read-only key can't do this; use a key with full access.")
    if world.gaps.read_only_account == "403":
        raise forbidden("A read-only key can't read this; use a key with full access.")
