"""`trade mock snapshot`: the mock's state in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import state_of
from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

app = single("Write the mock's state into a file.")


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
            _write(file, state_of(run))
        run.out.one({"file": str(file), "bytes": file.stat().st_size})


def _write(file: Path, content: bytes) -> None:
    if any(file.with_name(file.name + end).exists() for end in ("-wal", "-shm")):
        raise CliError(f"{file} is a state file in use, or one that was not closed", "take another file")
    try:
        atomic_write(file, content)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}", "take another file") from None
