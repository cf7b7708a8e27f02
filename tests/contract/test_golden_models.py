"""The SDK's models against JSON typed by hand from the specification: nothing left over, missing or changed."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import tradesdk
from tradesdk import APIStatusError, Risk, TradeClient

from .._rows import each_of
from ._golden import GOLDEN, LISTS, RECORDS, errors, load
from ._market import DATA, FAILURES, IDENTIFIER, OFFER, PAYMENT, RECEIPTS, market_records

# What the specification lets be absent: a new agent has neither of these, and each number of a risk object is optional.
MAY_BE_ABSENT = {
    "Agent": {"stats", "updated_at"},
    "Risk": {"position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct"},
}
STATUS_ERRORS = {
    "errors/400_invalid_request.json": tradesdk.InvalidRequestError,
    "errors/400_invalid_signature.json": tradesdk.InvalidSignatureError,
    "errors/401_unauthorized.json": tradesdk.AuthenticationError,
    "errors/403_forbidden.json": tradesdk.PermissionDeniedError,
    "errors/404_not_found.json": tradesdk.NotFoundError,
    "errors/409_conflict.json": tradesdk.ConflictError,
    "errors/422_validation_error.json": tradesdk.UnprocessableEntityError,
    "errors/429_rate_limited.json": tradesdk.RateLimitError,
    "errors/500_internal_error.json": tradesdk.InternalServerError,
    "errors/503_service_unavailable.json": tradesdk.ServiceUnavailableError,
}


def records() -> list[Any]:
    """Every record in every golden file, with the model that it belongs to."""
    found = [pytest.param(model, load(name), id=name) for name, (model, *_) in RECORDS.items()]
    for name, (model, *_) in LISTS.items():
        found += [pytest.param(model, item, id=f"{name}-{index}") for index, item in enumerate(load(name)["data"])]
    return found


def stamps_of(record: dict[str, Any]) -> list[str]:
    """The fields of a record that hold a time."""
    return [name for name in record if record[name] is not None and (name.endswith("_at") or name == "timestamp")]


def every_record() -> list[Any]:
    """Those, and the records of market data, whose names and times differ."""
    return records() + [pytest.param(model, record, id=at) for model, record, at in market_records()]


def assert_complete(model: BaseModel) -> None:
    """No unknown field was left over, and every field that may not be absent was sent; all the way down."""
    name = type(model).__name__
    assert not model.model_extra, f"{name} does not know {sorted(model.model_extra or ())}"
    missing = set(type(model).model_fields) - model.model_fields_set - MAY_BE_ABSENT.get(name, set())
    assert not missing, f"{name}: {sorted(missing)} is not in the specification"
    for field in type(model).model_fields:
        value = getattr(model, field)
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, BaseModel):
                assert_complete(part)


def canonical(value: Any) -> str:
    """Text, so that 1 is not 1.0 and true is not 1."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.rule("transport.unix-seconds")
@each_of(("model", "record"), every_record())
def test_record_is_read_whole_and_written_back(model: type[BaseModel], record: Any) -> None:
    parsed = model.model_validate_json(json.dumps(record))
    assert_complete(parsed)
    assert canonical(parsed.model_dump(mode="json", exclude_unset=True)) == canonical(record)
    assert canonical(json.loads(parsed.model_dump_json(exclude_unset=True))) == canonical(record)
    if model.__name__ != "Agent":
        assert canonical(parsed.model_dump(mode="json")) == canonical(record), "only an agent may leave fields out"


@pytest.mark.rule("version.additive")
@each_of(("model", "record"), every_record())
def test_unknown_fields_are_kept(model: type[BaseModel], record: Any) -> None:
    parsed = model.model_validate_json(json.dumps(record | {"added_in_2030": {"deep": [1, None]}}))
    assert parsed.model_extra == {"added_in_2030": {"deep": [1, None]}}
    assert parsed.model_dump(mode="json", exclude_unset=True)["added_in_2030"] == {"deep": [1, None]}


@each_of(("model", "record"), every_record())
def test_a_missing_field_is_not_invented(model: type[BaseModel], record: Any) -> None:
    for field in record.keys() - MAY_BE_ABSENT.get(model.__name__, set()):
        with pytest.raises(ValueError, match=field):
            model.model_validate_json(json.dumps({key: value for key, value in record.items() if key != field}))


