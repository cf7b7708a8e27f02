"""The models: what comes in goes out again, nothing can be changed, and nothing new breaks a running bot."""

import copy
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tradesdk import (
    Account,
    Agent,
    AgentStats,
    Heartbeat,
    InvalidArgumentError,
    Page,
    Quota,
    Risk,
    Signal,
    StreamSignal,
    TokenBalance,
    WalletBalance,
)
from tradesdk.models._base import Model
from tradesdk.models.signals import SignalList
from tradesdk.models.stream import FleetSignal

from .. import _answers
from .._rows import each_of
from ..contract._golden import LISTS, load
from ..contract._golden import RECORDS as GOLDEN_RECORDS
from ..contract._market import market_records
from ._pickled import pickled

YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799
RECORDS: list[tuple[type[BaseModel], Any]] = [
    *((model, load(name)) for name, (model, *_) in GOLDEN_RECORDS.items()),
    *((model, item) for name, (model, *_) in LISTS.items() for item in load(name)["data"]),
    *((model, record) for model, record, _ in market_records()),
    *((part, load("agent.json")[name]) for part, name in ((Risk, "risk"), (AgentStats, "stats"))),
    (Quota, _answers.USAGE["requests"]),
    (TokenBalance, load("wallet_balance.json")["token_balances"][0]),
    (StreamSignal, _answers.signal(type="signal")),
    (Heartbeat, {"type": "heartbeat", "timestamp": 0}),
    (SignalList, {"data": [_answers.signal()]}),
    (Page[Signal], {"data": [_answers.signal()], "next_cursor": "c"}),
]
"""Golden files and a few more; tests/contract/test_golden_models.py shows that they go out again as they came in."""


def test_every_model_is_here() -> None:
    def family(model: type[BaseModel]) -> set[type[BaseModel]]:
        return {model}.union(*(family(child) for child in model.__subclasses__()))

    ours = {model for model in family(Model) if model.__module__.startswith("tradesdk.") and model.__name__.isalpha()}
    ours = {model for model in ours if model.__module__ != "tradesdk.models.market"}
    # A fleet hands out signals with `redelivered`, which no answer has.
    assert ours - {Model, Page, FleetSignal} <= {model for model, _ in RECORDS}


def read(model: type[BaseModel], sent: Any) -> Any:
    return model.model_validate_json(json.dumps(sent))


