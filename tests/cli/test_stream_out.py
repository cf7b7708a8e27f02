"""A stream into a file: line by line, and continued so that no signal is lost or there twice."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal as signals
import subprocess
import time
from pathlib import Path

import pytest

from tradesdk_cli.output.outfile import last_time, rows_back
from tradesdk_mock import MockServer

from ._streams import STREAM, emit, said
from ._streams import event as held
from ._terminal import Terminal
from .test_processes import started


def in_file(file: Path) -> list[str]:
    """The ids in NDJSON or CSV."""
    text = file.read_text()
    if file.suffix == ".csv":
        return [row["id"] for row in csv.DictReader(text.splitlines())]
    return [json.loads(line)["id"] for line in text.splitlines()]


LONG = pytest.mark.long


@pytest.mark.long
@pytest.mark.parametrize("ending", ["ndjson", pytest.param("csv", marks=LONG)])
def test_runs_go_on_in_one_file(trade: Terminal, market: MockServer, ending: str) -> None:
    file = trade.home / f"signals.{ending}"
    resume = (*STREAM, "--since", "last", "--until-idle", "0.1s", "--out", str(file))
    assert trade(*resume).code == 0
    first = emit(market, 3)
    run = trade(*resume, "--count", "2")
    assert (run.code, run.out) == (0, "")
    assert in_file(file) == first[:2]
    second = emit(market, 2)
    assert trade(*resume).code == 0
    assert in_file(file) == [*first, *second]


def test_strong_buy_signals_into_a_file(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "strong.csv"
    line = (*STREAM, "--since", "1h", "--direction", "buy", "--min-confidence", "0.8", "--until-idle", "0.1s")
    wanted = market.emit_signal(direction="BUY", confidence=0.9).id
    market.emit_signal(direction="SELL", confidence=0.9)
    market.emit_signal(direction="BUY", confidence=0.5)
    since = str(int(market.clock.now()) - 600)
    run = trade(*(since if word == "1h" else word for word in line), "--out", str(file))
    assert (run.code, in_file(file)) == (0, [wanted])


@pytest.mark.long
@pytest.mark.parametrize("ending", ["csv", *(pytest.param(form, marks=LONG) for form in ("ndjson", "tsv"))])
def test_what_a_killed_run_wrote_is_not_written_again(trade: Terminal, market: MockServer, ending: str) -> None:
    """It was killed when the line was in the file and not acknowledged."""
    file = trade.home / f"signals.{ending}"
    resume = (*STREAM, "--since", "last", "--until-idle", "0.1s", "--out", str(file))
    assert trade(*resume).code == 0
    (place,) = (trade.home / "checkpoints").glob("*.json")
    before = place.read_bytes()
    emit(market, 1)
    assert trade(*resume).code == 0
    once = file.read_bytes()
    place.write_bytes(before)
    assert trade(*resume).code == 0
    assert file.read_bytes() == once
    emit(market, 1)
    place.write_bytes(before)
    assert trade(*resume).code == 0
    assert file.read_bytes().startswith(once)
    assert len(file.read_text().splitlines()) == len(once.splitlines()) + 1


@pytest.mark.parametrize(
    ("ending", "torn", "comes_again"),
    [
        pytest.param("ndjson", 20, True, marks=LONG),
        pytest.param("ndjson", 1, False, marks=LONG),
        ("csv", 60, True),
        pytest.param("csv", 1, False, marks=LONG),
    ],
)
def test_a_row_that_a_killed_run_did_not_write_whole(
    trade: Terminal, market: MockServer, ending: str, torn: int, comes_again: bool
) -> None:
    """The kernel may end a write between two pages: the row is replaced when its signal comes again."""
    file = trade.home / f"signals.{ending}"
    since = str(int(market.clock.now()))
    first = emit(market, 2)
    assert trade(*STREAM, "--since", since, "--count", "2", "--out", str(file)).code == 0
    (place,) = (trade.home / "checkpoints").glob("*.json")
    before = place.read_bytes()
    second = emit(market, 1)
    resume = (*STREAM, "--since", "last", "--out", str(file))
    assert trade(*resume, "--count", "1").code == 0
    whole = file.read_bytes()
    os.truncate(file, len(whole) - torn)
    (place,) = (trade.home / "checkpoints").glob("*.json")
    place.write_bytes(before)
    assert trade(*resume, "--until-idle", "0.1s").code == 0
    assert in_file(file) == [*first, *second]
    if not comes_again:  # only its line break was missing
        assert file.read_bytes() == whole


@pytest.mark.long
def test_what_a_killed_run_wrote_may_come_after_something_older(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "signals.ndjson"
    resume = (*STREAM, "--since", "last", "--until-idle", "0.1s", "--out", str(file))
    assert trade(*resume).code == 0
    (place,) = (trade.home / "checkpoints").glob("*.json")
    before = place.read_bytes()
    market.clock.advance(60)
    (written,) = emit(market, 1)
    assert trade(*resume).code == 0
    place.write_bytes(before)  # it was killed before it could say so
    older = market.emit_signal(timestamp=int(market.clock.now()) - 5).id
    assert trade(*resume).code == 0
    assert in_file(file) == [written, older]
    with file.open("a") as more:
        more.write(json.dumps(held(255)) + "\n")
    place.write_bytes(before)
    assert trade(*resume).code == 0
    assert in_file(file) == [written, older, held(255)["id"]], "whatever else was written meanwhile"


@pytest.mark.long
@pytest.mark.parametrize("ending", ["ndjson", pytest.param("csv", marks=LONG)])
def test_ordinary_runs_and_those_that_go_on_in_one_file(
    trade: Terminal, market: MockServer, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """None is lost, and none is there twice, in whatever order they come."""
    monkeypatch.setattr("tradesdk_cli.output.outfile._BLOCK", 2048)
    file = trade.home / f"signals.{ending}"
    since = str(int(market.clock.now()))
    out = ("--until-idle", "0.1s", "--out", str(file))
    resume = (*STREAM, "--since", "last", *out)
    published = emit(market, 4)
    assert trade(*STREAM, "--since", since, *out, "--count", "2").code == 0
    published += emit(market, 2)
    assert trade(*resume, "--count", "3").code == 0
    assert in_file(file) == published[:5]
    published += emit(market, 2)
    assert trade(*STREAM, *out).code == 0, "it begins now, and has nothing"
    market.clock.advance(300)
    now = str(int(market.clock.now()))
    published += emit(market, 40)
    assert trade(*STREAM, "--since", now, *out).code == 0
    assert in_file(file) == [*published[:5], *published[8:]]
    with file.open("a") as more:  # one that came late: what stands before it is newer all the same
        last = file.read_text().splitlines()[-1].replace(published[-1], "sig_late")
        more.write(re.sub(r"\b1\d{9}\b", lambda found: str(int(found[0]) - 900), last) + "\n")
    assert trade(*resume).code == 0
    assert sorted(in_file(file)) == sorted([*published, "sig_late"])
    assert trade(*resume).code == 0
    assert len(in_file(file)) == len(published) + 1


@pytest.mark.long
def test_without_a_place_it_begins_with_the_last_signal_of_the_file(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "signals.csv"
    out = ("--until-idle", "0.1s", "--out", str(file))
    since = str(int(market.clock.now()))
    published = emit(market, 2)
    market.clock.advance(60)
    published += emit(market, 2)
    assert trade(*STREAM, "--since", since, *out, "--count", "3").code == 0
    shutil.rmtree(trade.home / "checkpoints")
    market.clock.advance(60)
    published += emit(market, 1)
    run = trade(*STREAM, "--since", "last", *out)
    (note,) = said(run, "no_last")
    assert note["note"].endswith("so it begins with the last signal in the file")
    assert in_file(file) == published


def test_the_rows_at_the_end_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    cases: list[tuple[str, str, list[tuple[str, float | None]]]] = [
        ("ndjson", '{"id":"a","timestamp":5}\n{"id":"b","timestamp":4}\n', [("a", 5.0), ("b", 4.0)]),
        ("ndjson", '{"id":"a"}\n{"id":', [("a", None)]),
        ("ndjson", '{"id":1}\n', []),
        ("ndjson", '{"id":"a","timestamp":"soon"}\n', [("a", None)]),
        ("ndjson", '{"id":"a","timestamp":1e999}\n', [("a", None)]),
        ("ndjson", "[1]\n", []),
        ("ndjson", "[" * 60_000, []),
        ("ndjson", "", []),
        ("csv", "type,id,timestamp\nsignal,a,1\nsignal,b,2\n", [("a", 1.0), ("b", 2.0)]),
        ("csv", "type,x\nsignal,1\n", []),
        ("csv", "id\n", []),
        ("csv", 'id,x\na,"1\n2"\nb,1\n', [("a", None), ("b", None)]),
        ("csv", 'id,x\na,1\nb,"1\n""2"", c\n\n"\n', [("a", None), ("b", None)]),
        ("csv", 'id,x\na,"1\n2', []),
        ("csv", 'id,x\na,1\nb,"cut\nc,1\nd,1\n', [("c", None), ("d", None)]),  # a kill within quotes hides no later row
        ("tsv", "id\tx\na\t1\n", [("a", None)]),
        ("table", "id\na\n", []),
    ]
    for form, text, found in cases:
        file.write_text(text)
        assert list(rows_back(file, form)) == found[::-1], text[:40]
        assert last_time(file, form) == max((when for _, when in found if when is not None), default=None)
    assert list(rows_back(tmp_path / "none", "csv")) == []


@LONG
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_stopped_again_and_again_none_is_lost_or_there_twice(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "signals.ndjson"
    resume = (*STREAM, "--since", "last", "--out", str(file))
    assert trade(*resume, "--until-idle", "0.1s").code == 0
    assert_all_there(trade, market, file, resume, [])


@LONG
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ordinary_runs_that_are_stopped_are_gone_on_with(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "signals.ndjson"
    since = ("--since", str(int(market.clock.now())))
    for number in (signals.SIGINT, signals.SIGKILL):
        file.unlink(missing_ok=True)
        for place in trade.home.glob("checkpoints/*"):
            place.unlink()
        published = emit(market, 100)
        with started(trade, *STREAM, *since, "--out", str(file)) as process:
            stopped_when(process, file, 10, number)
        assert_all_there(trade, market, file, (*STREAM, "--since", "last", "--out", str(file)), published)
        market.clock.advance(100)
        since = ("--since", str(int(market.clock.now())))


def stopped_when(process: subprocess.Popen[str], file: Path, lines: int, number: signals.Signals) -> None:
    while not file.exists() or len(file.read_text().splitlines()) < lines:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    assert process.wait(30) in (130, 143, -signals.SIGKILL), process.communicate()[1]


def assert_all_there(
    trade: Terminal, market: MockServer, file: Path, resume: tuple[str, ...], published: list[str]
) -> None:
    for number in (signals.SIGINT, signals.SIGKILL):
        published += emit(market, 100)
        with started(trade, *resume) as process:
            stopped_when(process, file, len(published) - 80, number)
    assert trade(*resume, "--until-idle", "0.5s").code == 0
    assert in_file(file) == published
