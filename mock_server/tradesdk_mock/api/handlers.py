"""The steps of a request. `pipeline` says in which order they run.

Each looks at the context and changes it: one that sets `answer`, or raises an ApiError, answers the request.
"""

from __future__ import annotations

import contextlib
from email.utils import formatdate
from urllib.parse import parse_qsl

from pydantic_core import from_json, to_json

from ..core import rate_limit
from ..core.errors import ApiError, Header, forbidden, no_route, wrong_method
from ..core.messages import Answer, Reply, error_answer
from ..core.request_log import BODY_KEPT, JournalEntry, shortened
from ..faults.rules import Route
from ..payments import settlements
from ..payments.header import has_payment, read
from ..payments.requirements import PaidRequest, make_offer
from ..state import tenants
from ..trading import population, signal_feed
from ..trading.background_tenant import BACKGROUND_TENANT
from .context import Context, MarketCall
from .market_requests import MarketBody, tokens_sent

# The codes of answers that the paywall gives.
_CODES = {400: "invalid_request", 402: "payment_required", 409: "conflict"}


# Both APIs


def match_faults(context: Context) -> None:
    """Which fault rules apply. One of them may answer in place of the service."""
    faults = context.parts.faults
    if not faults.active():
        return
    matched = context.matched = faults.match(context.request, _fault_route(context))
    if matched is not None and matched.skips_request:
        # Loaded here, as `apply` below: most worlds have no faults.
        from ..faults.responses import replacement

        context.principal = _sender(context)
        context.now = context.world.now()  # another process may have moved the clock
        context.answer, context.error = replacement(matched, context.world, context.principal)


def _fault_route(context: Context) -> Route | None:
    """The request's route, as fault rules know it."""
    if context.pattern is None:
        return None
    if context.market is not None:
        return Route(context.pattern, frozenset({"POST"}), market=True, paid=context.market.price > 0)
    return Route(context.pattern, frozenset(context.methods), stream=any(e.live for e in context.methods.values()))


def _sender(context: Context) -> tenants.Principal | None:
    """Whose request it is, without counting or admitting it."""
    try:
        with context.world.transaction():
            return tenants.authenticate(context.world, context.request.headers)
    except ApiError:
        return None


def authenticate(context: Context) -> None:
    """The API key: 401 without a valid one. Market data asks for none, unless the gap option `b_bearer` says so."""
    if context.market is None or context.world.gaps.b_bearer == "required":
        context.principal = caller = tenants.authenticate(context.world, context.request.headers)
        context.tenant = caller.tenant


def count_rate(context: Context) -> None:
    """Count the request, or refuse it with 429: by key; for market data by address, under the gap option `b_rate`."""
    world, caller = context.world, context.principal
    now, gaps = context.now, world.gaps
    if context.market is not None:
        if gaps.b_rate == "none":
            return
        verdict = world.limiter.hit(f"market {context.request.client}", int(gaps.b_rate), now)
    elif caller is None or (context.endpoint is not None and context.endpoint.live):
        return
    else:
        verdict = world.limiter.hit(caller.key_id, rate_limit.per_minute(caller.plan, gaps), now)
    context.verdict = verdict
    if not verdict.allowed:
        raise rate_limit.exceeded(verdict.reset, now, f"More than {verdict.limit} requests a minute.")
    if caller is None or context.market is not None:
        return
    quota = gaps.quota(caller.plan)[0]
    if gaps.request_quota == "429" and caller.requests_used >= quota:
        raise rate_limit.exceeded(caller.reset_at, now, f"The period's {quota} requests are used up.")
    caller.requests_used += 1
    world.store.run("UPDATE tenants SET requests_used = requests_used + 1 WHERE name = ?", (caller.tenant,))


def write_reply(context: Context) -> None:
    """The answer as it leaves: date, JSON, length."""
    assert context.answer is not None  # noqa: S101 - every way through the pipeline ends in one
    context.reply = reply_of(context.answer, context.now)


