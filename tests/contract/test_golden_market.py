"""The SDK's market data against JSON typed by hand from the specification: the requests, the answers, the failures."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

import tradesdk
from tradesdk import APIResponseError, APIStatusError, AsyncMarketClient, MarketClient, SignalRecord

from .._rows import each_of
from ._golden import Call, load
from ._market import DATA, FAILURES, MARKET_CALLS, market_records

BASE = "https://service.example"
SETTINGS: dict[str, Any] = {"base_url": BASE, "check_tokens": False, "max_retries": 0}


class Service:
    """Gives one answer without being paid, and keeps what was sent."""

    def __init__(self, body: Any, status: int = 200) -> None:
        self.body, self.status = body, status
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        return httpx.Response(self.status, json=self.body)

    def run(self, call: Call) -> Any:
        with (
            httpx.Client(transport=httpx.MockTransport(self)) as http,
            MarketClient(http_client=http, **SETTINGS) as client,
        ):
            return call.run(client)

    async def run_async(self, call: Call) -> Any:
        async with (
            httpx.AsyncClient(transport=httpx.MockTransport(self)) as http,
            AsyncMarketClient(http_client=http, **SETTINGS) as client,
        ):
            return await call.run(client)


def check(call: Call, service: Service, result: Any) -> None:
    (request,) = service.seen
    assert (request.method, str(request.url)) == (call.method, BASE + call.path)
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == call.body
    assert call.golden is not None
    assert type(result.data) is DATA[call.golden]
    assert json.dumps(result.data.model_dump(mode="json")) == json.dumps(service.body["data"])
    assert result.quote.path == call.path
    assert result.quote.tokens == (len(call.body["tokens"]) if "tokens" in call.body else None)


CALLS = pytest.mark.parametrize("call", MARKET_CALLS, ids=lambda call: call.name)


@pytest.mark.rule("market.paths", "market.results")
@CALLS
def test_blocking_calls_ask_and_read_what_is_specified(call: Call) -> None:
    service = Service(load(str(call.golden)))
    result = service.run(call)
    check(call, service, result)
    with MarketClient(**SETTINGS) as client:
        assert call.run(client.quote) == result.quote


@pytest.mark.rule("market.aggregate.body")
@CALLS
async def test_async_calls_ask_and_read_what_is_specified(call: Call) -> None:
    service = Service(load(str(call.golden)))
    result = await service.run_async(call)
    check(call, service, result)
    async with AsyncMarketClient(**SETTINGS) as client:
        assert await call.run(client.quote) == result.quote


@pytest.mark.rule("market.paths")
def test_every_endpoint_of_market_data_is_called() -> None:
    """Each golden file of data is the answer of the path that it is named after."""
    paths = {name: "/v1/" + name.removeprefix("market/").removesuffix(".json").replace("_", "-") for name in DATA}
    assert len(DATA) == 8
    assert {(call.path, call.golden) for call in MARKET_CALLS} == {(path, name) for name, path in paths.items()}


@CALLS
def test_a_wrapper_has_three_keys_and_no_error(call: Call) -> None:
    for key in ("success", "data", "error"):
        body = {name: value for name, value in load(str(call.golden)).items() if name != key}
        with pytest.raises(APIResponseError, match=key) as caught:
            Service(body).run(call)
        assert caught.value.response is not None
        assert caught.value.response.json() == body
    for name in FAILURES:
        with pytest.raises(APIResponseError) as caught:
            Service(load(name)).run(call)
        assert load(name)["error"] in str(caught.value)


@pytest.mark.rule("market.wrapper.failure")
@each_of(("name", "error"), FAILURES.items())
def test_failure_becomes_its_error(name: str, error: str) -> None:
    status = int(name[-8:-5])
    with pytest.raises(APIStatusError) as caught:
        Service(load(name), status).run(MARKET_CALLS[0])
    raised = caught.value
    assert type(raised) is getattr(tradesdk, error)
    assert (raised.status, raised.service_code, raised.message) == (status, None, load(name)["error"])


@each_of(("model", "record"), [pytest.param(model, record, id=at) for model, record, at in market_records()])
def test_names_are_pythons_and_the_services(model: Any, record: Any) -> None:
    """Every field of the wire is reached by a name in lower case, and may be handed in under that."""
    parsed = model.model_validate_json(json.dumps(record))
    fields = model.model_fields
    assert [field.alias or name for name, field in fields.items()] == list(record), "in the order of the service"
    assert all(name.islower() for name in fields)
    assert [name.replace("_", "") for name in fields] == [name.lower() for name in record]
    by_name = model(**{name: getattr(parsed, name) for name in fields})
    assert by_name == parsed
    assert by_name.model_dump(mode="json") == record
    if model is SignalRecord:
        assert parsed.created_at == datetime.fromisoformat(record["createdAt"])
        assert parsed.created_at.tzinfo is UTC
        assert parsed.created_at.utcoffset() == timedelta(0)


@pytest.mark.rule("market.signals.kinds")
def test_a_new_kind_of_signal_breaks_nothing() -> None:
    record = load("market/token_signals.json")["data"]["results"][0]["signals"][0] | {"signal": "HOLD"}
    assert SignalRecord.model_validate_json(json.dumps(record)).signal == "HOLD"
