"""Long lists that something ends on the way: what has come is kept."""

from __future__ import annotations

import json
import os
import signal as signals
from pathlib import Path

import pytest

from tradesdk import SystemClock

from ._services import Scripted, agent
from ._terminal import Terminal
from .test_processes import started

pytestmark = pytest.mark.usefixtures("patient")

LONG = pytest.mark.long
LIMITED = {"error": {"code": "rate_limited", "message": "slow down"}}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever something waits, somebody presses Ctrl-C."""

    def enough(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", enough)


def two_pages(service: Scripted) -> None:
    """Two pages of agents; then the service has enough."""
    service.says(200, {"data": [agent(id="agt_1"), agent(id="agt_2")], "next_cursor": "c1"})
    service.then(200, {"data": [agent(id="agt_3")], "next_cursor": "c2"})
    service.then(429, LIMITED, Retry_After="7")


@pytest.mark.parametrize(
    "form", ["json", *(pytest.param(form, marks=LONG) for form in ("ndjson", "csv", "tsv", "table"))]
)
def test_ctrl_c_keeps_what_has_come(trade: Terminal, service: Scripted, impatient: None, form: str) -> None:
    two_pages(service)
    run = trade("agents", "list", "--all", "-o", form)
    assert run.code == 130
    found = [word for word in run.out.replace('"', " ").replace(",", " ").split() if word.startswith("agt_")]
    assert found == ["agt_1", "agt_2", "agt_3"]
    assert "interrupted: 3 agents are printed; --cursor continues there" in run.err
    assert "c2" in run.err
    if form == "json":
        assert [one["id"] for one in run.json] == found


def test_ctrl_c_on_a_terminal(trade: Terminal, service: Scripted, impatient: None) -> None:
    two_pages(service)
    run = trade("agents", "list", "--all", tty=True, columns=100, env={"NO_COLOR": "1"})
    assert run.code == 130
    assert len(run.out.splitlines()) == 4
    shown = [line.rpartition("\x1b[K")[2] for line in run.err.splitlines()]
    assert shown[-2:] == [
        "interrupted: 3 agents are printed; --cursor continues there",
        "next cursor: c2",
    ]


def test_ctrl_c_before_anything_came(trade: Terminal, service: Scripted, impatient: None) -> None:
    service.says(429, LIMITED, Retry_After="7")
    run = trade("agents", "list", "--all", "-o", "json")
    assert (run.code, run.out) == (130, "")
    assert run.notes[0]["note"].startswith("waiting 7 s, until ")
    assert run.notes[1:] == [{"note": "interrupted before the first page"}]


def test_an_error_on_the_way_keeps_what_has_come(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "c"})
    service.then(404, {"error": {"code": "not_found", "message": "gone"}})
    run = trade("agents", "list", "--all", "-o", "table")
    assert run.code == 6
    assert "agt_1" in run.out
    said = run.err.splitlines()
    assert said[0] == "1 agent is printed; --cursor continues there"
    assert said[1] == "next cursor: c"
    assert said[2].startswith("error: gone")


def test_a_file_keeps_its_content_and_the_rest_is_beside_it(
    trade: Terminal, service: Scripted, impatient: None, files: Path
) -> None:
    out = files / "agents.json"
    out.write_text("[]\n")
    two_pages(service)
    run = trade("agents", "list", "--all", "--out", str(out))
    assert (run.code, out.read_text()) == (130, "[]\n")
    kept = json.loads((files / "agents.json.part").read_text())
    assert [one["id"] for one in kept] == ["agt_1", "agt_2", "agt_3"]
    assert f"{out}.part" in run.err
    assert sorted(file.name for file in files.iterdir()) == ["agents.json", "agents.json.part"]


def test_nothing_is_left_when_the_first_page_does_not_come(trade: Terminal, service: Scripted, files: Path) -> None:
    service.fails(404, "not_found", "gone")
    run = trade("agents", "list", "--all", "--out", str(files / "agents.json"))
    assert (run.code, list(files.iterdir())) == (6, [])


@LONG
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(("number", "code"), [(signals.SIGINT, 130), (signals.SIGTERM, 143), (signals.SIGHUP, 129)])
def test_signals_keep_what_has_come(trade: Terminal, service: Scripted, number: signals.Signals, code: int) -> None:
    two_pages(service)
    with started(trade, "agents", "list", "--all", "-o", "json") as process:
        assert process.stderr is not None
        assert "waiting " in process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, [one["id"] for one in json.loads(out)]) == (code, ["agt_1", "agt_2", "agt_3"])
        assert json.loads(err)["next_cursor"] == "c2"
