"""`trade mock snapshot`: the mock's state in a file."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.commands.mock.control import ControlProblem, served_at
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.errors import CliError, ConfigProblem, RefusedByMock, UsageProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.framework.group import TradeCommand, examples, single
from tradesdk_cli.session import session
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.session import Session

app = single("Write the mock's state into a file.")

STATE = "application/vnd.sqlite3"
# A large state takes its time: it is read and checked as a whole.
_TIMEOUT = 120.0
_START = "start one: trade mock serve"


@app.command(
    "snapshot",
    cls=TradeCommand,
    epilog=examples("trade --mock mock snapshot before.sqlite3", "trade mock snapshot before.sqlite3 --force"),
)
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
        ControlProblem: nothing answers there, or not in time, or it is not a mock server.
        RefusedByMock: it refused.
    """
    from urllib.parse import urlsplit

    host, port = "", 0
    try:
        parts = urlsplit(served_at(run))
        host, port = parts.hostname or "", parts.port or 80
        here = parts.scheme == "http" and is_loopback(host)
    except ValueError:
        here = False
    if not here:
        # Only the host is shown: a password may stand in a URL by mistake.
        raise ConfigProblem(
            f"the base URL ({one_line(host, 120) or 'without a host'}) is not of a mock server on this machine",
            "trade mock serve starts one; --mock uses the embedded one",
        )
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request(method, f"/_mock/{path}", content, {"Content-Type": STATE})
        response = connection.getresponse()
        status, kind, answered = response.status, response.getheader("content-type"), response.read()
    except TimeoutError:
        raise ControlProblem(f"the mock at {host}:{port} did not answer within {_TIMEOUT:g} s", _START) from None
    except (OSError, http.client.HTTPException) as error:
        raise ControlProblem(f"no mock server answers at {host}:{port}: {error}", _START) from None
    finally:
        connection.close()
    if status == 200 and kind == gives:
        return answered
    raise _refusal(f"{host}:{port}", status, answered)


def _refusal(where: str, status: int, answered: bytes) -> CliError:
    try:
        said = json.loads(answered)["error"]
        code, message = str(said["code"]), str(said["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ControlProblem(f"the server at {where} is not a mock server", _START)
    return RefusedByMock(status, code, f"the mock refused: {message}", "nothing was changed")


def _write(file: Path, content: bytes) -> None:
    if any(file.with_name(file.name + end).exists() for end in ("-wal", "-shm")):
        raise CliError(f"{file} is a state file in use, or one that was not closed", "take another file")
    try:
        atomic_write(file, content)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}", "take another file") from None
