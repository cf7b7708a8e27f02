"""The paths of the account API, one module per noun."""

from __future__ import annotations

from . import account, agents, positions, signals, stream, trades, wallets
from .web import Routes

ROUTES: Routes = [
    *account.ROUTES,
    *agents.ROUTES,
    *wallets.ROUTES,
    *trades.ROUTES,
    *positions.ROUTES,
    *signals.ROUTES,
    *stream.ROUTES,
]