def apply_faults(context: Context) -> None:
    """Let the matched fault rules change the reply, and note what that left of the answer to a payment."""
    if context.matched is None or context.reply is None:
        return
    from ..faults.injection import apply

    context.faults = apply(context.parts.faults, context.matched, context.reply)
    if context.paid is not None and context.paid.payment is not None:
        # A busy state file matters less than the answer.
        with contextlib.suppress(ApiError), context.world.transaction():
            settlements.delivered(context.world, context.paid.payment, context.reply.status)


def log(context: Context) -> None:
    """Add the request and its answer to the request log."""
    request, caller, reply = context.request, context.principal, context.reply
    assert reply is not None  # noqa: S101 - written before
    tenant = caller.tenant if caller else None
    if tenant is None and context.market is not None:
        # Market data asks for no key; one that is sent all the same says whose request it is.
        tenant, _ = tenants.identify(context.world, request.headers)
    body: object = None
    if request.content and len(request.content) <= BODY_KEPT:
        try:
            body = from_json(request.content, allow_inf_nan=False)
        except ValueError:
            body = None
    raw = shortened(request.query.decode("latin-1"))
    payment = context.paid.payment if context.paid is not None else None
    context.world.journal.add(
        JournalEntry(
            request.method,
            shortened(request.path),
            dict(parse_qsl(raw, keep_blank_values=True)) if raw else {},
            caller.last4 if caller else None,
            tenant,
            reply.status,
            context.now,
            context.error,
            body,
            context.faults,
            payment=None if payment is None else payment.note(),
        )
    )


# The account API


def require_version(context: Context) -> None:
    """404 for a path outside /v1/, before anybody looks at the key."""
    if not context.request.path.startswith("/v1/"):
        raise no_route(context.request.path)


def require_endpoint(context: Context) -> None:
    """404 for a path that doesn't exist, 405 for one that exists with other methods."""
    if context.endpoint is None:
        request, hidden = context.request, context.world.gaps.no_routes == "404"
        methods = sorted(method for method, each in context.methods.items() if not (hidden and each.option))
        raise wrong_method(request.method, methods) if methods else no_route(request.path)


def authorize(context: Context) -> None:
    """403 when the key's scope doesn't allow it."""
    caller, endpoint = context.principal, context.endpoint
    if caller is None or endpoint is None or caller.scope == "full-access" or endpoint.needs == "read":
        return
    if endpoint.needs == "write":
        raise forbidden("A read-only key can't do this; use a key with full access.")
    if context.world.gaps.read_only_account == "403":
        raise forbidden("A read-only key can't read this; use a key with full access.")


def bring_up_to_date(context: Context) -> None:
    """Let agents trade until now, where the answer shows it."""
    if context.principal is not None and context.principal.tenant == BACKGROUND_TENANT:
        population.ensure_background_tenant(context.world)
    if context.endpoint is not None and context.endpoint.trading:
        signal_feed.up_to_date(context.world)


def call_endpoint(context: Context) -> None:
    assert context.endpoint is not None  # noqa: S101 - required before
    context.answer = context.endpoint.handler(context)


def add_rate_headers(context: Context) -> None:
    """X-RateLimit-*: on 401 and 404 only if the gap option `rate_headers` says so; for market data if counted."""
    answer, world = context.answer, context.world
    assert answer is not None  # noqa: S101 - answered before
    if context.market is None:
        live = context.endpoint is not None and context.endpoint.live
        if live or (answer.status in (401, 404) and world.gaps.rate_headers != "always"):
            return
        verdict = context.verdict or rate_limit.untouched(world.gaps, context.now)
        answer.headers += rate_limit.rate_headers(verdict)
    elif context.verdict is not None:
        answer.headers += rate_limit.rate_headers(context.verdict)


# The market-data API


def require_market_path(context: Context) -> None:
    """404 on the port that serves nothing but market data."""
    raise no_route(context.request.path)


