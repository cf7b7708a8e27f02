"""Client and service together where a rule needs both: proof of ownership, a change of keys, what came back."""

from collections.abc import Iterator

import httpx
import pytest

from tradesdk import AuthenticationError, InvalidSignatureError, LocalSigner, TradeClient
from tradesdk_mock import MockKey, MockServer

from ._wire import WALLET_KEY, proof

OTHER_KEY = "0x" + "2e" * 32


@pytest.fixture
def key(service: MockServer) -> MockKey:
    """A key with an account of its own, which is empty."""
    return service.create_key(name="bot", scope="full-access")


@pytest.fixture
def client(service: MockServer, key: MockKey) -> Iterator[TradeClient]:
    with TradeClient(api_key=key.value, base_url=service.url) as client:
        yield client


@pytest.mark.rule("wallets.connect")
@pytest.mark.parametrize("chain", [8453, 56])
def test_a_signer_proves_its_wallet(client: TradeClient, chain: int) -> None:
    signer = LocalSigner.from_key(WALLET_KEY)
    wallet = client.wallets.connect_with(signer, label="Treasury", chain_id=chain)
    assert wallet.address == signer.address == proof()["address"]
    assert [one.id for one in client.wallets.list()] == [wallet.id]


def test_a_signature_made_elsewhere_is_the_same_to_the_service(client: TradeClient) -> None:
    """The proof of the bare HTTP tests is made by eth-account alone, and the client sends it as it is."""
    body = proof(label="Cold storage")
    wallet = client.wallets.connect(**body)
    assert (wallet.address, wallet.label) == (body["address"], "Cold storage")


def test_a_foreign_signer_is_refused(client: TradeClient) -> None:
    stolen = proof() | {"signature": proof(private_key=OTHER_KEY)["signature"]}
    with pytest.raises(InvalidSignatureError):
        client.wallets.connect(**stolen)


@pytest.mark.rule("auth.rotation")
def test_a_key_may_change_between_requests(service: MockServer, key: MockKey) -> None:
    """A key that is asked for anew lets a bot continue after a rotation, without a restart."""
    current = [key.value]
    with TradeClient(api_key=lambda: current[0], base_url=service.url) as client:
        before = client.account.get()
        new = service.rotate_key(key.id)
        with pytest.raises(AuthenticationError):
            client.account.get()
        current[0] = new.value
        after = client.account.get()
    assert (before.id, before.api_key_last4) == (after.id, key.value[-4:])
    assert after.api_key_last4 == new.value[-4:]


@pytest.mark.rule("auth.key.shown-once")
def test_a_key_is_shown_once(service: MockServer, key: MockKey, bare_http: httpx.Client) -> None:
    """The dashboard shows a key when it is made; the control routes, which stand for it, never again."""
    listed = bare_http.get(f"{service.url}/_mock/keys")
    assert listed.status_code == 200
    assert key.id in listed.text
    assert key.value not in listed.text
    made = bare_http.post(f"{service.url}/_mock/keys", json={"name": "by hand", "scope": "read-only"})
    assert made.is_success
    assert made.json()["value"]
    assert made.json()["value"] not in bare_http.get(f"{service.url}/_mock/keys").text
