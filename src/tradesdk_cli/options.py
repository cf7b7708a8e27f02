"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.plumbing import GLOBAL_PANEL

CHAINS = {"base": 8453, "bnb": 56}
_AGO = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Format(StrEnum):
    """How results are printed."""

    auto = "auto"
    table = "table"
    json = "json"
    ndjson = "ndjson"


class Color(StrEnum):
    """When colours are used."""

    auto = "auto"
    always = "always"
    never = "never"


def parse_chain(value: str) -> int:
    """`base`, `bnb`, `8453` or `56` as the chain's number."""
    known = CHAINS.get(value.strip().lower())
    if known is not None:
        return known
    if value in ("8453", "56"):
        return int(value)
    raise typer.BadParameter("a chain is base (8453) or bnb (56)")


def parse_moment(value: str) -> float:
    """A moment as Unix seconds: `1767225600`, `2026-01-01T00:00:00Z`, `2026-01-01` (UTC midnight), `90m` (ago)."""
    ago = _AGO.fullmatch(value)
    if ago is not None:
        return datetime.now(UTC).timestamp() - int(ago[1]) * _SECONDS[ago[2]]
    if re.fullmatch(r"\d{9,11}", value):
        return float(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        message = (
            "a moment is Unix seconds, a date, a time with its zone such as 2026-01-01T12:00Z, or an age such as 90m"
        )
        raise typer.BadParameter(message) from None
    if len(value) <= 10:
        return moment.replace(tzinfo=UTC).timestamp()
    if moment.tzinfo is None:
        raise typer.BadParameter("a time needs its zone: add Z for UTC, or an offset such as +02:00")
    return moment.timestamp()


def _complete_chain(incomplete: str) -> list[str]:
    return [name for name in CHAINS if name.startswith(incomplete)]


_chain = typer.Option(
    "--chain",
    "--chain-id",
    parser=parse_chain,
    autocompletion=_complete_chain,
    metavar="base|bnb",
    help="The chain: base (8453) or bnb (56).",
)
Chain = Annotated[int, _chain]
AnyChain = Annotated[int | None, _chain]

Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="How many in total (20 when nothing is said).")
]
All = Annotated[bool, typer.Option("--all", "-a", help="Everything there is, page after page.")]
Cursor = Annotated[str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where an earlier list ended.")]
PageSize = Annotated[
    int | None, typer.Option("--page-size", min=1, max=100, metavar="N", help="Items per request, 1 to 100.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the request and send nothing.")]
Confidence = Annotated[
    float | None, typer.Option("--min-confidence", min=0.0, max=1.0, metavar="X", help="From 0.0 to 1.0.")
]


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: object) -> object:
    # Options are processed from the root to the verb, so that the later one wins.
    if value is not None and isinstance(ctx.obj, dict):
        ctx.obj[param.name] = value
    return value


def _global(*names: str, help: str, metavar: str | None = None, count: bool = False) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        *names,
        help=help,
        metavar=metavar,
        count=count,
        callback=_remember,
        expose_value=False,
        show_default=False,
        rich_help_panel=GLOBAL_PANEL,
    )
    return option


Output = Annotated[Format | None, _global("--output", "-o", help="How results are printed.")]
Mock = Annotated[bool | None, _global("--mock/--no-mock", help="Use the embedded mock service; its state is kept.")]
World = Annotated[str | None, _global("--world", metavar="NAME", help="A mock world of its own; implies --mock.")]
BaseUrl = Annotated[str | None, _global("--base-url", metavar="URL", help="The service [env: TRADE_BASE_URL].")]
KeyStdin = Annotated[bool | None, _global("--api-key-stdin", help="Read the API key from standard input.")]
Timeout = Annotated[float | None, _global("--timeout", metavar="SECONDS", help="How long one answer may take.")]
NoRetry = Annotated[bool | None, _global("--no-retry", help="Send every request once only.")]
ColorWhen = Annotated[Color | None, _global("--color", help="When colours are used [env: NO_COLOR, FORCE_COLOR].")]
Verbose = Annotated[int | None, _global("--verbose", "-v", count=True, help="Say what is sent; -vv says more.")]
