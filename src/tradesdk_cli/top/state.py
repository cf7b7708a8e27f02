"""What the board knows, and how an update changes it. Pure: no terminal, no clock, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tradesdk_cli.output.columns import to_profit, to_stop
from tradesdk_cli.plot.chart import closed_results
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import RateLimit

SIGNALS_KEPT = 200
CONNECTING = "connecting"
TRADES_KEPT = 2000

Item = Mapping[str, Any]


@dataclass(frozen=True)
class News:
    """Something that came.

    Attributes:
        kind: `account`, `usage`, `agents`, `agent`, `positions`, `trades`, `money`, `limit`, `signals`, `stream`,
            `note`, `problem` or `well`.
        data: wire objects, or text.
        at: seconds of a clock that never runs backwards.
        key: of `agent` the id, of `stream` the chain, of `problem` and `well` whatever failed.
    """

    kind: str
    data: Any
    at: float
    key: str = ""


@dataclass(frozen=True)
class Board:
    """All that is known. Wire objects are as the service sent them."""

    target: str = ""
    chain: int | None = None
    account: Item | None = None
    usage: Item | None = None
    limit: RateLimit | None = None
    money: Item | None = None
    agents: tuple[Item, ...] = ()
    details: Mapping[str, Item] = field(default_factory=dict)
    positions: tuple[Item, ...] = ()
    trades: Mapping[str, Item] = field(default_factory=dict)
    signals: tuple[Item, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    note: str = ""
    read_at: Mapping[str, float] = field(default_factory=dict)

    def age(self, kind: str, now: float) -> float | None:
        """Seconds since this was read; None when it never was."""
        at = self.read_at.get(kind)
        return None if at is None else max(0.0, now - at)


def after(board: Board, news: News) -> Board:
    """The board once `news` has come."""
    kind, data = news.kind, news.data
    if kind in ("account", "usage", "money", "limit"):
        board = replace(board, **{kind: data})
    elif kind == "agents":
        agents = tuple(item for item in data if _of_chain(board, item))
        ids = {item["id"] for item in agents}
        details = {key: item for key, item in board.details.items() if key in ids}
        board = replace(board, agents=agents, details=details)
    elif kind == "positions":
        board = replace(board, positions=tuple(item for item in data if _of_chain(board, item)))
    elif kind == "agent":
        board = replace(board, details={**board.details, news.key: data})
    elif kind == "trades":
        board = replace(board, trades=_with_trades(board.trades, data))
    elif kind == "signals":
        board = replace(board, signals=_with_signals(board.signals, data))
    elif kind == "stream":
        board = replace(board, streams={**board.streams, news.key: data})
    elif kind == "note":
        board = replace(board, note=one_line(data, 300))
    elif kind == "problem":
        board = replace(board, problems={**board.problems, news.key: (one_line(data, 300), news.at)})
    elif kind == "well":
        left = {key: told for key, told in board.problems.items() if key != news.key}
        return replace(board, problems=left, note="" if not left else board.note)
    return replace(board, read_at={**board.read_at, kind: news.at})


def _of_chain(board: Board, item: Item) -> bool:
    return board.chain is None or item.get("chain_id") == board.chain


def _with_trades(known: Mapping[str, Item], came: list[Item]) -> Mapping[str, Item]:
    both = {**known, **{trade["id"]: trade for trade in came}}
    newest = sorted(both.values(), key=lambda trade: trade.get("closed_at") or 0)[-TRADES_KEPT:]
    return {trade["id"]: trade for trade in newest}


def _with_signals(known: tuple[Item, ...], came: list[Item]) -> tuple[Item, ...]:
    """Newest first, each once."""
    ids = {signal["id"] for signal in known}
    new = [signal for signal in {signal["id"]: signal for signal in came}.values() if signal["id"] not in ids]
    return tuple(sorted((*new, *known), key=lambda signal: -signal["timestamp"])[:SIGNALS_KEPT])


# What is shown follows from it


def agent_rows(board: Board) -> list[dict[str, Any]]:
    """An agent a row: its summary, with `open`, `unrealized_pnl_usd`, `total_pnl_usd`, `win_rate_pct`, `results`.

    `read` says whether it has been read by itself; before that, `total_pnl_usd` and `win_rate_pct` are None.
    """
    trades: dict[Any, list[Item]] = {}
    for trade in board.trades.values():
        trades.setdefault(trade.get("agent_id"), []).append(trade)
    rows = []
    for agent in board.agents:
        mine = [position for position in board.positions if position.get("agent_id") == agent["id"]]
        stats = (board.details.get(agent["id"]) or {}).get("stats") or {}
        rows.append(
            {
                **agent,
                "read": agent["id"] in board.details,
                "open": len(mine) if "positions" in board.read_at else None,
                "unrealized_pnl_usd": sum(position["unrealized_pnl_usd"] for position in mine) if mine else None,
                "total_trades": stats.get("total_trades"),
                "total_pnl_usd": stats.get("total_pnl_usd"),
                "win_rate_pct": stats.get("win_rate_pct"),
                "results": closed_results(trades.get(agent["id"], [])),
            }
        )
    return rows


def position_rows(board: Board) -> list[dict[str, Any]]:
    """A position a row: its fields, with `agent` (a name) and `to_stop_pct`, `to_profit_pct`.

    How far the price may move until it is sold: at the nearer one of both stops, and at the take profit.
    """
    names = {agent["id"]: agent["name"] for agent in board.agents}
    return [
        {
            **position,
            "agent": names.get(position.get("agent_id"), position.get("agent_id")),
            "to_stop_pct": to_stop(position),
            "to_profit_pct": to_profit(position),
        }
        for position in board.positions
    ]
