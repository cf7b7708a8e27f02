"""The whole service as one function: a request goes in, a reply comes out. Nothing here waits or knows a socket."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from pydantic_core import from_json, to_json

from ..control import http
from ..core import rate_limit
from ..core.errors import ApiError, Header, internal, invalid, no_route
from ..core.messages import Answer, Reply, Request, error_answer
from ..core.request_log import BODY_KEPT, JournalEntry, shortened
from ..core.router import Router
from ..payments import eip3009, settlements
from ..payments.header import has_payment, read
from ..state import tenants
from ..trading import background_tenant, population, signal_feed
from . import marketside, web
from .market import MARKET_ROUTES
from .routes import ROUTES
from .web import Decision

if TYPE_CHECKING:
    from ..payments.header import Payment
    from ..state.world import World

log = logging.getLogger("tradesdk_mock")
_DESCRIPTION = ("/openapi.json", "/docs")
_OF_SIGNALS = ("/v1/signals", "/v1/token-signals", "/v1/signal-history")
MAX_HEADERS = 64 * 1024
TOO_LONG = "The headers are longer than 64 KiB."


class Engine:
    """The service over a world. It keeps nothing of its own."""

    def __init__(self, world: World, *, allow_remote_control: bool = False) -> None:
        self.world = world
        self._remote = allow_remote_control
        self._account = Router(ROUTES)
        self._market = Router(MARKET_ROUTES)
        self._control = Router(http.ROUTES)

    def answer(self, request: Request) -> Reply:
        """What the service says. Never raises."""
        try:
            if sum(len(name) + len(value) for name, value in request.headers) > MAX_HEADERS:
                return self.refusal(TOO_LONG)
            if request.path.startswith("/_mock/"):
                found = self._control.find(request.path)
                request.params = found[2] if found else {}
                actions = found[1] if found else {}
                return self._reply(http.act(self.world, request, actions, remote=self._remote))
            if request.path in _DESCRIPTION:
                # Loaded here: most servers are never asked. Neither counted nor in the journal: no part of the service.
                from . import openapi

                return self._reply(openapi.answer(request))
            return self._serve(request)
        except ApiError as error:
            return self._reply(error_answer(error, self.world.gaps))
        except Exception:
            log.exception("%s %r crashed", request.method, request.path)
            return self._reply(error_answer(internal(), self.world.gaps))

    def refusal(self, message: str) -> Reply:
        """The answer to what isn't even a request."""
        return self._reply(self._refused(message))

    def _refused(self, message: str) -> Answer:
        answer = error_answer(invalid(message), self.world.gaps)
        answer.headers += rate_limit.rate_headers(rate_limit.untouched(self.world.gaps, self.world.now()))
        return answer

    def loads(self, request: Request) -> Callable[[], None] | None:
        """Heavy imports that the answer needs and that aren't there yet: a server runs this beside its event loop."""
        if request.method == "POST" and has_payment(request) and not eip3009.ready() and self._is_paid(request):
            return eip3009.load
        found = self._account.find(request.path)
        endpoint = found[1].get(request.method) if found else None
        if endpoint is None or endpoint.load is None or endpoint.ready is None or endpoint.ready():
            return None
        return endpoint.load

    def _is_paid(self, request: Request) -> bool:
        found = self._market.find(request.path)
        return found is not None and found[1].price > 0

    def is_behind(self, request: Request, goal: float) -> bool:
        """Do a part of the work that the answer needs after a jump of the clock; whether more was due at `goal`.

        A server gives others their turn in between. Without this, the answer does all of it.
        """
        about_signals = request.path.startswith(_OF_SIGNALS)
        if not about_signals and not self._is_about_trading(request):
            return False
        try:
            if self._asks_background_tenant(request) and population.is_background_behind(self.world):
                return True
            return signal_feed.is_behind(self.world, goal, trading=not about_signals)
        except ApiError:  # the answer says so
            return False

    def _is_about_trading(self, request: Request) -> bool:
        found = self._market.find(request.path)
        if found is not None:
            return found[1].trading
        account = self._account.find(request.path)
        endpoint = account[1].get(request.method) if account else None
        return endpoint is not None and endpoint.trading

    def _asks_background_tenant(self, request: Request) -> bool:
        found = self._market.find(request.path)
        if found is None:
            return tenants.identify(self.world, request.headers)[0] == background_tenant.BACKGROUND_TENANT
        endpoint = found[1]
        return endpoint.trading and (not endpoint.price or self.world.gaps.paywall == "open" or has_payment(request))

    def _serve(self, request: Request) -> Reply:
        world = self.world
        separate = world.gaps.b_port == "another"
        market = self._market.find(request.path) if request.market or not separate else None
        account = None if request.market else self._account.find(request.path)
        pattern = (market or account or (None,))[0]
        strike = world.faults.strike(request, pattern) if world.faults.active() else None
        if strike is not None and strike.skips:
            sender = self._sender(request)
            decision = Decision(strike.answer(world, sender), strike.code, sender)
        elif market is not None:
            request.params = market[2]
            request.faults = strike.payment if strike is not None else None
            decision = marketside.decide(world, request, market[1])
        elif request.market:
            decision = Decision(error_answer(no_route(request.path), world.gaps), "not_found")
        else:
            request.params = account[2] if account else {}
            decision = web.decide(world, request, account[1] if account else {})
        if request.payment is None and market is not None and market[1].price and has_payment(request):
            self._unlooked(request, decision.answer.status)
        reply = self._reply(decision.answer)
        if strike is not None:
            strike.apply(reply, world)
            if request.payment is not None:
                self._delivered(request.payment, reply)
        self._note(request, decision, reply, strike.kinds if strike else (), market is not None)
        return reply

    def _unlooked(self, request: Request, status: int) -> None:
        """Note a payment that nobody got to look at. A busy file matters less than the answer, here as below."""
        payment = request.payment = read(request)
        with contextlib.suppress(ApiError), self.world.transaction():
            if payment is not None:
                settlements.present(self.world, request, payment, "not carried out", status)

    def _delivered(self, payment: Payment, reply: Reply) -> None:
        """Note what faults have left of the answer to a payment."""
        with contextlib.suppress(ApiError), self.world.transaction():
            settlements.delivered(self.world, payment, reply.status)

    def _sender(self, request: Request) -> tenants.Principal | None:
        """Whose request it is, so far as that can be told without letting it in."""
        try:
            with self.world.transaction():
                return tenants.authenticate(self.world, request.headers)
        except ApiError:
            return None

    def _reply(self, answer: Answer) -> Reply:
        headers: list[Header] = [(b"date", http_date(self.world.now())), *answer.headers]
        if answer.body is not None:
            return Reply(answer.status, headers, answer.body)
        if answer.status == 204:
            return Reply(204, headers, b"")
        # A caller's `1e999` in the journal would be no JSON.
        content = to_json(answer.data, inf_nan_mode="null")
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        return Reply(answer.status, headers, content)

    def _note(
        self, request: Request, decision: Decision, reply: Reply, faults: tuple[str, ...] = (), market: bool = False
    ) -> None:
        body: object = None
        content, caller = request.content, decision.caller
        tenant = caller.tenant if caller else None
        if tenant is None and market:
            # Market data asks for no key; one that is sent all the same says whose request it is.
            tenant, _ = tenants.identify(self.world, request.headers)
        if content and len(content) <= BODY_KEPT:
            try:
                body = from_json(content, allow_inf_nan=False)
            except ValueError:
                body = None
        raw = shortened(request.query.decode("latin-1"))
        self.world.journal.add(
            JournalEntry(
                request.method,
                shortened(request.path),
                dict(parse_qsl(raw, keep_blank_values=True)) if raw else {},
                caller.last4 if caller else None,
                tenant,
                reply.status,
                self.world.now(),
                decision.error,
                body,
                faults,
                payment=None if request.payment is None else request.payment.note(),
            )
        )


_date: tuple[int, bytes] = (-1, b"")


def http_date(now: float) -> bytes:
    global _date
    second = int(now)
    if _date[0] != second:
        _date = (second, formatdate(second, usegmt=True).encode("ascii"))
    return _date[1]
