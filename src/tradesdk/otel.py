"""OpenTelemetry for all clients of this process: spans of calls, purchases and stream connections, and metrics.

Install the extra `otel`. Nothing is measured before `instrument()`, and clients cost the same as without this module.
docs/telemetry.md lists all names. No key, signature, header or body gets into a span.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from weakref import WeakKeyDictionary, WeakSet

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    from .errors import ConfigError

    missing = 'tradesdk.otel needs a package that is not installed: pip install "opentelemetry-api>=1.30,<2"'
    raise ConfigError(missing, code="missing_package") from None

from ._async.connection_pool import AsyncConnectionPool
from ._async.measured import measured as async_measured
from ._async.purchase_driver import AsyncPurchaseDriver
from ._async.session import AsyncSession
from ._async.signal_stream import AsyncSignalStream
from ._http import log_events
from ._http.wire_logging import is_secret
from ._market import price
from ._sync.connection_pool import ConnectionPool
from ._sync.measured import MeasuredCall, measured
from ._sync.purchase_driver import PurchaseDriver
from ._sync.session import Session
from ._sync.signal_stream import SignalStream
from ._system.interrupts import failures, suppress
from ._values.http import SentHeaders
from ._values.money import MICRO
from ._values.payment import Payment
from ._version import __version__
from .errors import APIStatusError, TradeError
from .payments.buyer import Buyer

__all__ = ["instrument", "uninstrument", "Instrumentor"]

_ITEMS = ("agents", "wallets", "trades")  # their paths have an id in the third place
_OFFER = 402  # not an error
_log = logging.getLogger(__name__)


@dataclass
class _Work:
    """What is under way: its span, how long it waited so far, and how often it handed a payment over."""

    span: Span
    of_call: bool = False
    waited: float = 0.0
    sent: int = 0


_on: _Instruments | None = None
_work: ContextVar[_Work | None] = ContextVar("tradesdk_otel", default=None)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagate: bool = False,
) -> None:
    """Measure all clients of this process, also those that exist. Doing it again changes nothing.

    Args:
        tracer_provider: by default the global one.
        meter_provider: by default the global one.
        propagate: send the context to the service, as `traceparent` and `tracestate`. Paid requests never carry it.
    """
    global _on
    if _on is None:
        _on = _Instruments(tracer_provider, meter_provider, propagate=propagate)


def uninstrument() -> None:
    """Measure nothing from now on. The spans of open streams end."""
    global _on
    if _on is not None:
        _on.remove()
        _on = None


class Instrumentor:
    """For `opentelemetry-instrument`, which finds it by its entry point."""

    def instrument(self, **options: Any) -> None:
        """As `instrument`; other options of the starter are ignored."""
        known = {name: options[name] for name in ("tracer_provider", "meter_provider") if name in options}
        instrument(**known)

    def uninstrument(self, **options: Any) -> None:
        """As `uninstrument`."""
        uninstrument()


class _Guarded(AbstractContextManager[MeasuredCall]):
    """Measures a call, but never changes it: what fails here, such as an exporter, must not lose a paid answer."""

    def __init__(self, around: Callable[[], AbstractContextManager[MeasuredCall]], args: tuple[Any, ...]) -> None:
        self._around, self._args = around, args
        self._inside: AbstractContextManager[MeasuredCall] | None = None

    def __enter__(self) -> MeasuredCall:
        try:
            inside = self._around()
            call = inside.__enter__()
        except failures(Exception) as problem:
            _unmeasured(problem)
            return MeasuredCall(self._args)
        self._inside = inside
        return call

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inside is not None:
            try:
                self._inside.__exit__(kind, error, trace)
            except failures(Exception) as problem:
                if problem is not error:
                    _unmeasured(problem)


def _unmeasured(problem: Exception) -> None:
    name = type(problem).__name__
    log_events.log(_log, logging.WARNING, "telemetry failed: %s", name, {})  # its text may have a secret


class _Instruments:
    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None, *, propagate: bool) -> None:
        self.tracer = trace.get_tracer("tradesdk", __version__, tracers)
        meter = metrics.get_meter("tradesdk", __version__, meters)
        self.duration = meter.create_histogram("http.client.request.duration", "s", "Duration of requests.")
        self.requests = meter.create_counter("tradesdk.requests", "{request}", "Requests by outcome.")
        self.left = meter.create_gauge("tradesdk.rate_limit.remaining", "{request}", "Requests left before the reset.")
        self.waits = meter.create_histogram("tradesdk.wait.duration", "s", "Waits for retries, resets and reconnects.")
        self.lag = meter.create_gauge("tradesdk.stream.lag", "s", "Age of the last live signal when it arrived.")
        self.gaps = meter.create_counter("tradesdk.stream.gaps", "{gap}", "Periods whose signals may be missing.")
        self.purchases = meter.create_counter("tradesdk.purchases", "{purchase}", "Purchases by outcome.")
        for name in ("spent", "held", "left"):
            meter.create_observable_gauge(
                f"tradesdk.money.{name}", [_money(name, meters)], "{USD}", f"US dollars {name}, by ledger and budgets."
            )
        self.meters = meters
        self.buyers: WeakSet[Any] = WeakSet()
        self._streams: WeakKeyDictionary[Any, _Work] = WeakKeyDictionary()
        self._before: list[tuple[type, str, Any]] = []
        for session in (Session, AsyncSession):
            self._wrap(session, "call", self._call)
            self._wrap(session, "exchange", self._exchange)
        for driver in (PurchaseDriver, AsyncPurchaseDriver):
            self._wrap(driver, "buy", self._buy)
            self._wrap(driver, "resume", self._buy)
        self._wrap(Buyer, "signature", self._sign)
        for stream in (SignalStream, AsyncSignalStream):
            self._wrap(stream, "_connect", self._connect)
            self._wrap(stream, "_advance", self._advance)
            self._wrap(stream, "aclose" if stream is AsyncSignalStream else "close", self._close)
        if propagate:
            from ._async.httpx_sender import AsyncHttpxSender
            from ._sync.httpx_sender import HttpxSender

            for sender in (ConnectionPool, AsyncConnectionPool, HttpxSender, AsyncHttpxSender):
                self._wrap(sender, "send", self._send)
        log_events.listener = self._hear

    def remove(self) -> None:
        for owner, name, original in self._before:
            setattr(owner, name, original)
        log_events.listener = None
        for stream in [*self._streams]:
            self._end(stream)

    def _wrap(self, owner: type, name: str, around: Callable[..., AbstractContextManager[MeasuredCall]]) -> None:
        """Run a method inside `around`."""
        original = owner.__dict__[name]
        self._before.append((owner, name, original))
        make = async_measured if owner.__name__.startswith("Async") else measured

        def guarded(*args: Any, **options: Any) -> _Guarded:
            return _Guarded(partial(around, *args, **options), args[1:])

        setattr(owner, name, make(original, guarded))

    @contextmanager
    def _span(self, name: str, attributes: Mapping[str, Any], *, of_call: bool = False) -> Iterator[_Work]:
        kind = SpanKind.CLIENT if of_call else SpanKind.INTERNAL
        work = _Work(self.tracer.start_span(name, kind=kind, attributes=attributes), of_call=of_call)
        token = _work.set(work)
        try:
            with trace.use_span(work.span, record_exception=False, set_status_on_exception=False):
                yield work
        except BaseException as error:
            _failed(work.span, error)
            raise
        finally:
            _work.reset(token)
            if work.waited:
                work.span.set_attribute("tradesdk.wait_seconds", work.waited)
            work.span.end()

    # calls

    @contextmanager
    def _call(self, session: Any, request: Any, **_: Any) -> Iterator[MeasuredCall]:
        with self._span(*_described(session, request), of_call=True):
            yield MeasuredCall((request,))

    @contextmanager
    def _exchange(self, session: Any, request: Any, *args: Any, **options: Any) -> Iterator[MeasuredCall]:
        outer, around = _work.get(), MeasuredCall((request, *args))
        with ExitStack() as stack:
            if (args[1] if len(args) > 1 else options.get("payment")) is not None:
                work = stack.enter_context(self._span(*_described(session, request), of_call=True))
                if outer is not None and outer.sent:
                    work.span.set_attribute("http.request.resend_count", outer.sent)
                if outer is not None:
                    outer.sent += 1
            now = _work.get()
            began, waited, outcome = session.clock.monotonic(), 0.0 if now is None else now.waited, "canceled"
            try:
                yield around
                outcome = str(around.result.status)
                if now is not None and now.of_call:
                    now.span.set_attribute("http.response.status_code", around.result.status)
            except TradeError as error:
                outcome = error.code
                raise
            finally:
                seconds = session.clock.monotonic() - began + waited - (0.0 if now is None else now.waited)
                host = urlsplit(session.base_url).hostname or ""
                known = {
                    "http.request.method": request.method,
                    "server.address": host,
                    "url.template": _template(request),
                }
                self.requests.add(1, {**known, "outcome": outcome})
                status = {"http.response.status_code": int(outcome)} if outcome.isdecimal() else {"error.type": outcome}
                self.duration.record(max(0.0, seconds), {**known, **status})
                limit = session.limiter.rate_limit
                if limit is not None and limit.remaining is not None:
                    self.left.set(limit.remaining, {"server.address": host})

    @contextmanager
    def _send(self, sender: Any, outgoing: Any) -> Iterator[MeasuredCall]:
        context: dict[str, str] = {}
        # A node of the chain is not the service: what is asked there is no call.
        if _work.get() is not None and not any(name.lower() == b"payment-signature" for name, _ in outgoing.headers):
            TraceContextTextMapPropagator().inject(context)
        more = [(name.encode(), value.encode()) for name, value in context.items()]
        yield MeasuredCall((outgoing._replace(headers=SentHeaders([*outgoing.headers, *more])),))

    # purchases

    @contextmanager
    def _buy(self, driver: Any, bought: Any, **_: Any) -> Iterator[MeasuredCall]:
        is_new, around = not isinstance(bought, Payment), MeasuredCall((bought,))
        path = bought.request.target if is_new else urlsplit(bought.url).path
        amount = price(path, bought.tokens or 0) if is_new else bought.amount
        if not amount:
            yield around
            return
        self.buyers.add(driver.buyer)
        outcome, payment = "canceled", None
        with self._span(f"{'purchase' if is_new else 'resume'} {path}", {"url.path": path}) as work:
            work.span.add_event("quote", {"tradesdk.payment.amount_usd": amount / MICRO})
            try:
                yield around
                payment = around.result.payment
                outcome = "free" if payment is None else "again" if around.result.again else "delivered"
            except TradeError as error:
                outcome, payment = error.code, getattr(error, "payment", None)
                raise
            finally:
                known = {} if payment is None else _about(payment) | {"tradesdk.payment.charged": str(payment.charged)}
                work.span.set_attributes({"tradesdk.purchase.outcome": outcome, **known})
                self.purchases.add(1, {"url.path": path, "outcome": outcome})

    @contextmanager
    def _sign(self, buyer: Any, payment: Payment) -> Iterator[MeasuredCall]:
        yield MeasuredCall((payment,))
        work = _work.get()
        if work is not None:
            work.span.add_event("sign", _about(payment))

    # streams: one span a connection, which ends when the next one begins, or with the stream

    @contextmanager
    def _connect(self, stream: Any, give_up: float) -> Iterator[MeasuredCall]:
        self._end(stream)
        url = urlsplit(stream._connection.url)
        known = {"server.address": url.hostname or "", "url.path": url.path, "tradesdk.chain": stream.chain}
        span = self.tracer.start_span(f"GET {url.path}", kind=SpanKind.CLIENT, attributes=known)
        work = self._streams.setdefault(stream, _Work(span))
        work.span = span
        token = _work.set(work)
        try:
            yield MeasuredCall((give_up,))
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            _work.reset(token)

    @contextmanager
    def _advance(self, stream: Any) -> Iterator[MeasuredCall]:
        token = _work.set(self._streams.get(stream))
        try:
            yield MeasuredCall(())
        finally:
            _work.reset(token)
            if stream.stats.lag is not None:
                self.lag.set(stream.stats.lag, {"tradesdk.chain": stream.chain})

    @contextmanager
    def _close(self, stream: Any) -> Iterator[MeasuredCall]:
        try:
            yield MeasuredCall(())
        finally:
            self._end(stream)
            self._streams.pop(stream, None)

    def _end(self, stream: Any) -> None:
        work, stats = self._streams.get(stream), stream.stats
        if work is not None:
            for name in ("signals", "replayed", "gaps", "connects"):
                work.span.set_attribute(f"tradesdk.stream.{name}", getattr(stats, name))
            if stats.lag is not None:
                work.span.set_attribute("tradesdk.stream.lag", stats.lag)
            work.span.end()

    # the SDK's log

    def _hear(self, name: str, level: int, fields: Mapping[str, Any]) -> None:
        """Note an event."""
        if level < logging.INFO:
            return
        try:
            self._note(name, fields)
        except failures(Exception) as problem:
            _unmeasured(problem)

    def _note(self, name: str, fields: Mapping[str, Any]) -> None:
        work, wait = _work.get(), fields.get("wait", 0.0)
        if wait:
            self.waits.record(wait, {"reason": name})
        if name == "stream_gap":
            self.gaps.add(1, {"tradesdk.chain": fields["chain"]})
        if work is not None:
            known: dict[str, Any] = {
                each: fields[each] for each in ("code", "wait", "tries", "payment_id", "chain") if each in fields
            }
            known |= {when: fields[when].isoformat() for when in ("start", "end") if when in fields}
            work.span.add_event(name, {f"tradesdk.{each}": value for each, value in known.items()})
            work.waited += wait
            if name == "retry" and work.of_call:
                work.span.set_attribute("http.request.resend_count", fields["tries"])


def _money(name: str, meters: MeterProvider | None) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """A gauge of money. A meter keeps the first one of a name, so it is used again after `uninstrument`."""

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        now = _on
        for buyer in [*now.buyers] if now is not None and now.meters is meters else ():
            with suppress(Exception):  # its ledger is closed or away
                spending = buyer.ledger.spending(buyer.budget, now=buyer.clock.now())
                amount = getattr(spending, name)
                if amount is not None:
                    yield Observation(amount / MICRO, {"tradesdk.ledger": repr(buyer.ledger)})

    return observe


def _described(session: Any, request: Any) -> tuple[str, dict[str, Any]]:
    """Name and attributes of a call's span."""
    url, template = urlsplit(session.base_url), _template(request)
    path, _, given = request.target.partition("?")
    query = [(name, "REDACTED" if is_secret(name) else value) for name, value in parse_qsl(given)]
    full = session.base_url + path + (f"?{urlencode(query)}" if query else "")
    known = {
        "http.request.method": request.method,
        "server.address": url.hostname or "",
        "server.port": url.port or {"http": 80}.get(url.scheme, 443),
        "url.full": full if session.key is None else session.key.hidden_in(full),
        "url.template": template,
    }
    return f"{request.method} {template}", known


def _template(request: Any) -> str:
    """The path without ids."""
    parts = request.target.partition("?")[0].split("/")
    if len(parts) > 3:
        parts[3] = "{id}" if parts[2] in _ITEMS else parts[3] if parts[2] == "signals" else "*"
    return "/".join(parts)


def _about(payment: Payment) -> dict[str, Any]:
    return {"tradesdk.payment.id": payment.id, "tradesdk.payment.amount_usd": payment.amount / MICRO}


def _failed(span: Span, error: BaseException) -> None:
    """Say what failed: no text, since a service may repeat a secret."""
    kind = error.code if isinstance(error, TradeError) else type(error).__qualname__
    if isinstance(error, APIStatusError):
        span.set_attribute("tradesdk.error.code", kind)
        kind = str(error.status)
        if error.status == _OFFER:
            return
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
