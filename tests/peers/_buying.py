"""Our clients as buyers: both flavours behind one call, with waits that take no time."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import anyio
import httpx
import pytest

from tradesdk import AsyncMarketClient, Budget, Ledger, LocalSigner, MarketClient

from .conftest import Payer, Seller
from .programs.client_tradesdk import HurriedClock

Flavour = Literal["blocking", "async"]
NODE = pytest.param(
    "node", marks=pytest.mark.skipif(not os.environ.get("PEERS_NODE"), reason="run by scripts/peers --node")
)
BUDGET = Budget(per_day="5.00")
MONEY = 1_000_000
TWO = (["ETH", "BRETT"],)
TWO_COST = 60_000


@dataclass(frozen=True)
class Buyer:
    """One who buys from a seller, always with the same ledger.

    Attributes:
        flavour: which of our clients.
        seller: who sells.
        payer: who pays.
        options: further arguments of the client.
        requests: what it has sent: path, and whether a payment was with it.
    """

    flavour: Flavour
    seller: Seller
    payer: Payer
    options: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger.memory)
    requests: list[str] = field(default_factory=list)

    def call(self, name: str, *args: Any, **named: Any) -> Any:
        """`client.name(…)`, in a client for this call alone. A dot goes deeper: `payments.resume`."""
        (found,) = self.calls((name, args, named))
        return found

    def calls(self, *wanted: tuple[str, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        """The same for several calls with one client. Its requests are in `requests` afterwards."""
        options: dict[str, Any] = {
            "base_url": self.seller.url,
            "signer": LocalSigner.from_key(self.payer.key),
            "budget": BUDGET,
            "ledger": self.ledger,
            "clock": HurriedClock(),
            **self.options,
        }

        def note(request: httpx.Request) -> None:
            carried = "paid" if "payment-signature" in request.headers else "unpaid"
            self.requests.append(f"{request.url.path} {carried}")

        async def note_async(request: httpx.Request) -> None:
            note(request)

        async def run() -> list[Any]:
            hooks = {"request": [note_async]}
            async with (
                httpx.AsyncClient(event_hooks=hooks, trust_env=False) as http,
                AsyncMarketClient(http_client=http, **options) as client,
            ):
                return [await attrgetter(name)(client)(*args, **named) for name, args, named in wanted]

        if self.flavour == "async":
            return anyio.run(run)
        with (
            httpx.Client(event_hooks={"request": [note]}, trust_env=False) as http,
            MarketClient(http_client=http, **options) as client,
        ):
            return [attrgetter(name)(client)(*args, **named) for name, args, named in wanted]


def buyer_of(seller: Seller, flavour: Flavour, payer: Payer, **options: Any) -> Buyer:
    seller.chain.give(payer.address, MONEY)
    return Buyer(flavour, seller, payer, options)


def paid(buyer: Buyer) -> list[int]:
    """What was taken, transfer by transfer; the payer's balance says the same."""
    chain = buyer.seller.chain
    amounts = [one["value"] for one in chain.transfers(buyer.payer.address)]
    assert chain.balance(buyer.payer.address) == MONEY - sum(amounts)
    return amounts


def known(buyer: Buyer) -> list[Any]:
    """The payments in the ledger, oldest first."""
    return list(reversed(buyer.call("payments.list")))
