"""`trade mock restore`: the mock as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.commands.mock.control import ControlProblem, ask, place
from tradesdk_cli.commands.mock.snapshot import bytes_of
from tradesdk_cli.commands.mock.status import STATUS
from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.framework.group import TradeCommand, examples, single
from tradesdk_cli.framework.params import DryRun, Yes
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.session import Session

app = single("Restore a snapshot, or load a state file.")

_HINT = "trade mock snapshot writes one"


@app.command(
    "restore",
    cls=TradeCommand,
    epilog=examples("trade --mock mock restore before.sqlite3 --dry-run", "trade mock restore before.sqlite3 --yes"),
)
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="From trade mock snapshot, or a state file.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Restore a snapshot, or load a state file.

    State, seed, scenario, clock, gap options, faults and keys are those of the file, which stays as it is. What the
    mock holds now is forgotten, and open streams end. What was paid in the embedded world is forgotten on both sides.
    """
    from tradesdk_cli import idcache
    from tradesdk_cli.commands.mock.show import show_status
    from tradesdk_cli.confirm import Change, approve

    with session(ctx) as run:
        if not file.is_file():
            raise UsageProblem(f"{file} is {'not a file' if file.exists() else 'not there'}", _HINT)
        what = f"restore {file} in {place(run)}: forget what it holds now"
        if approve(run, Change(what, "POST", "/_mock/restore", mock=place(run)), yes=yes, dry_run=dry_run):
            _embedded(run, file) if run.settings.mock else _served(run, file)
            idcache.forget_all()
            show_status(run.out, ask(run, "GET", "status", gives=STATUS))


def _embedded(run: Session, file: Path) -> None:
    from tradesdk_cli.mockworld import MOCK_TENANT, forget_payments
    from tradesdk_mock import MockServerError

    try:
        run.mock.service.restore(file)
        # As every command on this world does.
        run.mock.service.populate(MOCK_TENANT)
    except MockServerError as error:
        raise CliError(str(error), _HINT) from None
    forget_payments(run.settings)


def _served(run: Session, file: Path) -> None:
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        # What was written last is there, and not in the file.
        raise CliError(f"{file} is in use, or was not closed", "trade mock serve --db FILE, and trade mock snapshot")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", _HINT) from None
    try:
        answer: Any = json.loads(bytes_of(run, "POST", "restore", content, gives="application/json"))
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "seed" not in answer:
        raise ControlProblem("the server there is not a mock server", "start one: trade mock serve")
