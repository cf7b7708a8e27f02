"""`trade mock worlds`: the embedded worlds on this machine, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import DryRun, Yes
from tradesdk_cli.mockworld import LEDGER_ENDS
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.session import Session

app = noun("worlds", "Embedded worlds on this machine: list, remove.")

_LEDGER = ".ledger.sqlite3"
_ENDS = (".sqlite3", ".sqlite3-wal", ".sqlite3-shm", ".sqlite3-journal", ".wallet.json")


@app.verb("list", "trade --mock mock worlds list", "trade mock worlds list -o json")
def list_worlds(ctx: typer.Context) -> None:
    """List the embedded worlds on this machine.

    Each has its own state, clock, wallet and ledger. --world NAME chooses one for a command, and makes it when it is
    not there.
    """
    from tradesdk_cli.output.columns import WORLDS

    with session(ctx) as run:
        rows = [_row(run, name) for name in _names(run.settings)]
        run.out.many(WORLDS, [rows], empty="no worlds yet: the first command with --mock or --world NAME makes one")


@app.verb("remove", "trade mock worlds remove side --yes", "trade mock worlds remove side --dry-run")
def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="WORLD", help="Its name.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove an embedded world: its state, its wallet of play money and what was paid there."""
    from tradesdk_cli import idcache
    from tradesdk_cli.confirm import agree

    with session(ctx) as run:
        if name not in _names(run.settings):
            raise UsageProblem(f"there is no world {name!r}", "see what there is: {trade} mock worlds list")
        files = list(_files(run.settings, name))
        _not_in_use(run.settings, name)
        size = sum(file.lstat().st_size for file in files)
        result = {"world": name, "files": [str(file) for file in files], "bytes": size}
        if dry_run:
            run.out.one(result)
            run.out.note("nothing was removed (--dry-run)")
            return
        agree(f"remove the world {name}, with its {size:,} bytes, for good", yes=yes)
        for file in (*files, idcache.file_of(replace(run.settings, mock=True, world=name))):
            file.unlink(missing_ok=True)
        run.out.one(result)


def _folder(settings: Settings) -> Path:
    return settings.data_folder() / "mock"


def _names(settings: Settings) -> list[str]:
    """Of the worlds that are there, in order."""
    from tradesdk_cli.config.entries import NAME

    found = (file.name for file in _folder(settings).glob("*.sqlite3") if not file.name.endswith(_LEDGER))
    return sorted(name for name in (file.removesuffix(".sqlite3") for file in found) if NAME.fullmatch(name))


def _files(settings: Settings, name: str) -> Iterator[Path]:
    for end in (*_ENDS, *(_LEDGER + end for end in LEDGER_ENDS)):
        file = _folder(settings) / f"{name}{end}"
        if file.is_file():
            yield file
    yield from sorted(_folder(settings).glob(f"{name}.*.checkpoint*"))  # how far its streams were read


def _row(run: Session, name: str) -> dict[str, Any]:
    from tradesdk_cli.mockworld import mock_server_class

    mock_server_class()  # says what is missing
    from tradesdk_mock import StateFileError, describe_state_file

    file = _folder(run.settings) / f"{name}.sqlite3"
    try:
        found = {**describe_state_file(file), "problem": None}
    except StateFileError as error:
        found = {"problem": error.problem}
    return {
        "world": name,
        "current": run.settings.mock and name == run.settings.world,
        **dict.fromkeys(("seed", "scenario", "now", "frozen", "speed", "tenants", "agents", "trades")),
        **found,
        "bytes": sum(each.lstat().st_size for each in _files(run.settings, name)),
        "file": str(file),
    }


def _not_in_use(settings: Settings, name: str) -> None:
    """Refuses to remove what another process works on: the file would live on without a name."""
    from tradesdk_cli.errors import CliError
    from tradesdk_mock import is_state_file_in_use

    if is_state_file_in_use(_folder(settings) / f"{name}.sqlite3"):
        raise CliError(f"the world {name} is in use by another process", "stop it first")