def require_post(context: Context) -> None:
    if context.request.method != "POST":
        raise wrong_method(context.request.method, ("POST",))


def parse_body(context: Context) -> None:
    """400 or 422 for a body that can't be answered; by gap option only after the payment."""
    assert context.market is not None  # noqa: S101 - routed before
    context.wrapped = True
    try:
        context.market_query = context.market.read(MarketBody(context.world, context.request))
    except ApiError as error:
        if not context.market.price or context.world.gaps.b_invalid != "402-first":
            raise
        context.market_query = error


def paywall(context: Context) -> None:
    """402 without a payment that holds."""
    endpoint, world, query = context.market, context.world, context.market_query
    assert endpoint is not None  # noqa: S101 - routed before
    assert query is not None  # noqa: S101 - parsed before
    if not endpoint.price or world.gaps.paywall == "open":
        return
    count = tokens_sent(context.request) if isinstance(query, ApiError) else len(query.identifiers)
    paid = context.paid = PaidRequest(context.request, context.matched.payment if context.matched else None)
    offer = make_offer(world, paid, endpoint.price * count if endpoint.each else endpoint.price, endpoint.text)
    context.answer = context.parts.facilitator.verify(world, paid, offer)
    if context.answer is None:
        context.offer = offer
    else:
        context.error = _CODES.get(context.answer.status)


def call_market_endpoint(context: Context) -> None:
    """The answer in its wrapper."""
    endpoint, query, world = context.market, context.market_query, context.world
    assert endpoint is not None  # noqa: S101 - routed before
    assert query is not None  # noqa: S101 - parsed before
    if isinstance(query, ApiError):
        raise query
    call = MarketCall(world, query, context.now)
    if endpoint.trading:
        signal_feed.up_to_date(world)
    data = call.shown(endpoint.handler(call))
    context.answer = Answer(200, {"success": True, "data": data, "error": None})


def settle(context: Context) -> None:
    """Take the money of an answer below 400; any other costs nothing."""
    answer, paid, world = context.answer, context.paid, context.world
    if answer is None or paid is None or context.offer is None:
        return
    if answer.status < 400:
        context.answer = context.parts.facilitator.settle(world, paid, context.offer, answer)
        if context.answer.status == 402:
            context.error = "payment_required"
    elif paid.payment is not None:
        settlements.conclude(world, paid.payment, "not charged", answer.status)


def note_unread_payment(context: Context) -> None:
    """Record a payment that nobody looked at, because something else answered the request."""
    market, world = context.market, context.world
    if market is None or not market.price or not has_payment(context.request) or context.answer is None:
        return
    if context.paid is not None and context.paid.payment is not None:
        return
    paid = context.paid = PaidRequest(context.request, payment=read(context.request))
    # A busy state file matters less than the answer.
    with contextlib.suppress(ApiError), world.transaction():
        if paid.payment is not None:
            settlements.present(world, context.request, paid.payment, "not carried out", context.answer.status)


# Answers and replies


def fail(context: Context, error: ApiError) -> None:
    """The answer to a request that failed."""
    context.error = error.code
    if context.wrapped:
        context.answer = Answer(error.status, {"success": False, "data": None, "error": error.message})
    else:
        context.answer = error_answer(error, context.world.gaps)


def reply_of(answer: Answer, now: float) -> Reply:
    headers: list[Header] = [(b"date", http_date(now)), *answer.headers]
    if answer.body is not None:
        return Reply(answer.status, headers, answer.body)
    if answer.status == 204:
        return Reply(204, headers, b"")
    # A caller's `1e999` in the request log would be no JSON.
    content = to_json(answer.data, inf_nan_mode="null")
    headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    return Reply(answer.status, headers, content)


_date: tuple[int, bytes] = (-1, b"")


def http_date(now: float) -> bytes:
    global _date
    second = int(now)
    if _date[0] != second:
        _date = (second, formatdate(second, usegmt=True).encode("ascii"))
    return _date[1]
