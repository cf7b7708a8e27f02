"""Calls for market data: verbs, tokens, and requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import plural

if TYPE_CHECKING:
    from tradesdk import Payment, TokenQuery

ENDPOINTS = {
    "signals": "token-signals",
    "prices": "token-prices",
    "history": "signal-history",
    "win-rate": "token-win-rate",
    "avg-prices": "token-avg-prices",
    "top": "top-performers",
    "metrics": "aggregate-metrics",
    "tokens": "supported-tokens",
}
"""Verbs of `trade market`, and the endpoints that they call."""
MOST = 5
"""Maximum of tokens in one request."""


@dataclass(frozen=True)
class Call:
    """A call for market data.

    Attributes:
        verb: the verb of `trade market`.
        tokens: the tokens as typed, with or without commas; empty where the price does not depend on tokens.
        arguments: other arguments of the SDK's method.
    """

    verb: str
    tokens: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The tokens, split at commas: `ETH,BRETT` are two."""
        tokens = tuple(
            name.strip() for text in self.tokens for name in text.split(",") if name.strip() or "," not in text
        )
        if self.tokens and not tokens:
            raise UsageProblem(f"{' '.join(self.tokens)!r} is not a token", "a symbol, such as BRETT, or an address")
        if len(tokens) > MOST:
            raise UsageProblem(
                f"{len(tokens)} tokens are more than the {MOST} that one request takes",
                f"buy them {MOST} at a time; in Python, market.batches does it",
            )
        object.__setattr__(self, "tokens", tokens)

    @property
    def endpoint(self) -> str:
        """The last part of its path."""
        return ENDPOINTS[self.verb]

    @property
    def method(self) -> str:
        """Its name in the SDK."""
        return self.endpoint.replace("-", "_")

    @property
    def takes(self) -> Mapping[str, Parameter]:
        """The names of the SDK method's arguments."""
        from tradesdk import MarketClient

        return signature(getattr(MarketClient, self.method)).parameters

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of the SDK's method."""
        if "tokens" not in self.takes:
            return dict(self.arguments)
        read: Callable[[str], Any] = _query if self.verb == "signals" else str
        return {"tokens": list(map(read, self.tokens)), **self.arguments}

    def description(self) -> str:
        """A short description: `token-prices for 2 tokens`."""
        return self.endpoint + (f" for {plural(len(self.tokens), 'tokens')}" if self.tokens else "")


SPECIAL = "For special cases"
SendKey = Annotated[
    bool,
    typer.Option("--send-api-key", help="Send the API key too, if the service requires it.", rich_help_panel=SPECIAL),
]


@dataclass(frozen=True)
class Terms:
    """The terms of a purchase: the options of all paid calls."""

    max_price: Annotated[str | None, typer.Option(metavar="USD", help="Maximum price in US dollars, such as 0.10.")] = (
        None
    )
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show request, price and what would be signed; pay nothing.")
    ] = False
    purchase: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name the purchase: it is paid once, on all machines with this wallet.",
            rich_help_panel=SPECIAL,
        ),
    ] = None
    wallet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The keystore that pays [env: TRADE_KEYSTORE].", rich_help_panel=SPECIAL),
    ] = None
    send_api_key: SendKey = False


def verb_of(payment: Payment) -> str:
    """The verb of `trade market` for a payment."""
    endpoint = urlsplit(payment.url).path.rpartition("/")[2]
    return next((verb for verb, each in ENDPOINTS.items() if each == endpoint), "prices")


def _query(text: str) -> TokenQuery:
    """A token, with its own number of signals in `BRETT:5`."""
    from tradesdk import TokenQuery

    name, colon, number = text.rpartition(":")
    if not colon:
        return TokenQuery(text)
    if not (number.isascii() and number.isdigit() and len(number) < 10 and name):
        raise UsageProblem(f"{text!r} is not a token", "a token's own number of signals follows a colon: BRETT:5")
    return TokenQuery(name, int(number))
