"""Long lists: gone on with from a checkpoint, and what has come is kept, whatever ends them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted, agent
from ._streams import event
from ._terminal import Terminal


def signal() -> dict[str, Any]:
    return {key: value for key, value in event().items() if key not in ("type", "replayed", "late", "redelivered")}


ALL = ("trades", "list", "--all", "--page-size", "40")
LONG = pytest.mark.long
LIMITED = {"error": {"code": "rate_limited", "message": "slow down"}}


def place(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoint.read_text())["place"]
    return found


def killed(checkpoint: Path) -> None:
    """As a run leaves it that was killed while it wrote a page."""
    state = json.loads(checkpoint.read_text())
    assert state["place"]["working"] is False
    state["place"]["working"] = True
    checkpoint.write_text(json.dumps(state))


# Going on


@pytest.mark.parametrize("form", ["csv", *(pytest.param(form, marks=LONG) for form in ("ndjson", "tsv"))])
def test_a_pull_goes_on_in_its_file(world: Terminal, files: Path, form: str) -> None:
    whole, parts, kept = files / f"whole.{form}", files / f"parts.{form}", files / "pull.json"
    assert world(*ALL, "--out", str(whole), "--checkpoint", str(files / "other.json")).code == 0
    line = ("trades", "list", "--page-size", "40", "--out", str(parts), "--checkpoint", str(kept))
    first = world(*line, "--limit", "50")
    assert (first.code, first.out) == (0, "")
    assert first.notes[-1]["count"] == 50
    assert (place(kept)["count"], place(kept)["offset"], place(kept)["done"]) == (50, parts.stat().st_size, False)
    assert world(*line, "--limit", "130").notes[-1]["note"] == (
        f"130 trades are in {parts}; there is more: a larger --limit or --all goes on there"
    )
    rest = world(*line, "--all")
    assert rest.notes[0] == {"type": "pull", "note": "going on after 130 trades", "count": 130}
    assert rest.notes[-1] == {"type": "pull", "note": f"250 trades are in {parts}", "count": 250, "done": True}
    assert parts.read_bytes() == whole.read_bytes()
    if os.name == "posix":
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_what_is_complete_is_left_alone(world: Terminal, server: MockServer, files: Path) -> None:
    out, kept = files / "t.ndjson", files / "pull.json"
    line = (*ALL, "--out", str(out), "--checkpoint", str(kept))
    assert world(*line).code == 0
    before = out.read_bytes()
    server.clear_journal()
    again = world(*line)
    assert (again.code, again.out, again.notes) == (
        0,
        "",
        [
            {
                "type": "pull",
                "note": f"all 250 trades came before in {out}; --restart starts over",
                "count": 250,
                "done": True,
            }
        ],
    )
    limited = world("trades", "list", "--limit", "10", "--out", str(out), "--checkpoint", str(kept))
    assert limited.code == 0
    assert server.journal("shared") == []
    assert out.read_bytes() == before
    assert world(*line, "--restart").code == 0
    assert len(server.journal("shared")) == 7
    assert out.read_bytes() == before


def test_rows_beyond_the_checkpoint_are_cut_off(world: Terminal, files: Path) -> None:
    """A process that is killed has written more than the checkpoint knows."""
    out, kept = files / "t.csv", files / "pull.json"
    line = ("trades", "list", "--out", str(out), "--checkpoint", str(kept))
    world(*line, "--limit", "30")
    killed(kept)
    with out.open("a") as file:
        file.write("half a li")
    run = world(*line, "--all")
    assert run.code == 0
    assert run.notes[0]["note"] == "going on after 30 trades; 9 bytes of a page that broke off are replaced"
    rows = out.read_text().splitlines()
    assert len(rows) == 251
    assert len(set(rows)) == 251
    assert all(row.startswith("trd_") for row in rows[1:])


def test_stdout_goes_on_in_ndjson(world: Terminal, files: Path) -> None:
    kept = ("--checkpoint", str(files / "pull.json"))
    first = world("trades", "list", "--limit", "40", *kept)
    rest = world("trades", "list", "--all", *kept)
    assert len({trade["id"] for trade in (*first.lines, *rest.lines)}) == 250
    assert len(first.lines) + len(rest.lines) == 250
    assert rest.notes[-1]["note"] == "250 trades are printed"


def test_a_history_stays_the_one_that_it_was(trade: Terminal, service: Scripted, files: Path) -> None:
    kept = files / "pull.json"
    line = ("signals", "history", "--chain", "base", "--checkpoint", str(kept))
    service.says(200, {"data": [signal()], "next_cursor": "c"})
    assert trade(*line, "--since", "24h", "--limit", "1").code == 0
    state = json.loads(kept.read_text())
    state["place"]["pinned"] = {"start": 1_700_000_000.5, "end": 1_700_090_000}  # it began long ago
    kept.write_text(json.dumps(state))
    assert trade(*line, "--since", "24h", "--limit", "2").code == 0
    first, second = (parse_qs(urlsplit(path).query) for _, path, _ in service.seen)
    assert float(first["to"][0]) - float(first["from"][0]) == pytest.approx(86_400, abs=5)
    assert (second["from"], second["to"], second["cursor"]) == (["1700000000"], ["1700090000"], ["c"])
    other = trade(*line, "--since", "48h", "--all")
    assert (other.code, "start=24h" in other.problem["message"]) == (2, True)


@each_of(
    ("change", "said"),
    [
        (("trades", "list", "--status", "open"), "GET /v1/trades, and this would be GET /v1/trades status=open"),
        (("positions", "list"), "GET /v1/positions"),
        (("trades", "list", "--out", "other.csv"), "other.csv"),
        (("trades", "list", "--fields", "id"), "has all fields, and this would have the fields id"),
        (("trades", "list", "-o", "ndjson"), "writes csv, and this would be ndjson"),
    ],
)
def test_other_work_is_refused_by_name(world: Terminal, files: Path, change: tuple[str, ...], said: str) -> None:
    out, kept = files / "t.csv", files / "pull.json"
    assert world("trades", "list", "--limit", "5", "--out", str(out), "--checkpoint", str(kept)).code == 0
    before = (out.read_bytes(), kept.read_bytes())
    change = tuple(str(files / word) if word == "other.csv" else word for word in change)
    where = () if "--out" in change else ("--out", str(out))
    run = world(*change, *where, "--all", "--checkpoint", str(kept))
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert "--restart starts over" in run.err
    assert (out.read_bytes(), kept.read_bytes()) == before


def test_another_service_or_key_is_refused(own: Terminal, trade: Terminal, server: MockServer, files: Path) -> None:
    line = ("agents", "list", "--limit", "1", "--checkpoint", str(files / "pull.json"))
    assert own(*line).code == 0
    other = own(*line, env={"TRADE_API_KEY": "mock_full_shared"})
    assert (other.code, other.problem["message"].endswith("was made with another API key")) == (2, True)
    mock = own("--mock", *line)
    assert mock.code == 2
    assert "and this is mock world default" in mock.problem["message"]
    assert own.env["TRADE_API_KEY"] not in (files / "pull.json").read_text()


def test_what_does_not_go_together(world: Terminal, files: Path) -> None:
    kept = ("--checkpoint", str(files / "pull.json"))
    for line, said in (
        (("trades", "list", *kept), "how long"),
        (("trades", "list", "--all", "--restart"), "--restart belongs to --checkpoint"),
        (("trades", "list", "--all", *kept, "-o", "json"), "json is one piece"),
        (("trades", "list", "--all", *kept, "-o", "table"), "table is one piece"),
        (("trades", "list", "--all", *kept, "-o", "csv"), "csv in a file only"),
        (("trades", "list", "--all", *kept, "--query", "[0]"), "--query looks at a whole list"),
    ):
        run = world(*line)
        assert (run.code, run.out) == (2, ""), line
        assert said in run.err, line
    assert list(files.iterdir()) == []


def test_a_file_that_is_there_already_is_not_overwritten(world: Terminal, files: Path) -> None:
    out = files / "t.csv"
    out.write_text("of yesterday\n")
    line = (*ALL, "--out", str(out), "--checkpoint", str(files / "pull.json"))
    run = world(*line)
    assert (run.code, out.read_text()) == (2, "of yesterday\n")
    assert "exists already" in run.problem["message"]
    assert world(*line, "--restart").code == 0
    assert len(out.read_text().splitlines()) == 251


def test_a_file_that_is_gone_is_no_place_to_go_on(world: Terminal, files: Path) -> None:
    out = files / "t.csv"
    line = ("trades", "list", "--out", str(out), "--checkpoint", str(files / "pull.json"))
    world(*line, "--limit", "5")
    out.unlink()
    run = world(*line, "--all")
    assert run.code == 2
    assert "is shorter than it was" in run.problem["message"]


@each_of(
    "text",
    ["", "{", "[]", "{}", "\x00", '{"version": 2}', '{"version": 1, "work": {}, "place": {}}', "[" * 100_000],
)
def test_a_damaged_checkpoint(world: Terminal, files: Path, text: str) -> None:
    kept = files / "pull.json"
    kept.write_text(text)
    run = world(*ALL, "--checkpoint", str(kept))
    assert (run.code, run.problem["code"]) == (3, "checkpoint")
    assert str(kept) in run.problem["message"]
    assert "--restart" in run.problem["hint"]
    assert kept.read_text() == text


def test_a_checkpoint_that_cannot_be(world: Terminal, files: Path) -> None:
    for name in (files, files / "none" / "pull.json"):
        run = world(*ALL, "--checkpoint", str(name))
        assert (run.code, run.out) == (3, "")
        assert str(name) in run.err


@pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")
def test_two_at_once_are_refused(world: Terminal, files: Path) -> None:
    import fcntl

    kept = files / "pull.json"
    assert world("trades", "list", "--limit", "5", "--checkpoint", str(kept)).code == 0
    with kept.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run = world("trades", "list", "--all", "--checkpoint", str(kept))
        assert (run.code, run.out) == (3, "")
        assert "another command works with" in run.problem["message"]
    assert world("trades", "list", "--all", "--checkpoint", str(kept)).code == 0


def test_a_cursor_that_the_service_forgot(trade: Terminal, service: Scripted, files: Path) -> None:
    kept = ("--checkpoint", str(files / "pull.json"))
    service.says(200, {"data": [agent(id="agt_1")], "next_cursor": "c1"})
    service.then(400, {"error": {"code": "invalid_request", "message": "cursor: expired"}})
    assert trade("agents", "list", "--limit", "1", *kept).code == 0
    run = trade("agents", "list", "--all", *kept)
    assert run.code == 8
    said, problem = run.notes
    assert said["count"] == 1
    assert (problem["code"], problem["status"]) == ("cursor", 400)
    assert "cursor: expired" in problem["message"]
    assert "--restart starts over" in problem["hint"]
    service.says(200, {"data": [agent(id="agt_1")]})
    assert trade("agents", "list", "--all", *kept, "--restart").code == 0
