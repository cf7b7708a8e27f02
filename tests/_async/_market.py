"""Market clients in front of a seller of the tests' own, and what must be true after a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    Budget,
    Ledger,
    LocalSigner,
    Payment,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
)
from tradesdk_mock import MockService

from .._clock import VirtualClock
from .._paidservice import CountingSigner
from .._seller import BASE, TWO, Seller

Call = Callable[[AsyncMarketClient], Any]


def market_of(seller: Callable[[httpx.Request], Any], **options: Any) -> AsyncMarketClient:
    """It needs no closing: no connection is ever opened."""
    settings: dict[str, Any] = {
        "base_url": BASE,
        "signer": CountingSigner(),
        "budget": Budget(total="5.00"),
        "ledger": Ledger.memory(),
        "clock": seller.clock if isinstance(seller, Seller) else VirtualClock(),
        "check_tokens": False,  # it has no list of them
    }
    if "http_client" not in options:
        settings["http_client"] = httpx.AsyncClient(transport=httpx.MockTransport(seller))
    return AsyncMarketClient(**settings | options)


def buyer_of(mock: MockService, **options: Any) -> AsyncMarketClient:
    """A client of the mock in this process, living in the mock's time; it needs no closing either."""
    settings: dict[str, Any] = {
        "base_url": mock.url,
        "signer": LocalSigner.from_key("0x" + "01" * 32),
        "budget": Budget(total="5.00"),
        "ledger": Ledger.memory(),
        "clock": mock.clock,
        "http_client": httpx.AsyncClient(transport=mock.transport()),
        "check_tokens": False,  # the list of tokens takes as long as the call itself
    }
    return AsyncMarketClient(**settings | options)


async def in_doubt(client: AsyncMarketClient, tokens: list[str] = TWO, **options: Any) -> Payment:
    """A payment whose outcome its call does not learn."""
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await client.with_options(max_retries=0).token_prices(tokens, **options)
    return caught.value.payment


async def in_doubt_at(
    mock: MockService, client: AsyncMarketClient, kind: str = "reset", *, purchase: str | None = None, **fault: Any
) -> Payment:
    """The same at a mock with a fault, which ends with the call."""
    rule = mock.add_fault(kind, paid="only", **fault)
    payment = await in_doubt(client, purchase=purchase)
    mock.remove_fault(rule.id)
    return payment


async def refused(seller: Seller, code: str, *, call: Call | None = None, **options: Any) -> PaymentRefusedError:
    """The refusal of a call: nothing was written down or handed over, and it says what to do."""
    signer, ledger = CountingSigner(), Ledger.memory()
    client = market_of(seller, **{"signer": signer, "ledger": ledger} | options)
    with pytest.raises(PaymentRefusedError) as caught:
        await (client.token_prices(TWO) if call is None else call(client))
    error = caught.value
    assert error.code == code, str(error)
    assert error.hint
    assert error.payment is None
    assert error.charged is False
    assert str(error).startswith(f"{code}: ")
    assert str(error).isprintable()
    assert signer.digests == []
    assert seller.paid == []
    assert await client.payments.list() == []
    spending = await client.payments.spending()
    assert (spending.total.counted, spending.held) == (0, 0)
    return error
