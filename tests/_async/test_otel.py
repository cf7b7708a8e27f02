"""Spans and metrics of OpenTelemetry, as its own exporters in memory have them."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.metrics import Counter, Histogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tradesdk import (
    AsyncChainWitness,
    AsyncMarketClient,
    AsyncSignalStream,
    AsyncTradeClient,
    AuthenticationError,
    Budget,
    Ledger,
    NotFoundError,
    PaymentError,
    PermissionDeniedError,
)
from tradesdk._async.purchase_driver import AsyncPurchaseDriver
from tradesdk._async.session import AsyncSession
from tradesdk._http import log_events
from tradesdk.otel import Instrumentor, instrument, uninstrument
from tradesdk_mock import MockService

from .._eventful import Stop
from .._flavour_async import at_once
from .._paidservice import BASE
from .._requirements import install
from .._rows import each_of
from ._market import buyer_of
from ._paidshop import Shop

pytestmark = pytest.mark.twin

KEY = "mock_full_telemetry"
DOCS = Path(__file__).parents[2] / "docs"


@dataclass
class Telemetry:
    """What was exported."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def points(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Of each metric, attributes and value; of a histogram, its sum."""
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        data: Any = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for metric in (one for scope in resource.scope_metrics for one in scope.metrics):
                for point in metric.data.data_points:
                    value = point.sum if hasattr(point, "sum") else point.value
                    found.setdefault(metric.name, []).append((dict(point.attributes), value))
        return found


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(tracer_provider=tracers, meter_provider=meters)
    yield Telemetry(exporter, reader)
    uninstrument()
    assert trace.get_current_span() is trace.INVALID_SPAN, "a span stays the current one"
    meters.shutdown()
    tracers.shutdown()


def client_of(mock: MockService, **options: Any) -> AsyncTradeClient:
    http = httpx.AsyncClient(transport=mock.transport())
    settings: dict[str, Any] = {"api_key": KEY, "base_url": mock.url, "clock": mock.clock, "http_client": http}
    return AsyncTradeClient(**settings | options)


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


async def test_a_call(mock: MockService, telemetry: Telemetry) -> None:
    client = client_of(mock)
    await client.account.get()
    span = telemetry.spans["GET /v1/account"]
    assert span.kind.name == "CLIENT"
    assert span.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "server.address": "localhost",
        "server.port": 80,
        "url.full": f"{mock.url}/v1/account",
        "url.template": "/v1/account",
    }
    assert span.status.is_unset
    points = telemetry.points
    known = {"http.request.method": "GET", "server.address": "localhost", "url.template": "/v1/account"}
    assert points["tradesdk.requests"] == [({**known, "outcome": "200"}, 1)]
    assert points["tradesdk.rate_limit.remaining"] == [({"server.address": "localhost"}, 299)]
    assert [attributes for attributes, _ in points["http.client.request.duration"]] == [
        {**known, "http.response.status_code": 200}
    ]


async def test_ids_are_no_names_and_secrets_are_nowhere(mock: MockService, telemetry: Telemetry) -> None:
    client = client_of(mock)
    with pytest.raises(NotFoundError):
        await client.agents.get("agt_unknown")
    await client.request("GET", "/v1/trades", query={"api_key": KEY, "note": KEY, "limit": 1})
    failed, asked = telemetry.exporter.get_finished_spans()
    assert failed.name == "GET /v1/agents/{id}"
    assert failed.status.status_code.name == "ERROR"
    assert failed.attributes is not None
    assert (failed.attributes["error.type"], failed.attributes["tradesdk.error.code"]) == ("404", "not_found")
    assert not failed.events, "no text of the service's"
    assert asked.attributes is not None
    assert asked.attributes["url.full"] == f"{mock.url}/v1/trades?api_key=REDACTED&note=****&limit=1"
    assert KEY not in failed.to_json() + asked.to_json()


