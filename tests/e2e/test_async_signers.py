"""Signers whose methods are async: awaited on the caller's event loop, and refused by blocking clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint, current_token
from eth_account import Account

from tradesdk import (
    AsyncTradeClient,
    ConfigError,
    LocalSigner,
    PaymentRefusedError,
    TradeClient,
    TradeError,
)
from tradesdk_mock import MockClock, MockService

from .._async._market import buyer_of
from .._clock import START
from .._payments import how
from .._rows import each_of
from .._sync._market import buyer_of as blocking_buyer_of

KEY = "0x" + "2b" * 32
LOCAL = LocalSigner.from_key(KEY)
ACCOUNT = Account.from_key(KEY)


@pytest.fixture
def mock() -> Iterator[MockService]:
    with market() as service:
        yield service


def market() -> MockService:
    return MockService(clock=MockClock(START), signals="scripted")


class AsyncSigner:
    """A key service. It notes where it is awaited."""

    address = LOCAL.address

    def __init__(self, change: Any = None) -> None:
        self.change = change
        self.loops: list[object] = []

    async def _signed(self, what: str, give: Any) -> Any:
        await checkpoint()
        self.loops.append(current_token())
        return give() if self.change is None else self.change(what, give)

    async def purchase_secret(self) -> Any:
        return await self._signed("secret", LOCAL.purchase_secret)


class ByDigest(AsyncSigner):
    async def sign_digest(self, digest: bytes, /) -> Any:
        return await self._signed("signature", lambda: LOCAL.sign_digest(digest))


class ByTypedData(AsyncSigner):
    async def sign_typed_data(self, domain: Any, types: Any, message: Any, /) -> Any:
        return await self._signed("signature", lambda: ACCOUNT.sign_typed_data(domain, types, message))


@each_of("kind", [ByDigest, ByTypedData])
async def test_payments(kind: type[AsyncSigner]) -> None:
    mock, signer = market(), kind()
    client = buyer_of(mock, signer=signer)
    for name in (None, "today"):
        bought = await client.token_prices(["ETH"], purchase=name)
        assert bought.payment is not None
        assert how(bought.payment) == "answered"
        assert bought.payment.payer == LOCAL.address
        mock.clock.advance(61)
    assert signer.loops == [current_token()] * 3, "the secret of the name, and two signatures"
    mock.payments.assert_charged(times=2, amount=60_000)
    known, own = await client.payments.purchase_secret_ids()
    assert known == own == await client.payments.accept_purchase_secret()
    mock.close()


async def test_a_text(mock: MockService) -> None:
    transport = httpx.AsyncClient(transport=mock.transport())
    async with AsyncTradeClient(api_key="mock_full_signers", base_url=mock.url, http_client=transport) as trade:
        wallet = await trade.wallets.connect_with(ByDigest(), label="service")
    assert wallet.address == LOCAL.address


def fails(what: str, give: Any) -> Any:
    raise OSError("the service is down: key 0x" + "2b" * 32)


def raises_ours(what: str, give: Any) -> Any:
    raise ConfigError("the policy of the wallet refuses it")


@each_of(
    ("change", "text"),
    [
        (fails, "the signer failed with OSError"),
        (raises_ours, "the policy of the wallet refuses it"),
        (lambda what, give: give()[:5], "returned a signature of 5 bytes"),
        (lambda what, give: LocalSigner.from_key("01" * 32).sign_digest(bytes(32)), "signed other data"),
    ],
)
async def test_one_that_fails(mock: MockService, change: Any, text: str) -> None:
    with pytest.raises(PaymentRefusedError, match=text) as caught:
        await buyer_of(mock, signer=ByDigest(change)).token_prices(["ETH"])
    assert (caught.value.code, caught.value.charged) == ("signer_failed", False)
    assert "2b2b" not in f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r}"
    mock.payments.assert_charged(times=0)


async def test_a_cancellation_ends_the_wait_for_it(mock: MockService) -> None:
    """Nothing is written down, and no slot is kept: the next call pays."""

    class Slow(ByDigest):
        waits = True

        async def sign_digest(self, digest: bytes, /) -> Any:
            if self.waits:
                await anyio.sleep_forever()
            return await super().sign_digest(digest)

    signer = Slow()
    client = buyer_of(mock, signer=signer)
    with anyio.move_on_after(0.05):
        await client.token_prices(["ETH"])
    assert await client.payments.list() == []
    signer.waits = False
    await client.token_prices(["ETH"])
    mock.payments.assert_charged(times=1, amount=30_000)


def test_a_blocking_client_refuses_it(mock: MockService, recwarn: pytest.WarningsRecorder) -> None:
    given = httpx.Client(transport=mock.transport())
    for signer, name in ((ByDigest(), None), (ByTypedData(), None), (ByDigest(), "today")):
        with pytest.raises(TradeError, match="the signer is async, and this client is blocking: use AsyncMarketClient"):
            blocking_buyer_of(mock, signer=signer).token_prices(["ETH"], purchase=name)
    with (
        TradeClient(api_key="mock_full_signers", base_url=mock.url, http_client=given) as trade,
        pytest.raises(ConfigError, match="use AsyncMarketClient and AsyncTradeClient"),
    ):
        trade.wallets.connect_with(ByDigest(), label="service")
    mock.payments.assert_charged(times=0)
    assert not recwarn.list, "each coroutine was closed"
