"""Wallets and their balances."""

from typing import Annotated

from pydantic import FailFast

from ._base import Model
from ._types import Integer, Number, Timestamp


class Wallet(Model):
    """A connected wallet (`GET /v1/wallets`).

    Attributes:
        id: the wallet's id.
        address: its address on the chain.
        chain_id: 8453 (Base) or 56 (BNB Chain).
        label: its display name.
        created_at: when it was connected.
    """

    id: str
    address: str
    chain_id: Integer
    label: str
    created_at: Timestamp


class TokenBalance(Model):
    """One token in a wallet.

    Attributes:
        token_address: the token's contract.
        token_symbol: its symbol, chosen by the token's creators.
        balance: in units of the token.
        balance_usd: in USD.
    """

    token_address: str
    token_symbol: str
    balance: Number
    balance_usd: Number


class WalletBalance(Model):
    """The balance of a wallet (`GET /v1/wallets/{wallet_id}/balance`).

    Attributes:
        wallet_id: the wallet.
        native_balance_usd: balance of the chain's native coin, in USD.
        token_balances: its tokens.
        updated_at: when the balances were last refreshed.
    """

    wallet_id: str
    native_balance_usd: Number
    token_balances: Annotated[list[TokenBalance], FailFast()]
    updated_at: Timestamp
