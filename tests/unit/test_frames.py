"""Tables: columns and types follow from the model alone, whatever the data are."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tradesdk
from tradesdk import InvalidArgumentError, Signal, Trade, TradeClient, TradeError, arrow_table
from tradesdk._frames import pandas_frame, polars_frame
from tradesdk.models._base import Model

from .. import _answers
from .._requirements import install
from .._rows import each_of
from ..contract._golden import load
from ._client import client_of

pytestmark = pytest.mark.long  # pandas, polars and pyarrow: 440 MiB, and seconds to import

MOMENT = "timestamp[us, tz=UTC]"
TEXT, WHOLE, REAL, FLAG = "string", "int64", "double", "bool"
TRADE = {
    "id": TEXT,
    "agent_id": TEXT,
    "token_address": TEXT,
    "token_symbol": TEXT,
    "chain_id": WHOLE,
    "direction": TEXT,
    "entry_price_usd": REAL,
    "exit_price_usd": f"{REAL}?",
    "pnl_usd": f"{REAL}?",
    "roi_pct": f"{REAL}?",
    "status": TEXT,
    "opened_at": MOMENT,
    "closed_at": f"{MOMENT}?",
}
SUMMARY = {"id": TEXT, "name": TEXT, "status": TEXT, "chain_id": WHOLE, "wallet_id": TEXT, "created_at": MOMENT}
SIGNAL = {
    "id": TEXT,
    "token_address": TEXT,
    "token_symbol": TEXT,
    "chain_id": WHOLE,
    "direction": TEXT,
    "confidence": REAL,
    "price_usd": REAL,
    "timestamp": MOMENT,
}
AGENT = SUMMARY | {
    "risk_position_size_pct": f"{REAL}?",
    "risk_stop_loss_pct": f"{REAL}?",
    "risk_trailing_stop_pct": f"{REAL}?",
    "risk_take_profit_pct": f"{REAL}?",
    "min_confidence": REAL,
    "max_positions": WHOLE,
    "stats_total_trades": f"{WHOLE}?",
    "stats_win_rate_pct": f"{REAL}?",
    "stats_total_pnl_usd": f"{REAL}?",
    "updated_at": f"{MOMENT}?",
}
POSITION = load("positions_page.json")["data"][0]
RECORD = load("market/token_signals.json")["data"]["results"][0]["signals"][0] | {
    "createdAt": "2026-01-04T01:20:58.123456Z",
    "previousShortSMA": None,
}
BALANCE = _answers.BALANCE | {
    "token_balances": [{"token_address": "0x1", "token_symbol": "Ä", "balance": 1.5, "balance_usd": 3.0}]
}
CASES: dict[str, tuple[dict[str, str], list[Any]]] = {
    "Trade": (TRADE, [_answers.trade(), _answers.trade("t2", exit_price_usd=2, closed_at=1_750_000_000, new=[1])]),
    "AgentSummary": (SUMMARY, [_answers.summary(status="a status of tomorrow")]),
    "Wallet": (
        {"id": TEXT, "address": TEXT, "chain_id": WHOLE, "label": TEXT, "created_at": MOMENT},
        [_answers.wallet()],
    ),
    "Position": (
        {
            name: {"chain_id": WHOLE, "opened_at": MOMENT}.get(name, TEXT if isinstance(value, str) else REAL)
            for name, value in POSITION.items()
        },
        [POSITION],
    ),
    "Signal": (SIGNAL, [_answers.signal()]),
    "Agent": (AGENT, [_answers.agent(risk={"stop_loss_pct": 5, "more": 1}), _answers.created("a2")]),
    "StreamSignal": (
        SIGNAL | {"type": TEXT, "replayed": FLAG, "late": FLAG},
        [_answers.signal() | {"type": "signal"}],
    ),
    "WalletBalance": (
        {"wallet_id": TEXT, "native_balance_usd": REAL, "token_balances": TEXT, "updated_at": MOMENT},
        [BALANCE],
    ),
    "SignalRecord": (
        {
            "signal": TEXT,
            "reason": TEXT,
            "signal_price_eth": REAL,
            "signal_price_usd": REAL,
            "signal_price_formatted": TEXT,
            "created_at": MOMENT,
            "previous_short_sma": f"{REAL}?",
            "previous_long_sma": f"{REAL}?",
            "crossover_detected": FLAG,
            "consecutive_green_candles": WHOLE,
        },
        [RECORD],
    ),
}
IN_PANDAS = {TEXT: "string", WHOLE: "Int64", REAL: "float64", FLAG: "boolean", MOMENT: "datetime64[us, UTC]"}
IN_POLARS = {
    TEXT: "String",
    WHOLE: "Int64",
    REAL: "Float64",
    FLAG: "Boolean",
    MOMENT: "Datetime(time_unit='us', time_zone='UTC')",
}


def table_of(name: str, items: list[Any]) -> tuple[list[Any], pa.Table]:
    model: type[Model] = getattr(tradesdk, name)
    read = [model.model_validate(item) for item in items]
    return read, arrow_table(model, read)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_columns_and_types(name: str, full: bool, tmp_path: Path) -> None:
    types, items = CASES[name]
    read, table = table_of(name, items if full else [])
    assert {field.name: f"{field.type}{'?' if field.nullable else ''}" for field in table.schema} == types
    assert table.num_rows == len(read)
    for column in set(table.column_names) & set(type(read[0]).model_fields if read else ()) - {"token_balances"}:
        assert table[column].to_pylist() == [getattr(item, column) for item in read]
    pq.write_table(table, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_a_list_as_a_table() -> None:
    first = _answers.page([_answers.trade("t1"), _answers.trade("t2")], "c1")
    with client_of(_answers.Service(_answers.ok(first))) as client:
        assert client.trades.list(max_items=2).to_arrow()["id"].to_pylist() == ["t1", "t2"]


def test_frames_of_pandas_and_polars() -> None:
    """One test, as each worker that meets one of them imports both for seconds."""
    for name, (types, items) in CASES.items():
        for table in (table_of(name, items)[1], table_of(name, [])[1]):
            frame, other = pandas_frame(table), polars_frame(table)
            plain = {column: kind.rstrip("?") for column, kind in types.items()}
            assert {k: str(v) for k, v in frame.dtypes.items()} == {k: IN_PANDAS[v] for k, v in plain.items()}, name
            assert {k: str(v) for k, v in other.schema.items()} == {k: IN_POLARS[v] for k, v in plain.items()}, name
            assert other.to_dicts() == table.to_pylist(), name
            for column, kind in types.items():
                found = table[column].to_pylist()
                assert frame[column].isna().tolist() == [value is None for value in found], (name, column)
                assert kind != MOMENT or frame[column].tolist() == found, (name, column)


def test_nested_values() -> None:
    rows = table_of("Agent", CASES["Agent"][1])[1].to_pylist()
    names = ("risk_stop_loss_pct", "risk_take_profit_pct", "stats_total_trades", "stats_total_pnl_usd")
    assert [[row[name] for name in names] for row in rows] == [[5.0, None, 3, -1.5], [None, None, None, None]]
    (row,) = table_of("WalletBalance", [BALANCE])[1].to_pylist()
    assert tradesdk.RawResponse(200, {}, row["token_balances"].encode()).json() == BALANCE["token_balances"]


def test_times_and_missing_values() -> None:
    table = table_of("SignalRecord", [RECORD])[1]
    moment = datetime(2026, 1, 4, 1, 20, 58, 123456, UTC)
    assert table["created_at"].to_pylist() == [moment]
    assert table["previous_short_sma"].to_pylist() == [None]


@each_of(
    ("item", "message"),
    [
        (Trade.model_validate(_answers.trade()), "a table of Signal cannot contain a Trade"),
        (Signal.model_validate(_answers.signal(chain_id=2**63)), "chain_id has a value that is not int64"),
    ],
)
def test_what_does_not_fit(item: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        arrow_table(Signal, [item])


@pytest.mark.parametrize(
    ("missing", "method"),
    [("pyarrow", "to_arrow"), ("pyarrow", "to_pandas"), ("pandas", "to_pandas"), ("polars", "to_polars")],
)
def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, missing: str, method: str) -> None:
    """Nothing is sent: the service would not be there."""
    monkeypatch.setitem(sys.modules, missing, None)
    pager = TradeClient(api_key="k", base_url="https://service.invalid").trades.list()
    with pytest.raises(TradeError) as caught:
        getattr(pager, method)()
    arrow = install("pyarrow").removeprefix("pip install")
    needed = install(missing) + (arrow if missing != "pyarrow" else "")
    assert (caught.value.code, caught.value.message) == ("missing_package", f"{missing} is not installed: {needed}")
