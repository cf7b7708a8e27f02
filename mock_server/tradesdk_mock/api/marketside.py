"""The paid side of a request for market data: rate limit, key, the body, the payment, the endpoint itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core import rate_limit
from ..core.errors import ApiError, internal, wrong_method
from ..core.messages import NEW_FIELD, Answer, Request, error_answer
from ..core.rate_limit import Verdict, rate_headers
from ..market.tokens import Token, find
from ..payments import paywall
from ..state import tenants
from ..state.world import World
from ..trading import signal_feed
from .market_requests import BASE, Asked, MarketBody, Reader, shown, tokens_sent
from .web import Decision

log = logging.getLogger("tradesdk_mock")
Record = dict[str, Any]
# What the gate itself may answer.
_CODES = {400: "invalid_request", 402: "payment_required", 409: "conflict"}


@dataclass(frozen=True, slots=True)
class MarketCall:
    """One request that has been understood and, where that is asked for, paid.

    Attributes:
        now: the service's time, the same for everything in the answer.
    """

    world: World
    asked: Asked
    now: float

    def tokens(self) -> Iterator[tuple[int, Token]]:
        """Place in the request and token. 404 when there is none of that name: none at all or, by gap option, any."""
        found = [find(self.world.seed, BASE, identifier) for identifier in self.asked.identifiers]
        partial = self.world.gaps.unknown_token == "partial" and any(found)  # noqa: S105 - a gap option
        for place, token in enumerate(found):
            if token is not None:
                yield place, token
            elif not partial:
                raise ApiError(404, "not_found", f"No token {shown(self.asked.identifiers[place])} on Base.")

    def shown(self, record: Record) -> Record:
        """A record as it leaves: under the gap option `unknown_values`, with things that no client knows."""
        if self.world.gaps.unknown_values == "on":
            record.update(NEW_FIELD)
            if "signal" in record:
                record["signal"] = "HOLD"
        return record


@dataclass(frozen=True, slots=True)
class MarketEndpoint:
    """What a path sells.

    Attributes:
        read: makes sense of the body.
        handler: the `data` of the answer.
        text: what is sold, in a few words.
        price: in millionths of a US dollar; 0 is free.
        each: the price is for one token.
        trading: it is about what agents do: they get up to date before.
    """

    read: Reader
    handler: Callable[[MarketCall], Record]
    text: str
    price: int = 0
    each: bool = False
    trading: bool = False


def decide(world: World, request: Request, endpoint: MarketEndpoint) -> Decision:
    """The answer of the market-data API. Never raises.

    Handlers answer in the wrapper. What is decided before anybody reads the body (method, rate, key), and a crash,
    has the account API's error body: the wrapper has no such status.
    """
    caller: tenants.Principal | None = None
    verdict: Verdict | None = None
    decision: Decision | None = None
    failure: ApiError | None = None
    try:
        with world.transaction():
            try:
                if request.method != "POST":
                    raise wrong_method(request.method, ("POST",))
                verdict = _count(world, request)
                if world.gaps.b_bearer == "required":
                    caller = tenants.authenticate(world, request.headers)
                decision = _serve(world, request, endpoint)
            except ApiError as error:
                failure = error
    except ApiError as error:
        failure, request.payment = error, None
    except Exception:
        log.exception("%s %r crashed", request.method, request.path)
        # Nothing of it has happened, what was noted about its payment included.
        failure, request.payment = internal(), None
    if failure is not None or decision is None:
        failure = failure or internal()
        decision = Decision(error_answer(failure, world.gaps), failure.code)
    decision.caller = caller
    if verdict is not None:
        decision.answer.headers += rate_headers(verdict)
    return decision


def _count(world: World, request: Request) -> Verdict | None:
    """Under the gap option `b_rate`, count the request of this sender, or refuse it with 429."""
    if world.gaps.b_rate == "none":
        return None
    now = world.now()
    verdict = world.limiter.hit(f"market {request.client}", int(world.gaps.b_rate), now)
    if not verdict.allowed:
        error = rate_limit.exceeded(verdict.reset, now, f"More than {verdict.limit} requests a minute.")
        error.headers += tuple(rate_headers(verdict))
        raise error
    return verdict


def _serve(world: World, request: Request, endpoint: MarketEndpoint) -> Decision:
    """Body, payment, endpoint, in this order; by gap option the payment first."""
    asked: Asked | ApiError
    try:
        asked = endpoint.read(MarketBody(world, request))
    except ApiError as error:
        if not endpoint.price or world.gaps.b_invalid != "402-first":
            return _failed(error)
        asked = error
    if not endpoint.price or world.gaps.paywall == "open":
        return _handled(world, endpoint, asked)
    count = tokens_sent(request) if isinstance(asked, ApiError) else len(asked.identifiers)
    price = endpoint.price * count if endpoint.each else endpoint.price
    offer = paywall.make_offer(world, request, price, endpoint.text)
    refusal = paywall.check(world, request, offer)
    if refusal is not None:
        return Decision(refusal, _CODES.get(refusal.status))
    decision = _handled(world, endpoint, asked)
    answer = paywall.settle(world, request, offer, decision.answer)
    return Decision(answer, "payment_required" if answer.status == 402 else decision.error)


def _handled(world: World, endpoint: MarketEndpoint, asked: Asked | ApiError) -> Decision:
    if isinstance(asked, ApiError):
        return _failed(asked)
    call = MarketCall(world, asked, world.now())
    try:
        if endpoint.trading:
            signal_feed.up_to_date(world)
        data = call.shown(endpoint.handler(call))
    except ApiError as error:
        return _failed(error)
    return Decision(Answer(200, {"success": True, "data": data, "error": None}))


def _failed(error: ApiError) -> Decision:
    return Decision(Answer(error.status, {"success": False, "data": None, "error": error.message}), error.code)