async def test_retries_and_waits(mock: MockService, telemetry: Telemetry) -> None:
    client = client_of(mock)
    mock.add_fault("status", status=503, count=2)
    began = mock.clock.monotonic()
    await client.account.get()
    waited = mock.clock.monotonic() - began
    (span,) = telemetry.exporter.get_finished_spans()
    assert events(span) == ["retry", "retry"]
    assert span.attributes is not None
    assert span.attributes["http.request.resend_count"] == 2
    assert span.attributes["tradesdk.wait_seconds"] == pytest.approx(waited)
    assert span.attributes["http.response.status_code"] == 200
    assert sorted(count for _, count in telemetry.points["tradesdk.requests"]) == [1, 2]
    assert telemetry.points["tradesdk.wait.duration"] == [({"reason": "retry"}, pytest.approx(waited))]
    assert sum(seconds for _, seconds in telemetry.points["http.client.request.duration"]) < 1


async def test_a_purchase(mock: MockService, telemetry: Telemetry) -> None:
    client = buyer_of(mock)
    bought = await client.token_prices(["ETH"])
    again = await client.token_prices(["ETH"], purchase="named")
    assert bought.payment is not None
    assert again.payment is not None
    offered, paid, purchase = telemetry.exporter.get_finished_spans()[:3]
    assert [span.name for span in (offered, paid)] == ["POST /v1/token-prices"] * 2
    assert purchase.name == "purchase /v1/token-prices"
    assert offered.status.is_unset, "an offer is no error"
    assert offered.parent == paid.parent == purchase.context
    assert events(purchase) == ["quote", "sign", "recipient_remembered"]
    assert purchase.attributes == {
        "url.path": "/v1/token-prices",
        "tradesdk.purchase.outcome": "delivered",
        "tradesdk.payment.id": bought.payment.id,
        "tradesdk.payment.amount_usd": 0.03,
        "tradesdk.payment.charged": "True",
    }
    points = telemetry.points
    assert points["tradesdk.purchases"] == [({"url.path": "/v1/token-prices", "outcome": "delivered"}, 2)]
    money = {name: [value for _, value in points[f"tradesdk.money.{name}"]] for name in ("spent", "held", "left")}
    assert money == {"spent": [0.06], "held": [0.0], "left": [4.94]}
    told = "".join(span.to_json() for span in telemetry.exporter.get_finished_spans())
    assert bought.payment.nonce not in told
    assert "signature" not in told.lower()


async def test_a_payment_that_is_resent_and_one_that_fails(telemetry: Telemetry) -> None:
    shop = Shop(["lost before"])
    await shop.buy()
    purchase = telemetry.spans["purchase /v1/token-prices"]
    assert events(purchase) == ["quote", "sign", "recipient_remembered", "payment_resent"]
    assert purchase.attributes is not None
    assert purchase.attributes["tradesdk.wait_seconds"] == pytest.approx(shop.clock.waits[0])
    sent = [span.attributes or {} for span in telemetry.exporter.get_finished_spans()[1:3]]
    assert [one.get("http.request.resend_count") for one in sent] == [None, 1]
    assert [one.get("error.type") for one in sent] == ["timeout", None]
    shop = Shop(["insufficient_funds"])
    with pytest.raises(PaymentError) as refused:
        await shop.buy()
    purchase = telemetry.spans["purchase /v1/token-prices"]
    assert purchase.attributes is not None
    assert purchase.attributes["error.type"] == purchase.attributes["tradesdk.purchase.outcome"] == refused.value.code


async def test_a_stream(mock: MockService, telemetry: Telemetry) -> None:
    """A span for each connection; what happened between them belongs to the one before."""
    start = mock.clock.now()
    for at in (2, 3, 30, 31):
        mock.emit_signal(at=start + at)
    mock.add_fault("drop", route="/v1/signals/stream", after=2, count=1)
    client = client_of(mock)
    async with client.signals.stream(chain=8453) as stream:
        for _ in range(4):
            await anext(stream)
        assert len(connections(telemetry)) == 1
    first, second = connections(telemetry)
    assert events(first) == ["stream_connected", "stream_disconnected"]
    assert events(second) == ["stream_connected"]
    assert second.attributes is not None
    assert second.attributes["tradesdk.stream.signals"] == 4
    assert second.attributes["tradesdk.stream.gaps"] == 0
    assert second.attributes["tradesdk.chain"] == 8453
    points = telemetry.points
    assert [attributes for attributes, _ in points["tradesdk.stream.lag"]] == [{"tradesdk.chain": 8453}]
    assert [attributes for attributes, _ in points["tradesdk.wait.duration"]] == [{"reason": "stream_disconnected"}]


