"""`--out FILE`: whole or not at all, in the format of its ending; streams append to it."""

import csv
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.errors import Unwritable
from tradesdk_cli.output.outfile import OutFile
from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted, agent
from ._streams import event, sends
from ._terminal import Terminal

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


@pytest.fixture
def agents(service: Scripted, trade: Terminal) -> Terminal:
    service.says(200, {"data": [agent(), agent("=cmd", id="agt_2")]})
    return trade


def test_the_ending_says_how(agents: Terminal, tmp_path: Path) -> None:
    piped = agents("agents", "list")
    forms = {"a.json": "json", "a.jsonl": "ndjson", "a.csv": "csv", "a.TSV": "tsv"}
    for name, form in forms.items() | {"a.txt": "table", "a": "ndjson"}.items():
        for tty in {False, form == "table"}:
            run = agents("agents", "list", "--out", str(tmp_path / name), tty=tty, env={"NO_COLOR": "1"})
            assert (run.code, run.out) == (0, ""), run.err
            assert "2 items written to" in run.err.replace("\n", " ")
            assert (tmp_path / name).read_text() == agents("agents", "list", "-o", form).out
    assert (tmp_path / "a").read_text() == piped.out
    agents("agents", "list", "--out", str(tmp_path / "b.csv"), "-o", "json")
    assert json.loads((tmp_path / "b.csv").read_text()) == [json.loads(line) for line in piped.out.splitlines()]
    assert not list(tmp_path.glob(".*"))


def test_a_dash_is_stdout(agents: Terminal) -> None:
    assert agents("agents", "list", "--out", "-").out == agents("agents", "list").out


def test_what_is_said(agents: Terminal, tmp_path: Path) -> None:
    file = str(tmp_path / "a.csv")
    said = agents("agents", "list", "--out", file).notes[-1]
    assert said == {"type": "written", "note": f"2 items written to {file}", "file": file, "items": 2}
    shown = agents("agents", "list", "--out", file, tty=True, columns=300, env={"NO_COLOR": "1"})
    assert shown.err == f"2 items written to {file}\n"
    agents("agents", "list", "-o", "table", "--out", file, env={"FORCE_COLOR": "1"})
    assert "\x1b" not in Path(file).read_text()