@each_of(("model", "sent"), RECORDS)
def test_a_model_is_a_value_that_keeps_what_is_new(model: type[BaseModel], sent: Any) -> None:
    got = read(model, sent | {"new": {"deep": [1, None, 2**70, 1.5]}})
    dumped = got.model_dump(mode="json", exclude_unset=True, exclude_computed_fields=True)
    assert dumped["new"] == {"deep": [1, None, 2**70, 1.5]}
    assert read(model, dumped) == got
    assert pickled(got) == copy.deepcopy(got) == got
    for name in (*model.model_fields, "a_new_field"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(got, name, None)
    with pytest.raises(ValidationError, match="frozen"):
        delattr(got, next(iter(model.model_fields)))


# Time

AGENT: dict[str, Any] = _answers.created()
ACCOUNT: dict[str, Any] = _answers.ACCOUNT


def opened(at: object) -> datetime:
    return Account.model_validate_json(json.dumps({**ACCOUNT, "created_at": at})).created_at


@each_of(
    ("seconds", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1_700_000_000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (2**31, datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)),
        (20_000_000_000, datetime(2603, 10, 11, 11, 33, 20, tzinfo=UTC)),  # not taken for milliseconds
        (99_999_999_999, datetime(5138, 11, 16, 9, 46, 39, tzinfo=UTC)),
        (YEAR_9999, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (YEAR_1, datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_seconds_are_seconds_in_every_year(seconds: int, moment: datetime) -> None:
    assert opened(seconds) == moment
    assert opened(seconds).utcoffset() == timedelta(0)
    account = Account.model_validate({**ACCOUNT, "created_at": seconds})
    assert account.model_dump(mode="json")["created_at"] == seconds
    assert account.model_dump()["created_at"] == moment


@each_of("seconds", [YEAR_9999 + 1, YEAR_1 - 1, 1_700_000_000_000, -(10**15), 10**30, True, [], {}, ""])
def test_what_is_no_second_of_the_calendar_is_refused(seconds: object) -> None:
    with pytest.raises(ValidationError, match="created_at"):
        opened(seconds)


@each_of("naive", [datetime(2023, 11, 14), "2023-11-14T22:13:20", "2023-11-14"])
def test_no_moment_is_naive(naive: object) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Account.model_validate({**ACCOUNT, "created_at": naive})


# What is new, missing or no number


@each_of("value", [None, 5, True, [], {}])
def test_enumerations_are_text(value: object) -> None:
    with pytest.raises(ValidationError, match="plan"):
        Account.model_validate({**ACCOUNT, "plan": value})


@each_of("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_are_finite(number: float) -> None:
    with pytest.raises(ValidationError, match="balance_usd"):
        TokenBalance(token_address="0x", token_symbol="T", balance=1, balance_usd=number)
    with pytest.raises(ValidationError, match="new_field"):
        Account.model_validate({**ACCOUNT, "new_field": {"deep": [number]}})


SIGNAL: dict[str, Any] = _answers.signal(type="signal")
NUMBERS: list[tuple[type[BaseModel], dict[str, Any], str]] = [
    *((model, SIGNAL, field) for model in (Signal, StreamSignal) for field in ("chain_id", "confidence", "price_usd")),
    (AgentStats, {"total_trades": 1, "win_rate_pct": 1.5, "total_pnl_usd": 1.5}, "total_trades"),
    (AgentStats, {"total_trades": 1, "win_rate_pct": 1.5, "total_pnl_usd": 1.5}, "win_rate_pct"),
    (Quota, {"used": 1, "limit": 1}, "limit"),
    (WalletBalance, _answers.BALANCE, "native_balance_usd"),
]


@each_of("wrong", [True, False, "1", None])
@each_of(("model", "fields", "name"), NUMBERS)
def test_only_a_number_is_a_number(model: type[BaseModel], fields: dict[str, Any], name: str, wrong: object) -> None:
    """JSON's `true` is no 1, wherever a number is due."""
    read(model, fields)
    with pytest.raises(ValidationError) as caught:
        read(model, {**fields, name: wrong})
    assert [problem["loc"] for problem in caught.value.errors()] == [(name,)]


@each_of("value", ["8453.0", "8.453e3", "845300e-2"])
def test_an_integer_in_any_writing(value: str) -> None:
    """JSON knows one kind of number."""
    got = Signal.model_validate_json(json.dumps(SIGNAL).replace("8453", value)).chain_id
    assert (got, type(got)) == (8453, int)
    with pytest.raises(ValidationError, match="valid integer"):
        read(Signal, {**SIGNAL, "chain_id": 8453.5})


@each_of("value", [2.0, 1.0000001, -0.1, 100])
def test_a_confidence_is_0_to_1(value: float) -> None:
    for model in (Signal, StreamSignal):
        with pytest.raises(ValidationError, match="confidence"):
            read(model, {**SIGNAL, "confidence": value})
    with pytest.raises(ValidationError, match="min_confidence"):
        read(Agent, {**AGENT, "min_confidence": value})


def test_rules_may_be_written_as_decimals() -> None:
    assert Risk(stop_loss_pct=Decimal("2.5")).stop_loss_pct == 2.5  # type: ignore[arg-type] # as at run time


@each_of("wrong", [float("nan"), float("inf"), "5%", "5", True, [], {}])
def test_a_rule_that_is_no_number_is_refused_in_one_line(wrong: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^stop_loss_pct (must|should) be a ") as caught:
        Risk(stop_loss_pct=wrong)
    assert "number" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_rules_from_the_service_keep_what_is_unknown() -> None:
    content = json.dumps({**AGENT, "risk": {"stop_loss_pct": 5, "new_rule": 1}})
    assert Agent.model_validate_json(content).risk.model_extra == {"new_rule": 1}
    with pytest.raises(ValidationError, match="stop_loss_pct"):
        Agent.model_validate_json(json.dumps({**AGENT, "risk": {"stop_loss_pct": "much"}}))
