"""`trade mock snapshot` and `restore`: the mock's state in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.cli.params import Consent
from tradesdk_cli.commands.mock.control import fetch, forget_old_state, mock_name, no_mock, send
from tradesdk_cli.errors import CliError, RefusedByMock, UsageProblem
from tradesdk_cli.files import atomic_write, file_errors
from tradesdk_cli.run import Run, run_of

APPS = {"snapshot": Verbs(run_of), "restore": Verbs(run_of)}


@APPS["snapshot"].verb(
    "snapshot", "trade --mock mock snapshot before.sqlite3", "trade mock snapshot before.sqlite3 --force"
)
def snapshot(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; written whole or not at all.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the mock's state into a file.

    trade mock restore goes back to it, and trade mock serve --db works on it.
    """
    if file.exists() and not force:
        raise UsageProblem(f"{file} exists already", "--force overwrites it")
    if any(file.with_name(file.name + end).exists() for end in ("-wal", "-shm")):
        raise CliError(f"{file} is a state file in use, or one that was not closed", "choose another file")
    state = fetch(run, "GET", "snapshot")
    if not state.startswith(b"SQLite format 3\0"):
        raise no_mock(run)
    with file_errors(CliError, f"cannot write {file}", "choose another file"):
        atomic_write(file, state)
    run.out.one({"file": str(file), "bytes": len(state)})


@APPS["restore"].verb(
    "restore", "trade --mock mock restore before.sqlite3 --dry-run", "trade mock restore before.sqlite3 --yes"
)
def restore(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="From trade mock snapshot, or a state file.")],
    consent: Consent,
) -> None:
    """Restore a snapshot, or load a state file.

    State, seed, clock, gap options, faults and keys are those of the file, which stays as it is. The mock's present
    state is deleted, and open streams end. For the embedded world, this machine's ledger of play money is deleted, too.
    """
    from tradesdk_cli.confirm import Change, approve

    hint = "trade mock snapshot writes one"
    if not file.is_file():
        raise UsageProblem(f"{file} is {'not a file' if file.exists() else 'not there'}", hint)
    what = f"restore {file} in {mock_name(run)}: delete its present state"
    if not approve(run, Change(what, "POST", "/_mock/restore", mock=mock_name(run)), **vars(consent)):
        return
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:  # the last writes are in those files
        raise CliError(f"{file} is in use, or was not closed", "trade mock serve --db FILE, and trade mock snapshot")
    with file_errors(CliError, f"cannot read {file}", hint):
        state = file.read_bytes()
    try:
        send(run, "POST", "restore", state)
    except RefusedByMock as error:
        error.hint = f"nothing was changed; {hint}"
        raise
    forget_old_state(run)
    run.out.one(send(run, "GET", "status"))
