"""Every kind of fault: that each has its tests, and that clients of both sorts get the same of it, every time."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer, fault_kinds
from tradesdk_mock.control.service import MockService

from ._faulty import ASK, CARRIERS, STREAM, carried, connect, emit
from ._paying import pay
from ._support import _TLS, FULL, START

PATH = "/v1/account"
EVENTS = 12
CLEAN: dict[str, Any] = {"after": EVENTS - 4, "how": "clean"}

# Of each kind at least one rule. Those of the stream leave an end to it, so that it can be read to there.
RULES: list[tuple[str, dict[str, Any]]] = [
    ("latency", {"seconds": 0.001, "jitter": 0.01}),
    ("latency", {"seconds": 60}),
    ("status", {"status": 503, "retry_after": 2}),
    ("reset", {}),
    ("reset", {"after": 5}),
    ("truncate", {"after": 5}),
    ("bad_chunk", {}),
    ("body", {"base64": base64.b64encode(b"\xff" * 9).decode(), "headers": {"x-a": "b"}}),
    ("malformed_json", {}),
    ("content_type", {}),
    ("huge_body", {"mib": 0.5}),
    ("drip", {"piece": 40, "seconds": 0.001}),
    ("drip", {"seconds": 60}),
    ("drop", {"after": 3, "how": "reset"}),
    ("half_event", {"after": 2}),
    ("half_event", {"after": 2, "at": "character", "how": "reset"}),
    ("silence", {"after": 3, "seconds": 0}),
    ("silence", {"after": 3}),
    ("skip", {"each": 3}),
    ("duplicate", {"share": 0.5}),
    ("reorder", {"window": 4}),
    ("garbage", {"share": 0.5}),
    ("inject", {"after": 3, "text": "data: {\n\n"}),
    ("bom", {}),
    ("line_endings", {"style": "mixed"}),
    ("split_utf8", {}),
    ("offer", {"fields": {"amount": "1"}, "top": {"note": "x"}}),
    ("offer", {"header": "e30=", "body": "{}"}),
    ("overlook", {"charged": True}),
    ("verification", {"reason": "invalid_network"}),
    ("settlement", {"reason": "settlement_pending"}),
    ("receipt", {"fields": {"payer": None}}),
]
ON = {kind.name: kind.on for kind in fault_kinds()}


def test_every_kind_has_a_test_over_sockets_and_in_process() -> None:
    files = [file.read_text() for file in Path(__file__).parent.glob("test_fault*.py")]
    both = "".join(text for text in files if "@pytest.fixture(params=CARRIERS)\ndef mock(" in text)
    shown = set(re.findall(r"(?m)^def test_(\w+)\(\s*mock: MockService", both))
    assert set(ON) - shown == set()


def test_every_kind_is_played_here() -> None:
    assert {kind for kind, _ in RULES} == set(ON)


Seen = tuple[int, list[tuple[str, str]], bytes, str]


def begin(mock: MockService, kind: str, given: dict[str, Any]) -> None:
    mock.add_fault(kind, **given)
    if ON[kind] == "stream":
        mock.add_fault("drop", **CLEAN)


def target(mock: MockService, kind: str) -> tuple[str, str, dict[str, Any]]:
    """Method, path and options of a request that this kind is about."""
    if ON[kind] == "payment":
        # The plain offer of this world: what the fault asks for instead is none of this test's business.
        accepts = [
            {
                "scheme": "exact",
                "network": "eip155:8453",
                "amount": "30000",
                "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
                "payTo": mock.payments.pay_to,
                "maxTimeoutSeconds": 60,
                "extra": {"name": "USD Coin", "version": "2"},
            }
        ]
        offer = {"x402Version": 2, "accepts": accepts, "resource": {"url": mock.url}}
        headers = {**pay(offer, START, 1), "host": "localhost"}
        return "POST", "/v1/token-prices", {"json": {"tokens": [{"identifier": "BRETT"}]}, "headers": headers}
    return ("GET", STREAM, {"params": ASK}) if ON[kind] == "stream" else ("GET", PATH, {})


def read(carrier: str, kind: str, given: dict[str, Any]) -> Seen:
    """What a blocking client sees, and how it ends."""
    with carried(carrier) as mock, connect(mock, read_timeout=0.5) as http:
        begin(mock, kind, given)
        method, path, options = target(mock, kind)
        came, head = bytearray(), (0, list[tuple[str, str]]())
        try:
            with http.stream(method, path, **options) as answer:
                head = answer.status_code, answer.headers.multi_items()
                if ON[kind] == "stream":
                    emit(mock, EVENTS)
                for piece in answer.iter_raw():
                    came += piece
        except httpx.TransportError as failure:
            return *head, bytes(came), repr(failure)
        assert kind in mock.journal()[-1].faults
        return *head, bytes(came), "end"


async def read_async(carrier: str, kind: str, given: dict[str, Any]) -> Seen:
    """The same, for an async one."""
    with carried(carrier) as mock:
        begin(mock, kind, given)
        method, path, options = target(mock, kind)
        came, head = bytearray(), (0, list[tuple[str, str]]())
        transport = None if isinstance(mock, MockServer) else mock.transport()
        async with httpx.AsyncClient(
            base_url=mock.url,
            headers={"Authorization": f"Bearer {FULL}"},
            transport=transport,
            verify=_TLS,
            trust_env=False,
            timeout=httpx.Timeout(30, read=0.5),
        ) as http:
            try:
                async with http.stream(method, path, **options) as answer:
                    head = answer.status_code, answer.headers.multi_items()
                    if ON[kind] == "stream":
                        emit(mock, EVENTS)
                    async for piece in answer.aiter_raw():
                        came += piece
            except httpx.TransportError as failure:
                return *head, bytes(came), repr(failure)
        return *head, bytes(came), "end"


# One library will do most of the time: nothing of the service's is awaited in it.
@pytest.mark.parametrize("anyio_backend", ["asyncio", pytest.param("trio", marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "given"), RULES, ids=[f"{n}-{kind}" for n, (kind, _) in enumerate(RULES)])
async def test_clients_of_both_sorts_see_the_same_every_time(kind: str, given: dict[str, Any]) -> None:
    first = read(CARRIERS[1], kind, given)
    assert first[0] or first[3] != "end"
    assert read(CARRIERS[1], kind, given) == first
    assert await read_async(CARRIERS[1], kind, given) == first
    status, headers, content, ended = first
    for over_sockets in (read(CARRIERS[0], kind, given), await read_async(CARRIERS[0], kind, given)):
        assert over_sockets[0] == status
        assert sorted(over_sockets[1]) == sorted(headers)
        assert over_sockets[2] == content
        assert over_sockets[3].partition("(")[0] == ended.partition("(")[0]


def test_pauses_are_the_same_every_time() -> None:
    """Where the clock stands still, time passes in process as the pauses say."""

    def play(seed: int) -> list[float]:
        times = []
        with carried(CARRIERS[1], seed=seed) as mock, connect(mock, read_timeout=3_000) as http:
            mock.add_fault("latency", seconds=1, jitter=9)
            mock.add_fault("drip", piece=20, seconds=3)
            mock.add_fault("silence", after=1, seconds=40, comments=7)
            mock.add_fault("drop", after=3, how="clean")
            for path, query in ((PATH, {}), (STREAM, ASK)) * 3:
                with http.stream("GET", path, params=query) as answer:
                    emit(mock, 4)
                    for _ in answer.iter_raw():
                        times.append(mock.clock.now() - START)
        return times

    assert play(7) == play(7)
    assert play(7) != play(8)
    assert len(set(play(7))) > 30
