"""A switch that takes prices away."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..market.tokens import Token, find

if TYPE_CHECKING:
    from ..state.world import World

_FAILURE = "price_failure"


def set_price_failure(world: World, tokens: bool | Sequence[str]) -> None:
    """Which prices on Base can't be found: all, none, or those of some tokens, each by symbol, address or coin id.

    Only POST /v1/token-prices shows it, with 502. ValueError for a token that there isn't.
    """
    symbols: list[str] = []
    for name in () if isinstance(tokens, bool) else tokens:
        token = find(world.seed, 8453, name) if isinstance(name, str) else None
        if token is None:
            raise ValueError(f"price_failure: there is no token {str(name)[:80]!r} on Base")
        if token.symbol not in symbols:
            symbols.append(token.symbol)
    with world.store:
        world.store.set_meta(_FAILURE, json.dumps(tokens if isinstance(tokens, bool) else symbols))


def price_failure(world: World) -> bool | list[str]:
    """What was set: true for all tokens, false for none, or the symbols."""
    found: bool | list[str] = json.loads(world.store.get_meta(_FAILURE) or "false")
    return found


def price_fails(world: World, token: Token) -> bool:
    """Whether this token can't be priced now."""
    failing = price_failure(world)
    return failing if isinstance(failing, bool) else token.symbol in failing
