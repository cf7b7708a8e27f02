"""`signals stream --since last`: going on where the last run ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tradesdk_cli.stream.follow as following
from tradesdk_mock import MockServer

from ._streams import STREAM, emit, ids, recent, said
from ._terminal import Terminal

pytestmark = pytest.mark.long


def test_the_next_run_goes_on_where_the_last_one_ended(trade: Terminal, market: MockServer) -> None:
    resume = (*STREAM, "--since", "last", "--until-idle", "0.3s")
    assert trade(*resume).out == "", "the first time there is nothing to go on from"
    first = emit(market, 3)
    part = trade(*resume, "--count", "2")
    assert ids(part) == first[:2]
    second = emit(market, 2)
    rest = trade(*resume)
    assert ids(rest) == [first[2], *second]
    assert trade(*resume).out == ""
    assert ids(trade(*recent(market), "--until-idle", "0.3s")) == [*first, *second], "it is a place of its own"
    (kept,) = (trade.home / "checkpoints").glob("*.json")
    assert "mock_full_me" not in kept.read_text()


def test_another_filter_or_file_has_a_place_of_its_own(trade: Terminal, market: MockServer) -> None:
    """What another run left out is not done for this one."""
    buys, sells = trade.home / "buys.ndjson", trade.home / "sells.ndjson"
    line = (*STREAM, "--since", "last", "--until-idle", "0.1s")
    buy, sell = (*line, "--direction", "BUY", "--out", str(buys)), (*line, "--direction", "SELL", "--out", str(sells))

    def inside(file: Path) -> list[str]:
        return [json.loads(text)["id"] for text in file.read_text().splitlines()]

    runs = [trade(*each) for each in (buy, sell, line)]
    assert [len(said(run, "no_last")) for run in runs] == [1, 1, 1]
    wanted = [market.emit_signal(direction="BUY").id for _ in range(2)]
    other = market.emit_signal(direction="SELL").id
    assert ids(trade(*line)) == [*wanted, other]
    assert trade(*sell).code == trade(*buy).code == 0
    assert (inside(sells), inside(buys)) == ([other], wanted)
    assert said(trade(*buy), "no_last") == []
    assert inside(buys) == wanted


def test_a_filter_has_one_place_in_any_case(trade: Terminal, market: MockServer) -> None:
    line = (*STREAM, "--since", "last", "--until-idle", "0.1s", "--token")
    trade(*line, "BRETT")
    trade(*line, "brett")
    assert len(list((trade.home / "checkpoints").glob("*.json"))) == 1


def test_a_place_in_a_time_to_come_is_said_and_loses_nothing(trade: Terminal, market: MockServer) -> None:
    run = (*STREAM, "--since", "last", "--until-idle", "0.3s")
    trade(*run)
    first = emit(market, 2)
    assert ids(trade(*run)) == first
    (file,) = (trade.home / "checkpoints").glob("*.json")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"position": kept["position"] + 3_600, "handled": []}))
    second = emit(market, 1)
    again = trade(*run)
    assert ids(again) == [*first, *second]
    (note,) = said(again, "position_reset")
    assert said(again, "history_unread") == []
    assert note["position"] - note["start"] >= 3_600


def test_what_failed_was_said_and_does_not_come_again(trade: Terminal, market: MockServer) -> None:
    resume = (*STREAM, "--since", "last", "--until-idle", "0.3s", "--exec", "false")
    trade(*resume)
    emitted = emit(market, 2)
    run = trade(*resume)
    assert (run.code, ids(run)) == (1, emitted)
    assert trade(*resume).out == ""


def test_a_checkpoint_that_is_damaged(trade: Terminal, market: MockServer) -> None:
    line = (*STREAM, "--since", "last", "--duration", "0.1s")
    trade(*line)
    (file,) = (trade.home / "checkpoints").glob("*.json")
    file.write_text("{")
    run = trade(*line)
    assert run.code == 3
    problem = run.problem
    assert problem["code"] == "checkpoint"
    assert str(file) in problem["message"]
    assert problem["hint"]
    assert file.read_text() == "{"


def test_worlds_of_the_mock_have_places_of_their_own(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SETTLE", 0.05)
    for world in ("one", "two"):
        run = trade("--world", world, *STREAM, "--since", "last", "--duration", "0.1s")
        assert run.code == 0, run.err
    assert sorted(file.name for file in (trade.home / "mock").glob("*checkpoint.json")) == [
        "one.8453.checkpoint.json",
        "two.8453.checkpoint.json",
    ]
    run = trade("--world", "one", *STREAM, "--since", "last", "--token", "BRETT", "--duration", "0.1s")
    assert run.code == 0, run.err
    assert len(list((trade.home / "mock").glob("one.8453-*.checkpoint.json"))) == 1


IDLE = ("--until-idle", "0.1s")
LAST = (*STREAM, "--since", "last", *IDLE)


def test_it_goes_on_from_an_ordinary_run(trade: Terminal, market: MockServer) -> None:
    """What came between that run and the first one with --since last is not lost."""
    before = emit(market, 2)
    assert trade(*STREAM, *IDLE).out == "", "it begins now"
    first = emit(market, 2)
    run = trade(*LAST)
    assert (ids(run), said(run, "no_last")) == (first, [])
    assert ids(trade(*recent(market), "--count", "3")) == [*before, first[0]]
    assert trade(*LAST).out == "", "a run with --since last was there, and nobody else moves its place"
    second = emit(market, 1)
    assert trade(*STREAM, *IDLE).out == ""
    assert ids(trade(*LAST)) == second


@pytest.mark.parametrize("count", [1, 2])
def test_it_goes_on_from_the_last_of_several_ordinary_runs(trade: Terminal, market: MockServer, count: int) -> None:
    published = emit(market, 3)
    for _ in range(2):
        assert ids(trade(*recent(market), "--count", str(count))) == published[:count]
    assert len(list((trade.home / "checkpoints").glob("*.json"))) == 1
    published += emit(market, 1)
    assert ids(trade(*LAST)) == published[count:]
    assert trade(*LAST).out == ""


def test_a_run_that_never_connected_is_not_the_last_one(trade: Terminal, market: MockServer) -> None:
    published = emit(market, 3)
    assert ids(trade(*recent(market), "--count", "1")) == published[:1]
    market.add_fault("status", route="/v1/signals/stream", status=403, count=1)
    assert trade(*STREAM).code == 5
    assert ids(trade(*LAST)) == published[1:]


def test_an_ordinary_run_needs_no_place(trade: Terminal, market: MockServer) -> None:
    (trade.home / "checkpoints").write_text("no folder")
    published = emit(market, 2)
    run = trade(*recent(market), "--count", "2")
    assert (run.code, ids(run)) == (0, published)
    assert trade(*LAST).code == 3


def test_an_ordinary_run_does_not_fail_when_its_place_is_gone(trade: Terminal, market: MockServer) -> None:
    published = emit(market, 3)
    remove = trade.home / "remove.py"
    remove.write_text(
        "import os, sys\n"
        f"if sys.argv[1] == {published[1]!r}:\n"
        f"    os.rename({str(trade.home / 'checkpoints')!r}, {str(trade.home / 'aside')!r})\n"  # at once
    )
    run = trade(*recent(market), "--count", "3", "--exec", f"{sys.executable} {remove} {{id}}")
    assert (run.code, ids(run)) == (0, published)
    assert not (trade.home / "checkpoints").exists()
