"""OpenTelemetry for all clients of this process: spans of calls, purchases and stream connections, and metrics.

Install the extra `otel`. Nothing is measured before `instrument()`, and clients cost the same as without this module.
docs/telemetry.md lists all names. No key, signature, header or body gets into a span.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import Token
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit
from weakref import WeakKeyDictionary, WeakSet

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    from .errors import ConfigError

    missing = 'tradesdk.otel needs a package that is not installed: pip install "opentelemetry-api>=1.30,<2"'
    raise ConfigError(missing, code="missing_package") from None

from ._http import log_events
from ._http.wire_logging import is_secret
from ._system.interrupts import failures, suppress
from ._values.money import MICRO
from ._version import __version__
from .errors import APIStatusError, TradeError
from .payments.buyer import Buyer
from .payments.ledger.store import Ledger

__all__ = ["instrument", "uninstrument", "Instrumentor"]

_ITEMS = ("agents", "wallets", "trades")  # an id follows these in a path
_OFFER = 402  # not an error
_KEY = context.create_key("tradesdk")
_log = logging.getLogger(__name__)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagate: bool = False,
) -> None:
    """Measure all clients of this process, including existing ones. A second call changes nothing.

    Args:
        tracer_provider: by default the global one.
        meter_provider: by default the global one.
        propagate: send the context to the service, as `traceparent` and `tracestate`. Paid requests never carry it.
    """
    if log_events.listener is None:
        log_events.listener = _Telemetry(tracer_provider, meter_provider, propagate=propagate)


def uninstrument() -> None:
    """Stop measuring. The spans of open streams end."""
    telemetry, log_events.listener = log_events.listener, None
    if isinstance(telemetry, _Telemetry):
        for connection in [*telemetry.connections]:
            connection.end()


class Instrumentor:
    """The entry point for `opentelemetry-instrument`."""

    def instrument(self, **options: Any) -> None:
        """Call `instrument`. Other options are ignored."""
        known = {name: options[name] for name in ("tracer_provider", "meter_provider") if name in options}
        instrument(**known)

    def uninstrument(self, **options: Any) -> None:
        """Call `uninstrument`."""
        uninstrument()


@contextmanager
def _guarded() -> Iterator[None]:
    """A failure here, for example in an exporter, must not lose a paid answer or hide an error."""
    try:
        yield
    except failures(Exception) as problem:
        name = type(problem).__name__  # its text may contain a secret
        log_events.log(_log, logging.WARNING, "telemetry failed: %s", name, {})


class _Telemetry:
    """The listener of log events."""

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
        for name, by in (("spent", "ledger"), ("held", "ledger"), ("left", "ledger and budget")):
            meter.create_observable_gauge(
                f"tradesdk.money.{name}", [_money(name, meters)], "{USD}", f"US dollars {name}, by {by}."
            )
        self.meters = meters
        self.propagate = propagate
        self.buyers: WeakSet[Buyer] = WeakSet()
        self.ledgers: WeakKeyDictionary[Ledger, str] = WeakKeyDictionary()
        self.connections: WeakSet[_Connection] = WeakSet()
        self._numbers = count(1)

    def begin(self, name: str, **fields: Any) -> Any:
        return _KINDS[name](self, **fields)

    def spends(self, buyer: Buyer) -> None:
        """Measure the money of a client."""
        self.buyers.add(buyer)
        if buyer.ledger not in self.ledgers:
            shown = repr(buyer.ledger)
            is_shared = shown != "<Ledger in memory>"
            self.ledgers[buyer.ledger] = shown if is_shared else f"<Ledger in memory {next(self._numbers)}>"

    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        carrier: dict[str, str] = {}
        if self.propagate and isinstance(context.get_value(_KEY), _Call | _Connection):  # not for requests to the chain
            with _guarded():
                TraceContextTextMapPropagator().inject(carrier)
        return [(name.encode(), value.encode()) for name, value in carrier.items()]

    def note(self, name: str, level: int, fields: Mapping[str, Any]) -> None:
        with _guarded():
            if name in ("request_answered", "request_failed", "request_interrupted"):
                self._count(fields)
            elif level >= logging.INFO:
                self._add(name, fields)

    def _count(self, fields: Mapping[str, Any]) -> None:
        """Count a request that has ended."""
        span, status, host = context.get_value(_KEY), fields.get("status"), urlsplit(fields["url"]).hostname or ""
        outcome = str(status or fields.get("code", "canceled"))
        by = {"http.request.method": fields["method"], "server.address": host, "url.template": _template(fields["url"])}
        self.requests.add(1, {**by, "outcome": outcome})
        end = {"error.type": outcome} if status is None else {"http.response.status_code": status}
        self.duration.record(max(0.0, fields["seconds"]), {**by, **end})
        if "remaining" in fields:
            self.left.set(fields["remaining"], {"server.address": host})
        if status is not None and isinstance(span, _Call) and not span.is_over:
            span.answered(status)

    def _add(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add an event to the current span."""
        span, wait = context.get_value(_KEY), fields.get("wait", 0.0)
        if wait:
            self.waits.record(wait, {"reason": name})
        if name == "stream_gap":
            self.gaps.add(1, {"tradesdk.chain": fields["chain"]})
        if isinstance(span, _Work) and not span.is_over:
            span.add(name, fields)


