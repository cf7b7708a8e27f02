# Generated from src/tradesdk/_async/session.py by scripts/unasync.py: change that file instead.
"""Sends requests: headers, rate limit, one attempt, reading the response. Retries are in `retry_loop`."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from logging import DEBUG
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol, TypeVar, runtime_checkable

from .._http import log_events, settings
from .._http.log_events import NO_SPAN, event, is_shown, limiter_failed, logger, wire
from .._http.rate_limit import RateWindow, count
from .._http.request import Request
from .._http.response import BodyReader, failure_of, is_of_market_data, moment_after, status_error
from .._http.retry import Operation, RetryBudget, RetryPolicy, with_jitter
from .._http.settings import USER_AGENT, ApiKey, Timeout
from .._http.transport_errors import connection_error, transport_error
from .._system.clock import Clock
from .._system.interrupts import failures
from .._values.hints import no_attribute
from .._values.http import RateClaim, RateLimit, RawResponse, SentHeaders
from ..errors import APIError, APIResponseError, APIStatusError, RateLimitError
from .concurrency import Interruptible, run_to_completion, sleep
from .sending import Answer, Handover, Outgoing, Sender

if TYPE_CHECKING:
    from .._http.wire_logging import LoggedExchange
    from .._values.payment import Payment

T = TypeVar("T")

_SEARCHED = 32 * 1024
_NO_CLAIM = RateClaim()
_GRANTED = RateClaim(id="granted")


@runtime_checkable
class RateLimiter(Protocol):
    """Decides when requests may be sent. Pass one to clients as `rate_limiter=`; several may share it."""

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last response that had one; None before that."""
        ...

    def claim(self, name: str, /) -> RateClaim:
        """Ask for one request, just before it is sent. If it has to wait, `claim` is called again after that.

        Args:
            name: which rate limit it is: a hash of the API key that the request is sent with.
        """
        ...

    def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        """Called with every response. `claim.id` is empty if the request was sent without asking."""
        ...

    def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Called if there is no response. `sent`: the service may have counted the request."""
        ...


class LocalRateLimiter:
    """The rate limiter of one client and its copies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window = RateWindow()

    @property
    def rate_limit(self) -> RateLimit | None:
        return self._window.rate_limit

    def claim(self, name: str, /) -> RateClaim:
        wait = self._window.claim(self._clock.monotonic())
        return RateClaim(with_jitter(wait)) if wait else _GRANTED

    def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        self._window.observe(headers, now=self._clock.now, monotonic=self._clock.monotonic())

    def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        if claim.id and not sent:
            self._window.release()


