"""Sparklines: numbers as a few characters."""

import math
from typing import Any

from tradesdk_cli.charts.chart import closed_results, running, spark

from .._rows import each_of


@each_of(
    ("values", "width", "shown"),
    [
        ([], 8, ""),
        ([5.0], 8, "▄"),
        ([2.0, 2.0, 2.0], 8, "▄▄▄"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([7, 0], 8, "█▁"),
        ([-10, 0, 10], 3, "▁▅█"),
        ([0, 99, 1, 99, 2, 99, 3, 99], 4, "▄▄▄▄"),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, "▁▅█"),
        ([math.nan, 1, math.inf, 2, -math.inf], 8, "▁█"),
        ([math.nan], 8, ""),
        ([-1.7e308, 1.7e308], 8, "▁█"),
        ([1, 2], 0, ""),
    ],
)
def test_spark(values: list[float], width: int, shown: str) -> None:
    assert spark(values, width) == shown


def test_spark_of_plain_characters() -> None:
    assert spark([0, 1, 2, 3, 4, 5, 6, 7], 8, ascii_only=True) == "_.:-=+*#"
    assert spark([1.0], 3, ascii_only=True).isascii()


def test_the_last_value_of_each_cell_is_what_is_shown() -> None:
    values = [float(number) for number in range(1000)]
    for width in (1, 7, 16, 999, 1000, 2000):
        line = spark(values, width)
        assert len(line) == min(width, 1000)
        assert line == "".join(sorted(line))
        assert width == 1 or (line[0], line[-1]) == ("▁", "█")


def test_results_add_up_in_the_order_in_which_trades_were_closed() -> None:
    trades: list[dict[str, Any]] = [
        {"closed_at": 30, "pnl_usd": -5.0},
        {"closed_at": 10, "pnl_usd": 2.0},
        {"closed_at": None, "pnl_usd": None},
        {"closed_at": 20, "pnl_usd": 1.5},
        {"closed_at": 40},
    ]
    assert closed_results(trades) == [2.0, 3.5, -1.5]
    assert running([]) == []
