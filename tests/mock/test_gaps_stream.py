"""What is not written about the stream: the default and every other value of the option. More of it in test_stream."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._support import START, events, in_process


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A scripted market in a time that stands still: waiting for an event moves it on."""
    with MockService(clock=MockClock(START), signals="scripted") as service:
        yield service


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with in_process(mock) as made:
        yield made


@pytest.mark.parametrize("seconds", [15, 1, 60])
def test_heartbeat(mock: MockService, http: httpx.Client, seconds: int) -> None:
    mock.set_gaps(heartbeat=seconds)
    beats = [event.data for event in events(http, 3, timeout=100)]
    assert beats == [{"type": "heartbeat", "timestamp": START + n * seconds} for n in (1, 2, 3)]


def test_no_heartbeat(mock: MockService, http: httpx.Client) -> None:
    mock.set_gaps(heartbeat=0)
    mock.emit_signal(at=START + 80_000)
    with pytest.raises(httpx.ReadTimeout):
        events(http, 1, timeout=79_000)
    assert mock.clock.now() == START + 79_000
    assert [event.data["type"] for event in events(http, 1, timeout=79_000)] == ["signal"]


def test_a_heartbeat_that_is_changed_holds_for_open_streams(mock: MockService, http: httpx.Client) -> None:
    with http.stream("GET", "/v1/signals/stream?chain=8453", timeout=100) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert next(lines).endswith(f"{START + 15}}}")
        mock.set_gaps(heartbeat=1)
        assert next(lines).endswith(f"{START + 16}}}")


@pytest.mark.parametrize("value", ["none", "ids"])
def test_resume(mock: MockService, http: httpx.Client, value: str) -> None:
    mock.set_gaps(resume=value)
    for n in range(4):
        mock.emit_signal(at=START + 1 + n)
    first, *rest = events(http, 4)
    assert [event.id for event in (first, *rest)] == [
        event.data["id"] if value == "ids" else None for event in (first, *rest)
    ]
    mock.emit_signal(chain_id=56)
    latest = mock.emit_signal(at=START + 10)
    resumed = {"Last-Event-ID": first.data["id"]}
    missed = [event.data["id"] for event in rest] if value == "ids" else []
    got = [event.data["id"] for event in events(http, len(missed) + 1, headers=resumed)]
    assert got == [*missed, latest.id]
    # An id that nobody gave out, in whatever bytes, says nothing.
    for odd in ("sig_unknown", "' OR 1=1", "\xff"):
        coming = mock.emit_signal(at=mock.clock.now() + 10)
        (event,) = events(http, 1, headers={"Last-Event-ID": odd.encode("latin-1")})
        assert event.data["id"] == coming.id


@pytest.mark.parametrize("value", ["none", "honoured"])
def test_stream_filter(mock: MockService, http: httpx.Client, value: str) -> None:
    mock.set_gaps(stream_filter=value)
    for n, confidence in enumerate((0.2, 0.75, 0.749, 0.9)):
        mock.emit_signal(at=START + 1 + n, confidence=confidence)
    kept = [0.75, 0.9] if value == "honoured" else [0.2, 0.75, 0.749, 0.9]
    seen = events(http, len(kept), min_confidence="0.75")
    assert [event.data["confidence"] for event in seen] == kept
    wrong = http.get("/v1/signals/stream?chain=8453&min_confidence=2", timeout=1) if value == "honoured" else None
    assert wrong is None or wrong.status_code == 422
