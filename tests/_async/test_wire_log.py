"""The log of requests and answers: what a client puts there when it is asked for, and that it is off otherwise."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk import APIConnectionError
from tradesdk_mock import MockService

from .._answers import ACCOUNT, KEY, Service, failed, ok
from .._streamscript import StreamScript, live
from .._streamservice_plan import BACKEND
from ._client import client_of
from ._following import followed
from ._market import buyer_of

WIRE = "tradesdk.wire"


class Wire(logging.Handler):
    """What was logged: the fields, and all of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[dict[str, Any]] = []
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(vars(record)["wire"])
        self.text += record.getMessage() + json.dumps(self.said[-1])


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


@pytest.fixture
def wire() -> Iterator[Wire]:
    logger, kept = logging.getLogger(WIRE), Wire()
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    yield kept
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(kept)


def events(wire: Wire) -> list[tuple[str, Any]]:
    return [(said["event"], said.get("status")) for said in wire.said]


async def test_off_unless_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "tradesdk")
    await client_of(Service(ok(ACCOUNT))).account.get()
    assert not [record for record in caplog.records if record.name == WIRE], "bodies are for who asks for them"
    assert [record for record in caplog.records if record.name == "tradesdk"]


async def test_each_request_and_each_answer(wire: Wire) -> None:
    service = Service(failed(503, f"not now, {KEY}", retry_after="1"), ok(ACCOUNT, x_echo=KEY))
    await client_of(service).account.get()
    assert events(wire) == [("request", None), ("answer", 503), ("request", None), ("answer", 200)]
    sent = wire.said[0]
    assert (sent["method"], sent["headers"]["authorization"], sent["body"]) == ("GET", "****", None)
    assert json.loads(wire.said[3]["body"]) == ACCOUNT
    assert KEY not in wire.text


async def test_what_never_came(wire: Wire) -> None:
    with pytest.raises(APIConnectionError):
        await client_of(Service(httpx.ConnectError(f"refused {KEY}")), max_retries=0).account.get()
    assert events(wire) == [("request", None), ("failure", None)]
    assert KEY not in wire.text


async def test_both_legs_of_a_payment(wire: Wire) -> None:
    sent: list[str | None] = []

    async def look(request: httpx.Request) -> None:
        sent.append(request.headers.get("payment-signature"))

    with MockService(signals="scripted") as mock:
        http = httpx.AsyncClient(transport=mock.transport(), event_hooks={"request": [look]})
        await buyer_of(mock, http_client=http).token_prices(["ETH"])
    assert events(wire) == [("request", None), ("answer", 402), ("request", None), ("answer", 200)]
    asks, paid = wire.said[0]["headers"], wire.said[2]["headers"]
    assert {name: paid[name] for name in paid.keys() - asks.keys()} == {"payment-signature": "****"}
    header = sent[1]
    assert header is not None
    assert header not in wire.text
    assert json.loads(base64.b64decode(header))["payload"]["signature"] not in wire.text


def of_streams(wire: Wire) -> list[dict[str, Any]]:
    """The history is asked at the same time."""
    return [said for said in wire.said if "/stream" in said["url"]]


async def test_a_stream_and_what_is_none(wire: Wire) -> None:
    await followed(StreamScript([live("a", 1), live("end", 2)]))
    opening, opened = of_streams(wire)
    assert (opening["event"], opening["headers"]["accept"]) == ("request", "text/event-stream")
    assert (opened["event"], opened["status"], opened["body"]) == ("answer", 200, None)
    await followed(StreamScript(failed(403, f"not for {KEY}")))
    assert (of_streams(wire)[-1]["event"], of_streams(wire)[-1]["status"]) == ("answer", 403)
    assert "not for ****" in of_streams(wire)[-1]["body"]
    assert KEY not in wire.text