def connections(telemetry: Telemetry) -> list[ReadableSpan]:
    return [span for span in telemetry.exporter.get_finished_spans() if span.name == "GET /v1/signals/stream"]


async def test_refused_connections_of_a_stream(mock: MockService, telemetry: Telemetry) -> None:
    """Each has a span with its error, also the first one of a stream that never opens."""
    client = client_of(mock)
    mock.add_fault("status", status=503, route="/v1/signals/stream", count=1)
    mock.add_fault("status", status=403, route="/v1/signals/stream", count=1)
    with pytest.raises(PermissionDeniedError):
        async with client.signals.stream(chain=8453):
            pass
    assert [span.status.status_code.name for span in connections(telemetry)] == ["ERROR"] * 2
    assert [dict(span.attributes or {})["error.type"] for span in connections(telemetry)] == ["503", "403"]
    telemetry.exporter.clear()
    start = mock.clock.now()
    mock.emit_signal(at=start + 2)
    mock.add_fault("drop", route="/v1/signals/stream", after=1, count=1)
    async with client.signals.stream(chain=8453) as stream:
        await anext(stream)
        mock.add_fault("status", status=503, route="/v1/signals/stream", count=1)
        mock.add_fault("status", status=401, route="/v1/signals/stream", count=1)
        with pytest.raises(AuthenticationError):
            await anext(stream)
        assert len(connections(telemetry)) == 3, "an error that ends the stream ends the span"
    kinds = [dict(span.attributes or {}).get("error.type") for span in connections(telemetry)]
    assert kinds == [None, "503", "401"]


async def test_a_stream_that_is_closed_has_not_failed(mock: MockService, telemetry: Telemetry) -> None:
    start = mock.clock.now()
    for at in range(1, 9):
        mock.emit_signal(at=start + at)
    tracer = trace.get_tracer("bot", tracer_provider=TracerProvider(shutdown_on_exit=False))
    with tracer.start_as_current_span("bot") as bot:
        async with client_of(mock).signals.stream(chain=8453) as stream:
            async for _ in stream:
                assert trace.get_current_span() is bot
                await stream.aclose()
    (span,) = connections(telemetry)
    assert span.status.is_unset
    assert span.parent == bot.get_span_context()


async def test_a_stream_outlasts_the_measuring(mock: MockService, telemetry: Telemetry) -> None:
    """Its span ends with `uninstrument`, and its next connection is measured by the next `instrument`."""
    start = mock.clock.now()
    for at in (2, 4, 60, 62):
        mock.emit_signal(at=start + at)
    mock.add_fault("drop", route="/v1/signals/stream", after=2, count=1)
    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    async with client_of(mock).signals.stream(chain=8453) as stream:
        await anext(stream)
        uninstrument()
        assert len(connections(telemetry)) == 1
        await anext(stream)
        instrument(tracer_provider=tracers)
        await anext(stream)
        uninstrument()
        await anext(stream)
    assert len(connections(telemetry)) == 1
    assert [(span.name, events(span)) for span in exporter.get_finished_spans()] == [
        ("GET /v1/signals/stream", ["stream_connected"])
    ]


