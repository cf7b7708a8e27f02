"""What happens to each signal: print, record, run a command, forward."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.errors import OTHER, UsageProblem
from tradesdk_cli.framework.params import parse_span, whole
from tradesdk_cli.text import counted, one_line, span

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tradesdk_cli.output.outfile import Written
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session
    from tradesdk_cli.stream.bookmark import BookmarkKind
    from tradesdk_cli.stream.exec import Command
    from tradesdk_cli.stream.tape import Tape

_EXEC_TIMEOUT = 60.0
_FORWARD_TIMEOUT = 30.0


@dataclass(frozen=True)
class Actions:
    """What is to be done with every signal besides printing it, and after how many it ends."""

    count: int | None
    commands: tuple[Command, ...]
    forward_to: str | None


def actions(
    count: Annotated[
        int | None, typer.Option("--count", "-n", parser=whole(1), metavar="N", help="Stop after N signals.")
    ] = None,
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "--exec",
            metavar="COMMAND",
            help="Run this for each signal, without a shell; {id} and other fields are replaced.",
        ),
    ] = None,
    exec_timeout: Annotated[
        float | None,
        typer.Option(
            "--exec-timeout", parser=parse_span, metavar="SPAN", help="Time limit for the command (default 60s)."
        ),
    ] = None,
    forward_to: Annotated[
        str | None, typer.Option("--forward-to", metavar="URL", help="POST each signal to this URL as JSON.")
    ] = None,
) -> Actions:
    """The options that `signals stream` and `replay` share."""
    if not execute:
        return Actions(count, (), forward_to)
    from tradesdk_cli.stream.exec import parse_command

    commands = tuple(parse_command(line, exec_timeout or _EXEC_TIMEOUT) for line in execute)
    return Actions(count, commands, forward_to)


class Delivery:
    """Delivers signals one by one and counts them."""

    def __init__(
        self,
        run: Session,
        wanted: Actions,
        tape: Path | None = None,
        *,
        force: bool = False,
        resumes: bool = False,
        purpose: BookmarkKind | None = None,
    ) -> None:
        """`tape` is a file to record in; `force` empties one that exists; `resumes`: it continues after an earlier run.

        `purpose` is written down when it begins.

        Raises:
            UsageProblem: a format, a URL, the file of the tape or that of --out cannot serve.
        """
        from tradesdk import RetryPolicy

        run.out.refuse_an_end()
        run.closing(run.out.close)
        self._out: Output = run.out
        self._wanted = wanted
        self._resumed: Path | None = None
        self._written: Written | None = None
        if run.settings.out is not None and not run.out.on_stdout:
            from tradesdk import StreamSignal
            from tradesdk_cli.output.formats import ROWS
            from tradesdk_cli.output.outfile import refuse_others

            form, fields = run.out.format_for(many=True), run.out.fields
            if form in ROWS and not run.out.asks:
                names = fields or (*StreamSignal.model_fields, "replayed", "late")
                refuse_others(run.settings.out, form, names, place=run.out.place, chosen=bool(fields))
            if resumes:
                self._resumed = run.settings.out
        self._begin = time.monotonic()
        self._tape: Tape | None = None
        self._tape_file, self._force = tape, force
        self._purpose = purpose
        if tape is not None and not force and tape.exists():
            raise UsageProblem(f"--tape: {tape} exists already", "--force records over it")
        self.signals = self.replayed = self.late = self.commands_failed = self.forwards_failed = 0
        self.over = Event()
        """Set, from any thread, when it is to end: then nothing is forwarded again that was not taken."""
        self.cut_off = False
        """Whether the last signal was not forwarded because of that."""
        self._receiver = None
        if wanted.forward_to is not None:
            from tradesdk_cli.stream.forward import BreakableClock, Receiver

            self._receiver = Receiver(
                wanted.forward_to,
                policy=RetryPolicy() if run.settings.retry else RetryPolicy(max_retries=0),
                clock=BreakableClock(self.over),
                timeout=run.settings.timeout or _FORWARD_TIMEOUT,
                note=self._say_retry,
                over=self.over.is_set,
            )

    @property
    def complete(self) -> bool:
        """True once there were as many signals as were wanted."""
        return self.signals == self._wanted.count

    @property
    def into_file(self) -> bool:
        """True when a signal is only written into a file, which takes no time worth breaking off."""
        return not self._out.on_stdout and not self._wanted.commands and self._receiver is None

    def begin(self) -> None:
        """There is something to deliver from now on: the tape begins.

        Raises:
            TapeProblem: it cannot.
            CheckpointProblem: what the checkpoint is for cannot be written.
        """
        self._begin = time.monotonic()
        self._out.begin_lines(resumed=self._resumed is not None)
        if self._resumed is not None:
            from tradesdk_cli.output.outfile import Written

            self._written = Written(self._resumed, self._out.format_for(many=True))
        if self._purpose is not None:
            self._purpose.keep()
        if self._tape_file is not None:
            from tradesdk import SystemClock
            from tradesdk_cli.stream.tape import Tape

            self._tape = Tape(self._tape_file, SystemClock(), force=self._force)

    def close(self) -> None:
        """Closes the tape."""
        if self._tape is not None:
            self._tape.close()

    def signal(self, event: Mapping[str, Any]) -> None:
        """Does everything that is wanted with one signal: its wire fields, then what the SDK says of it."""
        # Counted first: whoever has read the line and then presses Ctrl-C sees it in the sum.
        self.signals += 1
        self.replayed += event.get("replayed") is True
        self.late += event.get("late") is True
        self._print(event)
        if self._tape is not None:
            self._tape.record(event)
        for command in self._wanted.commands:
            problem = command.run(event)
            if problem is not None:
                self.commands_failed += 1
                text = f"{command.program} failed for {event['id']}: {problem['error']}"
                self._out.event("exec_failed", text, program=command.program, id=event["id"], **problem)
        if self._receiver is not None:
            try:
                error = self._receiver.send(event)
            except KeyboardInterrupt:
                self._report_failed(event, "interrupted")
                raise
            if error is not None:
                self.cut_off = self.over.is_set()
                self._report_failed(event, error)

    def heartbeat(self, event: Mapping[str, Any]) -> None:
        """Prints a heartbeat: among the signals where every line says what it is, else beside them."""
        if self._tape is not None:
            self._tape.record(event)
        if self._out.mixes:
            self._out.line(event)
        else:
            from tradesdk_cli.output.table import cell

            self._out.event("heartbeat", f"heartbeat {cell('time', event.get('timestamp')).plain}")

    def summary(self, *more: str, **fields: Any) -> None:
        """Says on stderr how much there was; `more` and `fields` are added where the others stand."""
        seconds = time.monotonic() - self._begin
        parts = [
            *(f"{number} {name}" for number, name in ((self.replayed, "replayed"), (self.late, "late")) if number),
            *more,
            *([counted(self.commands_failed, "failed commands")] if self.commands_failed else []),
            *([f"{self.forwards_failed} not forwarded"] if self.forwards_failed else []),
        ]
        counts = {
            "signals": self.signals,
            "replayed": self.replayed,
            "late": self.late,
            **fields,
            "commands_failed": self.commands_failed,
            "forwards_failed": self.forwards_failed,
            "seconds": round(seconds, 3),
        }
        took = span(seconds) if seconds >= 60 else f"{seconds:.1f} s"
        text = f"{counted(self.signals, 'signals')} in {took}" + (": " + ", ".join(parts) if parts else "")
        self._out.event("summary", text, **counts)

    def finish(self) -> None:
        """Ends the command: with 1 when something failed on the way."""
        if self.commands_failed or self.forwards_failed:
            raise typer.Exit(OTHER)

    def _print(self, event: Mapping[str, Any]) -> None:
        from tradesdk_cli.output.columns import STREAM

        if self._written is not None and self._written.has(event):
            return  # the run that wrote it was killed before it could say so, or did not continue from the last one
        source = next((mark for mark in ("late", "replayed") if event.get(mark) is True), "live")
        self._out.line(event, STREAM, {**event, "source": source})

    def _say_retry(self, problem: str, wait: float) -> None:
        self._out.event("forward_retry", f"{problem}; again in {wait:.0f} s", wait=round(wait, 1))

    def _report_failed(self, event: Mapping[str, Any], error: str) -> None:
        self.forwards_failed += 1
        url = "" if self._receiver is None else self._receiver.shown
        self._out.report({"type": "forward_failed", "url": url, "error": one_line(error), "event": event})
