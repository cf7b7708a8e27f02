"""Sparklines: a row of numbers as a few characters."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tradesdk_cli.output.printer import Output

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"


def spark(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """`values`, oldest first, in at most `width` cells, each as high as its value; empty without values.

    More values than cells: of those that share a cell the last one is shown. What is no number (NaN, an infinity) is
    left out. A flat line stands in the middle.
    """
    heights = _ASCII if ascii_only else _BLOCKS
    known = [value for value in values if math.isfinite(value)]
    if not known or width < 1:
        return ""
    if len(known) > width:
        known = [known[(cell + 1) * len(known) // width - 1] for cell in range(width)]
    low, high = min(known), max(known)
    if low == high:
        return heights[3] * len(known)
    top = len(heights) - 1
    # Halved first: the distance of two numbers may be larger than any number.
    return "".join(heights[round((value / 2 - low / 2) / (high / 2 - low / 2) * top)] for value in known)


def running(results: Iterable[float]) -> list[float]:
    """What `results` add up to after each of them."""
    sums, total = [], 0.0
    for result in results:
        total += result
        sums.append(total)
    return sums


def closed_results(trades: Iterable[Mapping[str, Any]]) -> list[float]:
    """The cumulative result in USD after each closed trade of `trades` (wire objects in any order), oldest first."""
    closed = [
        (trade["closed_at"], trade["pnl_usd"])
        for trade in trades
        if isinstance(trade.get("closed_at"), (int, float)) and isinstance(trade.get("pnl_usd"), (int, float))
    ]
    return running(pnl for _, pnl in sorted(closed, key=lambda one: one[0]))


def shows_ascii_only(out: Output) -> bool:
    """True where blocks and Braille would not be shown: another encoding than UTF-8, or a terminal that can little."""
    encoding = (out.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    return not encoding.startswith("utf") or out.environ.get("TERM") in ("dumb", "linux")
