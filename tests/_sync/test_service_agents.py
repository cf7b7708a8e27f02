# Generated from tests/_async/test_service_agents.py by scripts/unasync.py: change that file instead.
"""Account, wallets and agents against the mock service, over real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tradesdk import (
    ConflictError,
    InvalidSignatureError,
    LocalSigner,
    NotFoundError,
    Risk,
    TradeClient,
    UnprocessableEntityError,
    wallet_message,
)
from tradesdk.payments.signing.signer import sign_message

from ._client import collected
from .conftest import Tenant


def test_account(tenant: Tenant) -> None:
    account = tenant.client.account.get()
    assert account.plan == "enterprise"
    assert account.api_key_last4 == tenant.key()[-4:]
    assert account.email == f"{tenant.name}@example.test"
    assert abs(account.created_at.timestamp() - tenant.server.clock.now()) < 60


def test_usage_counts(tenant: Tenant) -> None:
    before = tenant.client.account.usage()
    tenant.client.account.get()
    after = tenant.client.account.usage()
    assert after.requests.used == before.requests.used + 2
    assert (after.agents.used, after.agents.limit, after.requests.limit) == (0, 1000, 10_000_000)
    assert after.reset_at.timestamp() > tenant.server.clock.now()


def test_the_life_of_an_agent(tenant: Tenant, signer: LocalSigner) -> None:
    client, server = tenant.client, tenant.server
    wallet = client.wallets.connect_with(signer, label="Trading")
    assert collected(client.agents.list()) == []

    made = client.agents.create(
        name="née 🚀", wallet_id=wallet.id, chain_id=8453, risk=Risk(stop_loss_pct=5, take_profit_pct=20)
    )
    assert (made.name, made.status, made.min_confidence, made.max_positions) == ("née 🚀", "idle", 0.75, 5)
    assert made.risk == Risk(stop_loss_pct=5, take_profit_pct=20)
    assert made.stats is None
    assert made.updated_at is None

    found = client.agents.get(made.id)
    assert found.stats is not None
    assert found.updated_at is not None
    assert found.model_dump(exclude={"stats", "updated_at"}) == made.model_dump(exclude={"stats", "updated_at"})

    server.clock.advance(30)
    server.start_agent(made.id)
    changed = client.agents.update(made.id, risk=Risk(stop_loss_pct=4), min_confidence=0.9, max_positions=2)
    assert changed.status == "active"  # edited without being stopped
    assert changed.risk == Risk(stop_loss_pct=4, take_profit_pct=20)
    assert (changed.name, changed.min_confidence, changed.max_positions) == ("née 🚀", 0.9, 2)
    assert changed.updated_at is not None
    assert changed.updated_at > found.updated_at

    with pytest.raises(ConflictError) as running:
        client.agents.delete(made.id)
    assert (running.value.status, running.value.service_code) == (409, "conflict")
    assert (client.agents.get(made.id)).status == "active"

    server.stop_agent(made.id)
    client.agents.delete(made.id)
    with pytest.raises(NotFoundError):
        client.agents.get(made.id)
    with pytest.raises(NotFoundError):
        client.agents.delete(made.id)
    assert client.agents.list().first() is None
    writes = [(entry.method, entry.status) for entry in server.journal(tenant.name) if entry.method != "GET"]
    assert writes == [("POST", 201), ("POST", 201), ("PATCH", 200), ("DELETE", 409), ("DELETE", 204), ("DELETE", 404)]


@pytest.mark.parametrize("status", ["active", "idle", "paused", "error"])
def test_agents_of_a_state(populated: Tenant, status: Any) -> None:
    everyone = collected(populated.client.agents.list())
    found = collected(populated.client.agents.list(status=status))
    assert {agent.status for agent in found} == {status}
    assert {agent.id for agent in found} == {agent.id for agent in everyone if agent.status == status}
    changed = populated.client.agents.update(found[0].id, name="renamed")  # in any state
    assert (changed.name, changed.status) == ("renamed", status)


def test_another_wallet_for_an_agent(tenant: Tenant, signer: LocalSigner) -> None:
    client = tenant.client
    first = client.wallets.connect_with(signer, label="one")
    second = client.wallets.connect_with(LocalSigner.from_key("0x" + "2c" * 32), label="two")
    made = client.agents.create(name="a", wallet_id=first.id, chain_id=8453)
    assert (client.agents.update(made.id, wallet_id=second.id)).wallet_id == second.id
    elsewhere = client.wallets.connect_with(signer, label="three", chain_id=56)
    with pytest.raises(UnprocessableEntityError, match="wallet_id"):
        client.agents.update(made.id, wallet_id=elsewhere.id)


def test_wallet_with_a_real_signature(client: TradeClient, signer: LocalSigner) -> None:
    wallet = client.wallets.connect_with(signer, label="Trading", chain_id=56)
    assert (wallet.address, wallet.chain_id, wallet.label) == (signer.address, 56, "Trading")
    assert collected(client.wallets.list()) == [wallet]
    assert collected(client.wallets.list(chain_id=8453)) == []
    with pytest.raises(ConflictError):
        client.wallets.connect_with(signer, label="again", chain_id=56)


def test_wallet_with_a_signature_made_elsewhere(client: TradeClient, signer: LocalSigner) -> None:
    signature = sign_message(signer, wallet_message(signer.address, 8453))
    wallet = client.wallets.connect(address=signer.address.lower(), chain_id=8453, label="Trading", signature=signature)
    assert wallet.address == signer.address


def test_wrong_signatures(tenant: Tenant, signer: LocalSigner) -> None:
    """Of another text, another chain, another key, or none at all."""
    client = tenant.client
    other = LocalSigner.from_key("0x" + "2d" * 32)
    for wrong in (
        sign_message(signer, wallet_message(signer.address, 56)),
        sign_message(signer, "hello"),
        sign_message(other, wallet_message(signer.address, 8453)),
        "0x" + "00" * 65,
        "0x1234",
        "signed, me",
    ):
        with pytest.raises(InvalidSignatureError) as caught:
            client.wallets.connect(address=signer.address, chain_id=8453, label="l", signature=wrong)
        assert (caught.value.status, caught.value.service_code) == (400, "invalid_signature")
    with pytest.raises(InvalidSignatureError):
        client.wallets.connect_with(signer, label="l", message="another text")
    assert client.wallets.list().first() is None


def test_balance(populated: Tenant) -> None:
    wallet = populated.client.wallets.list(chain_id=8453).first()
    assert wallet is not None
    balance = populated.client.wallets.balance(wallet.id)
    assert balance.wallet_id == wallet.id
    assert balance.native_balance_usd > 0
    assert all(token.balance > 0 and token.token_symbol for token in balance.token_balances)
    before = balance.updated_at
    populated.server.clock.advance(120)
    assert (populated.client.wallets.balance(wallet.id)).updated_at > before


MISSING: list[tuple[str, Callable[[TradeClient], Any]]] = [
    ("get", lambda c: c.agents.get("agt_nobody")),
    ("update", lambda c: c.agents.update("agt_nobody", name="n")),
    ("delete", lambda c: c.agents.delete("agt_nobody")),
    ("trade", lambda c: c.trades.get("trd_nobody")),
    ("balance", lambda c: c.wallets.balance("wal_nobody")),
    ("create", lambda c: c.agents.create(name="n", wallet_id="wal_nobody", chain_id=8453)),
    ("request", lambda c: c.request("GET", "/v1/nothing/here")),
    ("strange id", lambda c: c.agents.get("ägt %2F ?#&=+")),
]


@pytest.mark.parametrize("act", [act for _, act in MISSING], ids=[name for name, _ in MISSING])
def test_what_is_not_there(client: TradeClient, act: Callable[[TradeClient], Any]) -> None:
    with pytest.raises(NotFoundError) as caught:
        act(client)
    assert (caught.value.status, caught.value.service_code, caught.value.retries) == (404, "not_found", 0)
    assert caught.value.message


def test_what_belongs_to_somebody_else_is_not_there(populated: Tenant) -> None:
    agent = populated.client.agents.list().first()
    assert agent is not None
    with populated.another("mock_full_stranger") as stranger:
        with pytest.raises(NotFoundError):
            stranger.agents.get(agent.id)
        with pytest.raises(NotFoundError):
            stranger.agents.delete(agent.id)
        assert stranger.agents.list().first() is None


def test_values_that_the_service_refuses(populated: Tenant) -> None:
    client = populated.client
    agent = client.agents.list(status="idle").first()
    assert agent is not None
    for risk in (Risk(position_size_pct=101), Risk(stop_loss_pct=0), Risk(trailing_stop_pct=-1)):
        with pytest.raises(UnprocessableEntityError, match="risk"):
            client.agents.update(agent.id, risk=risk)
    with pytest.raises(UnprocessableEntityError, match="max_positions") as caught:
        client.agents.update(agent.id, max_positions=0)
    assert (caught.value.status, caught.value.service_code) == (422, "validation_error")
    with pytest.raises(UnprocessableEntityError, match="name"):
        client.agents.create(name=" ", wallet_id=agent.wallet_id, chain_id=agent.chain_id)
    with pytest.raises(UnprocessableEntityError, match="address"):
        client.wallets.connect(address="0x12", chain_id=8453, label="l", signature="0x00")
    with pytest.raises(UnprocessableEntityError, match="token_address"):
        client.signals.history(chain=8453, token_address="0x12").first()
