"""`trade mcp`: tools for AI clients, within your limits."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tradesdk_cli.cli.group import TradeGroup, Verbs, examples, gathered, refuse_result_options
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.interrupts import on_signal
from tradesdk_cli.mcp import INSTALL
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import plain_dollars, usd

if TYPE_CHECKING:
    from tradesdk_cli.mcp.catalog import Scope

app = Verbs(run_of, name="mcp", cls=TradeGroup)


@dataclass
class Rights:
    """The options about what a session may do."""

    write: Annotated[bool, typer.Option("--write", help="Let agents be changed, each change approved by you.")] = False
    spend: Annotated[
        str | None, typer.Option(metavar="USD", help="Let the session spend this much on market data.")
    ] = None
    auto_spend: Annotated[
        str | None, typer.Option(metavar="USD", help="Purchases of up to this much need no approval.")
    ] = None

    @property
    def scope(self) -> Scope:
        from tradesdk_cli.mcp.catalog import Scope

        most, auto = _micro("--spend", self.spend), _micro("--auto-spend", self.auto_spend)
        if auto > most:
            hint = f"--spend {self.auto_spend} --auto-spend {self.auto_spend}"
            raise UsageProblem("--auto-spend cannot be more than --spend", hint)
        return Scope(self.write, most, auto)


def _micro(option: str, text: str | None) -> int:
    from tradesdk_cli.pay.checkout import amount_of

    return 0 if text is None else amount_of(option, text)


@app.callback(
    invoke_without_command=True,
    epilog=examples("trade --mock mcp", "trade mcp --write --spend 0.50 --auto-spend 0.10"),
)
@gathered
def mcp(ctx: typer.Context, rights: Rights) -> None:
    """Tools for AI clients, under your limits: config, tools.

    Without a verb, it serves an MCP client over stdin and stdout; clients start it by themselves. Read-only by
    default. With --write agents can be changed, and with --spend market data can be bought; you approve each change and
    each purchase with trade approve, in another terminal. --auto-spend lets small purchases through. The budgets of
    trade pay budget hold as well.
    """
    scope = rights.scope
    if ctx.invoked_subcommand is not None:
        if rights != Rights():
            verb = ctx.invoked_subcommand
            raise UsageProblem(f"put the options of trade mcp after {verb}", f"trade mcp {verb} --help")
        return
    refuse_result_options(ctx)
    if not _has_mcp():
        raise ConfigProblem("this needs the package mcp, which is not installed", INSTALL)
    with run_of(ctx) as run:
        if sys.stdin.isatty():
            run.out.note(
                "waiting for an MCP client on stdin; clients start this by themselves: trade mcp config claude"
            )
        _serve_stdio(run, scope)


def _serve_stdio(run: Run, scope: Scope) -> None:
    import anyio
    import anyio.from_thread
    from anyio.lowlevel import current_token

    from tradesdk_cli.mcp.server import serve_stdio
    from tradesdk_cli.mcp.tools import Toolbox

    async def serve() -> None:
        toolbox, token = Toolbox(run, scope), current_token()

        def handle(number: int) -> bool:
            """Clients close stdin and soon send SIGTERM; requests under way finish first."""

            def end() -> None:
                anyio.from_thread.run(toolbox.finish, token=token)
                os._exit(128 + number)

            threading.Thread(target=end).start()
            return True

        with on_signal(handle):
            await serve_stdio(toolbox)

    anyio.run(serve)


@app.verb("config", "trade mcp config claude", "trade --mock mcp config codex", silent=True)
def config(
    run: Run,
    client: Annotated[
        Literal["claude", "cursor", "codex", "vscode"],
        typer.Argument(metavar="CLIENT", help="claude, cursor, codex or vscode."),
    ],
    *,
    rights: Rights,
) -> None:
    """Print the settings with which an MCP client starts this server.

    They name this program, its options such as --mock, --profile, --write and --spend, and variables such as TRADE_HOME
    and TRADE_BUDGET_PER_DAY. They have no key: the server reads the one that trade login saved, or that of its
    environment.
    """
    from tradesdk_cli.config.credentials import without_password
    from tradesdk_cli.config.files import expanded
    from tradesdk_cli.mcp.clients import CLIENTS, KEYS, PATHS, VARIABLES, configuration, this_program

    scope = rights.scope
    variables = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    variables |= {name: str(expanded(variables[name]).absolute()) for name in PATHS if name in variables}
    if run.settings.sources["base_url"] == "flag --base-url":
        variables |= dict.fromkeys(("TRADE_BASE_URL", "TRADE_MARKET_BASE_URL"), str(run.settings.base_url))
    secret = [name for name, value in variables.items() if without_password(value) != value]
    words = [*this_program(), *run.settings.program.split()[1:], "mcp"]
    words += ["--write"] if scope.write else []
    words += ["--spend", plain_dollars(usd(scope.spend))] if scope.spend else []
    words += ["--auto-spend", plain_dollars(usd(scope.auto))] if scope.auto else []
    shown = {name: value for name, value in variables.items() if name not in secret}
    print(configuration(client, words, shown))
    run.out.note(CLIENTS[client])
    for name in secret:
        run.out.note(f"{name} has a password, so it is left out: give it to the client's environment yourself")
    for name, saves in KEYS.items():
        if os.environ.get(name) and not run.settings.mock:
            run.out.note(f"{name} is a key, so it is left out: save it with {run.settings.program} {saves}")
    if not _has_mcp():
        run.out.note(f"the package mcp is not installed here, so the client cannot start it: {INSTALL}")


@app.verb("tools", "trade mcp tools", "trade mcp tools --write --spend 0.50 -o json")
def tools(run: Run, rights: Rights) -> None:
    """List the tools that a client sees. -o json has schemas and hints."""
    from tradesdk_cli.mcp.catalog import tools as listed
    from tradesdk_cli.output.columns import TOOLS

    run.out.many(TOOLS, [[tool.listed() for tool in listed(rights.scope)]], empty="no tools")


def _has_mcp() -> bool:
    from importlib.util import find_spec

    return find_spec("mcp") is not None
