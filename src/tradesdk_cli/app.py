"""The root command, and running one command line from arguments to exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from tradesdk_cli.cli import params
from tradesdk_cli.cli.group import RootGroup, Verbs, add_lazily
from tradesdk_cli.errors import ClosedPipe, Interrupted, Problem, Unwritable, UsageProblem
from tradesdk_cli.interrupts import say_interrupted
from tradesdk_cli.text import visible

_NOUNS = {
    "agents": "Trading agents: list, get, create, update, delete.",
    "wallets": "Wallets: list, connect, balance.",
    "trades": "Trades that agents made: list, get.",
    "positions": "Open positions: list.",
    "signals": "BUY and SELL signals: latest, history, stream.",
    "top": "A live board: agents, positions, signals, money.",
    "plot": "Draw a token's price or an agent's result.",
    "market": "Market data about tokens, paid per call.",
    "pay": "Payments, budgets and the wallet that pays.",
    "account": "Your plan and what is left of it: show, usage.",
    "login": "Save an API key for later commands.",
    "logout": "Remove a saved API key.",
    "whoami": "Show which account and service are in use.",
    "config": "Settings and profiles, and where each value came from.",
    "doctor": "Check settings, key, services, wallet and ledger.",
    "demo": "See it all work, without an account or a network.",
    "mock": "The mock service on this machine, served and controlled.",
    "mcp": "Tools for AI clients, under your limits: config, tools.",
    "approve": "Approve or refuse what an AI client wants to do.",
    "completion": "Let your shell complete commands, ids and symbols.",
    "help": "Help about a topic or a command: trade help TOPIC.",
    "api": "Send any request, with the same key and retries.",
    "fleet": "Many machines, one budget: init, relay, status.",
}
"""All nouns in the order of the help, rare ones last. Their modules are imported on use."""

_LINES = {
    "trades, positions": "What agents bought and sold, and what is open now.",
    "top, plot": "A live board; a chart of a token or an agent.",
    "login, logout, whoami": "Save an API key, remove it, show whose it is.",
    "config, doctor": "Settings and profiles; check that everything works.",
    "demo, mock": "See it all work without an account; the mock service.",
    "mcp, approve": "Tools for AI clients; approve what they want.",
    "completion, help": "Completion in your shell; help about a topic.",
    "api, fleet": "Send any request; many machines, one budget.",
}
"""Nouns that share a line of `trade --help`, so that it fits a small terminal."""


app = Verbs(name="trade", cls=RootGroup, pretty_exceptions_enable=False)


@app.callback(
    invoke_without_command=True,
    help="Agents, signals, market data. Without an account: trade demo. Else: trade login.",
)
def root(
    ctx: typer.Context,
    output: params.Output = None,
    fields: params.Fields = None,
    query: params.Query = None,
    out: params.Out = None,
    times: params.Times = None,
    profile: params.Profile = None,
    mock: params.Mock = None,
    world: params.World = None,
    base_url: params.BaseUrl = None,
    timeout: params.Timeout = None,
    verbose: params.Verbose = None,
    debug: params.Debug = None,
    curl: params.Curl = None,
    version: Annotated[bool | None, typer.Option("--version", "-V", help="Print the version and stop.")] = None,
) -> None:
    """Without a command, shows the help."""
    if version:
        from tradesdk import __version__

        print(f"trade {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@cache
def command() -> Any:
    """The whole command tree; nouns are imported on use."""
    group: Any = get_command(app)
    add_lazily(group, _NOUNS, "tradesdk_cli.commands.{}")
    group.lines = _LINES
    return group


def run(argv: list[str]) -> int:
    """Runs one command line; prints the error, if any, and returns the exit code."""
    flags: dict[str, Any] = {}
    root, code = command(), 0
    try:
        # Typer's own `main` would exit with 130 for SIGTERM too, and with 1 for a closed pipe.
        try:
            with root.make_context("trade", list(argv), obj=flags) as context:
                root.invoke(context)
        except typer.Exit as end:
            code = end.exit_code
        _flush()
        return code
    except (ClosedPipe, BrokenPipeError):
        from tradesdk_cli.files import forget

        forget(sys.stdout)
        return 0
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt as interrupt:
        return say_interrupted(interrupt)
    except typer.TyperException as error:
        from tradesdk_cli.cli.usage_errors import usage_problem
        from tradesdk_cli.config.settings import program_of

        problem = usage_problem(error, argv, program_of(flags))
    except Exception as error:
        if isinstance(error, OSError):  # if it was stdout, it fails again
            try:
                _flush()
            except Unwritable as unwritable:
                error = unwritable
        from tradesdk_cli.config.settings import program_of
        from tradesdk_cli.explain import problem_of
        from tradesdk_cli.files import forget

        if type(error) is Unwritable:  # errors of the --out file have their own class
            forget(sys.stdout)
        problem = problem_of(error, program_of(flags))
        if flags.get("verbose") and problem.code == "internal":
            import traceback

            for line in traceback.format_exc().splitlines():
                print(visible(line), file=sys.stderr)
    if problem.exit_code == UsageProblem.exit_code:
        from tradesdk_cli.config.settings import requested_output

        flags["output"] = requested_output(argv) or flags.get("output")
    return _print_problem(problem, flags)


def _print_problem(problem: Problem, flags: dict[str, Any]) -> int:
    from tradesdk import ConfigError
    from tradesdk_cli.config.settings import Settings, resolve
    from tradesdk_cli.errors import CliError
    from tradesdk_cli.output.stderr import Notes

    try:
        settings = flags.get("resolved") or resolve(flags, os.environ)
    except (CliError, ConfigError):  # as many settings as can be read
        settings = Settings(output=flags.get("output") or "auto")
    with contextlib.suppress(ClosedPipe, BrokenPipeError):
        Notes(settings, os.environ).problem(problem)
    return problem.exit_code


def _flush() -> None:
    """Flushes output that was printed without `Output`, such as help, and reports a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"standard output cannot be written: {error.strerror}", "print it elsewhere") from None
