"""The steps of a request, in the order in which `pipeline` runs them.

Each reads and changes the context. A step that sets `response`, or raises an ApiError, ends the request. Steps of one
API do nothing for the other.
"""

from __future__ import annotations

import contextlib
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from pydantic_core import from_json

from ..core import rate_limit
from ..core.errors import CODES, ApiError, forbidden, no_route, wrong_method
from ..core.messages import Response, error_response, market_response
from ..core.request_log import BODY_KEPT, JournalEntry, shortened
from ..payments import settlements
from ..payments.header import read
from ..payments.requirements import PaidRequest, PaymentFaults, make_offer, payment_required
from ..state import tenants
from ..trading import population, signal_feed
from ..trading.background_tenant import BACKGROUND_TENANT
from . import node
from .context import Context, MarketCall
from .market_requests import MarketBody, tokens_sent

if TYPE_CHECKING:
    from ..faults.catalog import FaultTarget

# Before the transaction.


def match_faults(context: Context) -> None:
    """Find the fault rules that apply. One of them may replace the service's response."""
    request, market, endpoint = context.request, context.market, context.endpoint
    target: FaultTarget = "stream" if endpoint is not None and endpoint.live else "response"
    if request.method == "POST" and (context.node or (market is not None and market.price)):
        target = "node" if context.node else "payment"
    matched = context.matched = context.rules.match(request, target, market=request.market or market is not None)
    if matched is not None and matched.skips_request:
        # Loaded here, as `apply` below: most worlds have no faults.
        from ..faults.responses import replacement

        context.principal = _sender(context)
        context.now = context.world.now()  # another process may have moved the clock
        context.response, context.error = replacement(matched, context.world, context.principal)


def _sender(context: Context) -> tenants.Principal | None:
    """The sender of the request, which isn't counted; None without a valid key."""
    try:
        with context.world.transaction() as now:
            return tenants.authenticate(context.world, context.request.headers, now)
    except ApiError:
        return None


def require_routed(context: Context) -> None:
    """404 for a path that the port of the market data doesn't serve."""
    if context.response is None and context.request.market and context.market is None and not context.node:
        fail(context, no_route(context.request.path))
        context.now = context.world.now()


# In the transaction.


def call_node(context: Context) -> None:
    """The node of the chain: it needs no key and has no rate limit."""
    if context.node:
        context.response = node.respond(context)


def require_version(context: Context) -> None:
    """404 for a path outside /v1/, whatever the key."""
    if not context.request.path.startswith("/v1/"):
        raise no_route(context.request.path)


def require_post(context: Context) -> None:
    """Market data: 405 for any other method."""
    if context.market is not None and context.request.method != "POST":
        raise wrong_method(context.request.method, ("POST",))


def count_by_address(context: Context) -> None:
    """Market data: 429 above the limit of the gap option `b_rate`."""
    gaps = context.world.gaps
    if context.market is not None and gaps.b_rate != "none":
        _count(context, f"market {context.request.client}", int(gaps.b_rate))


def authenticate(context: Context) -> None:
    """401 without a valid API key. Market data needs one only under the gap option `b_bearer`."""
    if context.market is None or context.world.gaps.b_bearer == "required":
        context.principal = caller = tenants.authenticate(context.world, context.request.headers, context.now)
        context.tenant = caller.tenant


def count_by_key(context: Context) -> None:
    """Account API: 429 above the plan's limit. Streams are not counted."""
    world, caller, gaps = context.world, context.principal, context.world.gaps
    if context.market is not None or caller is None or (context.endpoint is not None and context.endpoint.live):
        return
    _count(context, caller.key_id, rate_limit.per_minute(caller.plan, gaps))
    quota = gaps.quota(caller.plan)[0]
    if gaps.request_quota == "429" and caller.requests_used >= quota:
        raise rate_limit.exceeded(caller.reset_at, context.now, f"The period's {quota} requests are used up.")
    caller.requests_used += 1
    world.store.run("UPDATE tenants SET requests_used = requests_used + 1 WHERE name = ?", (caller.tenant,))


def _count(context: Context, name: str, limit: int) -> None:
    verdict = context.verdict = context.world.limiter.hit(name, limit, context.now)
    if not verdict.allowed:
        raise rate_limit.exceeded(verdict.reset, context.now, f"More than {verdict.limit} requests a minute.")


def require_endpoint(context: Context) -> None:
    """Account API: 404 for an unknown path, 405 for one that has other methods."""
    if context.market is not None:
        return
    request, endpoint = context.request, context.endpoint
    hidden = context.world.gaps.no_routes == "404"
    if endpoint is None or (hidden and endpoint.option):
        context.endpoint = None
        methods = sorted(method for method, each in context.methods.items() if not (hidden and each.option))
        raise wrong_method(request.method, methods) if methods else no_route(request.path)


def authorize(context: Context) -> None:
    """Account API: 403 when the key's scope doesn't allow it."""
    endpoint = context.endpoint
    if endpoint is None or endpoint.needs == "read" or context.caller.scope == "full-access":
        return
    if endpoint.needs == "write":
        raise forbidden("A read-only key can't do this; use a key with full access.")
    if context.world.gaps.read_only_account == "403":
        raise forbidden("A read-only key can't read this; use a key with full access.")


def parse_body(context: Context) -> None:
    """Market data: 400 or 422 for an invalid body; by gap option only after the payment."""
    if context.market is None:
        return
    context.wrapped = True
    try:
        context.market_query = context.market.read(MarketBody(context.world, context.request))
    except ApiError as error:
        if not context.market.price or context.world.gaps.b_invalid != "402-first":
            raise
        context.market_query = error


