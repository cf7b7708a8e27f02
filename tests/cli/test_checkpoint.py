"""Long lists: continued from a checkpoint, and what has come is kept, whatever ends them."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from filelock import FileLock, Timeout

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.files import refuse_same
from tradesdk_cli.lists.checkpoint import Pull
from tradesdk_cli.output.outfile import OutFile
from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted, agent
from ._streams import STREAM, event
from ._terminal import Terminal


def signal() -> dict[str, Any]:
    return {key: value for key, value in event().items() if key not in ("type", "replayed", "late")}


ALL = ("trades", "list", "--all", "--page-size", "40")
LONG = pytest.mark.long


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
        f"130 trades are in {parts}; there is more: a larger --limit or --all continues there"
    )
    rest = world(*line, "--all")
    assert rest.notes[0] == {"type": "pull", "note": "continuing after 130 trades", "count": 130}
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
    assert run.notes[0]["note"] == "continuing after 30 trades; 9 bytes of a page that broke off are replaced"
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
    assert float(first["to"][0]) - float(first["from"][0]) == pytest.approx(86_400, abs=60)
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


def test_two_at_once_are_refused(world: Terminal, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = files / "pull.json"
    line = ("trades", "list", "--checkpoint", str(kept))
    lock = files / ".pull.json.trade-lock"
    came, held = Pull.page_came, []

    def busy(pull: Pull) -> None:
        came(pull)
        with pytest.raises(Timeout):
            FileLock(lock, 0).acquire()
        held.append(pull)

    for there in (False, True):
        assert kept.exists() == there
        with FileLock(lock):
            run = world(*line, "--all")
            assert (run.code, run.out) == (3, "")
            assert "another command works with" in run.problem["message"]
        with monkeypatch.context() as patch:
            patch.setattr(Pull, "page_came", busy)
            assert world(*line, *(("--all",) if there else ("--limit", "5"))).code == 0
        assert len(held) > there
        assert sorted(files.iterdir()) == [lock, kept], "removed, two could hold the lock at once"


def refusing_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    opened = os.open

    def refuse(path: Any, *given: Any, **more: Any) -> int:
        if str(path).endswith(".trade-lock"):
            raise OSError(number, os.strerror(number))
        return opened(path, *given, **more)

    monkeypatch.setattr(os, "open", refuse)


@each_of(
    ("number", "there", "said"),
    [
        (errno.EACCES, True, "opened: Permission denied"),
        (errno.EPERM, True, "opened: Operation not permitted"),
        (errno.ELOOP, True, "opened: Too many levels"),
        (errno.ENOSPC, False, "made: No space left"),
        (errno.EACCES, False, None),  # of the folder
        (errno.EPERM, False, None),
        *((number, False, None) for number in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)),
        (errno.ENOLCK, True, None),
        (errno.EROFS, True, None),
        (errno.EROFS, False, None),
    ],
)
def test_a_lock_that_cannot_be_opened_is_said(
    world: Terminal, files: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: bool, said: str | None
) -> None:
    lock, kept = files / ".pull.json.trade-lock", files / "pull.json"
    kept.unlink(missing_ok=True)
    lock.unlink(missing_ok=True)
    if there:
        lock.touch()
    line = ("trades", "list", "--limit", "5", "--checkpoint", str(kept))
    with monkeypatch.context() as patch:
        refusing_locks(patch, number)
        run = world(*line)
    if said is None:
        assert (run.code, kept.exists()) == (0, True)
    else:
        assert (run.code, run.problem["code"], kept.exists()) == (3, "checkpoint", False)
        assert f"the lock {lock} cannot be {said}" in run.problem["message"]
        assert ("remove it" if there else "make room") in run.problem["hint"]


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


# What is never thrown away: the rows of a pull, what somebody wrote beside them, and what is to begin again


EVERY_TRADE = ("trades", "list", "--all")


def test_the_checkpoint_and_the_file_are_two_files(world: Terminal, server: MockServer, files: Path) -> None:
    file, link = files / "x.ndjson", files / "link"
    server.clear_journal()
    link.symlink_to(file)
    for kept in (file, link):
        run = world(*EVERY_TRADE, "--out", str(file), "--checkpoint", str(kept))
        assert (run.code, run.problem["message"]) == (2, f"--out and --checkpoint are the same file: {kept}")
    assert not file.exists()
    assert server.journal("shared") == []


def test_so_are_those_of_a_stream(trade: Terminal, service: Scripted, files: Path) -> None:
    file = files / "x.ndjson"
    run = trade(*STREAM, "--out", str(file), "--checkpoint", str(file))
    assert (run.code, run.problem["message"]) == (2, f"--out and --checkpoint are the same file: {file}")
    assert (service.seen, list(files.iterdir())) == ([], [])


def test_which_files_are_the_same(files: Path) -> None:
    one, other, linked = files / "one", files / "other", files / "linked"
    one.touch()
    other.touch()
    os.link(one, linked)
    with pytest.raises(UsageProblem):
        refuse_same({"a": one, "b": None, "c": linked})
    with pytest.raises(UsageProblem):
        refuse_same({"a": files / "none", "b": files / ".." / "files" / "none"})
    refuse_same({"a": one, "b": other, "c": files / "none"})
    refuse_same({"a": Path("-"), "b": Path("-")})
    refuse_same({"a": Path(os.devnull), "b": Path(os.devnull)})


def test_a_restart_that_fails_leaves_everything(trade: Terminal, service: Scripted, files: Path) -> None:
    out, kept = files / "a.csv", files / "pull.json"
    line = ("agents", "list", "--all", "--out", str(out), "--checkpoint", str(kept))
    service.says(200, {"data": [agent(id="agt_1")]})
    assert trade(*line).code == 0
    before = (out.read_bytes(), kept.read_bytes())
    service.fails(401, "unauthorized", "no such key")
    assert trade(*line, "--restart").code == 4
    assert (out.read_bytes(), kept.read_bytes()) == before
    service.says(200, {"data": [agent(id="agt_2")]})
    assert trade(*line, "--restart").code == 0
    header, row = out.read_text().splitlines()
    assert (header.split(",")[0], row.split(",")[0]) == ("id", "agt_2")


def test_a_restart_over_a_file_of_other_columns(trade: Terminal, service: Scripted, files: Path) -> None:
    out = files / "a.csv"
    out.write_text("what,else\n1,2\n")
    service.says(200, {"data": [agent(id="agt_1")]})
    run = trade("agents", "list", "--all", "--out", str(out), "--checkpoint", str(files / "p"), "--restart")
    assert (run.code, out.read_text().splitlines()[1].split(",")[0]) == (0, "agt_1")


def test_lines_of_somebody_else_are_not_cut_away(world: Terminal, files: Path) -> None:
    out, kept = files / "t.ndjson", files / "pull.json"
    line = ("trades", "list", "--out", str(out), "--checkpoint", str(kept))
    assert world(*line, "--limit", "30").code == 0
    pulled = out.read_text()
    for changed, said in (
        (pulled + '{"mine":1}\n', f"--out: {out} has 11 bytes at its end that are not of this pull"),
        (pulled.split("\n", 1)[1] + "x" * 1000, f"--out: {out} was changed after it was written"),
    ):
        out.write_text(changed)
        before = kept.read_bytes()
        run = world(*line, "--all")
        assert (run.code, run.problem["message"]) == (2, said)
        assert "start over with --restart" in run.problem["hint"]
        assert (out.read_text(), kept.read_bytes()) == (changed, before)
    out.write_text(pulled)
    assert world(*line, "--all").code == 0
    assert len(out.read_text().splitlines()) == 250
    with out.open("a") as file:
        file.write('{"mine":1}\n')
    assert world(*line, "--all").code == 0, "what is complete is left alone"
    assert out.read_text().endswith('{"mine":1}\n')


@pytest.mark.parametrize("there", [False, True])
def test_files_with_names_like_the_checkpoints_are_left_alone(world: Terminal, files: Path, there: bool) -> None:
    """Nor does the lock of a killed process stop the next run."""
    out, kept, other = files / "q.tmp", files / "q", files / "q.lock"
    line = ("trades", "list", "--checkpoint", str(kept), "--out", str(out), "-o", "csv")
    if there:
        assert world(*line, "--limit", "5").code == 0
    other.write_text("mine")
    (files / ".q.trade-lock").touch()
    assert world(*line, "--limit", "30").code == 0
    assert (len(out.read_text().splitlines()), other.read_text()) == (31, "mine")
    assert sorted(files.iterdir()) == [files / ".q.trade-lock", kept, other, out]


def test_a_full_disk_says_how_a_pull_goes_on(world: Terminal, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out, kept = files / "whole.csv", files / "t.csv", files / "pull.json"
    assert world("trades", "list", "--limit", "150", "--out", str(whole)).code == 0
    line = ("trades", "list", "--limit", "150", "--page-size", "50", "--out", str(out), "--checkpoint", str(kept))
    fsync, calls = os.fsync, 0

    def full(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fatal:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    monkeypatch.setattr(os, "fsync", full)
    for number, where in ((1, kept), (2, out), (2, out), (3, kept)):
        calls, fatal = 0, number
        run = world(*line)
        assert (run.code, run.problem["hint"]) == (
            3 if where == kept else 1,
            "make room on that disk; the same command continues",
        )
        assert f"{where} cannot be written: No space left" in run.problem["message"]
    fatal = 0
    assert world(*line).code == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_checkpoint_with_other_moments_is_damaged(world: Terminal, files: Path) -> None:
    kept = files / "pull.json"
    assert world("trades", "list", "--limit", "5", "--checkpoint", str(kept)).code == 0
    state = json.loads(kept.read_text())
    state["place"]["pinned"] = {"nope": 1}
    kept.write_text(json.dumps(state))
    run = world(*EVERY_TRADE, "--checkpoint", str(kept))
    assert (run.code, run.problem["code"]) == (3, "checkpoint")
    assert "is damaged" in run.problem["message"]


def test_a_cursor_is_printed_so_that_it_can_be_pasted(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()], "next_cursor": "x; $(id)"})
    assert trade("agents", "list", "--limit", "1").notes[-1]["next_cursor"] == "x; $(id)"
    seen = trade("agents", "list", "--limit", "1", tty=True, env={"NO_COLOR": "1"})
    assert "next cursor: 'x; $(id)'\n" in seen.err


def test_an_ending_that_means_something_else(trade: Terminal, service: Scripted, files: Path) -> None:
    service.says(200, {"data": [agent()]})
    file = files / "a.xlsx"
    for line in (("agents", "list"), ("signals", "stream", "--chain", "base"), ("account", "show")):
        run = trade(*line, "--out", str(file))
        assert (run.code, run.problem["message"]) == (2, "--out: this command writes no .xlsx files")
        assert run.problem["hint"].endswith(".csv, .tsv, .yaml, .yml, .md or .txt, or say which format it is: -o csv")
    assert (service.seen, file.exists()) == ([], False)
    named = trade("agents", "list", "--out", str(file), "-o", "csv").notes[-1]["note"]
    assert named == f"1 item written to {file}"


def test_what_is_trades_own_is_not_replaced(trade: Terminal, service: Scripted, files: Path) -> None:
    config, key = trade.home / "config.toml", trade.home / "keys" / "default"
    key.parent.mkdir()
    key.write_text("secret")
    config.touch()
    link = files / "a.csv"
    link.symlink_to(config)
    for file in (config, key, link):
        run = trade("agents", "list", "--out", str(file))
        assert (run.code, run.problem["message"]) == (2, f"--out: {file} is a file of trade itself")
    assert (service.seen, key.read_text(), config.read_text()) == ([], "secret", "")
    service.says(200, {"data": [agent()]})
    assert trade("agents", "list", "--out", str(trade.home / "agents.csv")).code == 0


@pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")
def test_who_came_second_does_not_cut_it_later_either(
    trade: Terminal, service: Scripted, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = files / "a.ndjson"
    line = ("agents", "list", "--all", "--out", str(out), "--checkpoint", str(files / "p"))
    service.says(200, {"data": [agent()]})
    came = Pull.page_came

    def meanwhile(pull: Pull) -> None:
        came(pull)
        out.write_text("of another command\n")

    with monkeypatch.context() as patch:
        patch.setattr(Pull, "page_came", meanwhile)
        run = trade(*line)
    assert (run.code, run.problem["message"]) == (2, f"--out: another command writes into {out}")
    again = trade(*line)
    assert (again.code, out.read_text()) == (2, "of another command\n")


@pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")
def test_two_do_not_write_into_one_file(files: Path) -> None:
    first, second, third = (OutFile(files / "a.csv") for _ in range(3))
    for each in (first, second, third):
        each.go_on_at(0)
    first.write("one\n")
    assert first.position() == 4
    first.begin()
    first.write("two\n")
    first.position()
    with pytest.raises(UsageProblem, match="another command writes into"):
        second.position()
    first.close()
    with pytest.raises(UsageProblem, match="another command writes into"):
        third.position()
    second.close()
    third.close()
    assert (files / "a.csv").read_text() == "one\ntwo\n", "nor over what another one has just written"