@dataclass(eq=False)
class _Work(AbstractContextManager[Any]):
    """A running call or connection, and its span."""

    telemetry: _Telemetry
    span: Span = field(default=trace.INVALID_SPAN, init=False)
    is_over: bool = field(default=False, init=False)
    _waited: float = field(default=0.0, init=False)
    _token: Token[context.Context] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        with _guarded():
            self._begin()

    def __enter__(self) -> Self:
        with _guarded():
            self._token = context.attach(trace.set_span_in_context(self.span, context.set_value(_KEY, self)))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            context.detach(token)
        self._leave(error)

    def end(self, result: object = None) -> None:
        if self.is_over:
            return
        self.is_over = True
        with _guarded():
            if self._waited:
                self.span.set_attribute("tradesdk.wait_seconds", self._waited)
            if isinstance(result, BaseException):
                _failed(self.span, result)
            self._end(result)
        with _guarded():
            self.span.end()

    def add(self, name: str, fields: Mapping[str, Any]) -> None:
        known = {each: fields[each] for each in ("code", "wait", "tries", "payment_id", "chain") if each in fields}
        known |= {when: fields[when].isoformat() for when in ("start", "end") if when in fields}
        self.span.add_event(name, {f"tradesdk.{each}": value for each, value in known.items()})
        self._waited += fields.get("wait", 0.0)

    def _start(self, name: str, attributes: Mapping[str, Any], kind: SpanKind = SpanKind.CLIENT) -> None:
        self.span = self.telemetry.tracer.start_span(name, kind=kind, attributes=attributes)

    def _begin(self) -> None:
        raise NotImplementedError

    def _leave(self, error: BaseException | None) -> None:
        self.end(error)

    def _end(self, result: Any) -> None:
        """End the span with its result. An error is a result."""


@dataclass(eq=False)
class _Call(_Work):
    method: str
    url: str

    def _begin(self) -> None:
        url, template = urlsplit(self.url), _template(self.url)
        query = [(name, "REDACTED" if is_secret(name) else value) for name, value in parse_qsl(url.query)]
        known = {
            "http.request.method": self.method,
            "server.address": url.hostname or "",
            "server.port": url.port or {"http": 80}.get(url.scheme, 443),
            "url.full": url._replace(query=urlencode(query, safe="*")).geturl(),
            "url.template": template,
        }
        self._start(f"{self.method} {template}", known)

    def add(self, name: str, fields: Mapping[str, Any]) -> None:
        super().add(name, fields)
        if name == "retry":
            self.span.set_attribute("http.request.resend_count", fields["tries"])

    def answered(self, status: int) -> None:
        self.span.set_attribute("http.response.status_code", status)


