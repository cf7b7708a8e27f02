"""The models: what comes in goes out again, nothing can be changed, and nothing new breaks a running bot."""

import copy
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tradesdk import (
    Account,
    Agent,
    AgentStats,
    AgentSummary,
    InvalidArgumentError,
    Page,
    Position,
    Quota,
    Risk,
    Signal,
    TokenBalance,
    Trade,
    TradeDetail,
    Usage,
    Wallet,
    WalletBalance,
)
from tradesdk.models._base import Model
from tradesdk.models.signals import SignalList
from tradesdk.models.stream import Heartbeat, StreamSignal

from .. import _answers
from ._pickled import pickled

YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
numbers = floats | st.integers(-(2**53), 2**53)
integers = st.integers(-(2**63), 2**70)
confidences = st.floats(0, 1) | st.integers(0, 1)
times = st.integers(YEAR_1, YEAR_9999)
unknown = st.dictionaries(
    texts.map("new_".__add__), st.none() | st.booleans() | integers | floats | texts | st.lists(texts, max_size=2)
)


Strategies = dict[str, st.SearchStrategy[Any]]


def wire(_optional: Strategies | None = None, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object of the wire, with fields of the future beside those that are known."""
    known = st.fixed_dictionaries(fields, optional=_optional or {})
    return st.builds(lambda new, old: {**new, **old}, unknown, known)


risk = wire(dict.fromkeys(Risk.model_fields, numbers))
stats = wire(total_trades=integers, win_rate_pct=numbers, total_pnl_usd=numbers)
summary: Strategies = {
    "id": texts,
    "name": texts,
    "status": texts,
    "chain_id": integers,
    "wallet_id": texts,
    "created_at": times,
}
agent = {**summary, "risk": risk, "min_confidence": confidences, "max_positions": integers}
token: Strategies = {"id": texts, "token_address": texts, "token_symbol": texts, "chain_id": integers}
trade = {
    **token,
    "agent_id": texts,
    "direction": texts,
    "status": texts,
    "entry_price_usd": numbers,
    **{name: st.none() | numbers for name in ("exit_price_usd", "pnl_usd", "roi_pct")},
    "opened_at": times,
    "closed_at": st.none() | times,
}
signal = {**token, "direction": texts, "confidence": confidences, "price_usd": numbers, "timestamp": times}
balance = wire(token_address=texts, token_symbol=texts, balance=numbers, balance_usd=numbers)
prices = [
    *("entry_price_usd", "current_price_usd", "unrealized_pnl_usd"),
    *("stop_loss_price", "take_profit_price", "trailing_stop_price"),
]
quota = wire(used=integers, limit=integers)

WIRE: dict[type[Model], st.SearchStrategy[Any]] = {
    Account: wire(id=texts, email=texts, plan=texts, created_at=times, api_key_last4=texts),
    Quota: quota,
    Usage: wire(requests=quota, agents=quota, reset_at=times),
    Risk: risk,
    AgentStats: stats,
    AgentSummary: wire(**summary),
    Agent: wire({"stats": stats, "updated_at": times}, **agent),
    Wallet: wire(id=texts, address=texts, chain_id=integers, label=texts, created_at=times),
    TokenBalance: balance,
    WalletBalance: wire(
        wallet_id=texts, native_balance_usd=numbers, token_balances=st.lists(balance, max_size=3), updated_at=times
    ),
    Trade: wire(**trade),
    TradeDetail: wire(**trade, entry_tx_hash=texts, exit_tx_hash=st.none() | texts),
    Position: wire(**token, agent_id=texts, **dict.fromkeys(prices, numbers), opened_at=times),
    Signal: wire(**signal),
    StreamSignal: wire(type=st.just("signal"), **signal),
    Heartbeat: wire(type=st.just("heartbeat"), timestamp=signal["timestamp"]),
    SignalList: wire(data=st.lists(wire(**signal), max_size=3)),
    Page[Signal]: wire({"next_cursor": texts.filter(bool)}, data=st.lists(wire(**signal), max_size=3)),
}
MODELS = sorted(WIRE, key=lambda model: model.__name__)


def test_every_model_is_here() -> None:
    def family(model: type[Model]) -> set[type[Model]]:
        return {model}.union(*(family(child) for child in model.__subclasses__()))

    ours = {model for model in family(Model) if model.__module__.startswith("tradesdk.") and "[" not in model.__name__}
    ours = {model for model in ours if model.__module__ != "tradesdk.models.market"}  # test_market_models.py has those
    assert ours - {Model, Page} <= set(WIRE)


def read(model: type[Model], sent: Any) -> Model:
    return model.model_validate_json(json.dumps(sent))


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=40)
@given(data=st.data())
def test_what_comes_in_goes_out_again(model: type[Model], data: st.DataObject) -> None:
    sent = data.draw(WIRE[model])
    got = read(model, sent)
    dumped = got.model_dump(mode="json", exclude_unset=True, exclude_computed_fields=True)
    assert dumped == sent
    assert json.loads(got.model_dump_json(exclude_unset=True, exclude_computed_fields=True)) == sent
    assert read(model, dumped) == got
    assert pickled(got) == copy.deepcopy(got) == got


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=5)
@given(data=st.data())
def test_nothing_of_it_can_be_changed(model: type[Model], data: st.DataObject) -> None:
    got = read(model, data.draw(WIRE[model]))
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("seconds", [YEAR_9999 + 1, YEAR_1 - 1, 1_700_000_000_000, -(10**15), 10**30, True, [], {}, ""])
def test_what_is_no_second_of_the_calendar_is_refused(seconds: object) -> None:
    with pytest.raises(ValidationError, match="created_at"):
        opened(seconds)


@pytest.mark.parametrize("naive", [datetime(2023, 11, 14), "2023-11-14T22:13:20", "2023-11-14"])
def test_no_moment_is_naive(naive: object) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Account.model_validate({**ACCOUNT, "created_at": naive})


# What is new, missing or no number


@pytest.mark.parametrize("value", [None, 5, True, [], {}])
def test_enumerations_are_text(value: object) -> None:
    with pytest.raises(ValidationError, match="plan"):
        Account.model_validate({**ACCOUNT, "plan": value})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_are_finite(number: float) -> None:
    with pytest.raises(ValidationError, match="balance_usd"):
        TokenBalance(token_address="0x", token_symbol="T", balance=1, balance_usd=number)
    with pytest.raises(ValidationError, match="new_field"):
        Account.model_validate({**ACCOUNT, "new_field": {"deep": [number]}})


SIGNAL: dict[str, Any] = _answers.signal(type="signal")
NUMBERS: list[tuple[type[Model], dict[str, Any], str]] = [
    *((model, SIGNAL, field) for model in (Signal, StreamSignal) for field in ("chain_id", "confidence", "price_usd")),
    (AgentStats, {"total_trades": 1, "win_rate_pct": 1.5, "total_pnl_usd": 1.5}, "total_trades"),
    (AgentStats, {"total_trades": 1, "win_rate_pct": 1.5, "total_pnl_usd": 1.5}, "win_rate_pct"),
    (Quota, {"used": 1, "limit": 1}, "limit"),
    (WalletBalance, _answers.BALANCE, "native_balance_usd"),
]


@pytest.mark.parametrize("wrong", [True, False, "1", None])
@pytest.mark.parametrize(("model", "fields", "name"), NUMBERS)
def test_only_a_number_is_a_number(model: type[Model], fields: dict[str, Any], name: str, wrong: object) -> None:
    """JSON's `true` is no 1, wherever a number is due."""
    read(model, fields)
    with pytest.raises(ValidationError) as caught:
        read(model, {**fields, name: wrong})
    assert [problem["loc"] for problem in caught.value.errors()] == [(name,)]


@pytest.mark.parametrize("value", ["8453.0", "8.453e3", "845300e-2"])
def test_an_integer_in_any_writing(value: str) -> None:
    """JSON knows one kind of number."""
    got = Signal.model_validate_json(json.dumps(SIGNAL).replace("8453", value)).chain_id
    assert (got, type(got)) == (8453, int)
    with pytest.raises(ValidationError, match="valid integer"):
        read(Signal, {**SIGNAL, "chain_id": 8453.5})


@pytest.mark.parametrize("value", [2.0, 1.0000001, -0.1, 100])
def test_a_confidence_is_0_to_1(value: float) -> None:
    for model in (Signal, StreamSignal):
        with pytest.raises(ValidationError, match="confidence"):
            read(model, {**SIGNAL, "confidence": value})
    with pytest.raises(ValidationError, match="min_confidence"):
        read(Agent, {**AGENT, "min_confidence": value})


def test_rules_may_be_written_as_decimals() -> None:
    assert Risk(stop_loss_pct=Decimal("2.5")).stop_loss_pct == 2.5  # type: ignore[arg-type] # as at run time


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "5%", True, [], {}])
def test_a_rule_that_is_no_number_is_refused_in_one_line(wrong: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^stop_loss_pct should be a [a-z, ]*number[a-z, ]*$") as caught:
        Risk(stop_loss_pct=wrong)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_rules_from_the_service_keep_what_is_unknown() -> None:
    content = json.dumps({**AGENT, "risk": {"stop_loss_pct": 5, "new_rule": 1}})
    assert Agent.model_validate_json(content).risk.model_extra == {"new_rule": 1}
    with pytest.raises(ValidationError, match="stop_loss_pct"):
        Agent.model_validate_json(json.dumps({**AGENT, "risk": {"stop_loss_pct": "much"}}))
