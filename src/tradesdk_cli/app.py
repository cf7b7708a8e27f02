"""The root command, and one run from arguments to exit code."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from tradesdk_cli import options
from tradesdk_cli.errors import INTERRUPTED, ClosedPipe, Interrupted, Unwritable, UsageProblem
from tradesdk_cli.plumbing import TradeGroup, add_lazily, examples
from tradesdk_cli.text import one_line, visible

if TYPE_CHECKING:
    from tradesdk_cli.problems import Problem

_NOUNS = {
    "account": "Who you are, your plan and what is left of it.",
    "agents": "Trading agents: list, get, create, update, delete.",
    "wallets": "Wallets: list, connect, balance.",
    "trades": "Trades that agents made: list, get.",
    "positions": "Open positions: list.",
    "signals": "BUY and SELL signals: latest, history, stream.",
    "replay": "Play a recorded stream back.",
    "market": "Paid market data: signals, prices, history, win-rate, avg-prices, top, metrics, tokens.",
    "pay": "Payments: quote, history, show, budget, resume, reconcile, trust, key.",
    "mock": "The mock service on this machine, served and controlled.",
    "demo": "See it all work, without an account or a network.",
}

app = typer.Typer(
    name="trade",
    cls=TradeGroup,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


_KEY = re.compile(r"(?:0[xX])?[0-9a-fA-F]{64}")


def _version(value: bool) -> None:
    if value:
        from tradesdk import __version__

        print(f"trade {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog=examples("trade demo", "trade --mock agents list"),
)
def root(
    ctx: typer.Context,
    output: options.Output = None,
    mock: options.Mock = None,
    world: options.World = None,
    base_url: options.BaseUrl = None,
    market_url: options.MarketUrl = None,
    api_key_stdin: options.KeyStdin = None,
    timeout: options.Timeout = None,
    no_retry: options.NoRetry = None,
    color: options.ColorWhen = None,
    verbose: options.Verbose = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Trading agents, wallets, trades and market signals from the terminal.

    The API key comes from TRADE_API_KEY, the service's address from TRADE_BASE_URL. Global options may stand before the
    noun and after the verb; the later one wins.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def command() -> Any:
    """The whole command tree; nouns are imported when they are used."""
    group: Any = get_command(app)
    add_lazily(group, _NOUNS, "tradesdk_cli.commands")
    return group


def run(argv: list[str]) -> int:
    """Runs one command line; prints what went wrong and returns the exit code."""
    flags: dict[str, Any] = {}
    try:
        result = command().main(argv, prog_name="trade", standalone_mode=False, obj=flags)
        sys.stdout.flush()
        if result == INTERRUPTED:
            return _interrupted()
        return result if isinstance(result, int) else 0
    except (ClosedPipe, BrokenPipeError):
        _forget_stdout()
        return 0
    except Interrupted as interrupted:
        return interrupted.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except SystemExit as end:  # Typer's way out of completion, and of a pipe that closed while it printed help
        if isinstance(end.__context__, BrokenPipeError):
            _forget_stdout()
            return 0
        return end.code if isinstance(end.code, int) else 0
    except typer.TyperException as error:
        problem = _usage(error)
    except Exception as error:
        if isinstance(error, Unwritable):
            _forget_stdout()
        from tradesdk_cli.config import program_of
        from tradesdk_cli.problems import problem_of

        problem = problem_of(error, program_of(flags))
        if flags.get("verbose") and problem.code == "internal":
            _print_traceback()
    if problem.exit_code == UsageProblem.exit_code and "output" not in flags:
        from tradesdk_cli.config import requested_output

        flags["output"] = requested_output(argv)
    return _report(problem, flags)


def _report(problem: Problem, flags: dict[str, Any]) -> int:
    from tradesdk_cli.output import Output

    with contextlib.suppress(ClosedPipe, BrokenPipeError):
        Output.from_flags(flags, os.environ).problem(problem)
    return problem.exit_code


def _print_traceback() -> None:
    import traceback

    for line in traceback.format_exc().splitlines():
        print(visible(line), file=sys.stderr)


def _usage(error: typer.TyperException) -> Problem:
    from tradesdk_cli.problems import Problem

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "trade"
    hint = f"{path} --help"
    if getattr(error, "option_name", None) in ("--api-key", "--key", "--token"):
        hint = "keys never stand on a command line: export TRADE_API_KEY, or use --api-key-stdin"
        if path.startswith("trade pay"):
            hint = "keys never stand on a command line: trade pay key import asks for it, or reads it from a pipe"
    message = one_line(error.format_message()).replace("Value error, ", "")  # pydantic's prefix
    message = _KEY.sub("****", message)  # typed where it does not belong, it need not be repeated
    return Problem(UsageProblem.exit_code, "usage", message, hint)


def _interrupted() -> int:
    # On a terminal the line already holds ^C, or a question.
    print("\ninterrupted" if sys.stderr.isatty() else "interrupted", file=sys.stderr)
    return INTERRUPTED


def _forget_stdout() -> None:
    # Python flushes stdout once more at the end, which would fail again, loudly.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # lives until the process ends
