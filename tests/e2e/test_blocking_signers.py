"""Signers may block, as a wallet service does that somebody confirms on a phone. The event loop goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from tradesdk import (
    AsyncTradeClient,
    Ledger,
    LocalSigner,
    PaymentRefusedError,
)
from tradesdk_mock import MockClock, MockService

from .._async._market import buyer_of, market_of
from .._clock import START
from .._rows import each_of
from .._seller import Seller

KEY = "0x" + "01" * 32
MINE = LocalSigner.from_key(KEY)


class Confirmed:
    """Answers only after another task of the loop has confirmed."""

    def __init__(self) -> None:
        self.asked, self.confirmed = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.asked.set()
        assert self.confirmed.wait(5), "nothing else ran in the loop while the signer was waiting"

    @property
    def address(self) -> str:
        self.wait()
        return MINE.address


class ByDigest(Confirmed):
    def sign_digest(self, digest: bytes, /) -> bytes:
        self.wait()
        return MINE.sign_digest(digest)


class ByFields(Confirmed):
    def sign_typed_data(self, *data: Any) -> Any:
        from eth_account import Account

        self.wait()
        return Account.from_key(KEY).sign_typed_data(*data)


class Vault(Confirmed):
    def __call__(self) -> str:
        self.wait()
        return KEY


class Shop:
    """Clients of the mock that pay with this signer."""

    def __init__(self, mock: MockService, signer: Any) -> None:
        self.mock, self.signer, self.ledger = mock, signer, Ledger.memory()
        http = httpx.AsyncClient(transport=mock.transport())
        self.trade = AsyncTradeClient(api_key="mock_full_x", base_url=mock.url, clock=mock.clock, http_client=http)
        self.market = buyer_of(mock, signer=signer, ledger=self.ledger)

    async def connects(self) -> None:
        wallet = await self.trade.wallets.connect_with(self.signer, label="mine")
        assert wallet.address == MINE.address

    async def pays(self) -> None:
        assert (await self.market.token_prices(["BRETT"])).charged is True

    async def refuses_to_pay_for_what_is_free(self) -> None:
        with pytest.raises(PaymentRefusedError):
            await market_of(Seller(), signer=self.signer).supported_tokens()

    async def plans(self) -> None:
        assert (await self.market.dry_run.token_prices(["BRETT"])).authorization


PAYMENTS = (Shop.pays, Shop.refuses_to_pay_for_what_is_free, Shop.plans)


@each_of(
    ("kind", "act"),
    [
        *((kind, act) for kind in (ByDigest, Vault) for act in (Shop.connects, *PAYMENTS)),
        *((ByFields, act) for act in PAYMENTS),
    ],
)
async def test_a_signer_that_blocks_leaves_the_loop_free(
    kind: type[Confirmed], act: Callable[[Shop], Awaitable[None]]
) -> None:
    confirmed = kind()
    signer = LocalSigner.from_callable(confirmed) if isinstance(confirmed, Vault) else confirmed

    async def confirm() -> None:
        await anyio.to_thread.run_sync(confirmed.asked.wait, 5)
        confirmed.confirmed.set()

    with MockService(clock=MockClock(START), signals="scripted") as mock:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(confirm)
            await act(Shop(mock, signer))
            confirmed.asked.set()  # what is free asks it nothing
