"""`trade mock`: the mock service on this machine, served, looked at and controlled."""

from __future__ import annotations

import errno
import os
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.errors import CliError, RefusedByMock, UsageProblem
from tradesdk_cli.options import number, whole
from tradesdk_cli.plumbing import TradeCommand, examples, noun, session

if TYPE_CHECKING:
    from tradesdk_cli.context import Session

app = noun("mock", "The mock service on your machine: serve it, look at it, control it.")

PORT = 8787
SERVED = f"http://127.0.0.1:{PORT}"


class Scope(StrEnum):
    """What a key may do."""

    full = "full-access"
    read = "read-only"


class Move(StrEnum):
    """What can be done to an agent that the service itself has no endpoint for."""

    start = "start"
    stop = "stop"
    pause = "paused"
    fail = "error"


@app.command(
    "serve",
    cls=TradeCommand,
    epilog=examples("trade mock serve", "trade mock serve --port 0 --seed 11 --gap write_status=200/200"),
)
def serve(
    ctx: typer.Context,
    port: Annotated[
        int, typer.Option("--port", parser=whole(0, 65535), metavar="N", help="0 takes any free one.")
    ] = PORT,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    seed: Annotated[
        int | None, typer.Option("--seed", parser=whole(), metavar="N", help="The same seed, the same world.")
    ] = None,
    db: Annotated[Path | None, typer.Option("--db", metavar="FILE", help="Keep the state in this file.")] = None,
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="The tenant that is filled.")] = "me",
    empty: Annotated[bool, typer.Option("--empty", help="Fill nothing.")] = False,
    gap: Annotated[list[str] | None, typer.Option("--gap", metavar="NAME=VALUE", help="See trade mock gaps.")] = None,
) -> None:
    """Serve the mock until Ctrl-C.

    Keys make their tenant on first use: mock_full_NAME, mock_read_NAME, and with a plan mock_full_free_NAME.
    """
    from tradesdk_cli.embedded import mock_server_class

    with session(ctx) as run:
        server_class = mock_server_class()
        from tradesdk_mock import MockServerError

        options = _gap_options(gap or [])
        try:
            with server_class(seed=seed, host=host, port=port, db=db, gaps=options) as server:
                if not empty:
                    server.populate(tenant)
                run.out.one(
                    {"url": server.url, "api_key": f"mock_full_{tenant}", "read_only_key": f"mock_read_{tenant}"}
                )
                run.out.note(
                    f"in another terminal: export TRADE_BASE_URL={server.url} TRADE_API_KEY=mock_full_{tenant}"
                )
                _until_stopped()
        except MockServerError as error:
            raise CliError(f"the mock cannot serve: {error}", _serving_hint(error)) from None


