"""`trade completion`: what your shell needs to complete commands, ids and symbols."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import Yes
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.completion.shells import Place
    from tradesdk_cli.session import Session

app = noun("completion", "Let your shell complete commands, ids and symbols.")

Shell = Annotated[
    str | None,
    typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell; by default the one of $SHELL."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]


class Unwritten(CliError):
    """A file of the shell cannot be written."""

    code = "system"


@app.verb("install", "trade completion install bash --yes", "trade completion install zsh --dry-run")
def install(ctx: typer.Context, shell: Shell = None, *, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Set up completion for your shell.

    Writes a script and, for bash, zsh and PowerShell, one line into the shell's startup file; asks first, and never
    adds the line twice. Ids and symbols come from what earlier commands printed, so completion needs no network.
    """
    from tradesdk_cli.completion.shells import install as write

    with session(ctx) as run:
        place = _place(shell)
        if place.loaded:
            run.out.note(f"completion for {place.shell} is installed already: {place.script}")
            _show(run, place, "unchanged")
            return
        if dry_run:
            run.out.note("nothing was written (--dry-run)")
            _show(run, place, "not written")
            return
        if place.line_missing and not yes:
            _ask(run, place, "gets this line", "add it?")
        try:
            write(place)
        except OSError as error:
            raise _unwritten(error, place) from None
        here = f", this one after: {place.activate}" if place.activate else ""
        run.out.note(f"completion for {place.shell} is installed; new shells have it{here}")
        _show(run, place, "installed")


@app.verb("uninstall", "trade completion uninstall bash --yes", "trade completion uninstall fish --dry-run")
def uninstall(ctx: typer.Context, shell: Shell = None, *, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove the script, and the line that loads it."""
    from tradesdk_cli.completion.shells import uninstall as remove

    with session(ctx) as run:
        place = _place(shell)
        there = place.rc_file is not None and not place.line_missing
        if not there and not place.script.exists():
            run.out.note(f"completion for {place.shell} is not installed")
            _show(run, place, "unchanged")
            return
        if dry_run:
            run.out.note("nothing was removed (--dry-run)")
            _show(run, place, "not removed")
            return
        if there and not yes:
            _ask(run, place, "loses this line", "remove it?")
        try:
            remove(place)
        except OSError as error:
            raise _unwritten(error, place) from None
        run.out.note(f"completion for {place.shell} is removed; new shells are without it")
        _show(run, place, "removed")


def _prints(shell: str) -> None:
    lines = f"trade completion {shell}", f"trade completion {shell} > {_FILES[shell]}"

    @app.verb(shell, *lines, help=f"Print the script for {shell}.")
    def show() -> None:
        from tradesdk_cli.completion.shells import SCRIPTS

        print(SCRIPTS[shell], end="")


_FILES = {
    "bash": "~/.local/share/bash-completion/completions/trade",
    "zsh": "~/.zfunc/_trade",
    "fish": "~/.config/fish/completions/trade.fish",
    "powershell": "trade.ps1",
}
for _shell in _FILES:
    _prints(_shell)


def _place(shell: str | None) -> Place:
    from tradesdk_cli.completion.shells import place_of, shell_of

    return place_of(shell_of(shell, os.environ), os.environ)


def _show(run: Session, place: Place, result: str) -> None:
    found = {
        "shell": place.shell,
        "script": str(place.script),
        "rc_file": None if place.rc_file is None else str(place.rc_file),
        "rc_line": place.rc_line,
        "result": result,
    }
    run.out.one(found)


def _ask(run: Session, place: Place, change: str, question: str) -> None:
    from tradesdk_cli.confirm import ask, can_ask

    if not can_ask():
        raise UsageProblem(
            f"this changes {place.rc_file}, and there is no terminal to ask on",
            "--yes does it; --dry-run shows the line",
        )
    run.out.note(f"{place.rc_file} {change}:")
    run.out.note(f"  {place.rc_line}")
    if not ask(question):
        from tradesdk_cli.errors import Declined

        raise Declined("nothing was changed", f"trade completion {place.shell} prints the script, to load it yourself")


def _unwritten(error: OSError, place: Place) -> Unwritten:
    where = error.filename or place.script
    return Unwritten(f"{where} cannot be written: {error.strerror}", f"trade completion {place.shell} prints it")
