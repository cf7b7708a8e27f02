"""Market data as values: times, limits, names, nothing lost on the way in and out."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tradesdk import (
    AggregateMetrics,
    SignalRecord,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformers,
)

from .._rows import each_of
from ..contract._golden import load
from ._pickled import pickled

SIGNAL: dict[str, Any] = load("market/token_signals.json")["data"]["results"][0]["signals"][0]
PRICE = {"tokenAddress": "0xab", "symbol": "ABC", "currentPriceEth": 0.5, "currentPriceUsd": 1500.25}
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def signal_at(moment: Any) -> SignalRecord:
    return SignalRecord.model_validate_json(json.dumps(SIGNAL | {"createdAt": moment}))


@pytest.mark.rule("market.times")
@each_of(
    ("text", "after"),
    [
        ("2026-03-04T05:06:07Z", timedelta(0)),
        ("2026-03-04T05:06:07z", timedelta(0)),
        ("2026-03-04T05:06:07", timedelta(0)),
        ("2026-03-04 05:06:07+00:00", timedelta(0)),
        ("2026-03-04T07:06:07+02:00", timedelta(0)),
        ("2026-03-03T23:36:07-0530", timedelta(0)),
        ("2026-03-04T05:06:07.5Z", timedelta(milliseconds=500)),
        ("2026-03-04T05:06:07.000001Z", timedelta(microseconds=1)),
        ("2026-03-04T05:06:07.123456789Z", timedelta(microseconds=123456)),
        ("2026-03-04T05:06:07,25Z", timedelta(milliseconds=250)),
        ("20260304T050607Z", timedelta(0)),
        ("2026-W10-3T05:06:07+00:00", timedelta(0)),
        ("2026-03-04T05:06Z", timedelta(seconds=-7)),
        ("2026-03-04", -timedelta(hours=5, minutes=6, seconds=7)),
    ],
)
def test_whatever_iso_8601_allows_is_read_as_utc(text: str, after: timedelta) -> None:
    moment = signal_at(text).created_at
    assert moment == WHEN + after
    assert moment.tzinfo is UTC


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be changed here")
@pytest.mark.usefixtures("tokyo")
def test_without_a_zone_it_is_utc_wherever_the_machine_stands() -> None:
    assert datetime.fromtimestamp(0).hour == 9
    assert signal_at("2026-03-04T05:06:07").created_at == WHEN
    assert signal_at("2026-03-04T05:06:07").model_dump(mode="json")["createdAt"] == "2026-03-04T05:06:07Z"


@each_of(
    "text",
    [
        *("", "now", "2026-13-01T00:00:00Z", "2026-02-30", "2026-03-04T05:06:07+99:00"),
        *("10000-01-01", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-00:01"),
        *(None, True, [], {}, 10**20, -(10**20)),
    ],
)
def test_what_is_no_moment_is_refused(text: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        signal_at(text)
    assert caught.value.errors()[0]["loc"] == ("createdAt",)


offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda by: timedelta(minutes=by // timedelta(minutes=1))
)


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), offsets)
def test_a_moment_comes_back_to_the_microsecond(moment: datetime, offset: timedelta) -> None:
    local = moment.replace(tzinfo=timezone(offset))
    read = signal_at(local.isoformat())
    assert read.created_at == local
    again = SignalRecord.model_validate_json(read.model_dump_json())
    assert again == read
    assert datetime.fromisoformat(json.loads(read.model_dump_json())["createdAt"]) == local


LIMITS: list[tuple[type[BaseModel], str, dict[str, Any], Any, int]] = [
    (TokenResults[TokenPrice], "results", {}, PRICE, 5),
    (TopPerformers, "tokens", {}, load("market/top_performers.json")["data"]["tokens"][0], 300),
    (SupportedTokens, "tokens", {"total": 620}, load("market/supported_tokens.json")["data"]["tokens"][0], 500),
    (
        TokenSignals,
        "signals",
        {"tokenAddress": "0x1", "tokenSymbol": "A", "strategy": "s", "signalCount": 1},
        SIGNAL,
        100,
    ),
]


@pytest.mark.rule("market.history.cap")
@each_of(("model", "name", "rest", "item", "most"), LIMITS, ids=[str(case[4]) for case in LIMITS])
def test_a_list_is_as_long_as_its_endpoint_allows(
    model: type[BaseModel], name: str, rest: dict[str, Any], item: Any, most: int
) -> None:
    for length in (0, 1, most):
        parsed = model.model_validate_json(json.dumps({**rest, name: [item] * length}))
        assert len(getattr(parsed, name)) == length
    with pytest.raises(ValidationError, match=f"at most {most} items"):
        model.model_validate_json(json.dumps({**rest, name: [item] * (most + 1)}))
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps({**rest, name: [{}] * most}))
    assert {error["loc"][:2] for error in caught.value.errors()} == {(name, 0)}, "one bad item is enough"


@each_of("number", ["NaN", "Infinity", "-Infinity", "1e999", "null", '"x"', "[]"])
def test_what_is_no_number_is_refused(number: str) -> None:
    text = json.dumps(PRICE).replace("1500.25", number)
    with pytest.raises(ValueError, match="currentPriceUsd"):
        TokenPrice.model_validate_json(text)
    with pytest.raises(ValueError, match="later"):
        TokenPrice.model_validate_json(json.dumps(PRICE)[:-1] + ', "later": [NaN]}')


@pytest.mark.rule("market.win-rate.null", "market.avg-prices.null")
def test_too_little_to_go_by_is_none() -> None:
    token = {"tokenAddress": "0x1", "tokenSymbol": "A"}
    assert TokenWinRate.model_validate(token | {"winRate": None}).win_rate is None
    averages = TokenAvgPrices.model_validate(
        token
        | {
            "averageBuyPriceETH": 1.0,
            "averageBuyPriceUSD": 2.0,
            "averageSellPriceETH": None,
            "averageSellPriceUSD": None,
        }
    )
    assert (averages.average_buy_price_eth, averages.average_buy_price_usd) == (1.0, 2.0)
    assert (averages.average_sell_price_eth, averages.average_sell_price_usd) == (None, None)
    with pytest.raises(ValidationError, match="winRate"):
        TokenWinRate.model_validate(token)


@pytest.mark.rule("market.aggregate.negative")
def test_numbers_are_kept_as_they_are() -> None:
    """Profits may be losses; a value can be hashed."""
    names = [str(field.alias) for field in AggregateMetrics.model_fields.values()]
    metrics = AggregateMetrics.model_validate({name: -number for number, name in enumerate(names)})
    assert json.loads(metrics.model_dump_json()) == {name: -number for number, name in enumerate(names)}
    for number in (0, -1.5, 3, 1e-18, 5e-324, 1.7976931348623157e308):
        price = TokenPrice.model_validate_json(json.dumps(PRICE | {"currentPriceUsd": number}))
        assert price.current_price_usd == number
        assert json.loads(price.model_dump_json())["currentPriceUsd"] == number
        assert hash(price) == hash(pickled(price))
