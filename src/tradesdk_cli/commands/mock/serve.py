"""`trade mock serve`: serves the mock on a port until Ctrl-C or SIGTERM."""

from __future__ import annotations

import errno
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.cli.params import pairs, whole
from tradesdk_cli.commands.mock.control import PORT
from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.interrupts import StopRequested, on_signal
from tradesdk_cli.mockworld import FIRST_SIGNAL_WITHIN, mock_server_class, usable_file
from tradesdk_cli.run import Run, run_of

if TYPE_CHECKING:
    from tradesdk_cli.output.printer import Output
    from tradesdk_mock import MockServer


APPS = {"serve": Verbs(run_of)}

_MARKETS: dict[bool | None, Literal["live", "scripted"] | None] = {None: None, True: "scripted", False: "live"}
PLAY_MONEY = "0x" + "01" * 32
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  # compared with, not listened on


@APPS["serve"].verb("serve", "trade mock serve", "trade mock serve --seed 11 --gap write_status=200/200")
def serve(
    run: Run,
    port: Annotated[
        int, typer.Option(parser=whole(0, 65535), metavar="N", help="The port; 0 means any free one.")
    ] = PORT,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    seed: Annotated[
        int | None,
        typer.Option(
            parser=whole(),
            metavar="N",
            help="Number that decides prices and signals; the same seed gives the same world.",
        ),
    ] = None,
    db: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the state in this file.")] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The tenant to populate.")] = "me",
    empty: Annotated[bool, typer.Option("--empty", help="Start without a populated tenant.")] = False,
    gap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Choose behavior that the service does not document; trade mock gaps list shows all.",
        ),
    ] = None,
    gaps: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read them from a JSON file that trade doctor --service --gaps FILE wrote; --gap overrides it.",
        ),
    ] = None,
    scripted: Annotated[
        bool | None,
        typer.Option(
            "--scripted/--live",
            help="Signals only from trade mock emit, or also from the market (default).",
            show_default=False,
        ),
    ] = None,
    allow_remote_control: Annotated[
        bool, typer.Option("--allow-remote-control", help="Let other machines control the mock, too.")
    ] = False,
) -> None:
    """Serve the mock on a port until Ctrl-C.

    A key creates its tenant on first use: mock_full_NAME, mock_read_NAME, and with a plan mock_full_free_NAME. With
    --world NAME, that embedded world is served; commands with the same --world still work on it. trade mock logs shows
    the requests that it receives.
    """
    server_class = mock_server_class()
    from tradesdk_mock import MockServerError

    if run.settings.sources.get("world", "").startswith("flag "):
        if db is not None:
            raise UsageProblem("--world and --db exclude each other", "leave one of them out")
        db = usable_file(run.settings)  # commands on that world and this server see the same
    options, stop = _gap_options(gap or [], gaps), threading.Event()

    def handle(number: int) -> bool:
        """SIGTERM ends it as planned, from the start on; Ctrl-C raises as usual."""
        if number != signal.SIGTERM:
            raise StopRequested(number)
        stop.set()
        return True

    try:
        with (
            on_signal(handle),
            server_class(
                seed=seed,
                host=host,
                port=port,
                db=db,
                gaps=options,
                signals=_MARKETS[scripted],
                first_within=FIRST_SIGNAL_WITHIN,
                allow_remote_control=allow_remote_control,
            ) as server,
        ):
            if not empty:
                server.populate(tenant)
            _say(run.out, server, host, tenant, remote=allow_remote_control)
            _wait_for(stop)
    except MockServerError as error:
        hint = _serving_hint(error, db, seeded=seed is not None)
        raise CliError(f"the mock cannot serve: {error}", hint) from None


def _say(out: Output, server: MockServer, host: str, tenant: str, *, remote: bool) -> None:
    """Prints address and keys on stdout, and what to do with them on stderr."""
    from tradesdk_cli.config.settings import is_loopback

    key = f"mock_full_{tenant}"
    info = {"url": server.url, "api_key": key, "read_only_key": f"mock_read_{tenant}", "seed": server.world.seed}
    if server.market_url != server.url:
        info["market_url"] = server.market_url
    out.one(info)

    def here(url: str) -> str:
        """A server on all addresses is also on the loopback address, the only one that clients accept without TLS."""
        return f"http://{_ANY[host]}:{urlsplit(url).port}" if host in _ANY else url

    base = here(server.url)
    out.note(f"in another terminal: export TRADE_BASE_URL={base} TRADE_API_KEY={key}")
    # A public key. Its own ledger keeps play money out of the real budgets.
    market = "" if server.market_url == server.url else f" TRADE_MARKET_BASE_URL={here(server.market_url)}"
    out.note(f"to buy market data with play money: export TRADE_WALLET_KEY={PLAY_MONEY}{market}")
    out.note("and a ledger of its own, so that no real budget is spent: export TRADE_HOME=$(mktemp -d)")
    out.note(f"signals as they come: curl -N -H 'Authorization: Bearer {key}' '{base}/v1/signals/stream?chain=8453'")
    out.note(f"OpenAPI description: {base}/openapi.json")
    if is_loopback(host):
        return
    if remote:
        out.note(f"everyone who can reach {host} can control this mock (--allow-remote-control)")
    else:
        out.note("other machines can use this mock but not control it; --allow-remote-control allows that")


def _serving_hint(error: Exception, db: Path | None, *, seeded: bool) -> str:
    from tradesdk_mock import StateFileError

    cause = error.__cause__
    if db is not None and not db.parent.is_dir():
        return f"the folder {db.parent} does not exist; make it, or choose a file in another folder"
    if isinstance(error, StateFileError):
        return f"{'leave out --seed, or ' if seeded else ''}choose another --db FILE; this one is unchanged"
    if isinstance(cause, OSError) and cause.errno in (errno.EADDRINUSE, errno.EACCES):
        return "--port 0 chooses a free port"
    if isinstance(cause, OSError):
        return "--host takes an address of this machine, for example 127.0.0.1"
    return "trade mock serve --help shows what is accepted"


def _wait_for(stop: threading.Event) -> None:
    """Waits for the stop in short steps: Python handles signals between them."""
    while not stop.wait(0.25):
        pass


def _gap_options(words: list[str], file: Path | None) -> dict[str, Any]:
    """The chosen gap options; others stay as in the state or the file."""
    from tradesdk_mock import GapOptions

    try:
        base = {} if file is None else GapOptions.from_file(file).as_dict()
    except ValueError as error:
        raise UsageProblem(f"--gaps: {error}", "trade doctor --service --gaps FILE writes such a file") from None
    try:
        chosen = {**base, **pairs(words, "trade --mock mock gaps list")}
        GapOptions().changed(**chosen)
    except ValueError as error:
        raise UsageProblem(str(error), "trade --mock mock gaps list") from None
    return chosen
