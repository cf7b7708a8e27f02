"""The results of trading: trades and open positions. Sums over trades are the view `books`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING

from ..core.seeding import tx_hash

if TYPE_CHECKING:
    from ..state.world import World

_TOUCHED = "UPDATE positions SET peak = ?, peak_at = ?, exits_at = ?, exit_by = ? WHERE id = ?"
_WALLETS = "UPDATE wallets SET native = ?, moved_at = max(moved_at, ?) WHERE id = ?"


@dataclass(slots=True)
class Trade:
    """A purchase, and the sale once it is closed.

    Attributes:
        amount: in units of the token.
        opened_at, closed_at: Unix seconds.
        pnl_usd: in whole cents.
        roi_pct: in percent, two decimals.
        closed_by: `stop_loss`, `trailing_stop`, `take_profit`, `signal` or `deleted`; None while open.
    """

    id: str
    tenant: str
    agent_id: str
    wallet_id: str
    chain_id: int
    token_address: str
    token_symbol: str
    amount: float
    entry_price_usd: float
    opened_at: int
    signal_id: str | None = None
    exit_price_usd: float | None = None
    pnl_usd: float | None = None
    roi_pct: float | None = None
    closed_at: int | None = None
    closed_by: str | None = None


@dataclass(slots=True)
class Position:
    """An open position of a trade.

    Attributes:
        stop_loss_price, take_profit_price: in USD.
        trailing_pct: how far below the peak the trailing stop is, in percent.
        peak: the highest price up to the second `peak_at`, in USD.
        exits_at, exit_by: second and reason of its end; without a reason, it is open at least until that second.
    """

    id: str
    trade: Trade
    stop_loss_price: float
    take_profit_price: float
    trailing_pct: float
    peak: float
    peak_at: int
    exits_at: int | None = None
    exit_by: str | None = None


_TRADE = tuple(each.name for each in fields(Trade))
_CLOSED = ("status", "exit_price_usd", "pnl_usd", "roi_pct", "closed_at", "closed_by", "exit_tx_hash")
# An open trade of an earlier write becomes a closed one.
_TRADES = (
    f"INSERT INTO trades ({', '.join(_TRADE)}, direction, status, entry_tx_hash, exit_tx_hash)"  # noqa: S608 - our own names
    f" VALUES ({'?, ' * len(_TRADE)}'BUY', ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in _CLOSED)}"
)
_trade = attrgetter(*_TRADE)
_OWN = tuple(each.name for each in fields(Position) if each.name != "trade")
_REPEATED = (
    "tenant", "agent_id", "wallet_id", "token_address", "token_symbol", "chain_id", "amount", "entry_price_usd",
    "opened_at",
)  # fmt: skip
# `seq` is that of the trade, which is the order of opening, even when some trades of that moment are closed already.
_POSITIONS = (
    f"INSERT INTO positions ({', '.join((*_OWN, *_REPEATED))}, trade_id, seq)"  # noqa: S608 - our own names
    f" VALUES ({'?, ' * len(_OWN + _REPEATED)}?, (SELECT seq FROM trades WHERE id = ?))"
)
_position = attrgetter(*_OWN, *(f"trade.{name}" for name in _REPEATED), "trade.id", "trade.id")


def outcome(entry: float, exit_price: float, amount: float) -> tuple[float, float]:
    """(profit in USD, return in percent) of a trade."""
    move = exit_price - entry
    # Adding zero turns a rounded -0.0 into 0.0.
    return round(move * amount, 2) + 0.0, round(100.0 * move / entry, 2) + 0.0


def write(
    world: World,
    *,
    opened: Sequence[Trade] = (),
    positions: Sequence[Position] = (),
    touched: Sequence[Position] = (),
    closed: Sequence[Trade] = (),
    native: Mapping[str, float],
) -> None:
    """Write changes, and update the wallets. Within the caller's transaction.

    Args:
        opened: new trades in the order of opening, including those that are closed already.
        positions: positions of the ones still open.
        touched: positions of earlier writes whose peak or known end has changed.
        closed: closed trades; those of earlier writes lose their positions.
        native: ether or BNB left in the wallets of all trades.
    """
    store, new = world.store, {trade.id for trade in opened}
    ended = [trade for trade in closed if trade.id not in new]
    if opened or ended or touched:
        note_change(world)
    if touched:
        store.run_many(_TOUCHED, [(p.peak, p.peak_at, p.exits_at, p.exit_by, p.id) for p in touched])
    if ended:
        store.run_many("DELETE FROM positions WHERE trade_id = ?", [(trade.id,) for trade in ended])
    if opened or ended:
        store.run_many(_TRADES, _rows(world.seed, [*ended, *opened]))
    if positions:
        store.run_many(_POSITIONS, map(_position, positions))
    if opened or closed:
        moved: dict[str, int] = {}
        for trade in (*opened, *closed):
            moved[trade.wallet_id] = max(trade.closed_at or trade.opened_at, moved.get(trade.wallet_id, 0))
        store.run_many(_WALLETS, [(native[wallet_id], at, wallet_id) for wallet_id, at in moved.items()])


def changes(world: World) -> int:
    """How often agents or their positions have changed, in all processes on the file."""
    return int(world.store.get_meta("traded") or 0)


def note_change(world: World) -> None:
    """Note that agents or their positions have changed, so that other processes read them again."""
    count = changes(world) + 1
    world.store.set_meta("traded", str(count))
    if world.trading is not None:
        world.trading.changes = count


def _rows(seed: int, trades: Iterable[Trade]) -> Iterator[tuple[object, ...]]:
    for trade in trades:
        status, sold = ("open", None) if trade.closed_at is None else ("closed", tx_hash(seed, "exit", trade.id))
        yield *_trade(trade), status, tx_hash(seed, "entry", trade.id), sold
