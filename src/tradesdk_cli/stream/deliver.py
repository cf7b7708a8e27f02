"""Delivers each signal: prints it, and runs a command."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.params import whole
from tradesdk_cli.text import plural, span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.run import Run
    from tradesdk_cli.stream.exec import Command

_EXEC_TIMEOUT = 60.0


def _command(line: str) -> Command:
    from tradesdk_cli.stream.exec import parse_command

    return parse_command(line, _EXEC_TIMEOUT)


@dataclass(frozen=True)
class Actions:
    """The options of delivery: the maximum of signals, and the commands for each."""

    count: Annotated[
        int | None, typer.Option("--count", "-n", parser=whole(1), metavar="N", help="Stop after N signals.")
    ] = None
    commands: Annotated[
        list[Any] | None,
        typer.Option(
            "--exec",
            parser=_command,
            metavar="COMMAND",
            help="Run this for each signal, without a shell, for at most 60 s; {id} and other fields are replaced.",
        ),
    ] = None


class Delivery:
    """Delivers signals one by one and counts them."""

    def __init__(
        self,
        run: Run,
        wanted: Actions,
        *,
        resumes: bool = False,
        marks: tuple[str, ...] = ("replayed", "late"),
    ) -> None:
        """`resumes`: it continues an earlier run. `marks`: flags of a signal besides its fields."""
        from tradesdk import StreamSignal
        from tradesdk_cli.output.columns import STREAM
        from tradesdk_cli.output.lines import Lines

        self._out: Output = run.out
        self._lines = Lines(run.out, STREAM, (*StreamSignal.model_fields, *marks))
        run.stack.callback(self._lines.close)
        self.count, self.commands, self._resumes = wanted.count, wanted.commands or [], resumes
        self._written: set[str] = set()
        """Ids of signals in the file that this run has not delivered."""
        self._begin = time.monotonic()
        self.signals = self.replayed = self.late = self.commands_failed = 0

    def begin(self) -> None:
        """Begins."""
        self._begin = time.monotonic()
        self._lines.begin(resumed=self._resumes)
        if self._resumes and self._out.file is not None:
            from tradesdk_cli.output.outfile import ids_in

            self._written = ids_in(self._out.file.path, self._lines.form)

    def signal(self, event: Mapping[str, Any]) -> None:
        """Prints one signal, given its wire fields and its flags, and runs the command."""
        # Counted first: a printed signal is in the sum, even after Ctrl-C.
        self.signals += 1
        self.replayed += event.get("replayed") is True
        self.late += event.get("late") is True
        if event["id"] in self._written:
            # An earlier run was killed before it saved its position, or did not continue from the last one. If the
            # service sends the signal again, it is written again.
            self._written.remove(event["id"])
        else:
            source = next((mark for mark in ("redelivered", "late", "replayed") if event.get(mark) is True), "live")
            self._lines.put(event, shown={**event, "source": source})
        for command in self.commands:
            problem = command.run(event)
            if problem is not None:
                self.commands_failed += 1
                text = f"{command.program} failed for {event['id']}: {problem['error']}"
                self._out.event("exec_failed", text, program=command.program, id=event["id"], **problem)

    def summary(self, *more: str, **fields: Any) -> None:
        """Prints the sum on stderr, with `more` and `fields` added."""
        seconds = time.monotonic() - self._begin
        counts: dict[str, Any] = {"signals": self.signals, "replayed": self.replayed, "late": self.late}
        parts = [f"{counts[name]} {name}" for name in ("replayed", "late") if counts[name]] + list(more)
        parts += [plural(self.commands_failed, "failed commands")] * (self.commands_failed > 0)
        counts |= {**fields, "commands_failed": self.commands_failed, "seconds": round(seconds, 3)}
        took = span(seconds) if seconds >= 60 else f"{seconds:.1f} s"
        text = f"{plural(self.signals, 'signals')} in {took}" + (": " + ", ".join(parts) if parts else "")
        self._out.event("summary", text, **counts)
