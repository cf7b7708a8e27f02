"""What a wallet holds: the native money that it began with, moved by trades, and what the open ones have bought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.seeding import SeededRandom
from ..market.tokens import find, significant

if TYPE_CHECKING:
    from ..state.world import World

REFRESH = 60
# Ether or BNB that a wallet begins with.
_NATIVE = {8453: (0.2, 4.0), 56: (2.0, 20.0)}
# Two amounts added up shall not end in 0.00000000007.
_DIGITS = 14


def initial_native(seed: int, wallet_id: str, chain_id: int) -> float:
    """Ether or BNB, in whole billionths, that a wallet has before anything is bought from it."""
    return round(SeededRandom(seed, "native", wallet_id, draws=1).between(*_NATIVE[chain_id]), 9)


def balance_record(world: World, wallet_id: str, chain_id: int, created_at: int) -> dict[str, Any]:
    """The balance as of the last refresh: when the wallet is connected, at full minutes, and when money moves.

    What is held follows from the trades, its worth from the prices of that moment; reading changes nothing.
    """
    now = world.second()
    native, moved_at = world.store.all("SELECT native, moved_at FROM wallets WHERE id = ?", (wallet_id,))[0]
    # A clock that was set back doesn't show times to come.
    refreshed = min(now, max(now - now % REFRESH, moved_at, created_at))
    amounts: dict[str, float] = {}
    symbols: dict[str, str] = {}
    for address, symbol, amount in world.store.all(
        "SELECT token_address, token_symbol, amount FROM positions WHERE wallet_id = ? ORDER BY seq", (wallet_id,)
    ):
        amounts[address] = amounts.get(address, 0.0) + amount
        symbols[address] = symbol
    held = []
    for address in sorted(amounts):
        token = find(world.seed, chain_id, address)
        units = significant(amounts[address], _DIGITS)
        held.append(
            {
                "token_address": address,
                "token_symbol": symbols[address],
                "balance": units,
                "balance_usd": round(units * world.prices.usd(token, refreshed), 2) if token else 0.0,
            }
        )
    return {
        "wallet_id": wallet_id,
        "native_balance_usd": round(native * world.prices.native_usd(chain_id, refreshed), 2),
        "token_balances": held,
        "updated_at": refreshed,
    }