async def test_what_ends_a_call_from_outside_ends_its_spans(mock: MockService, telemetry: Telemetry) -> None:
    def stopped(request: httpx.Request) -> httpx.Response:
        if "payment-signature" in request.headers or request.method == "GET":
            raise Stop
        return service(request)

    service = Shop([]).service.handle
    http = httpx.AsyncClient(transport=httpx.MockTransport(stopped))
    with pytest.raises(Stop):
        await client_of(mock, http_client=http).account.get()
    with pytest.raises(Stop):
        await buyer_of(mock, base_url=BASE, http_client=http).token_prices(["ETH"])
    call, _, submission, purchase = telemetry.exporter.get_finished_spans()
    for span in (call, submission, purchase):
        assert span.status.status_code.name == "ERROR"
        assert dict(span.attributes or {})["error.type"] == "Stop"
    assert dict(purchase.attributes or {})["tradesdk.purchase.outcome"] == "canceled"
    outcomes = [by["outcome"] for by, _ in telemetry.points["tradesdk.requests"]]
    assert sorted(outcomes) == ["402", "canceled", "canceled"]


async def test_calls_at_once_have_their_own_parents(mock: MockService, telemetry: Telemetry) -> None:
    tracer = trace.get_tracer("bot", tracer_provider=TracerProvider(shutdown_on_exit=False))
    parents: dict[str, int] = {}

    async def one(name: str) -> None:
        with tracer.start_as_current_span(name) as span:
            parents[name] = span.get_span_context().span_id
            await buyer_of(mock).token_prices(["ETH"], purchase=name)
            assert trace.get_current_span() is span

    await at_once([partial(one, name) for name in ("a", "b", "c")])
    spans = telemetry.exporter.get_finished_spans()
    purchases = [span for span in spans if span.name.startswith("purchase")]
    assert {span.parent.span_id for span in purchases if span.parent} == set(parents.values())
    for purchase in purchases:
        calls = [span for span in spans if span.parent == purchase.context]
        assert [dict(span.attributes or {})["http.response.status_code"] for span in calls] == [402, 200]


async def test_a_refused_submission_has_failed(telemetry: Telemetry) -> None:
    shop = Shop(["insufficient_funds"])
    with pytest.raises(PaymentError):
        await shop.buy()
    offered, submitted, _ = telemetry.exporter.get_finished_spans()
    assert (offered.status.is_unset, submitted.status.status_code.name) == (True, "ERROR")
    assert dict(submitted.attributes or {})["error.type"] == "402"


async def test_money_is_told_apart_by_ledger_and_budget(mock: MockService, telemetry: Telemetry) -> None:
    shared = Ledger.memory()
    clients = [
        buyer_of(mock, ledger=ledger, budget=Budget(total=total))
        for ledger, total in ((shared, "1"), (shared, "5"), (Ledger.memory(), "1"))
    ]
    for client in clients:
        await client.token_prices(["ETH"])
    one, other = "<Ledger in memory 1>", "<Ledger in memory 2>"
    points = telemetry.points
    for name, of_one, of_other in (("spent", 0.06, 0.03), ("held", 0.0, 0.0)):
        found = {by["tradesdk.ledger"]: usd for by, usd in points[f"tradesdk.money.{name}"]}
        assert found == {one: of_one, other: of_other}
        assert all(list(by) == ["tradesdk.ledger"] for by, _ in points[f"tradesdk.money.{name}"])
    left = {(by["tradesdk.ledger"], by["tradesdk.budget"]): usd for by, usd in points["tradesdk.money.left"]}
    assert left == {
        (one, "Budget(total='1')"): 0.94,
        (one, "Budget(total='5')"): 4.94,
        (other, "Budget(total='1')"): 0.97,
    }


async def test_gaps_are_counted(mock: MockService, telemetry: Telemetry) -> None:
    start = mock.clock.now()
    mock.emit_signal(at=start + 2)
    mock.emit_signal(at=start + 900)
    mock.add_fault("drop", route="/v1/signals/stream", after=1, count=1)
    client = client_of(mock)
    async with client.signals.stream(chain=8453, recovery_timeout=5) as stream:
        await anext(stream)
        mock.add_fault("status", status=503, route="/v1/signals/history", until=start + 800)
        await anext(stream)
    assert telemetry.points["tradesdk.stream.gaps"] == [({"tradesdk.chain": 8453}, 1)]
    assert "stream_gap" in {name for span in connections(telemetry) for name in events(span)}


