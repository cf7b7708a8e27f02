"""Balances of a wallet: native money, changed by trades, and the tokens of open positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.seeding import SeededRandom
from ..market.price_model import significant
from ..market.tokens import find

if TYPE_CHECKING:
    from ..state.world import World

REFRESH = 60
# Ether or BNB of a new wallet, from and to.
_NATIVE = {8453: (0.2, 4.0), 56: (2.0, 20.0)}
# Digits of a sum of amounts, so that it doesn't end in 0.00000000007.
_DIGITS = 14


def initial_native(seed: int, wallet_id: str, chain_id: int) -> float:
    """Ether or BNB of a new wallet, in whole billionths."""
    return round(SeededRandom(seed, "native", wallet_id, draws=1).between(*_NATIVE[chain_id]), 9)


def balance_record(world: World, wallet_id: str, chain_id: int, created_at: int, now: int) -> dict[str, Any]:
    """The balance as of the last refresh: when the wallet is connected, at full minutes, and after each trade.

    Amounts follow from the trades, their value from the prices at the refresh. Reading changes nothing.
    """
    native, moved_at = world.store.all("SELECT native, moved_at FROM wallets WHERE id = ?", (wallet_id,))[0]
    # After the clock was set back, no time is in the future.
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