def paywall(context: Context) -> None:
    """Market data: 402 without a valid payment."""
    endpoint, world, query = context.market, context.world, context.market_query
    if endpoint is None or query is None:
        return
    if endpoint.price and world.gaps.paywall != "open":
        count = tokens_sent(context.request) if isinstance(query, ApiError) else len(query.tokens)
        price = endpoint.price * count if endpoint.each else endpoint.price
        faults = context.matched.payment if context.matched else PaymentFaults({})
        offer = make_offer(world, context.request, faults, price, endpoint.text)
        payment = context.payment = read(context.request, context.now)
        if payment is None:
            context.response, context.error = payment_required(world, offer), "payment_required"
            return
        from ..payments import facilitator  # loaded here: most worlds never see a payment

        paid = PaidRequest(context.request, payment, offer, faults)
        context.response = facilitator.verify(world, paid) or facilitator.settle_upfront(world, paid)
        if context.response is not None:
            context.error = CODES.get(context.response.status)
            return
        context.paid = paid
    if isinstance(query, ApiError):
        raise query


def bring_up_to_date(context: Context) -> None:
    """If the response needs it, publish signals and let agents trade until now."""
    market, world = context.market, context.world
    if context.tenant == BACKGROUND_TENANT if market is None else market.trading:
        population.ensure_background_tenant(world)
    endpoint = market or context.endpoint
    if endpoint is not None and (endpoint.signals or endpoint.trading):
        signal_feed.up_to_date(world, context.now, signals=endpoint.signals)


def call_endpoint(context: Context) -> None:
    """The response; that of market data in its wrapper."""
    market, query = context.market, context.market_query
    if market is not None and query is not None and not isinstance(query, ApiError):
        call = MarketCall(context.world, query, context.now)
        context.response = market_response(200, data=call.with_unknown(market.handler(call)))
    elif context.endpoint is not None:
        context.response = context.endpoint.handler(context)


def settle(context: Context) -> None:
    """Take the money for a response below 400; any other is free, unless it was paid before the work."""
    response, paid, world = context.response, context.paid, context.world
    if response is None or paid is None:
        return
    if response.status < 400 or paid.payment.taken:
        from ..payments import facilitator

        context.response = facilitator.settle(world, paid, response)
        if context.response.status == 402:
            context.error = "payment_required"
    else:
        settlements.conclude(world, paid.payment, "not charged", response.status)


# After the transaction.


def add_rate_headers(context: Context) -> None:
    """X-RateLimit-*: on 401 and 404 only if the gap option `rate_headers` says so; for market data if counted.

    Not on 503: the next attempt need not wait for the limit's reset.
    """
    response, world = context.response, context.world
    assert response is not None  # noqa: S101 - set before
    if context.node or response.status == 503:
        return
    if context.market is None:
        live = context.endpoint is not None and context.endpoint.live
        if live or (response.status in (401, 404) and world.gaps.rate_headers != "always"):
            return
        verdict = context.verdict or rate_limit.anonymous(world.gaps, context.now)
        response.headers += rate_limit.rate_headers(verdict)
    elif context.verdict is not None:
        response.headers += rate_limit.rate_headers(context.verdict)


def note_unread_payment(context: Context) -> None:
    """Record a payment that was not read because the request ended before."""
    market, world = context.market, context.world
    if market is None or not market.price or context.payment is not None or context.response is None:
        return
    payment = context.payment = read(context.request, context.now)
    if payment is not None:
        # A busy state file matters less than the response.
        with contextlib.suppress(ApiError), world.transaction():
            settlements.submit(world, context.request, payment, "not carried out", context.response.status)


def apply_faults(context: Context, response: Response) -> None:
    """Let the matched fault rules change the response; record its status if it is for a payment."""
    if context.matched is None:
        return
    from ..faults.injection import apply

    context.faults = apply(context.rules, context.matched, response)
    if context.payment is not None:
        # A busy state file matters less than the response.
        with contextlib.suppress(ApiError), context.world.transaction():
            settlements.delivered(context.world, context.payment, response.status)


def log(context: Context, response: Response) -> None:
    """Add the request and its response to the request log."""
    request, caller = context.request, context.principal
    tenant = caller.tenant if caller else None
    if tenant is None and context.market is not None:
        # Market data needs no key, but a key in the request tells the tenant.
        tenant, _ = tenants.identify(context.world, request.headers)
    body: object = None
    if request.content and len(request.content) <= BODY_KEPT:
        try:
            body = from_json(request.content, allow_inf_nan=False)
        except ValueError:
            body = None
    note = None if context.payment is None else context.payment.note()
    raw = shortened(request.query.decode("latin-1"))
    context.world.journal.add(
        JournalEntry(
            request.method,
            shortened(request.path),
            dict(parse_qsl(raw, keep_blank_values=True)) if raw else {},
            caller.last4 if caller else None,
            tenant,
            response.status,
            context.now,
            context.error,
            body,
            context.faults,
            payment=note,
        )
    )


# Responses.


def fail(context: Context, error: ApiError) -> None:
    """The response to a request that failed."""
    context.error = error.code
    if context.wrapped:
        context.response = market_response(error.status, error=error.message)
    else:
        context.response = error_response(error, context.world.gaps)


def completed(response: Response, now: float) -> Response:
    """The response with its date, and its data as JSON."""
    response.headers.insert(0, (b"date", _http_date(int(now))))
    response.encode()
    return response


@lru_cache(maxsize=1)
def _http_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode("ascii")
