"""Smart contract wallets pay the mock: signers with `is_contract = True`, with and without a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from eth_account import Account

from tradesdk import (
    AsyncChainWitness,
    ChainWitness,
    Ledger,
    LocalSigner,
    MarketClient,
    Payment,
    PaymentRefusedError,
    TradeError,
)
from tradesdk_mock import MockClock, MockService, MockWallet

from .._async._market import buyer_of as async_buyer_of
from .._clock import START
from .._rows import each_of
from .._sync._market import buyer_of

OWNER = Account.from_key("0x" + "2b" * 32)
OTHER = Account.from_key("0x" + "2c" * 32)
PRICE = 30_000


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as service:
        yield service


class Wallet:
    """A signer of a contract wallet: by digest, by typed data, blocking or async."""

    is_contract = True

    def __init__(self, wallet: MockWallet, owner: Any = OWNER, change: Callable[[bytes], Any] = bytes) -> None:
        self.address, self.owner, self.change = wallet.address, owner, change

    def digest(self, digest: bytes) -> Any:
        return self.change(bytes(self.owner.unsafe_sign_hash(digest).signature))

    def typed(self, *data: Any) -> Any:
        return self.change(bytes(self.owner.sign_typed_data(*data).signature))


class ByDigest(Wallet):
    def sign_digest(self, digest: bytes, /) -> Any:
        return self.digest(digest)


class ByTypedData(Wallet):
    def sign_typed_data(self, domain: Any, types: Any, message: Any, /) -> Any:
        return self.typed(domain, types, message)


class AsyncByDigest(Wallet):
    async def sign_digest(self, digest: bytes, /) -> Any:
        await checkpoint()
        return self.digest(digest)


class AsyncByTypedData(Wallet):
    async def sign_typed_data(self, domain: Any, types: Any, message: Any, /) -> Any:
        await checkpoint()
        return self.typed(domain, types, message)


def buyer(mock: MockService, signer: Any, *, node: bool = False, **more: Any) -> MarketClient:
    if node:
        more["witness"] = witness(mock)
    return buyer_of(mock, signer=signer, **more)


def witness(mock: MockService, *more: str) -> ChainWitness:
    return ChainWitness(mock.rpc_url, *more, http_client=httpx.Client(transport=mock.transport()), clock=mock.clock)


def calls(mock: MockService) -> list[str]:
    """What nodes were asked, but for the chain."""
    bodies = [entry.body for entry in mock.journal() if entry.path == "/rpc"]
    asked = [call for body in bodies if isinstance(body, list) for call in body if call["method"] != "eth_chainId"]
    names = {"0x70a08231": "balance", "0x1626ba7e": "valid", "0xe94a0102": "state"}
    return [names.get(str(call["params"][0])[10:20], "") or named(call, names) for call in asked]


def named(call: Any, names: dict[str, str]) -> str:
    data = call["params"][0]
    return names[data["data"][:10]] if isinstance(data, dict) else "code"


# Which signers there are: by digest or typed data, blocking or async. Those of keys: `test_async_signers.py`.


def made(mock: MockService, kind: type[Wallet], *, is_deployed: bool) -> Wallet:
    wallet = mock.payments.wallet(OWNER.address)
    return kind(deployed(mock)) if is_deployed else kind(wallet, change=wallet.wrapped)


def deployed(mock: MockService) -> MockWallet:
    return mock.payments.deploy_wallet(OWNER.address)


@each_of("is_deployed", [True, False])
@pytest.mark.parametrize("kind", [ByDigest, ByTypedData, AsyncByDigest, AsyncByTypedData])
async def test_every_signer_under_an_event_loop(kind: type[Wallet], is_deployed: bool) -> None:
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        signer = made(mock, kind, is_deployed=is_deployed)
        bought = await async_buyer_of(mock, signer=signer).token_prices(["ETH"])
        assert bought.charged is True
        (taken,) = mock.payments.assert_charged(times=1, amount=PRICE)
        assert taken.payer == signer.address


@each_of("is_deployed", [True, False])
@pytest.mark.parametrize("kind", [ByDigest, ByTypedData])
def test_every_signer_in_the_blocking_client(kind: type[Wallet], is_deployed: bool) -> None:
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        assert buyer(mock, made(mock, kind, is_deployed=is_deployed)).token_prices(["ETH"]).charged is True
        mock.payments.assert_charged(times=1, amount=PRICE)


# Signatures

GOOD = b"\x01" * 65


def refusal(mock: MockService, change: Callable[[bytes], Any], **more: Any) -> PaymentRefusedError:
    with pytest.raises(PaymentRefusedError) as caught:
        buyer(mock, ByDigest(deployed(mock), change=change), **more).token_prices(["ETH"])
    assert caught.value.code == "signer_failed"
    return caught.value


@each_of(
    ("change", "text"),
    [
        (lambda _: b"", "a signature of 0 bytes; 1 to 3,072 are needed"),
        (lambda _: b"x" * 3073, "a signature of 3,073 bytes"),
        (lambda _: None, "a NoneType; 1 to 3,072 bytes are needed"),
        (lambda _: "0xnothing", "not hexadecimal digits"),
        (lambda one: one + bytes.fromhex("6492" * 16), "does not have its form: factory, call and signature"),
        (lambda _: bytes(96) + bytes.fromhex("6492" * 16), "does not have its form"),
    ],
)
def test_what_is_no_signature_of_a_contract(change: Any, text: str) -> None:
    """Nothing is written down."""
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        error = refusal(mock, change)
        assert (text in error.message, error.payment, error.charged) == (True, None, False)


@each_of("size", [1, 64, 65, 66, 700, 3072])
def test_any_bytes_are_sent_as_they_are(size: int) -> None:
    """Also in hexadecimal digits; the service is the judge of them. Nothing shows them."""
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        content = bytes(range(1, 256)) * 13
        signer = ByDigest(deployed(mock), change=lambda _: "0x" + content[:size].hex())
        with pytest.raises(TradeError) as caught:
            buyer(mock, signer).token_prices(["ETH"])
        assert caught.value.code == "signature_rejected"
        assert "is_contract = True" in caught.value.hint
        (sent,) = mock.payments.submissions()
        assert sent.verdict == "invalid_exact_evm_payload_signature"


def test_a_contract_that_does_not_say_so(mock: MockService) -> None:
    signer = ByDigest(deployed(mock))
    signer.is_contract = False
    with pytest.raises(PaymentRefusedError, match=f"signed other data, or as {OWNER.address}") as caught:
        buyer(mock, signer).token_prices(["ETH"])
    assert (caught.value.code, caught.value.charged) == ("signer_failed", False)
    assert "that of a smart contract wallet says is_contract = True" in caught.value.message


def test_names_need_a_purchase_secret(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    client = buyer(mock, ByDigest(deployed(mock)))
    with pytest.raises(PaymentRefusedError) as caught:
        client.token_prices(["ETH"], purchase="today")
    assert (caught.value.code, "TRADE_PURCHASE_SECRET" in caught.value.hint) == ("no_purchase_secret", True)
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", "5e" * 32)
    assert [client.token_prices(["ETH"], purchase="today").again for _ in range(2)] == [False, True]
    mock.payments.assert_charged(times=1, amount=PRICE)


# With a node


def held(client: MarketClient) -> int:
    return client.payments.spending().held


def test_the_wallet_is_asked_before_its_payment_is_sent(mock: MockService) -> None:
    """The node has the signature then, so that counts as handing it over, and sending it is the same submission."""
    client = buyer(mock, ByDigest(deployed(mock)), node=True)
    bought = client.token_prices(["ETH"])
    assert bought.payment is not None
    assert (bought.charged, bought.payment.submissions) == (True, 1)
    assert calls(mock) == ["balance", "code", "valid"]
    mock.payments.assert_charged(times=1, amount=PRICE)
    assert mock.payments.submissions()[0].verdict == "settled"


def test_what_the_wallet_does_not_accept_is_held_and_not_sent(mock: MockService) -> None:
    """The same nonce is signed again when it has expired; the chain takes it once."""
    wallet = deployed(mock)
    signer = ByDigest(wallet, OTHER)
    client = buyer(mock, signer, node=True)
    with pytest.raises(PaymentRefusedError) as caught:
        client.token_prices(["ETH"])
    error = caught.value
    assert (error.code, error.charged) == ("signer_failed", "unknown")
    assert f"the wallet {wallet.address} does not accept its signature" in error.message
    assert isinstance(error.payment, Payment)
    assert (error.payment.in_doubt, error.payment.submissions) == (True, 1)
    assert held(client) == PRICE
    assert mock.payments.submissions() == []
    mock.clock.advance(70)
    signer.owner = OWNER
    again = client.token_prices(["ETH"])
    assert again.payment is not None
    assert (again.charged, again.payment.id, again.payment.nonce) == (True, error.payment.id, error.payment.nonce)
    mock.payments.assert_charged(times=1, amount=PRICE)


def test_one_that_is_not_deployed(mock: MockService) -> None:
    """Its code cannot be asked: the form of the signature is checked, and a plain one is not sent, nor held."""
    wallet = mock.payments.wallet(OWNER.address)
    client = buyer(mock, ByDigest(wallet), node=True)
    with pytest.raises(PaymentRefusedError) as caught:
        client.token_prices(["ETH"])
    assert (caught.value.code, caught.value.charged) == ("signer_failed", False)
    assert (
        "is not deployed, and its signature does not have the call that deploys it (ERC-6492)" in caught.value.message
    )
    assert (held(client), mock.payments.submissions()) == (0, [])
    good = buyer(mock, ByDigest(wallet, change=wallet.wrapped), node=True)
    assert good.token_prices(["ETH"]).charged is True
    assert calls(mock) == ["balance", "code"] * 2, "no node got a signature"
    assert good.token_prices(["BRETT"]).charged is True
    assert calls(mock)[4:] == ["code", "valid"], "by its first payment it is deployed"


@pytest.mark.parametrize("call", ["eth_getCode", "eth_call", "*"])
@each_of(("code", "is_refusal"), [(-32000, False), (3, True)])
def test_a_node_that_does_not_tell_decides_nothing(call: str, code: int, is_refusal: bool) -> None:
    """But the wallet may refuse with an error of its own, as contracts do."""
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        mock.add_fault("rpc_error", call=call, code=code, message="no")
        client = buyer(mock, ByDigest(deployed(mock)), node=True)
        if is_refusal and call == "eth_call":
            with pytest.raises(PaymentRefusedError, match="does not accept its signature"):
                client.token_prices(["ETH"])
            assert held(client) == PRICE
        else:
            assert client.token_prices(["ETH"]).charged is True
            mock.payments.assert_charged(times=1, amount=PRICE)


def test_resuming_needs_no_wallet(mock: MockService) -> None:
    """With a node as well: what is sent again is not asked about."""
    ledger = Ledger.memory()
    mock.add_fault("status", paid="only", status=503, executed=True)
    with pytest.raises(TradeError) as caught:
        buyer(mock, ByDigest(deployed(mock)), ledger=ledger, max_retries=0).token_prices(["ETH"])
    mock.clear_faults()
    payment = getattr(caught.value, "payment", None)
    assert isinstance(payment, Payment)
    with pytest.raises(TradeError) as resumed:
        buyer(mock, None, node=True, ledger=ledger).payments.resume(payment.id)
    assert resumed.value.code == "paid_undelivered", "the service keeps no answers"
    assert "valid" not in calls(mock)
    mock.payments.assert_charged(times=1, amount=PRICE)


def test_one_of_several_nodes_is_enough(mock: MockService) -> None:
    mock.add_fault("rpc_error", call="eth_getCode", code=-1, message="no", route="/rpc")
    both = witness(mock, f"{mock.rpc_url}/two")
    with pytest.raises(PaymentRefusedError, match="does not accept its signature"):
        buyer(mock, ByDigest(deployed(mock), OTHER), witness=both).token_prices(["ETH"])
    assert str(both.code(OWNER.address)) == (
        "the address has no code: it is the account of a key, or a wallet that is not deployed yet"
    )


def test_what_code_there_is(mock: MockService) -> None:
    node = witness(mock)
    mock.payments.delegate(OTHER.address)
    found = {name: node.code(name) for name in (OWNER.address, deployed(mock).address, OTHER.address.lower())}
    assert [one and one.kind for one in found.values()] == ["none", "contract", "delegated"]
    delegated = found[OTHER.address.lower()]
    assert delegated is not None
    assert f"delegated to {delegated.delegate} (EIP-7702)" in str(delegated)
    mock.add_fault("rpc_error", call="eth_getCode", code=-1, message="no")
    assert node.code(OWNER.address) is None
    with pytest.raises(TradeError, match="must be an address"):
        node.code("me")


def test_no_log_shows_a_signature(mock: MockService, caplog: pytest.LogCaptureFixture) -> None:
    """Of no length: nor what the node is asked, nor what an error repeats."""
    for name in ("tradesdk", "tradesdk.wire"):
        caplog.set_level(logging.DEBUG, name)
    content = bytes(range(1, 256))[:100]
    mock.add_fault("rpc_error", nth=3, call="eth_call", code=-1, message=f"bad: {content.hex()}")
    mock.add_fault("body", route="/v1/token-prices", paid="only", text=f"bad: 0x{content.hex()}")
    client = buyer(mock, ByDigest(deployed(mock), change=lambda _: content), node=True, max_retries=0)
    with pytest.raises(TradeError) as caught:
        client.token_prices(["ETH"])
    said = f"{caplog.text} {caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert "eth_call" in said
    assert content.hex()[:40] not in said
    assert content.hex()[20:60] not in said


async def test_a_cancellation_while_the_node_is_asked(mock: MockService) -> None:
    """The node may have the signature: it is held, and the same call goes on with its bytes."""
    slow = True

    async def node(request: httpx.Request) -> httpx.Response:
        if b"eth_call" in request.content and b"1626ba7e" in request.content and slow:
            await anyio.sleep_forever()
        return await inner.handle_async_request(request)

    inner = mock.transport()
    http = httpx.AsyncClient(transport=httpx.MockTransport(node))
    asked = AsyncChainWitness(mock.rpc_url, http_client=http, clock=mock.clock)
    client = async_buyer_of(mock, signer=ByDigest(deployed(mock)), witness=asked)
    with anyio.move_on_after(0.1):
        await client.token_prices(["ETH"])
    (payment,) = await client.payments.list()
    assert (payment.in_doubt, payment.submissions) == (True, 1)
    slow = False
    again = await client.token_prices(["ETH"])
    assert again.payment is not None
    assert (again.charged, again.payment.nonce) == (True, payment.nonce)
    mock.payments.assert_charged(times=1, amount=PRICE)


def test_a_text_is_signed_by_a_contract_too(mock: MockService) -> None:
    from tradesdk import TradeClient

    http = httpx.Client(transport=mock.transport())
    with (
        TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http) as trade,
        pytest.raises(TradeError) as caught,
    ):
        trade.wallets.connect_with(ByDigest(deployed(mock)), label="service")
    assert caught.value.code == "invalid_signature", "by the service, which knows keys only"
    assert LocalSigner.from_key("2b" * 32).address == OWNER.address
