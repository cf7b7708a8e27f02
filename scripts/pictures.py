"""Draws what each scenario does to a price, from the mock's own market: docs/assets/scenarios/*.svg.

    python scripts/pictures.py            write them
    python scripts/pictures.py --check    end with 1 when one of them is not what the market does now

A line goes through the lowest and the highest price of every two hours, so a move of some minutes is seen, too.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "mock_server"))

from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.scenarios import SCENARIOS
from tradesdk_mock.market.tokens import find

FOLDER = Path(__file__).parents[1] / "docs" / "assets" / "scenarios"
SEED, BEGIN, DAYS, SYMBOL, BASE = 7, 1_800_000_000, 30, "BRETT", 8453
HOUR, DAY = 3_600, 86_400

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 74, 686, 34, 264
# Colors with about the same contrast on white and on a dark page: a picture doesn't know on which it will be.
INK, TOKEN, ETHER = "#7c7f86", "#0c9488", "#b08a3c"
# A picture shows at least this much, as a share of the first price: else hardly any movement would look like a lot.
LEAST = 0.4


def drawn(scenario: str) -> str:
    """The picture of one scenario: a token's price, and ether's beside it on the same relative scale."""
    market = prices(SEED, scenario, BEGIN)
    token = find(SEED, BASE, SYMBOL)
    if token is None:
        raise LookupError(SYMBOL)
    price = list(extremes(lambda hour: market.closes(token, hour)))
    rate = [(float(at), market.rate(at)) for at in range(BEGIN, BEGIN + DAYS * DAY + 1, 2 * HOUR)]
    start, rate_start = price[0][1], rate[0][1]
    relative = [value / start for _, value in price] + [value / rate_start for _, value in rate]
    middle, half = (max(relative) + min(relative)) / 2, max(LEAST, max(relative) - min(relative)) / 2
    low, high = middle - 1.05 * half, middle + 1.05 * half

    def x(at: float) -> float:
        return LEFT + (RIGHT - LEFT) * (at - BEGIN) / (DAYS * DAY)

    def y(share: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (share - low) / (high - low)

    title = f"{SYMBOL} in USD for a month of the scenario {scenario}, seed {SEED}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"'
        ' font-family="system-ui, sans-serif" font-size="13" font-weight="500">',
        f"<title>{title}</title>",
    ]
    for value in ticks(low * start, high * start):
        place = y(value / start)
        lines.append(f'<path d="M{LEFT} {place:.1f}H{RIGHT}" stroke="{INK}" stroke-opacity=".25"/>')
        lines.append(text(LEFT - 8, place + 4, label(value), TOKEN, "end"))
    for value in ticks(low * rate_start, high * rate_start):
        lines.append(text(RIGHT + 8, y(value / rate_start) + 4, label(value), ETHER, "start"))
    for at in range(midnight_after(BEGIN), BEGIN + DAYS * DAY, 5 * DAY):
        day = datetime.fromtimestamp(at, UTC)
        lines.append(f'<path d="M{x(at):.1f} {BOTTOM}v5" stroke="{INK}"/>')
        lines.append(text(x(at), BOTTOM + 20, f"{day.day} {day:%b %Y}" if at < BEGIN + DAY else f"{day.day} {day:%b}"))
    lines += [
        text(LEFT, TOP - 14, f"{SYMBOL}, USD", TOKEN, "start"),
        text(RIGHT, TOP - 14, "ether, USD", ETHER, "end"),
        path([(x(at), y(value / rate_start)) for at, value in rate], f'stroke="{ETHER}" stroke-opacity=".75"'),
        path([(x(at), y(value / start)) for at, value in price], f'stroke="{TOKEN}" stroke-width="1.4"'),
        f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="{INK}"/>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def extremes(closes: Callable[[int], Sequence[float]]) -> Iterator[tuple[float, float]]:
    """The first price, then the lowest and the highest of every two hours' full minutes, in the order of time."""
    first = BEGIN // HOUR
    yield float(BEGIN), closes(first)[0]
    for hour in range(first, first + DAYS * 24, 2):
        minutes = [(price, place) for place, price in enumerate([*closes(hour), *closes(hour + 1)])]
        for price, place in sorted({min(minutes), max(minutes)}, key=itemgetter(1)):
            yield float(hour * HOUR + 60 * place), price


def ticks(low: float, high: float) -> list[float]:
    """Four to eight round values between two."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.99)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def label(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def midnight_after(at: int) -> int:
    return (at + DAY - 1) // DAY * DAY


def text(x: float, y: float, content: str, color: str = INK, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}">{content}</text>'


def path(points: list[tuple[float, float]], style: str) -> str:
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke-linejoin="round" {style} points="{steps}"/>'


def main() -> int:
    parser = argparse.ArgumentParser(description="Pictures of the scenarios.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when a picture is not current")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {FOLDER / f"{scenario}.svg": drawn(scenario) for scenario in SCENARIOS}
    old = [
        file.name
        for file, picture in wanted.items()
        if not file.exists() or file.read_text(encoding="utf-8") != picture
    ]
    old += [file.name for file in FOLDER.glob("*.svg") if file not in wanted]
    if check:
        for name in old:
            print(f"not current: docs/assets/scenarios/{name}; run python scripts/pictures.py", file=sys.stderr)
        return 1 if old else 0
    for file, picture in wanted.items():
        file.write_text(picture, encoding="utf-8")
    for name in old:
        if FOLDER / name not in wanted:
            (FOLDER / name).unlink()
        print(f"docs/assets/scenarios/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
