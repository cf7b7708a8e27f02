"""`trade replay`, and what `signals stream` does in the same way: commands, forwarding, what fails on the way."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests._clock import VirtualClock

import tradesdk
import tradesdk_cli.commands.replay as replay_command
import tradesdk_cli.stream.forward as forwarding
from tradesdk import RetryPolicy

from .._rows import each_of
from ._streams import Hook, event, hooked, tape_of
from ._terminal import Run, Terminal

PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Three signals, half a minute apart, the second from the history."""
    return tape_of(
        tmp_path / "signals.tape", (0, event(1)), (30, event(2, replayed=True)), (60, event(3, direction="SELL"))
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """Waiting between two signals takes no time."""

    class Pause(VirtualClock, replay_command.Pause):
        def __init__(self) -> None:
            VirtualClock.__init__(self)
            replay_command.Pause.__init__(self)

    pause = Pause()
    monkeypatch.setattr(replay_command, "Pause", lambda: pause)
    return pause


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """A receiver that nobody waits long for."""
    monkeypatch.setattr(tradesdk, "RetryPolicy", partial(RetryPolicy, base=0.001, cap=0.002))
    with hooked() as running:
        yield running


def typed(run: Run, kind: str) -> list[dict[str, object]]:
    return [note for note in run.notes if note.get("type") == kind]


def test_what_was_recorded_is_printed_at_its_pace(trade: Terminal, tape: Path, clock: VirtualClock) -> None:
    run = trade("replay", str(tape), "--speed", "10")
    assert (run.code, run.lines) == (0, [event(1), event(2, replayed=True), event(3, direction="SELL")])
    assert [round(wait, 3) for wait in clock.waits] == [3, 3]
    (summary,) = typed(run, "summary")
    assert (summary["signals"], summary["replayed"], summary["invalid"]) == (3, 1, 0)
    trade("replay", str(tape))
    assert sum(clock.waits) == pytest.approx(66)
    assert trade("replay", str(tape), "--speed", "max").out == run.out
    assert sum(clock.waits) == pytest.approx(66)


def test_neither_an_account_nor_a_network_is_needed(trade: Terminal, tape: Path) -> None:
    assert "TRADE_API_KEY" not in trade.env
    assert trade("replay", str(tape), "--speed", "max").code == 0
    assert trade("--mock", "replay", str(tape), "--speed", "max").code == 0
    assert not (trade.home / "mock").exists()


def test_as_a_table(trade: Terminal, tape: Path) -> None:
    run = trade("replay", str(tape), "--speed", "max", tty=True, env=PLAIN)
    header, *rows = run.out.splitlines()
    assert header.split() == ["id", "token", "side", "confidence", "price", "source"]
    assert [row.split()[-1] for row in rows] == ["live", "replayed", "live"]
    assert run.err.splitlines()[-1].startswith("3 signals in ")
    assert (
        trade("replay", str(tape), "-o", "json").problem["message"] == "-o json is one array, and a stream has no end"
    )


def test_as_many_as_are_wanted(trade: Terminal, tape: Path, clock: VirtualClock) -> None:
    assert [line["id"] for line in trade("replay", str(tape), "--count", "2").lines] == [event(1)["id"], event(2)["id"]]
    assert clock.waits == [30], "nobody waits for the rest"


def test_heartbeats_are_played_and_not_counted(trade: Terminal, tmp_path: Path) -> None:
    beat = {"type": "heartbeat", "timestamp": 1_767_268_800}
    tape = tape_of(tmp_path / "tape", (0, beat), (0, event(1)))
    run = trade("replay", str(tape), "--count", "1", "--exec", "false")
    assert run.lines == [beat, event(1)]
    assert len(typed(run, "exec_failed")) == 1


def test_an_empty_tape(trade: Terminal, tmp_path: Path) -> None:
    (tmp_path / "tape").touch()
    run = trade("replay", str(tmp_path / "tape"))
    assert (run.code, run.out) == (0, "")
    assert [note["note"].partition(" in ")[0] for note in run.notes] == ["0 signals"]


def test_a_damaged_line_ends_it_and_is_named(trade: Terminal, tape: Path) -> None:
    lines = tape.read_text().splitlines()
    tape.write_text("\n".join([lines[0], "{", *lines[1:]]) + "\n")
    run = trade("replay", str(tape), "--speed", "max")
    assert (run.code, run.lines) == (1, [event(1)])
    problem = run.notes[-1]
    assert problem["code"] == "tape"
    assert problem["message"] == f"line 2 of {tape} cannot be read: it is not JSON"
    assert problem["hint"] == "--skip-bad leaves such lines out"
    skipped = trade("replay", str(tape), "--speed", "max", "--skip-bad")
    assert (skipped.code, len(skipped.lines)) == (0, 3)
    assert typed(skipped, "damaged_line")[0]["line"] == 2
    assert typed(skipped, "summary")[0]["invalid"] == 1


def test_a_recording_that_was_killed_is_played_to_its_end(trade: Terminal, tape: Path) -> None:
    tape.write_bytes(tape.read_bytes()[:-20])
    run = trade("replay", str(tape), "--speed", "max")
    assert (run.code, len(run.lines)) == (0, 2)
    assert "the recording broke off there" in str(typed(run, "unfinished_tape")[0]["note"])


@each_of("speed", ["0", "-3", "fast", "nan"])
def test_a_speed_that_is_none(trade: Terminal, tape: Path, speed: str) -> None:
    run = trade("replay", str(tape), f"--speed={speed}")
    assert run.code == 2
    assert "a speed is a number above 0" in run.problem["message"]


def test_no_such_tape(trade: Terminal, tmp_path: Path) -> None:
    run = trade("replay", str(tmp_path / "nothing"))
    assert run.code == 2
    assert "there is no file" in json.loads(run.err)["message"], "and not how many signals there were"
    folder = trade("replay", str(tmp_path))
    assert (folder.code, typed(folder, "summary")) == (1, [])


# Commands


def test_a_command_for_every_signal(trade: Terminal, tape: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + chr(10))"
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {shlex.quote(str(log))}"
    words = (f"{line} {{id}} '{{direction}} {{token_symbol}}'", f"{line} second")
    run = trade("replay", str(tape), "--speed", "max", "--exec", words[0], "--exec", words[1])
    assert run.code == 0
    first, second, third = (event(number)["id"] for number in (1, 2, 3))
    assert log.read_text().splitlines() == [
        f"{first} BUY BRETT",
        "second",
        f"{second} BUY BRETT",
        "second",
        f"{third} SELL BRETT",
        "second",
    ]


def test_a_command_that_fails_is_said_and_the_rest_goes_on(trade: Terminal, tape: Path) -> None:
    run = trade("replay", str(tape), "--speed", "max", "--exec", "false secret", "--exec", "false")
    assert (run.code, len(run.lines)) == (1, 3)
    notes = typed(run, "exec_failed")
    assert len(notes) == 6
    assert notes[0] == {
        "type": "exec_failed",
        "note": f"false failed for {event(1)['id']}: it ended with 1",
        "program": "false",
        "id": event(1)["id"],
        "error": "it ended with 1",
        "exit_code": 1,
    }
    assert "secret" not in run.err
    (summary,) = typed(run, "summary")
    assert summary["commands_failed"] == 6
    assert "6 failed commands" in str(summary["note"])
    person = trade("replay", str(tape), "--speed", "max", "--exec", "false", tty=True, env=PLAIN)
    assert person.code == 1
    assert f"false failed for {event(3)['id']}: it ended with 1" in person.err.splitlines()
    late = trade("replay", str(tape), "--count", "1", "--exec", "sleep 60", "--exec-timeout", "0.05s")
    assert [note["error"] for note in typed(late, "exec_failed")] == ["it was ended after 0.05 s"]


# Forwarding


def test_signals_are_forwarded_to_a_receiver_that_fails_at_first(trade: Terminal, tape: Path, hook: Hook) -> None:
    hook.says(503, 500, 204)
    trade.env["TRADE_API_KEY"] = "key-of-the-test"
    run = trade("replay", str(tape), "--speed", "max", "--forward-to", hook.url + "?token=verysecret")
    assert run.code == 0
    assert hook.ids == [event(1)["id"]] * 3 + [event(2)["id"], event(3)["id"]]
    assert [body for _, _, body in hook.seen[2:]] == run.lines
    assert "key-of-the-test" not in str(hook.seen)
    assert [note["note"] for note in typed(run, "forward_retry")] == [
        "the receiver answered 503; again in 0 s",
        "the receiver answered 500; again in 0 s",
    ]
    assert "verysecret" not in run.err


def test_what_is_finally_not_forwarded_is_on_standard_error(trade: Terminal, tape: Path, hook: Hook) -> None:
    for tty in (False, True):
        hook.says(400, 204)
        words = ("replay", str(tape), "--speed", "max", "--forward-to", hook.url + "?token=verysecret")
        run = trade(*words, tty=tty, env=PLAIN)
        assert run.code == 1
        (failed,) = [json.loads(line) for line in run.err.splitlines() if '"forward_failed"' in line]
        assert failed == {
            "type": "forward_failed",
            "url": hook.url.removesuffix("hook") + "…",
            "error": "the receiver answered 400",
            "event": event(1),
        }
        assert "1 not forwarded" in run.err.splitlines()[-1]
        assert "verysecret" not in run.err


def test_without_retries(trade: Terminal, tape: Path, hook: Hook) -> None:
    hook.says(503)
    run = trade("replay", str(tape), "--speed", "max", "--forward-to", hook.url, "--no-retry")
    assert (run.code, len(hook.seen)) == (1, 3)


def test_what_ctrl_c_interrupted_is_not_silent(
    trade: Terminal, tape: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.says(503)

    def ctrl_c(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(forwarding.BreakableClock, "sleep", ctrl_c)
    run = trade("replay", str(tape), "--speed", "max", "--forward-to", hook.url)
    assert (run.code, run.lines) == (130, [event(1)])
    (failed,) = typed(run, "forward_failed")
    assert (failed["error"], failed["event"]) == ("interrupted", event(1))
    assert run.notes[-1]["type"] == "summary"
