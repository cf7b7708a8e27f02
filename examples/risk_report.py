"""A risk report: results of closed trades by agent, and how far open positions are from their stops.

With TRADE_API_KEY and TRADE_BASE_URL set, it reads the service; without both, a mock server that it starts.
A read-only key is enough. The exit code is 1 when a position is within 1 % of its stop: a cron job can
use that as an alarm.
"""

import os
import sys
from collections import defaultdict

from tradesdk import Position, TradeClient
from tradesdk_mock import MockClock, MockServer

NEAR = 0.01


def report(client: TradeClient) -> bool:
    """Print both tables; True when a position is close to its stop."""
    names = {agent.id: agent.name for agent in client.agents.list()}

    results: dict[str, list[float]] = defaultdict(list)
    for trade in client.trades.list(status="closed"):
        results[trade.agent_id].append(trade.pnl_usd or 0)
    worst_first = sorted(results.items(), key=lambda item: sum(item[1]))
    print_table(
        ["agent", "", "closed", "won", "result USD", "worst USD"],
        [agent_row(names.get(agent_id, agent_id), pnl) for agent_id, pnl in worst_first],
    )

    positions = sorted(client.positions.list(), key=distance)
    print_table(
        ["position", "", "now USD", "result USD", "to stop", "to target", "if stopped USD"],
        [position_row(position, names.get(position.agent_id, position.agent_id)) for position in positions],
    )
    near = [position for position in positions if distance(position) < NEAR]
    losing = [agent_id for agent_id, pnl in worst_first if sum(pnl) < 0]
    print(
        f"Losing agents: {len(losing)} of {len(results)}. Positions near their stop: {len(near)} of {len(positions)}."
    )
    print(f"If every stop is hit: about {sum(at_stop(position) for position in positions):+,.2f} USD.")
    return bool(near)


def agent_row(name: str, pnl: list[float]) -> list[str]:
    won = sum(value > 0 for value in pnl) / len(pnl)
    return [
        name,
        "losing" if sum(pnl) < 0 else "",
        f"{len(pnl)}",
        f"{won:.0%}",
        f"{sum(pnl):+,.2f}",
        f"{min(pnl):+,.2f}",
    ]


def position_row(position: Position, agent: str) -> list[str]:
    price = position.current_price_usd
    return [
        f"{position.token_symbol} ({agent})",
        "near stop" if distance(position) < NEAR else "",
        f"{price:,.6g}",
        f"{position.unrealized_pnl_usd:+,.2f}",
        f"{-distance(position):+.1%}",
        f"{position.take_profit_price / price - 1:+.1%}",
        f"{at_stop(position):+,.2f}",
    ]


def stop(position: Position) -> float:
    """The stop that is hit first when the price falls: the stop loss or the trailing stop."""
    return max(position.stop_loss_price, position.trailing_stop_price)


def distance(position: Position) -> float:
    """How far the price may fall before the position is stopped, as a share of the price."""
    return 1 - stop(position) / position.current_price_usd


def at_stop(position: Position) -> float:
    """Approximate result at the stop. The size of a position follows from its result so far."""
    moved = position.current_price_usd - position.entry_price_usd
    size = position.unrealized_pnl_usd / moved if moved else 0
    return size * (stop(position) - position.entry_price_usd)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in [head, *rows]:
        words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        print("  ".join(words + numbers))
    print()


def main() -> bool:
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        with TradeClient() as client:
            return report(client)
    clock = MockClock(1_800_017_400)  # stands still, at a moment when some are close
    with (
        MockServer(seed=7, clock=clock) as server,
        TradeClient(api_key="mock_read_me", base_url=server.url) as client,
    ):
        server.populate("me")
        return report(client)


if __name__ == "__main__":
    sys.exit(main())
