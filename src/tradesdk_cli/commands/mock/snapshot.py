"""`trade mock snapshot`: the mock's state in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.commands.mock.control import ControlProblem, over_http, served_at
from tradesdk_cli.errors import CliError, RefusedByMock, UsageProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.session import Session

app = single("Write the mock's state into a file.")

STATE = "application/vnd.sqlite3"
# A large state takes its time: it is read and checked as a whole.
_TIMEOUT = 120.0


@app.verb("snapshot", "trade --mock mock snapshot before.sqlite3", "trade mock snapshot before.sqlite3 --force")
def snapshot(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; written whole or not at all.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the mock's state into a file.

    trade mock restore goes back to it, and trade mock serve --db works on it.
    """
    with session(ctx) as run:
        if file.exists() and not force:
            raise UsageProblem(f"{file} exists already", "--force writes over it")
        if run.settings.mock:
            from tradesdk_mock import MockServerError

            try:
                run.mock.service.snapshot(file)
            except MockServerError as error:
                raise CliError(str(error), "take another file") from None
        else:
            _write(file, bytes_of(run, "GET", "snapshot", gives=STATE))
        run.out.one({"file": str(file), "bytes": file.stat().st_size})


def bytes_of(run: Session, method: str, path: str, content: bytes | None = None, *, gives: str) -> bytes:
    """What `/_mock/{path}` of a mock that is served answers, which is of the media type `gives`.

    Raises:
        ConfigProblem: the URL is not of this machine.
        ControlProblem: nothing answers there, or not in time, or it is no mock server.
        RefusedByMock: it refused.
    """
    where, status, kind, answered = over_http(
        *(served_at(run), method, path, content, run.settings.program), kind=STATE, timeout=_TIMEOUT, most=None
    )
    if status == 200 and kind == gives:
        return answered
    try:
        said = json.loads(answered)["error"]
        code, message = str(said["code"]), str(said["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ControlProblem(f"what answers at {where} is no mock server", "start one: trade mock serve") from None
    raise RefusedByMock(status, code, f"the mock refused: {message}", "nothing was changed")


def _write(file: Path, content: bytes) -> None:
    if any(file.with_name(file.name + end).exists() for end in ("-wal", "-shm")):
        raise CliError(f"{file} is a state file in use, or one that was not closed", "take another file")
    try:
        atomic_write(file, content)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}", "take another file") from None
