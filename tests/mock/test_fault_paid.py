"""Other faults on a request that pays: the money is taken or not, and the same payment comes again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._buyer import URL, USED, VERSIONS, Buyer, books, reason
from ._faulty import CARRIERS, carried, connect
from ._paying import PAYER, Json
from ._shop import PRICE
from ._support import START


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock, None, read_timeout=2) as made:
        yield made


SETTLED: list[tuple[str, Json, int]] = [
    ("reset", {"executed": True}, 0),
    ("reset", {"after": 20}, 200),
    ("status", {"executed": True, "status": 500}, 500),
    ("status", {"executed": True, "status": 503, "retry_after": 1}, 503),
    ("status", {"executed": True, "status": 404}, 404),
    ("truncate", {"after": 20}, 200),
    ("bad_chunk", {}, 200),
    ("malformed_json", {}, 200),
    ("body", {"text": "<html>"}, 200),
    ("body", {"text": ""}, 200),
    ("content_type", {}, 200),
]


@VERSIONS
@pytest.mark.parametrize(("kind", "parameters", "delivered"), SETTLED, ids=[f"{k}-{s}" for k, _, s in SETTLED])
def test_settled_and_then(
    mock: MockService, http: httpx.Client, version: int, kind: str, parameters: Json, delivered: int
) -> None:
    """The money is taken, and the data doesn't arrive whole. The same payment again gets nothing, and pays nothing."""
    mock.add_fault(kind, route=URL, paid="only", count=1, **parameters)
    buyer = Buyer(http, version)
    try:
        answer = buyer.pay()
        if kind == "status":
            assert answer.status_code == delivered
            assert buyer.receipt(answer) is None
        else:
            receipt = buyer.receipt(answer)
            assert receipt is not None
            assert receipt["success"] is True
    except httpx.TransportError:
        assert kind in ("reset", "truncate", "bad_chunk")
    assert books(mock) == [(PRICE, 1, delivered)]
    assert reason(buyer.pay()) == USED
    assert books(mock) == [(PRICE, 2, delivered)]
    mock.payments.assert_not_charged_twice()


LOST: list[tuple[str, Json, int]] = [
    ("reset", {}, 0),
    ("status", {"status": 500}, 500),
    ("status", {"status": 503}, 503),
    ("status", {"status": 429}, 429),
    ("status", {"status": 402}, 402),
]


@VERSIONS
@pytest.mark.parametrize(("kind", "parameters", "status"), LOST, ids=[f"{k}-{s}" for k, _, s in LOST])
def test_lost_before_anybody_looked(
    mock: MockService, http: httpx.Client, version: int, kind: str, parameters: Json, status: int
) -> None:
    mock.add_fault(kind, paid="only", count=1, **parameters)
    buyer = Buyer(http, version)
    try:
        assert buyer.pay().status_code == status
    except httpx.ReadError:
        assert kind == "reset"
    mock.payments.assert_not_charged()
    (arrived,) = mock.payments.presentations()
    assert (arrived.verdict, arrived.status, arrived.payer) == ("not carried out", status, PAYER.address)
    assert buyer.pay().status_code == 200
    assert mock.payments.signatures() == 1
    assert books(mock) == [(PRICE, 2, 200)]


def test_settled_and_then_nothing_for_long(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("latency", paid="only", seconds=60, count=1)
    buyer = Buyer(http)
    http.timeout = 0.3
    with pytest.raises(httpx.ReadTimeout):
        buyer.pay()
    http.timeout = 30
    assert books(mock) == [(PRICE, 1, 200)]
    mock.clock.set(START, allow_backwards=True)
    assert reason(buyer.pay()) == USED


def test_a_slow_settlement(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("latency", paid="only", seconds=0.05)
    buyer = Buyer(http)
    assert buyer.pay().status_code == 200
    assert mock.journal()[-1].faults == ("latency",)
