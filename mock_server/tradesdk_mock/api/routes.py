"""Every path of the service and its endpoints."""

from __future__ import annotations

from . import account, agents, market, positions, signals, stream, trades, wallets
from .context import MarketRoutes, Routes

ROUTES: Routes = {
    **account.ROUTES,
    **agents.ROUTES,
    **wallets.ROUTES,
    **trades.ROUTES,
    **positions.ROUTES,
    **signals.ROUTES,
    **stream.ROUTES,
}

MARKET_ROUTES: MarketRoutes = market.ROUTES