def test_a_failed_command_leaves_what_was_there(service: Scripted, trade: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("old\n")
    service.fails(404, "not_found", "gone")
    assert trade("agents", "list", "--out", str(file)).code == 6
    assert file.read_text() == "old\n"
    service.says(200, {"data": [agent()]})
    assert trade("agents", "list", "--out", str(file), "--fields", "nothing").code == 2
    assert file.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a.csv"]


def test_permissions(trade: Terminal, market: MockServer, tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        trade("account", "show", "--out", str(tmp_path / "new.csv"))
        trade(*sends(market, event()), "--out", str(tmp_path / "stream.csv"))
    finally:
        os.umask(mask)
    assert {stat.S_IMODE((tmp_path / f"{name}.csv").stat().st_mode) for name in ("new", "stream")} == {0o640}
    secret = tmp_path / "secret.csv"
    secret.touch(mode=0o600)
    trade("account", "show", "--out", str(secret))
    assert secret.stat().st_size
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_link_stays_and_what_it_points_at_is_written(agents: Terminal, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for link, goal in (("link.csv", "folder/a.csv"), ("other", "folder"), ("null", os.devnull)):
        (tmp_path / link).symlink_to(goal)
    for name in ("link.csv", "link.csv", "other/b.csv", "null"):
        assert agents("agents", "list", "-o", "csv", "--out", str(tmp_path / name)).code == 0
    assert all((tmp_path / link).is_symlink() for link in ("link.csv", "other", "null"))
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["a.csv", "b.csv"]
    assert all(path.read_text().startswith("id,") for path in (tmp_path / "folder").iterdir())


@each_of("name", ["", "nowhere/a.csv", "file/a.csv", "long" * 100])
def test_what_cannot_be_written_is_refused_before_anything_is_sent(
    trade: Terminal, service: Scripted, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    for words in (("agents", "delete", "agt_1", "--yes"), ("signals", "stream", "--chain", "base")):
        run = trade(*words, "--out", str(tmp_path / name))
        assert (run.code, run.problem["code"]) == (2, "usage")
        assert "--out" in run.problem["message"]
    assert service.seen == []


@pytest.mark.parametrize("closed", ["folder", "folder/a.csv"])
def test_what_may_not_be_written(
    trade: Terminal, service: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").touch()
    # Tests may be run by root, who may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / closed)
    run = trade("agents", "list", "--out", str(tmp_path / "folder" / "a.csv"))
    assert run.problem["message"].endswith("may not be written")
    assert service.seen == []


@needs_full
@pytest.mark.parametrize(
    "form", [*(pytest.param(form, marks=pytest.mark.long) for form in ("json", "ndjson", "tsv")), "csv", "table"]
)
def test_a_full_disk(buyer: Terminal, shop: MockServer, form: str) -> None:
    run = buyer("market", "prices", "ETH", "--max-price", "0.10", "-o", form, "--out", str(FULL))
    assert (run.code, run.out) == (1, "")
    assert "No space left" in run.err
    assert "your answer is kept: trade pay resume" in run.err
    shop.payments.assert_charged(times=1)
    if form in ("csv", "table"):
        assert buyer("pay", "history", "-o", form, "--out", str(FULL)).code == 1


def test_a_pipe_is_written_as_it_is(agents: Terminal, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    agents("agents", "list", "--out", str(pipe), "-o", "csv")
    reader.join()
    assert read[0].startswith("id,name")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


# Streams


@pytest.fixture
def stream(market: MockServer) -> tuple[str, ...]:
    """Reads two signals."""
    return sends(market, event(1), event(2, more={"a": [1]}))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.ndjson", "a.txt"])
def test_a_stream_goes_on_where_the_file_ends(
    trade: Terminal, stream: tuple[str, ...], tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    for number in (1, 2):
        run = trade(*stream, "--out", str(file))
        assert (run.code, run.out) == (0, "")
        assert run.notes[-1] == {
            "type": "written",
            "note": f"2 items added to {file}",
            "file": str(file),
            "items": 2,
        }
        text = file.read_text()
        assert text.count(event(1)["id"]) == text.count(event(2)["id"]) == number
    if name == "a.csv":
        rows = list(csv.DictReader(text.splitlines()))
        assert [row["id"] for row in rows] == [event(n)["id"] for n in (1, 2, 1, 2)]
        assert [said for said in run.notes if said.get("type") == "left_out"] == [
            {"type": "left_out", "note": "left out, because there is no column for it: more.a", "fields": ["more.a"]}
        ]


def test_a_line_that_broke_off_stays_apart(trade: Terminal, stream: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('{"type":"sig')
    trade(*stream, "--out", str(file))
    first, *lines = file.read_text().splitlines()
    assert first == '{"type":"sig'
    assert [json.loads(line)["id"] for line in lines] == [event(1)["id"], event(2)["id"]]


def test_other_columns_are_refused(trade: Terminal, stream: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("what,else\n")
    run = trade(*stream, "--out", str(file))
    assert (run.code, run.notes[-1]["message"]) == (2, f"--out: {file} has other columns than this")
    file.write_text("id,token_symbol\n")
    run = trade(*stream, "--out", str(file), "--fields", "id,price_usd")
    assert (run.code, run.notes[-1]["message"]) == (2, f"--out: {file} has no column price_usd")
    assert file.read_text() == "id,token_symbol\n"
    trade(*stream, "--out", str(file), "--fields", "token_symbol,id", "--count", "1")
    assert file.read_text() == f"id,token_symbol\n{event(1)['id']},BRETT\n"


def test_a_stream_has_no_end_and_json_has_one(trade: Terminal, stream: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    run = trade(*stream, "--out", str(file))
    assert run.problem["message"] == f"{file} is one array, and a stream has no end"
    assert not file.exists()


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = OutFile(tmp_path / "a.ndjson")
    out.follow_on()
    out.write("one\n")

    def half(file: Any, content: bytes) -> None:
        file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tradesdk_cli.output.outfile.write_all", half)
        with pytest.raises(Unwritable, match="No space left"):
            out.write("two\n")
    out.write("three\n")
    out.close()
    assert (tmp_path / "a.ndjson").read_text() == "one\nthree\n"


@pytest.mark.skipif(os.name == "nt", reason="needs locks of this system")
@each_of("name", ["a.json", "n" * 250])
def test_what_a_killed_command_left_is_removed(tmp_path: Path, name: str) -> None:
    """Not what another one writes at this moment, and no file of somebody else."""
    foreign = tmp_path / f".{name[:80]}.swp"

    def result() -> Iterator[str]:
        (live,) = tmp_path.iterdir()
        left = tmp_path / f"{live.name[:-20]}{'0' * 16}.tmp"
        for file in (left, foreign):
            file.touch()
        OutFile(tmp_path / name).replace(["new"], bool)
        assert (live.exists(), left.exists(), foreign.exists()) == (True, False, True)
        yield "last"

    OutFile(tmp_path / name).replace(result(), bool)
    assert {file.name for file in tmp_path.iterdir()} == {name, foreign.name}
    assert (tmp_path / name).read_text() == "last"
    for file in (tmp_path / name, foreign):
        file.unlink()


# Other files


def test_an_ending_that_means_something_else(trade: Terminal, service: Scripted, files: Path) -> None:
    service.says(200, {"data": [agent()]})
    file = files / "a.xlsx"
    for line in (("agents", "list"), ("signals", "stream", "--chain", "base"), ("account", "show")):
        run = trade(*line, "--out", str(file))
        assert (run.code, run.problem["message"]) == (2, "--out: there is no format for .xlsx files")
        assert run.problem["hint"].endswith(".csv, .tsv or .txt, or say which format it is: -o csv")
    assert (service.seen, file.exists()) == ([], False)
    named = trade("agents", "list", "--out", str(file), "-o", "csv").notes[-1]["note"]
    assert named == f"1 item written to {file}"
