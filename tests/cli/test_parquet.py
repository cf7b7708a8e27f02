"""`--out x.parquet`: lists with the columns and types of the SDK's tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tradesdk import AgentSummary, Position, Signal, Trade, Wallet, arrow_table

from .. import _answers
from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal


@each_of("full", [True, False])
@each_of(
    ("line", "model", "item"),
    [
        ("agents list", AgentSummary, _answers.summary()),
        ("wallets list", Wallet, _answers.wallet()),
        ("trades list", Trade, _answers.trade(new_field=1)),
        ("positions list", Position, _answers.position()),
        ("signals history --chain base", Signal, _answers.signal()),
    ],
)
def test_lists(
    service: Scripted, trade: Terminal, tmp_path: Path, line: str, model: Any, item: dict[str, Any], full: bool
) -> None:
    items = [item] if full else []
    service.says(200, {"data": items})
    file = tmp_path / "a.PARQUET"
    file.write_text("old\n")
    run = trade(*line.split(), "--out", str(file))
    assert (run.code, run.out) == (0, ""), run.err
    assert f"{len(items)} item{'' if full else 's'} written to {file}" in [note["note"] for note in run.notes]
    assert pq.read_table(file).equals(arrow_table(model, [model.model_validate(one) for one in items]))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [file.name]


def test_fields(service: Scripted, trade: Terminal, tmp_path: Path) -> None:
    service.says(200, {"data": [_answers.trade()]})
    file = str(tmp_path / "a.parquet")
    assert trade("trades", "list", "--out", file, "--fields", "pnl_usd,id").code == 0
    assert pq.read_table(file).to_pylist() == [{"pnl_usd": None, "id": "t1"}]


def test_another_format_can_be_asked_for(service: Scripted, trade: Terminal, tmp_path: Path) -> None:
    service.says(200, {"data": [_answers.trade()]})
    file = tmp_path / "a.parquet"
    assert trade("trades", "list", "--out", str(file), "-o", "csv").code == 0
    assert file.read_text().startswith("id,")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("trades list --query [0]", 2, "--query cannot be used with a .parquet file"),
        ("trades list --fields pnl", 2, "--fields: there is no field pnl"),
        ("agents get agt_1", 2, "--out: this command writes no .parquet files"),
        ("signals stream --chain base", 2, "--out: this command writes no .parquet files"),
    ],
)
def test_refused_before_anything_is_sent(
    service: Scripted, trade: Terminal, tmp_path: Path, line: str, code: int, message: str
) -> None:
    file = tmp_path / "a.parquet"
    file.write_text("old\n")
    run = trade(*line.replace("place", str(tmp_path / "place")).split(), "--out", str(file))
    assert (run.code, run.problem["message"]) == (code, message)
    assert service.seen == []
    assert file.read_text() == "old\n"


def test_without_pyarrow(service: Scripted, trade: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    run = trade("trades", "list", "--out", str(tmp_path / "a.parquet"))
    assert (run.code, run.problem["message"]) == (3, "a .parquet file needs pyarrow, which is not installed")
    assert run.problem["hint"] == "pip install 'tradesdk[frames]'"
    assert service.seen == []


def test_a_list_that_ends_on_the_way_leaves_what_was_there(service: Scripted, trade: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_text("old\n")
    service.says(200, {"data": [_answers.trade()], "next_cursor": "c1"})
    service.then(404, {"error": {"code": "not_found", "message": "gone"}})
    run = trade("trades", "list", "--all", "--out", str(file))
    assert run.code == 6
    assert file.read_text() == "old\n"
    assert pq.read_table(f"{file}.part")["id"].to_pylist() == ["t1"]
