"""`trade replay`: a tape of a stream, played back."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.errors import ClosedPipe, Interrupted, UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.interrupts import exit_code_of, told_to_stop
from tradesdk_cli.session import session
from tradesdk_cli.stream.deliver import actions
from tradesdk_cli.stream.tape import Recorded, TapeProblem, paced, parse_speed, read_tape
from tradesdk_cli.stream.watchdog import Watchdog

if TYPE_CHECKING:
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.stream.deliver import Actions, Delivery

app = single("Play a recorded stream back.")


@app.verb(
    "replay",
    "trade replay signals.tape --speed 10",
    "trade replay signals.tape --speed max --exec 'echo {direction} {token_symbol}'",
    wanted=actions,
)
def replay(
    ctx: typer.Context,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file recorded with signals stream --tape.")],
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed", parser=parse_speed, metavar="N|max", help="N times as fast, or max: without pauses (default 1)."
        ),
    ] = None,
    wanted: Actions,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip lines that cannot be read, instead of stopping.")
    ] = False,
) -> None:
    """Play a recorded stream back.

    Prints, runs commands and forwards as signals stream does, at the original pace. Needs no account and no network.
    """
    from tradesdk_cli.files import refuse_same
    from tradesdk_cli.stream.deliver import Delivery

    with session(ctx) as run:
        refuse_same({"the tape": file, "--out": run.settings.out})
        delivery = Delivery(run, wanted)
        delivery.begin()
        try:
            with told_to_stop():
                try:
                    bad = _play(run.out, delivery, file, speed or 1.0, skip_bad=skip_bad)
                except KeyboardInterrupt as interrupt:
                    run.out.after_ctrl_c()
                    raise Interrupted(exit_code_of(interrupt)) from None
        except ClosedPipe:
            raise
        except BaseException as error:
            if delivery.signals or not isinstance(error, (TapeProblem, UsageProblem)):  # else nothing was played
                delivery.summary()
            raise
        delivery.summary(*([f"{bad} unreadable"] if bad else []), invalid=bad)
        delivery.finish()


def _play(out: Output, delivery: Delivery, file: Path, speed: float, *, skip_bad: bool) -> int:
    """How many lines were left out."""
    bad = 0
    pause = Pause()

    def stop() -> None:
        delivery.over.set()
        pause.over.set()

    lines = read_tape(file)
    with closing(lines), Watchdog(stop, out.stdout):
        for line in paced(lines, speed, pause):
            if isinstance(line, Recorded):
                if line.event["type"] == "heartbeat":
                    delivery.heartbeat(line.event)
                    continue
                delivery.signal(line.event)
                if delivery.complete:
                    break
                continue
            text = f"line {line.number} of {file} cannot be read: {line.reason}"
            if line.unfinished:
                out.event("unfinished_tape", f"{text}; the recording broke off there", line=line.number)
            elif skip_bad:
                bad += 1
                out.event("damaged_line", text, line=line.number, reason=line.reason)
            else:
                raise TapeProblem(text, "--skip-bad leaves such lines out")
    if pause.over.is_set():
        raise ClosedPipe
    return bad


class Pause:
    """Waits between two signals, but not for a reader that has gone."""

    def __init__(self) -> None:
        self.over = Event()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if self.over.wait(seconds):
            raise ClosedPipe
