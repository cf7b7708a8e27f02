"""A stream into a file: line by line, and gone on with so that no signal is lost or there twice."""

from __future__ import annotations

import csv
import json
import os
import signal as signals
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk_cli.results.outtail import last_id
from tradesdk_mock import MockServer

from ._streams import STREAM, emit, quick_market, tape_of
from ._streams import event as held
from ._terminal import Terminal
from .test_processes import started


@pytest.fixture
def market(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockServer]:
    with quick_market(trade, monkeypatch) as running:
        yield running


def in_file(file: Path) -> list[str]:
    """The ids in NDJSON or CSV."""
    text = file.read_text()
    if file.suffix == ".csv":
        return [row["id"] for row in csv.DictReader(text.splitlines())]
    return [json.loads(line)["id"] for line in text.splitlines()]


LONG = pytest.mark.long


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


@pytest.mark.parametrize("ending", ["csv", *(pytest.param(form, marks=LONG) for form in ("ndjson", "tsv"))])
def test_what_a_killed_run_wrote_is_not_written_again(trade: Terminal, market: MockServer, ending: str) -> None:
    """It was killed when the line was in the file and not acknowledged."""
    file = trade.home / f"signals.{ending}"
    resume = (*STREAM, "--checkpoint", str(trade.home / "place.json"), "--until-idle", "0.1s", "--out", str(file))
    assert trade(*resume).code == 0
    place = (trade.home / "place.json").read_bytes()
    emit(market, 1)
    assert trade(*resume).code == 0
    once = file.read_bytes()
    (trade.home / "place.json").write_bytes(place)
    assert trade(*resume).code == 0
    assert file.read_bytes() == once
    emit(market, 1)
    (trade.home / "place.json").write_bytes(place)
    assert trade(*resume).code == 0
    assert file.read_bytes().startswith(once)
    assert len(file.read_text().splitlines()) == len(once.splitlines()) + 1


def test_what_a_killed_run_wrote_may_come_after_something_older(trade: Terminal, market: MockServer) -> None:
    file, place = trade.home / "signals.ndjson", trade.home / "place.json"
    resume = (*STREAM, "--checkpoint", str(place), "--until-idle", "0.1s", "--out", str(file))
    assert trade(*resume).code == 0
    before = place.read_bytes()
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
    assert in_file(file)[-2:] == [older, written], "what never comes drops nothing"


def test_the_last_id_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    cases: list[tuple[str, str, str | None]] = [
        ("ndjson", '{"id":"a"}\n{"id":"b"}\n', "b"),
        ("ndjson", '{"id":"a"}\n{"id":', None),
        ("ndjson", '{"id":1}\n', None),
        ("ndjson", "[1]\n", None),
        ("ndjson", "[" * 60_000, None),
        ("ndjson", "", None),
        ("csv", "type,id,x\nsignal,a,1\nsignal,b,2\n", "b"),
        ("csv", "type,x\nsignal,1\n", None),
        ("csv", "id\n", "id"),
        ("csv", 'id,x\na,"1\n2"\n', "a"),
        ("csv", 'id,x\na,1\nb,"1\n""2"", c\n\n"\n', "b"),
        ("csv", 'id,x\na,"1\n2', None),
        ("tsv", "id\tx\na\t1\n", "a"),
        ("yaml", "- id: a\n", None),
    ]
    for form, text, found in cases:
        file.write_text(text)
        assert last_id(file, form) == found, text[:40]
    assert last_id(tmp_path / "none", "csv") is None


def test_a_tape_into_a_file(trade: Terminal) -> None:
    tape = tape_of(trade.home / "a.tape", (0.0, held(1)), (0.0, held(2)))
    file = trade.home / "out.ndjson"
    for times in (1, 2):
        assert trade("replay", str(tape), "--speed", "max", "--out", str(file)).code == 0
        assert in_file(file) == [held(1)["id"], held(2)["id"]] * times, "whoever plays it twice wants it twice"


@LONG
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_stopped_again_and_again_none_is_lost_or_there_twice(trade: Terminal, market: MockServer) -> None:
    file = trade.home / "signals.ndjson"
    resume = (*STREAM, "--since", "last", "--out", str(file))
    assert trade(*resume, "--until-idle", "0.1s").code == 0
    published: list[str] = []
    for number in (signals.SIGINT, signals.SIGKILL):
        published += emit(market, 300)
        with started(trade, *resume) as process:
            while len(file.read_text().splitlines()) < len(published) - 250:
                assert process.poll() is None
            process.send_signal(number)
            assert process.wait(30) in (130, 143, -signals.SIGKILL)
    assert trade(*resume, "--until-idle", "0.5s").code == 0
    assert in_file(file) == published
