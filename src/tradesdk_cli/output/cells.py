"""Values for people in tables: money, prices, percentages, times and states. Machine formats have the raw values."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.output.formats import as_time, seconds_of, utc
from tradesdk_cli.text import to_json, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk_cli.output.columns import Kind

    Clock = Callable[[], float | Literal["unix"]]
    """The reference for relative times; "unix": times are printed as Unix seconds."""

_COLORS = {
    "green": ("active", "BUY", "working", "delivered", "answered"),
    "cyan": ("idle", "open", "replayed"),
    "yellow": ("paused", "stopped", "unknown", "rejected", "late"),
    "red": ("error", "SELL", "paid, no answer", "paid, unproven", "probably paid", "unknown, expired"),
    "dim": ("closed", "WAITING FOR SIGNAL", "live"),
}
_STATES = {state: style for style, states in _COLORS.items() for state in states}
_EXACT = re.compile(r"(-?)(\d{1,15})(\.\d{1,18})?")
_VAST, _TINY = 1e15, 1e-20
_NO_CENTS = 1e6
_NEAR = 1.0
"""Percent from a stop or a take profit at which it is highlighted."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_DATE_INSTEAD = 30 * _DAY
_EMOJI_STYLE = "\ufe0f"


def cell(kind: Kind, value: Any, now: float | Literal["unix"] | None = None) -> Text:
    """A value as it is shown. A value of another type than expected is shown as it is.

    With `now` (Unix seconds), a time is relative: `3 min ago`; without it, it is in UTC; with "unix", in Unix seconds.
    """
    if value is None or (kind == "trigger" and value == 0):
        return Text("-", style="dim")
    if kind in ("time", "moment") and (seconds := seconds_of(value)) is not None:
        if now == "unix":
            return Text(str(as_time(value, "unix")))
        return Text(moment(seconds) if now is None or kind == "moment" else short_ago(seconds, now))
    if kind in ("usd", "price", "trigger") and isinstance(value, str) and (exact := _EXACT.fullmatch(value)):
        return Text(f"{exact[1]}${int(exact[2]):,}{exact[3] or ''}")  # text is exact: keep all digits
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        # The width of an emoji variation selector differs between terminals.
        text = visible(value if isinstance(value, str) else to_json(value)).replace(_EMOJI_STYLE, "")
        return Text(text, style=_STATES.get(text, "")) if kind == "state" else Text(text)
    return _number(kind, value)


def _number(kind: Kind, value: float) -> Text:
    if kind == "chain":
        return Text(CHAIN_NAMES.get(value, str(value)) if isinstance(value, int) else str(value))
    if kind in ("pnl", "usd", "price", "trigger"):
        text = _signed(value, price(abs(value)) if kind in ("price", "trigger") else _amount(abs(value)), "$")
        return _colored(value, text) if kind == "pnl" else Text(text.lstrip("+"))
    if (kind == "to_stop" and value > 0) or (kind == "to_profit" and value < 0):
        return Text("passed", style="red" if kind == "to_stop" else "green")
    if kind in ("change", "percent", "to_stop", "to_profit"):
        text = f"{_signed(value, _amount(abs(value)))}%"
        if kind in ("change", "percent"):
            return _colored(value, text) if kind == "change" else Text(text.lstrip("+"))
        return Text(text, style="" if abs(value) >= _NEAR else "red" if kind == "to_stop" else "green")
    if kind == "rate":
        return Text(price(value))
    if kind in ("share", "number") and abs(value) >= _VAST:
        return Text(f"{value:.6g}")
    if kind == "share":
        return Text(f"{value:.3f}")
    return Text(f"{value:,}".removesuffix(".0") if kind == "number" else str(value))  # with all its digits


def _colored(value: float, text: str) -> Text:
    """Style of gains and losses; an amount that rounds to zero has none."""
    return Text(text, style="" if text[0] not in "+-" else "green" if value > 0 else "red")


def _signed(value: float, digits: str, unit: str = "") -> str:
    """`+$1.00`, `-$1.00`, and `$0.00` without a sign, also for a rounded amount."""
    if not any(digit in "123456789" for digit in digits):
        return unit + digits
    return f"{'-' if value < 0 else '+'}{unit}{digits}"


def _amount(value: float) -> str:
    """Two decimals and thousands separators; no cents above a million; an exponent for huge numbers."""
    if value >= _VAST:
        return f"{value:.6g}"
    return f"{value:,.2f}" if value < _NO_CENTS else f"{value:,.0f}"


def price(value: float) -> str:
    """A price with enough digits and without an exponent: 3,912.44, 1.2346, 0.00001234."""
    size = abs(value)
    if size >= _VAST or 0 < size < _TINY:
        return f"{value:.4g}"
    if size == 0 or size >= 1000:
        return f"{value or 0:,.2f}"
    if size >= 1:
        return f"{value:,.4f}"
    return f"{Decimal(f'{value:#.4g}'):f}"


# Times


def moment(seconds: float) -> str:
    """Unix seconds as UTC, to the second; out of the calendar's range, the number itself."""
    found = utc(seconds)
    return str(seconds) if found is None else f"{found:%Y-%m-%d %H:%M:%SZ}"


def ago(seconds: float, now: float) -> str:
    """How far `seconds` is from `now`, in one unit: `12 s ago`, `in 2 h`, `90 d ago`."""
    span = abs(now - seconds)
    if span < 1:
        return "now"
    units = ((2 * _DAY, _DAY, "d"), (_HOUR, _HOUR, "h"), (_MINUTE, _MINUTE, "min"), (0, 1, "s"))
    distance = next(f"{int(span // unit):,} {name}" for least, unit, name in units if span >= least)
    return f"{distance} ago" if seconds < now else f"in {distance}"


def short_ago(seconds: float, now: float) -> str:
    """The same for a list; more than 30 days away, the date."""
    if abs(now - seconds) < _DATE_INSTEAD:
        return ago(seconds, now)
    text = moment(seconds)
    return text.partition(" ")[0] if text.endswith("Z") else text
