"""Wallets and their balances."""

from typing import Annotated

from pydantic import FailFast

from ._base import Model
from ._types import Integer, Number, Timestamp


class Wallet(Model):
    """A connected wallet (`GET /v1/wallets`)."""

    id: str
    """The wallet's id."""

    address: str
    """Its address on the chain."""

    chain_id: Integer
    """8453 (Base) or 56 (BNB Chain)."""

    label: str
    """Its display name."""

    created_at: Timestamp
    """When it was connected (aware, UTC)."""


class TokenBalance(Model):
    """One token in a wallet."""

    token_address: str
    """The token's contract."""

    token_symbol: str
    """Its symbol, chosen by the token's creators."""

    balance: Number
    """How many, in units of the token."""

    balance_usd: Number
    """Their value in USD."""


class WalletBalance(Model):
    """The balance of a wallet (`GET /v1/wallets/{wallet_id}/balance`)."""

    wallet_id: str
    """The wallet's id."""

    native_balance_usd: Number
    """Balance of the chain's native coin, in USD."""

    token_balances: Annotated[list[TokenBalance], FailFast()]
    """Its tokens."""

    updated_at: Timestamp
    """When the balances were last refreshed (aware, UTC)."""
