"""Market data and its failures against JSON typed by hand from the specification."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import tradesdk
from tradesdk import APIResponseError, RawResponse
from tradesdk._market import decode_answer, decode_by_path
from tradesdk._response import Headers, status_error
from tradesdk.models.market import SignalRecord

from ._golden import GOLDEN, load
from ._market import DATA, FAILURES, market_records

URL = "https://service.example/v1/token-prices"


def answer(name: str, status: int = 200) -> RawResponse:
    return RawResponse(status, Headers([("content-type", "application/json")]), (GOLDEN / name).read_bytes())


@pytest.mark.rule("market.results")
@pytest.mark.parametrize("name", DATA)
def test_data_is_taken_out_of_its_wrapper(name: str) -> None:
    data = decode_answer(DATA[name], "POST", URL, answer(name))
    assert type(data) is DATA[name]
    assert json.dumps(data.model_dump(mode="json")) == json.dumps(load(name)["data"])
    path = "/v1/" + name.removeprefix("market/").removesuffix(".json").replace("_", "-")
    assert decode_by_path(path, "POST", URL, answer(name)) == data


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("key", ["success", "data", "error"])
def test_a_wrapper_has_three_keys(name: str, key: str) -> None:
    body = load(name)
    del body[key]
    with pytest.raises(APIResponseError, match=key) as caught:
        decode_answer(DATA[name], "POST", URL, RawResponse(200, Headers(), json.dumps(body).encode()))
    assert caught.value.response is not None
    assert caught.value.response.json() == body


@pytest.mark.rule("market.wrapper.failure")
@pytest.mark.parametrize(("name", "error"), FAILURES.items())
def test_failure_becomes_its_error(name: str, error: str) -> None:
    status = int(name[-8:-5])
    raised = status_error("POST", URL, answer(name, status), now=0)
    assert type(raised) is getattr(tradesdk, error)
    assert (raised.status, raised.code, raised.message) == (status, None, load(name)["error"])


@pytest.mark.parametrize("name", FAILURES)
def test_failure_with_a_status_of_success_is_no_data(name: str) -> None:
    for model in DATA.values():
        with pytest.raises(APIResponseError) as caught:
            decode_answer(model, "POST", URL, answer(name))
        assert load(name)["error"] in str(caught.value)


@pytest.mark.parametrize(
    ("model", "record"), [pytest.param(model, record, id=at) for model, record, at in market_records()]
)
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


def test_times_are_the_same_instant_in_utc() -> None:
    found = [(record, model.model_validate(record)) for model, record, _ in market_records() if model is SignalRecord]
    assert len(found) == 4
    for record, parsed in found:
        assert parsed.created_at == datetime.fromisoformat(record["createdAt"])
        assert parsed.created_at.tzinfo is UTC
        assert parsed.created_at.utcoffset() == timedelta(0)


@pytest.mark.rule("market.signals.kinds")
def test_a_new_kind_of_signal_breaks_nothing() -> None:
    record = load("market/token_signals.json")["data"]["results"][0]["signals"][0] | {"signal": "HOLD"}
    assert SignalRecord.model_validate_json(json.dumps(record)).signal == "HOLD"