async def test_off_is_as_before(mock: MockService, telemetry: Telemetry) -> None:
    """No class is changed at any time; a second `instrument` changes nothing; after `uninstrument`, nothing is told."""
    methods = {**vars(AsyncSession), **vars(AsyncPurchaseDriver), **vars(AsyncSignalStream)}
    instrument(tracer_provider=TracerProvider(shutdown_on_exit=False))
    await client_of(mock).account.get()
    assert len(telemetry.exporter.get_finished_spans()) == 1
    assert {**vars(AsyncSession), **vars(AsyncPurchaseDriver), **vars(AsyncSignalStream)} == methods
    uninstrument()
    uninstrument()
    assert log_events.listener is None
    await client_of(mock).account.get()
    assert len(telemetry.exporter.get_finished_spans()) == 1


async def test_the_log_shows_what_it_showed(
    mock: MockService, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    mock.add_fault("status", status=503, count=1)
    client = client_of(mock)
    await client.account.get()
    async with client.signals.stream(chain=8453):
        pass
    assert [vars(record)["event"] for record in caplog.records] == ["retry"]


@each_of("level", [logging.DEBUG, logging.ERROR])
async def test_the_level_of_the_log_stays_its_own(
    mock: MockService, telemetry: Telemetry, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    """Events are noted whatever the log shows, and it shows what it is set to."""
    caplog.set_level(level, "tradesdk")
    mock.add_fault("status", status=503, count=1)
    await client_of(mock).account.get()
    assert events(telemetry.spans["GET /v1/account"]) == ["retry"]
    shown = [vars(record)["event"] for record in caplog.records]
    assert shown == (["request_answered", "retry", "request_answered"] if level == logging.DEBUG else [])
    uninstrument()
    assert logging.getLogger("tradesdk").level == level


class Broken(SpanProcessor):
    """One that raises for spans whose names begin so."""

    def __init__(self, at: str, name: str) -> None:
        self.at, self.name = at, name

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._fail("start", span)

    def on_end(self, span: ReadableSpan) -> None:
        self._fail("end", span)

    def _fail(self, at: str, span: Any) -> None:
        if self.at == at and span.name.startswith(self.name):
            raise RuntimeError("the processor is broken")


@each_of("at", ["start", "end"])
@each_of("name", ["purchase", "POST"])
async def test_what_fails_in_telemetry_changes_no_purchase(
    mock: MockService, caplog: pytest.LogCaptureFixture, at: str, name: str
) -> None:
    """What was paid for reaches its caller, and an error stays the error that it is."""
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(Broken(at, name))
    instrument(tracer_provider=tracers)
    try:
        result = await buyer_of(mock).token_prices(["ETH"])
        with pytest.raises(PaymentError) as refused:
            await buyer_of(mock, budget=Budget(total="0.01")).token_prices(["ETH"])
    finally:
        uninstrument()
    assert result.charged is True
    assert refused.value.code == "over_budget"
    assert "telemetry failed: RuntimeError" in caplog.messages


async def test_a_broken_meter_changes_no_purchase(mock: MockService, telemetry: Telemetry) -> None:
    def add(*_: Any) -> None:
        raise RuntimeError("the meter is broken")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opentelemetry.sdk.metrics._internal.instrument.Counter.add", add)
        mock.add_fault("status", status=503, count=1)
        assert (await buyer_of(mock).token_prices(["ETH"])).charged is True


async def test_money_is_told_of_after_a_second_start(mock: MockService) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    client = buyer_of(mock)
    for name in ("first", "second"):
        instrument(meter_provider=meters)
        await client.token_prices(["ETH"], purchase=name)
        assert "tradesdk.money.spent" in Telemetry(InMemorySpanExporter(), reader).points
        uninstrument()
        assert "tradesdk.money.spent" not in Telemetry(InMemorySpanExporter(), reader).points
    meters.shutdown()


async def test_a_node_of_the_chain_gets_no_context_and_its_url_is_nowhere(mock: MockService) -> None:
    sent: list[httpx.Headers] = []

    async def seen(request: httpx.Request) -> None:
        sent.append(request.headers)

    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(tracer_provider=tracers, propagate=True)
    http = httpx.AsyncClient(transport=mock.transport(), event_hooks={"request": [seen]})
    witness = AsyncChainWitness(f"{mock.rpc_url}/{KEY}", clock=mock.clock, http_client=http)
    client = buyer_of(mock, witness=witness)  # it asks for the balance during a purchase
    payment = (await client.token_prices(["ETH"])).payment
    assert payment is not None
    assert sent
    with tracers.get_tracer("bot").start_as_current_span("outer"):
        await witness.check(payment)
    uninstrument()
    assert sent
    assert not any("traceparent" in headers for headers in sent)
    assert KEY not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_without_the_package_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None\nimport tradesdk.otel"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "missing_package" in done.stderr
    assert install("opentelemetry-api") in done.stderr


async def test_context_is_sent_only_when_asked_for(mock: MockService) -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    for propagate in (False, True):
        sent: list[httpx.Headers] = []

        async def seen(request: httpx.Request, sent: list[httpx.Headers] = sent) -> None:
            sent.append(request.headers)

        http = httpx.AsyncClient(transport=mock.transport(), event_hooks={"request": [seen]})
        instrument(tracer_provider=tracers, propagate=propagate)
        account = client_of(mock, http_client=http)
        await account.account.get()
        client: AsyncMarketClient = buyer_of(mock, http_client=http)
        await client.token_prices(["ETH"], purchase=str(propagate))
        async with account.signals.stream(chain=8453):
            pass
        uninstrument()
        get, offer, paid, *_, stream = sent
        assert ["traceparent" in headers for headers in (get, offer, stream)] == [propagate] * 3
        assert "payment-signature" in paid
        assert "traceparent" not in paid, "the bytes of a payment stay the same"


class Named(NoOpMeter):
    """Notes what Prometheus calls the instruments that are made."""

    def __init__(self) -> None:
        super().__init__("named")
        self.names: set[str] = set()

    def _note(self, name: str, unit: str, *endings: str) -> None:
        called = name.replace(".", "_") + {"s": "_seconds"}.get(unit, "")
        self.names |= {called + ending for ending in endings or ("",)}

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        self._note(name, unit, "_total")
        return super().create_counter(name, unit, description)

    def create_histogram(self, name: str, unit: str = "", description: str = "", **options: Any) -> Histogram:
        self._note(name, unit, "_bucket", "_sum")
        return super().create_histogram(name, unit, description, **options)

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Any:
        self._note(name, unit)
        return super().create_gauge(name, unit, description)

    def create_observable_gauge(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        self._note(name, unit)
        return super().create_observable_gauge(name, callbacks, unit, description)


def test_the_dashboard_and_the_page_show_every_metric_and_no_other() -> None:
    meter = Named()

    class Meters(NoOpMeterProvider):
        def get_meter(self, *_: Any, **__: Any) -> Named:
            return meter

    instrument(meter_provider=Meters())
    uninstrument()
    dashboard = json.loads((DOCS / "assets/grafana-tradesdk.json").read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    shown = set(re.findall(r"\b(?:tradesdk|http)_(?!chain|ledger|budget)\w+", queries))
    assert shown <= meter.names
    assert {re.sub("_(bucket|sum)$", "", name) for name in shown} == {
        re.sub("_(bucket|sum)$", "", name) for name in meter.names
    }
    page = (DOCS / "telemetry.md").read_text()
    table = page.partition("## Metrics")[2].partition("## A bot")[0]
    named = set(re.findall(r"^\| `([a-z._]+)`", table, re.MULTILINE))
    assert len(named) == 9, "spent and held stand in one row"


async def test_the_starter_finds_it(mock: MockService) -> None:
    from importlib.metadata import entry_points

    (found,) = entry_points(group="opentelemetry_instrumentor", name="tradesdk")
    assert found.load() is Instrumentor
    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    for number in (1, 2):
        Instrumentor().instrument(tracer_provider=tracers, skip_dep_check=True)
        await client_of(mock).account.get()
        Instrumentor().uninstrument()
        await client_of(mock).account.get()
        assert len(exporter.get_finished_spans()) == number