@dataclass
class Session:
    """Sends a client's requests. Copies with other settings share connections, rate limiter and retry budget."""

    base_url: str
    key: ApiKey | None
    sender: Sender
    clock: Clock
    timeout: Timeout
    policy: RetryPolicy
    deadline: float
    throttle: bool
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Secrets to hide in logs, besides the key: a service may repeat them."""

    rate_limiter: RateLimiter | None = None
    """The rate limiter to use; None: one of this client's own."""

    api: str = "account"
    """The API that the rate limit is for, besides the key."""

    retry_budget: RetryBudget = field(default_factory=RetryBudget)
    made: deque[str] = field(default_factory=lambda: deque(maxlen=1000))
    """Ids that this client created: none of them can be the result of another create."""

    watch: Callable[[object], None] | None = None
    """Called with every connection that is used, so that it can be cut off."""

    latest: Mapping[str, str] = field(default_factory=dict)
    """The headers of the latest response."""

    creating: list[tuple[object, ...]] = field(default_factory=list)
    """What the creates in progress expect: if two are alike, a match may belong to the other."""

    def __post_init__(self) -> None:
        fixed = self.key is None or self.key.fixed
        self.limiter: RateLimiter = self.rate_limiter or LocalRateLimiter(self.clock)
        self.sleep = sleep  # for the rate limit
        self.parts = self.timeout.parts()
        self._headers = self.header_list(None) if fixed else None
        self._headers_json = self.header_list(b"") if fixed else None

    def with_options(
        self,
        *,
        timeout: float | Timeout | None = None,
        max_retries: int | None = None,
        deadline: float | None = None,
    ) -> Session:
        twin = copy.copy(self)
        twin.timeout = self.timeout if timeout is None else Timeout.of(timeout)
        twin.parts = twin.timeout.parts()
        twin.policy = settings.policy(self.policy, max_retries)
        twin.deadline = self.deadline if deadline is None else settings.deadline(deadline)
        return twin

    def for_stream(self, interruptible: Interruptible) -> Session:
        """A copy whose reads and waits can be interrupted."""
        twin = copy.copy(self)
        twin.watch, twin.sleep = interruptible.watch, interruptible.sleep
        return twin

    def call(self, request: Request[T], *, give_up: float | None = None) -> T:
        """Send `request`, with retries, and read the response. `give_up` is a monotonic time."""
        listener = log_events.listener
        with NO_SPAN if listener is None else listener.begin("call", **self._described(request)):
            started = self.clock.monotonic()
            if give_up is None:
                give_up = started + self.deadline
            if request.lookup is None:
                return self._call(request, give_up, began=None)
            self.creating.append(request.lookup.expected)
            try:
                return self._call(request, give_up, began=(started, self.clock.now()))
            finally:
                self.creating.remove(request.lookup.expected)

    def _call(self, request: Request[T], give_up: float, *, began: tuple[float, float] | None) -> T:
        try:
            result = self.attempt(request, give_up)
        except APIError as error:
            try:
                from .retry_loop import RetryLoop  # imported only after a failure

                retries = RetryLoop(self, request, give_up, began=began)
                again = retries.should_retry(error)
            except failures(OSError):  # from the import: too many open files
                if request.operation not in (Operation.READ, Operation.QUERY) and failure_of(error).outcome_unknown:
                    error.outcome = "unknown"
                raise error from error.__cause__
            if not again:
                raise
        else:
            if self.retry_budget.spent:
                self.retry_budget.refund(1)
            return result
        return retries.run()

    def attempt(self, request: Request[T], give_up: float, claim: RateClaim | None = None) -> T:
        """Send `request` once and read the response. `claim`: the one that was made for it."""
        try:
            response = self.exchange(request, give_up, claim=claim)
            if 200 <= response.status < 300 or (response.status == 402 and request.reads_offers):
                return self.read(request, response)
        except APIResponseError as error:  # the request was carried out; only the response is unreadable
            error.outcome = "none" if request.operation in (Operation.READ, Operation.QUERY) else "unknown"
            raise
        raise self.refusal(request, response)

    def refusal(self, request: Request[T], response: RawResponse) -> APIStatusError:
        refused = status_error(request.method, self.base_url + request.target, response, now=self.clock.now())
        if self.key is not None:
            refused.message = self.key.hidden_in(refused.message)
            refused.service_code = refused.service_code and self.key.hidden_in(refused.service_code)
        elif refused.status == 401:
            refused.message += " (no API key was sent; to send it: send_api_key=True)"
        if self.api == "market" and refused.status == 404 and not is_of_market_data(refused):
            refused.message += " (market data may have an address of its own: base_url= or TRADE_MARKET_BASE_URL)"
        refused.args = (refused.message,)
        return refused

    def read(self, request: Request[T], response: RawResponse) -> T:
        try:
            result = request.decode(request.method, self.base_url + request.target, response)
        except APIResponseError as error:
            error.response = response if self.key is None else self.key.without(response)
            raise
        if request.lookup is not None:
            self.made.append(request.lookup.id_of(result))
        return result

    def exchange(
        self,
        request: Request[T],
        give_up: float,
        handover: Handover | None = None,
        claim: RateClaim | None = None,
    ) -> RawResponse:
        """Send `request` once, with a payment's header if there is one. A response of any status is returned.

        A payment that has gone to the transport is not abandoned when the call is canceled: `handover` has the
        cancellations. If something else interrupts the call, it has the response, if one has come.
        """
        payment = None if handover is None else handover.payment
        target = request.target
        url = self.base_url + target
        exchange: LoggedExchange | None = None
        handled, clock, sent, started = sys.exception(), self.clock, False, 0.0
        if claim is None:
            claim = self.claim(request, give_up)
        try:  # at once: a signal handler may raise after any call
            started = clock.monotonic()
            headers = self._headers if request.body is None else self._headers_json
            if headers is None:
                headers = self.header_list(request.body)
            if payment is not None:
                headers = SentHeaders([*headers, payment.sent()])
            elif (listener := log_events.listener) is not None and (more := listener.headers()):
                headers = SentHeaders([*headers, *more])
            left = give_up - started
            outgoing = Outgoing(request.method, target, headers, request.body, self.parts, left, self.watch)
            exchange = self.log(outgoing)
            leave = self.sender.enter(max(0.0, min(left, self.parts["pool"])))
            try:
                outgoing = outgoing._replace(deadline=give_up - clock.monotonic())  # after the wait for a place
                sent = True
                transfer = partial(self._transfer, outgoing, give_up)
                if handover is not None:
                    handover.is_sent = True
                answer, body = transfer()
            finally:
                leave()
            status, content = answer.status, body.content()
            success = 200 <= status < 300
            heads = answer.headers
            if payment is not None:
                content, heads = _without(payment, content, success), heads.hidden(payment.hidden_in)
            if body.cut_short and success:
                raise ConnectionError("the gzip of the response is cut short")
        except BaseException as error:
            try:
                lost = connection_error(error, request.method, url, proxy=self.sender.proxy, handled=handled)
            except BaseException:
                self.unanswered(claim, sent=sent)
                if sent:
                    text, seconds = "%(method)s %(url)s: interrupted", clock.monotonic() - started
                    event("request_interrupted", text, level=DEBUG, method=request.method, url=url, seconds=seconds)
                raise
            if handover is not None:
                lost.message = handover.payment.hidden_in(lost.message)  # a given client may quote it
                if not self.sender.tells_if_sent(error):
                    lost.sent = True  # a payment that may have arrived counts as sent
                    lost.temporary |= lost.code != "certificate_refused"
            self.unanswered(claim, sent=lost.sent)
            text, seconds = "%(method)s %(url)s: %(reason)s", clock.monotonic() - started
            event("request_failed", text, lost, level=DEBUG, method=request.method, url=url, seconds=seconds)
            if exchange is not None:
                exchange.failed(lost.message)
            raise lost from lost.__cause__
        self.latest = answer.headers
        response = RawResponse(status, heads, content)
        if self.key is not None and (payment is not None or not success or body.problem is not None):
            response = self.key.without(response)  # errors show the response
            content = response.content
        if handover is not None:
            handover.response = response
        logged = log_events.listener is not None or is_shown(logger, DEBUG)
        seconds = clock.monotonic() - started if logged else 0.0
        try:
            self.limiter.answered(claim, status, answer.headers)
        except failures(Exception) as problem:
            limiter_failed(problem)
        if logged:
            event(
                "request_answered",
                f"%(method)s %(url)s: %(status)d in {seconds * 1000:.0f} ms",
                level=DEBUG,
                method=request.method,
                url=url,
                status=status,
                seconds=seconds,
                remaining=count(answer.headers.get("x-ratelimit-remaining")),
            )
        if exchange is not None:
            shown = response if self.key is None else self.key.without(response)
            exchange.answered(status, shown.headers, shown.content)
        if body.problem is not None and success and status != 204:
            text = f"the response cannot be read: {body.problem}"
            raise APIResponseError(text, method=request.method, url=url, response=response)
        return response

    def _transfer(self, outgoing: Outgoing, give_up: float) -> tuple[Answer, BodyReader]:
        answer = self.sender.send(outgoing)
        return answer, self.receive(answer, give_up)

    def receive(self, answer: Answer, give_up: float) -> BodyReader:
        body = BodyReader(answer.status, answer.coding)
        try:
            if body.problem is None:
                self._read(answer, body, give_up)
        except Exception as error:
            if 200 <= answer.status < 300 or not transport_error(error):
                raise  # else the status is enough, even if the body is cut short
        finally:
            answer.close()
        return body

    def _read(self, answer: Answer, body: BodyReader, give_up: float) -> None:
        cut = late = False
        for chunk in answer:
            if cut:
                break
            cut = late or not body.feed(chunk)
            if cut:
                answer.close()  # iterating then ends, so no generator is left unfinished
            else:
                late = self.clock.monotonic() > give_up  # the last piece may be late
        if late and cut:
            raise TimeoutError("the response was not complete at the deadline")

    def _described(self, request: Request[T]) -> dict[str, str]:
        url = self.base_url + request.target
        return {"method": request.method, "url": url if self.key is None else self.key.hidden_in(url)}

    def log(self, outgoing: Outgoing) -> LoggedExchange | None:
        """Log a whole request; None when that is off."""
        if not wire.level:
            return None
        from .._http.wire_logging import LoggedExchange

        url = self.base_url + outgoing.target
        return LoggedExchange(outgoing.method, url, outgoing.headers, outgoing.body, self.clock.monotonic, self.secrets)

    def header_list(
        self, body: bytes | None, *, accept: bytes = b"application/json", coding: bytes = b"gzip"
    ) -> SentHeaders:
        headers = SentHeaders([(b"Accept", accept), (b"Accept-Encoding", coding), (b"User-Agent", USER_AGENT)])
        if self.key is not None:
            headers.append((b"Authorization", self.key.header()))
        if body is not None:
            headers.append((b"Content-Type", b"application/json"))
        return headers

    def claim(self, request: Request[T], give_up: float) -> RateClaim:
        """Wait until the rate limit allows one request."""
        # The same name for all clients with this key; empty for this client's own limiter.
        name = "" if self.rate_limiter is None or self.key is None else self.key.rate_limit_name(self.api)
        if not self.throttle:
            return RateClaim(name=name) if name else _NO_CLAIM
        while wait := (claim := self.limiter.claim(name)).wait:
            if self.clock.monotonic() + wait > give_up:
                raise RateLimitError(
                    f"not sent: the rate limit resets in {wait:.0f} s, which is after the deadline",
                    method=request.method,
                    url=self.base_url + request.target,
                    status=429,
                    retry_after=wait,
                    retry_at=moment_after(self.clock.now(), wait),
                    rate_limit=self.limiter.rate_limit,
                )
            if wait > 1:  # a shorter wait is for its turn, not for the reset
                text = "%(reason)s; waiting %(wait).1f s for the reset"
                event("rate_limit_wait", text, reason="the rate limit is used up", wait=wait)
            self.sleep(self.clock, wait)
        return claim

    def unanswered(self, claim: RateClaim, *, sent: bool) -> None:
        """Tell the rate limiter that a request got no response."""
        try:
            failed = partial(self.limiter.failed, claim, sent=sent)
            (failed() if self.rate_limiter is None else run_to_completion(failed))  # our own never waits
        except failures(Exception) as error:  # it must not hide the outcome of the request
            limiter_failed(error)

    def close(self) -> None:
        """Close the connections, but not a given client's."""
        self.sender.close()


class Resource:
    """The calls of one kind of object of the account API."""

    _not_in_the_api: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """What the API has no endpoint for: by the name of such a method, its error and the rest of its hint."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._session.base_url}>"

    if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            if name not in self._not_in_the_api:
                raise no_attribute(self, name)
            what, until_then = self._not_in_the_api[name]
            error = AttributeError(f"{what} through the API, which has no endpoint for it")
            error.add_note(f"hint: it is done in the dashboard; {until_then}")
            raise error


def _without(payment: Payment, content: bytes, success: bool) -> bytes:
    """`content` without the signed payment, which a service may repeat: errors, logs and the ledger show responses."""
    if success and len(content) > _SEARCHED and payment.sent()[1] not in content:
        return content  # long responses are data: searching them for parts takes longer than reading them
    return payment.hidden_in(content.decode("latin-1")).encode("latin-1")