@pytest.mark.rule("transport.unix-seconds")
@each_of(("model", "record"), [one for one in records() if stamps_of(one.values[1])])
def test_timestamps_are_the_same_instant_in_utc(model: type[BaseModel], record: Any) -> None:
    parsed = model.model_validate_json(json.dumps(record))
    for name in stamps_of(record):
        value = getattr(parsed, name)
        assert isinstance(value, datetime)
        assert value == datetime.fromtimestamp(record[name], UTC)
        assert value.utcoffset() == datetime.now(UTC).utcoffset()


@pytest.mark.rule("version.additive", "account.plan")
@each_of(
    ("model", "field"),
    [
        ("AgentSummary", "status"),
        ("Agent", "status"),
        ("Trade", "status"),
        ("Trade", "direction"),
        ("Signal", "direction"),
        ("Account", "plan"),
    ],
)
def test_a_new_value_of_an_enumeration_breaks_nothing(model: str, field: str) -> None:
    kind: type[BaseModel] = getattr(tradesdk, model)
    record = next(param.values[1] for param in records() if param.values[0] is kind)
    parsed = kind.model_validate_json(json.dumps(record | {field: "never seen before"}))
    assert getattr(parsed, field) == "never seen before"


@pytest.mark.rule("trade.open.nulls")
@each_of("name", ["trade_open.json", "trade_closed.json"])
def test_an_open_trade_has_no_exit(name: str) -> None:
    trade = tradesdk.TradeDetail.model_validate_json((GOLDEN / name).read_bytes())
    exits = {trade.exit_price_usd, trade.pnl_usd, trade.roi_pct, trade.closed_at, trade.exit_tx_hash}
    assert (exits == {None}) is (trade.status == "open")
    assert None not in exits or trade.status == "open"
    assert trade.entry_tx_hash


@pytest.mark.rule("risk.optional")
def test_a_risk_object_may_leave_any_field_out() -> None:
    whole = load("agent.json")["risk"]
    assert Risk.model_validate({}).model_dump(mode="json", exclude_unset=True) == {}
    for name, value in whole.items():
        risk = Risk.model_validate({name: value})
        assert risk.model_dump(mode="json", exclude_unset=True) == {name: value}
        assert [getattr(risk, other) for other in whole if other != name] == [None, None, None]


@pytest.mark.rule(
    "wallets.connect.bad-signature auth.invalid auth.scope.forbidden error.400.malformed error.400.signature",
    "error.body error.401 error.403 error.404.missing error.409 error.422.position-size error.429 error.500 error.503",
)
@each_of("name", errors())
def test_error_body_becomes_its_error(name: str) -> None:
    status, body = int(name.removeprefix("errors/")[:3]), load(name)
    headers = load("errors/429_rate_limited.headers.json") if status == 429 else {}
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json=body, headers=headers))
    with httpx.Client(transport=transport) as http:
        client = TradeClient(api_key="k", base_url="https://service.example", max_retries=0, http_client=http)
        with pytest.raises(APIStatusError) as caught:
            client.agents.get("agt_51c0aa17")
    error = caught.value
    assert type(error) is STATUS_ERRORS[name]
    assert (error.status, error.service_code, error.message) == (
        status,
        body["error"]["code"],
        body["error"]["message"],
    )
    assert error.response is not None
    assert error.response.json() == body
    text = str(error)
    assert "\n" not in text
    assert body["error"]["code"] in text
    assert body["error"]["message"] in text
    if status == 429:
        assert error.rate_limit is not None
        assert (error.rate_limit.limit, error.rate_limit.remaining) == (300, 0)
        assert error.rate_limit.reset == datetime.fromtimestamp(1767484858, UTC)
        assert error.retry_after is not None
        assert error.retry_after >= 38


def test_every_golden_file_has_a_reader() -> None:
    # The events of the stream have models of their own, and so far only the mock speaks them.
    files = {str(file.relative_to(GOLDEN)) for file in GOLDEN.rglob("*.json") if file.parent.name != "stream"}
    headers = {"headers.json", "errors/429_rate_limited.headers.json"}
    market = set(DATA) | set(FAILURES)
    payments = {OFFER, PAYMENT, *RECEIPTS, IDENTIFIER}
    assert files == set(RECORDS) | set(LISTS) | set(errors()) | headers | market | payments
    assert set(errors()) == set(STATUS_ERRORS)
