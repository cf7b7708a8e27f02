"""Spans of what is canceled, or closed from another task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tradesdk import AsyncTradeClient
from tradesdk.otel import instrument, uninstrument

from .._answers import BASE, KEY, page
from .._clock import VirtualClock


class Silent(httpx.AsyncByteStream):
    """A body that never comes."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await anyio.sleep_forever()
        yield b""


async def silent(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/history"):
        return httpx.Response(200, json={"signals": [], "next_cursor": None, **page([])})
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Silent())


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(tracer_provider=tracers)
    yield exporter
    uninstrument()
    tracers.shutdown()


def client_of() -> AsyncTradeClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(silent))
    return AsyncTradeClient(api_key=KEY, base_url=BASE, http_client=http, clock=VirtualClock())


def failure(span: ReadableSpan) -> object:
    return dict(span.attributes or {}).get("error.type")


async def test_a_canceled_call_ends_its_span(spans: InMemorySpanExporter) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(client_of().account.get)
        await anyio.wait_all_tasks_blocked()
        assert not spans.get_finished_spans()
        group.cancel_scope.cancel()
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert failure(span) in ("CancelledError", "Cancelled")


async def test_a_canceled_read_ends_the_span_of_the_connection(spans: InMemorySpanExporter) -> None:
    async with client_of().signals.stream(chain=8453) as stream:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(stream)
        (span,) = spans.get_finished_spans()
        assert failure(span) in ("CancelledError", "Cancelled")
    assert len(spans.get_finished_spans()) == 1


async def test_closing_from_another_task_is_no_error(spans: InMemorySpanExporter) -> None:
    read: list[object] = []
    async with client_of().signals.stream(chain=8453) as stream, anyio.create_task_group() as group:

        async def consume() -> None:
            async for signal in stream:
                read.append(signal)
            read.append("end")

        group.start_soon(consume)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
    assert read == ["end"]
    (span,) = spans.get_finished_spans()
    assert span.name == "GET /v1/signals/stream"
    assert span.status.is_unset
