"""Tapes: what is written is read again, and what is damaged is known by its line."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests._clock import VirtualClock

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.stream.tape import Damaged, Recorded, Tape, TapeProblem, paced, parse_speed, read_tape

from .._rows import each_of
from ._streams import event, tape_of

HEARTBEAT = {"type": "heartbeat", "timestamp": 1_767_268_800}


def read(path: Path) -> list[Recorded | Damaged]:
    return list(read_tape(path))


def test_what_is_recorded_is_read(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "tape"
    tape = Tape(path, clock, force=False)
    first, second = event(1, token_symbol="\x1b[2J é\n"), event(2, replayed=True, more={"a": [1.5]})
    tape.record(first)
    assert path.read_bytes().endswith(b"}\n"), "each line is there at once"
    clock.advance(1.23456)
    tape.record(HEARTBEAT)
    clock.advance(1)
    tape.record(second)
    tape.close()
    assert read(path) == [Recorded(0, first), Recorded(1.235, HEARTBEAT), Recorded(2.235, second)]
    assert list(json.loads(path.read_text().splitlines()[2])["event"]) == list(second), "same fields, same order"


def test_a_tape_is_not_recorded_over_unless_that_is_wanted(tmp_path: Path) -> None:
    path = tape_of(tmp_path / "tape", (0, event()))
    with pytest.raises(UsageProblem, match="exists already"):
        Tape(path, VirtualClock(), force=False)
    assert read(path) == [Recorded(0, event())]
    Tape(path, VirtualClock(), force=True).close()
    assert read(path) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TapeProblem, match="cannot be written: No such file or directory"):
        Tape(tmp_path / "no" / "tape", VirtualClock(), force=False)
    with pytest.raises(TapeProblem, match="cannot be written: Is a directory"):
        Tape(tmp_path, VirtualClock(), force=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk() -> None:
    tape = Tape(Path("/dev/full"), VirtualClock(), force=True)
    with pytest.raises(TapeProblem, match="cannot be written: No space left on device"):
        tape.record(event())
    tape.close()


def test_a_line_is_written_whole_or_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(tmp_path / "tape", VirtualClock(), force=False)
    real = tape._file

    class Slow:
        """Takes seven bytes at a time, and sometimes nothing more."""

        room = 10_000

        def write(self, data: memoryview) -> int:
            if self.room <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room -= 7
            return real.write(data[:7])

    slow = Slow()
    monkeypatch.setattr(tape, "_file", slow)
    tape.record(event(1))
    slow.room = 50
    with pytest.raises(TapeProblem):
        tape.record(event(2))
    real.close()
    whole, part = read(tmp_path / "tape")
    assert whole == Recorded(0, event(1))
    assert part == Damaged(2, "it is not JSON", unfinished=True)


SIGNAL = json.dumps({"at": 1, "event": event()})


@each_of(
    ("line", "reason"),
    [
        ("", "not JSON"),
        ("nonsense", "not JSON"),
        ("\x00\x00", "not JSON"),
        ("\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "at and event"),
        ("{}", "at and event"),
        ('{"at": 1}', "at and event"),
        ('{"at": 1, "event": []}', "at and event"),
        ('{"event": {"type": "signal"}}', "at is not seconds"),
        (SIGNAL.replace('"at": 1', '"at": -1'), "at is not seconds"),
        (SIGNAL.replace('"at": 1', '"at": "1"'), "at is not seconds"),
        (SIGNAL.replace('"at": 1', '"at": true'), "at is not seconds"),
        (SIGNAL.replace('"at": 1', '"at": 1e999'), "at is not seconds"),
        (SIGNAL.replace('"at": 1', '"at": NaN'), "not JSON"),
        (SIGNAL.replace('"at": 1', '"at": 1e30'), "at is not seconds"),
        (SIGNAL.replace('"signal"', '"trade"'), "neither a signal nor a heartbeat"),
        (SIGNAL.replace('"signal"', "{}"), "neither a signal nor a heartbeat"),
        (SIGNAL.replace("0.014597478", "NaN"), "not JSON"),
        (SIGNAL.replace("0.014597478", "1e999"), "not a signal as the service sends it"),
        (SIGNAL.replace("0.014597478", "[]"), "not a signal as the service sends it"),
        (SIGNAL.replace('"id"', '"no"'), "not a signal as the service sends it"),
        ('{"at": 1, "event": {"type": "heartbeat"}}', "not a heartbeat as the service sends it"),
        ('{"at": 1, "x": "' + "x" * 5_000_000 + '"}', "longer than 4 MiB"),
    ],
)
def test_damaged_lines(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "tape"
    path.write_bytes(b"\n".join([SIGNAL.encode(), line.encode("latin-1"), SIGNAL.encode()]) + b"\n")
    before, damaged, after = read(path)
    assert before == after == Recorded(1, event())
    assert isinstance(damaged, Damaged)
    assert (damaged.number, damaged.unfinished) == (2, False)
    assert reason in damaged.reason


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary())
def test_any_file_can_be_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tape"
    path.write_bytes(content)
    found = read(path)
    assert len(found) == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def test_a_recording_that_was_killed(tmp_path: Path) -> None:
    path = tape_of(tmp_path / "tape", (0, event(1)), (1, event(2)))
    whole = path.read_bytes()
    for length in range(len(whole.splitlines(keepends=True)[0]) + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert read(path) == [Recorded(0, event(1)), Damaged(2, "it is not JSON", unfinished=True)]
    path.write_bytes(whole[:-1])
    assert read(path) == [Recorded(0, event(1)), Recorded(1, event(2))], "only the end of the line is missing"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no file"):
        read(tmp_path / "nothing")
    with pytest.raises(TapeProblem, match="cannot be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert read(tmp_path / "empty") == []


def moments(lines: Iterable[Recorded | Damaged], speed: float) -> list[float]:
    clock = VirtualClock()
    begin = clock.monotonic()
    return [round(clock.monotonic() - begin, 6) for _ in paced(lines, speed, clock)]


def test_signals_come_at_their_pace() -> None:
    tape = [Recorded(at, event()) for at in (0.5, 2, 2, 10_000)]
    assert moments(tape, 1) == [0.5, 2, 2, 10_000]
    assert moments(tape, 10) == [0.05, 0.2, 0.2, 1000]
    assert moments(tape, 0.5) == [1, 4, 4, 20_000]
    assert moments(tape, math.inf) == [0, 0, 0, 0]
    assert moments([Recorded(5, event()), Damaged(2, "", False), Recorded(1, event())], 1) == [5, 5, 5]


def test_what_takes_long_does_not_delay_the_rest() -> None:
    clock = VirtualClock()
    begin = clock.monotonic()
    seen = []
    for _ in paced([Recorded(at, event()) for at in (1, 2, 3, 9)], 1, clock):
        seen.append(clock.monotonic() - begin)
        clock.advance(2.5)
    assert seen == [1, 3.5, 6, 9]


@each_of(("text", "speed"), [("1", 1), ("10", 10), ("0.5", 0.5), ("max", math.inf), ("MAX", math.inf)])
def test_speeds(text: str, speed: float) -> None:
    assert parse_speed(text) == speed


@each_of("text", ["0", "-1", "-0.5", "nan", "inf", "-inf", "fast", "", "1e-9", "1e300"])
def test_what_is_no_speed(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_speed(text)
