"""Options that several commands share, and parsers for their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import typer

from tradesdk_cli import choices
from tradesdk_cli.choices import CHAINS, FORMATS, Format
from tradesdk_cli.cli.group import GLOBAL_PANEL, remember
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import one_line

T = TypeVar("T", int, float)

_AGO = re.compile(r"(\d{1,6})([smhd])")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_SPAN = 366 * 86400.0


def parse_chain(value: str) -> int:
    """The id of the chain `base`, `bnb`, `8453` or `56`."""
    for name, number in CHAINS.items():
        if value.strip().lower() in (name, str(number)):
            return number
    raise typer.BadParameter(f"{value!r} is not a chain: write base (8453) or bnb (56)")


@dataclass(frozen=True)
class Instant:
    """A time as typed: Unix seconds, or seconds `ago` by the clock of the run."""

    seconds: float
    ago: bool = False

    def at(self, now: float) -> float:
        """In Unix seconds."""
        return now - self.seconds if self.ago else self.seconds


def parse_time(value: str) -> Instant:
    """`1767225600`, `2026-01-01T00:00:00Z`, `2026-01-01` (UTC midnight), or `90m` (ago)."""
    if (ago := _AGO.fullmatch(value)) is not None:
        return Instant(int(ago[1]) * _SECONDS[ago[2]], ago=True)
    if re.fullmatch(r"\d{9,11}", value):
        return Instant(float(value))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise typer.BadParameter(
            f"{value!r} is not a time: write Unix seconds, a date, a time with its zone such as 2026-01-01T12:00Z, "
            "or an age such as 90m"
        ) from None
    if len(value) <= 10:
        return Instant(moment.replace(tzinfo=UTC).timestamp())
    if moment.tzinfo is None:
        raise typer.BadParameter("a time needs its zone: add Z for UTC, or an offset such as +02:00")
    return Instant(moment.timestamp())


def whole(least: int | None = None, most: int | None = None) -> Callable[[str | int], int]:
    """A parser for a whole number within bounds."""
    return _parser(int, "a whole number", least, most)


def number(least: float | None = None, most: float | None = None) -> Callable[[str | float], float]:
    """A parser for a finite number within bounds."""
    return _parser(float, "a number: write digits, without a unit", least, most)


def _parser(kind: Callable[[Any], T], what: str, least: T | None, most: T | None) -> Callable[[Any], T]:
    def read(value: Any) -> T:
        try:
            found = kind(value)
        except ValueError:
            raise typer.BadParameter(f"{str(value)!r} is not {what}") from None
        if isinstance(found, float) and not math.isfinite(found):
            raise typer.BadParameter(f"a finite number is needed, not {value}")
        if (least is not None and found < least) or (most is not None and found > most):
            bounds = f"not from {least} to {most}" if None not in (least, most) else f"less than {least}"
            raise typer.BadParameter(f"{found} is {bounds if least is not None else f'more than {most}'}")
        return found

    return read


def unix_or_date(value: str | float) -> float:
    """A time of the mock's clock: Unix seconds, a date, or a time with its zone. No ages: those use the run's clock."""
    if re.match(r"\d{4}-", str(value)):
        return parse_time(str(value)).seconds
    try:
        return number()(value)
    except typer.BadParameter:
        what = "neither Unix seconds nor a date, such as 2026-01-01 or 2026-01-01T12:00Z"
        raise typer.BadParameter(f"{str(value)!r} is {what}") from None


_chain = typer.Option(
    "--chain",
    parser=parse_chain,
    autocompletion=lambda incomplete: [name for name in CHAINS if name.startswith(incomplete)],
    metavar="base|bnb",
    help="The chain: base (8453) or bnb (56).",
)
Chain = Annotated[int, _chain]
AnyChain = Annotated[int | None, _chain]

AgentId = Annotated[
    str, typer.Argument(metavar="AGENT_ID", help="The agent: its id, its name, or the beginning of its id.")
]
AgentFilter = Annotated[
    str | None, typer.Option("--agent-id", metavar="ID", help="Filter by agent: its id or its name.")
]


def count(help: str, most: int | None = None) -> Any:
    """The option --limit."""
    return typer.Option("--limit", "-n", parser=whole(1, most), metavar="N", help=help)


Limit = Annotated[int | None, count("Maximum number of items (20 by default).")]
All = Annotated[bool, typer.Option("--all", "-a", help="All items, page by page.")]
Cursor = Annotated[str | None, typer.Option("--cursor", metavar="CURSOR", help="Continue an earlier list.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt; required without a terminal.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent or changed, and do nothing.")]


@dataclass(frozen=True)
class Consent:
    """The options of commands that change something."""

    yes: Yes = False
    dry_run: DryRun = False


SORT = "best first; with - before it, worst first"
A_TIME = "Unix seconds, a date, or a time with its zone"
OF_TIME = "Start: an age (90m), a date, a time with its zone, or Unix seconds."
Since = Annotated[Instant | None, typer.Option("--since", parser=parse_time, metavar="TIME", help=OF_TIME)]
Until = Annotated[
    Instant | None, typer.Option("--until", parser=parse_time, metavar="TIME", help="End, in the same forms.")
]
Confidence = Annotated[
    float | None,
    typer.Option("--min-confidence", parser=number(0, 1), metavar="X", help="Minimum confidence of a signal, 0 to 1."),
]


Side = Literal["BUY", "SELL"]
"""The side of a signal or a trade."""


Direction = Annotated[
    Side | None, typer.Option("--direction", case_sensitive=False, metavar="BUY|SELL", help="Only this side.")
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", help="Only this token: its address or symbol."),
]


def parse_span(value: str | float) -> float:
    """`90`, `30s`, `10m`, `1.5h` or `2d` in seconds."""
    found = _SPAN.fullmatch(str(value).strip().lower())
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if not 0 < seconds <= _LONGEST_SPAN:
        raise typer.BadParameter("a duration is a number above 0 with s, m, h or d, such as 30s or 10m; at most 366d")
    return seconds


FIRST = 20


@dataclass
class Walk:
    """The options that all lists share, and the position while a list is read: the cursor of the next page."""

    limit: Limit = None
    everything: All = False
    cursor: Cursor = None
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            "-w",
            parser=parse_span,
            metavar="SPAN",
            help="Refresh at this interval, such as 5s, until Ctrl-C.",
        ),
    ] = None
    next_cursor: str | None = field(default=None, init=False)
    total: int | None = field(default=None, init=False)
    """The maximum number of items; None: all."""
    first: bool = field(default=False, init=False)
    """True without an option about the amount: the first items are read."""

    def __post_init__(self) -> None:
        if self.everything and self.limit is not None:
            raise UsageProblem("--limit and --all exclude each other", "leave one of them out")
        self.total = None if self.everything else FIRST if self.limit is None else self.limit
        self.first = not self.everything and self.limit is None and self.cursor is None


def pairs(words: Iterable[str], look: str) -> dict[str, str]:
    """`NAME=VALUE` words as a dictionary."""
    found: dict[str, str] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageProblem(f"{one_line(text, 60)!r} is not of the form NAME=VALUE", look)
        if name in found:
            raise UsageProblem(f"{one_line(name, 60)} is given twice", look)
        found[name] = value
    return found


def _global(*names: str, help: str, **more: Any) -> Any:
    more |= {"callback": remember, "expose_value": False, "show_default": False, "hidden": True}
    return typer.Option(..., *names, help=help, rich_help_panel=GLOBAL_PANEL, **more)


Output = Annotated[
    Format | None, _global("--output", "-o", metavar="FORMAT", help=f"How results are printed: {', '.join(FORMATS)}.")
]
Fields = Annotated[
    str | None,
    _global("--fields", metavar="A,B", help="Only these fields, in this order; nested as a.b."),
]
Query = Annotated[
    str | None, _global("--query", "-q", metavar="JMESPATH", help="Select from the result, as in JMESPath.")
]
Out = Annotated[
    str | None,
    _global("--out", metavar="FILE", help="Write the result to this file, in the format of its ending, such as .csv."),
]
Times = Annotated[
    choices.Times | None,
    _global("--times", metavar="iso|unix", help="How times are printed: ISO 8601, or Unix seconds."),
]
Profile = Annotated[
    str | None,
    _global("--profile", metavar="NAME", help="Use the settings of this profile [env: TRADE_PROFILE]."),
]
Mock = Annotated[bool | None, _global("--mock/--no-mock", help="Use the embedded mock service; its state is kept.")]
World = Annotated[str | None, _global("--world", metavar="NAME", help="A mock world of its own; implies --mock.")]
BaseUrl = Annotated[str | None, _global("--base-url", metavar="URL", help="The service [env: TRADE_BASE_URL].")]
Timeout = Annotated[
    float | None, _global("--timeout", parser=number(), metavar="SECONDS", help="Maximum time for one response.")
]
Verbose = Annotated[
    int | None, _global("--verbose", "-v", count=True, help="A line for each request; -vv prints more.")
]
Debug = Annotated[bool | None, _global("--debug", help="Show requests and responses, without secrets.")]
Curl = Annotated[bool | None, _global("--curl", help="Show each request as a curl command, without secrets.")]