def _serving_hint(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in (errno.EADDRINUSE, errno.EACCES):
        return "--port 0 takes any free port"
    if isinstance(cause, OSError):
        return "--host takes an address of this machine, for example 127.0.0.1"
    return "trade mock serve --help shows what is accepted"


def _until_stopped() -> None:
    """Waits for SIGTERM; Ctrl-C raises, as everywhere else."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        stop.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


def _gap_options(pairs: list[str]) -> Any:
    if not pairs:
        return None
    from tradesdk_mock import GapOptions

    values: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        values[name] = value
    try:
        return GapOptions().changed(**values)
    except ValueError as error:
        raise UsageProblem(str(error), "trade mock gaps") from None


@app.command("gaps", cls=TradeCommand, epilog=examples("trade mock gaps", "trade mock gaps -o json"))
def gaps(ctx: typer.Context) -> None:
    """List what the service's specification leaves open, and what the mock does there."""
    from tradesdk_cli.embedded import mock_server_class
    from tradesdk_cli.views import GAPS

    mock_server_class()
    from tradesdk_mock import GapOptions

    rows = [
        {"name": gap.name, "default": gap.default, "others": " ".join(gap.others), "text": gap.text}
        for gap in GapOptions.describe()
    ]
    with session(ctx) as run:
        width = run.out.width
        if width is None or run.out.format_for(many=True) != "table":
            run.out.many(GAPS, [rows], empty="no options")
            return
        from tradesdk_cli.table import render_choices

        run.out.draw(lambda console: render_choices(console, rows, width))


@app.command("status", cls=TradeCommand, epilog=examples("trade --mock mock status", "trade mock status -o json"))
def status(ctx: typer.Context) -> None:
    """Show what the mock server holds: seed, clock, counts."""
    with session(ctx) as run:
        run.out.one(_ask(run, "GET", "status"))


@app.command(
    "clock",
    cls=TradeCommand,
    epilog=examples("trade --mock mock clock", "trade --mock mock clock --advance 3600"),
)
def clock(
    ctx: typer.Context,
    advance: Annotated[
        float | None, typer.Option("--advance", parser=number(0), metavar="SECONDS", help="Move it on.")
    ] = None,
    set_to: Annotated[
        float | None, typer.Option("--set", parser=number(), metavar="UNIX", help="Put it to these Unix seconds.")
    ] = None,
    backwards: Annotated[bool, typer.Option("--allow-backwards", help="Let --set go into its past.")] = False,
    freeze: Annotated[bool | None, typer.Option("--freeze/--resume", help="Stop it, or let it run again.")] = None,
) -> None:
    """Show or move the mock's clock."""
    if backwards and set_to is None:
        raise UsageProblem("--allow-backwards belongs to --set", "trade mock clock --help")
    given = {"freeze": freeze, "set": set_to, "advance": advance, "allow_backwards": backwards or None}
    body = {name: value for name, value in given.items() if value is not None}
    with session(ctx) as run:
        try:
            run.out.one(_ask(run, "POST", "clock", body) if body else _ask(run, "GET", "clock"))
        except RefusedByMock as error:
            error.message = error.message.replace("allow_backwards=True", "--allow-backwards")
            raise


@app.command(
    "agent",
    cls=TradeCommand,
    epilog=examples("trade --mock mock agent AGENT_ID start", "trade --mock mock agent AGENT_ID stop"),
)
def agent(
    ctx: typer.Context,
    agent_id: Annotated[str, typer.Argument(metavar="AGENT_ID")],
    move: Annotated[Move, typer.Argument(metavar="start|stop|paused|error")],
) -> None:
    """Start or stop an agent, or put it into another state; the service itself shows no endpoint for this."""
    from urllib.parse import quote

    path = f"agents/{quote(agent_id, safe='')}"
    with session(ctx) as run:
        if move in (Move.start, Move.stop):
            run.out.one(_ask(run, "POST", f"{path}/{move.value}"))
        else:
            run.out.one(_ask(run, "POST", f"{path}/status", {"status": move.value}))


key = noun("key", "API keys of the mock: create, list.")
app.add_typer(key, name="key")


@key.command(
    "create",
    cls=TradeCommand,
    epilog=examples(
        "trade --mock mock key create --name bot", "trade --mock mock key create --name eyes --scope read-only"
    ),
)
def key_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What it is for.")],
    scope: Annotated[Scope, typer.Option("--scope", help="What it may do.")] = Scope.full,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", metavar="NAME", help="Whose it is: me has agents and trades; by default a new, empty one."
        ),
    ] = None,
) -> None:
    """Make a key. Its value is shown this once."""
    body = {"name": name, "scope": scope.value, **({"tenant": tenant} if tenant else {})}
    with session(ctx) as run:
        run.out.one(_ask(run, "POST", "keys", body))


@key.command("list", cls=TradeCommand, epilog=examples("trade --mock mock key list", "trade mock key list -o json"))
def key_list(ctx: typer.Context) -> None:
    """List keys; their values are not kept anywhere."""
    from tradesdk_cli.views import KEYS

    with session(ctx) as run:
        answer = _ask(run, "GET", "keys")
        rows = answer.get("data", answer.get("keys", []))
        run.out.many(KEYS, [rows], empty="no keys yet")


def _ask(run: Session, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    from tradesdk_cli.control import control

    if run.settings.mock:
        base_url = run.mock.url
    else:
        base_url = run.settings.base_url or os.environ.get("TRADE_BASE_URL") or SERVED
    return control(base_url, method, path, body, program=run.settings.program)