class _Submission(_Call):
    def _begin(self) -> None:
        super()._begin()
        purchase = context.get_value(_KEY)
        if isinstance(purchase, _Purchase):
            if purchase.submissions:
                self.span.set_attribute("http.request.resend_count", purchase.submissions)
            purchase.submissions += 1

    def answered(self, status: int) -> None:
        super().answered(status)
        if status >= 400:  # the SDK raises no error for it
            self.span.set_attribute("error.type", str(status))
            self.span.set_status(StatusCode.ERROR)


@dataclass(eq=False)
class _Purchase(_Work):
    buyer: Buyer
    path: str
    amount: int
    is_new: bool
    submissions: int = field(default=0, init=False)

    def _begin(self) -> None:
        name = f"{'purchase' if self.is_new else 'resume'} {self.path}"
        self._start(name, {"url.path": self.path}, SpanKind.INTERNAL)
        self.span.add_event("quote", {"tradesdk.payment.amount_usd": self.amount / MICRO})
        self.telemetry.spends(self.buyer)

    def _end(self, result: Any) -> None:
        payment = getattr(result, "payment", None)
        outcome = "canceled"
        if isinstance(result, TradeError):
            outcome = result.code
        elif not isinstance(result, BaseException):
            outcome = "free" if payment is None else "again" if result.again else "delivered"
        self.span.set_attribute("tradesdk.purchase.outcome", outcome)
        if payment is not None:
            about = {"id": payment.id, "amount_usd": payment.amount / MICRO, "charged": str(payment.charged)}
            self.span.set_attributes({f"tradesdk.payment.{name}": value for name, value in about.items()})
        self.telemetry.purchases.add(1, {"url.path": self.path, "outcome": outcome})


@dataclass(eq=False)
class _Connection(_Work):
    stream: Any
    url: str

    def _begin(self) -> None:
        url = urlsplit(self.url)
        known = {"server.address": url.hostname or "", "url.path": url.path, "tradesdk.chain": self.stream.chain}
        self._start(f"GET {url.path}", known)
        self.telemetry.connections.add(self)

    def _leave(self, error: BaseException | None) -> None:
        if error is not None:
            self.end(error)
        elif (lag := self.stream.stats.lag) is not None:
            with _guarded():
                self.telemetry.lag.set(lag, {"tradesdk.chain": self.stream.chain})

    def _end(self, result: Any) -> None:
        stats = self.stream.stats
        for name in ("signals", "replayed", "gaps", "connects"):
            self.span.set_attribute(f"tradesdk.stream.{name}", getattr(stats, name))
        if stats.lag is not None:
            self.span.set_attribute("tradesdk.stream.lag", stats.lag)


_KINDS: dict[str, Any] = {
    "call": _Call,
    "submission": _Submission,
    "purchase": _Purchase,
    "connection": _Connection,
}


def _money(name: str, meters: MeterProvider | None) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """A gauge of money. A meter keeps the first one of a name, so it is used again after `uninstrument`."""

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        now = log_events.listener
        if not isinstance(now, _Telemetry) or now.meters is not meters:
            return
        for buyer in [*now.buyers]:
            with suppress(Exception):  # its ledger is closed or unreachable
                amount = getattr(buyer.ledger.spending(buyer.budget, now=buyer.clock.now()), name)
                if amount is not None:
                    by = {"tradesdk.ledger": now.ledgers[buyer.ledger]}
                    if name == "left":
                        by["tradesdk.budget"] = repr(buyer.budget)
                    yield Observation(amount / MICRO, by)

    return observe


def _template(url: str) -> str:
    """The path without ids, and without the prefix of the API."""
    parts = "".join(urlsplit(url).path.rpartition("/v1/")[1:]).split("/")
    if len(parts) > 3:
        parts[3] = "{id}" if parts[2] in _ITEMS else parts[3] if parts[2] == "signals" else "*"
    return "/".join(parts)


def _failed(span: Span, error: BaseException) -> None:
    """Mark the span as failed, without text: a service may repeat a secret in it."""
    kind = error.code if isinstance(error, TradeError) else type(error).__qualname__
    if isinstance(error, APIStatusError):
        span.set_attribute("tradesdk.error.code", kind)
        kind = str(error.status)
        if error.status == _OFFER:
            return
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)
