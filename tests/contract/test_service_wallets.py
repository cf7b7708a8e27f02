"""Wallets as the specification has them, shown on the mock over bare HTTP: proof of ownership, listing, balances."""

import pytest

from ._wire import Wire, error_of, proof

OTHER_KEY = "0x" + "2e" * 32


@pytest.mark.rule("chain.known", "wallets.connect", "wallets.list", "auth.scope.full-access")
@pytest.mark.parametrize("chain", [8453, 56])
def test_a_proven_wallet_is_connected(wire: Wire, chain: int) -> None:
    body = proof(chain_id=chain, label="Treasury")
    wallet = wire.post("/wallets", body).json()
    assert (wallet["address"].lower(), wallet["chain_id"], wallet["label"]) == (
        body["address"].lower(),
        chain,
        "Treasury",
    )
    assert wire.get("/wallets").json() == {"data": [wallet]}


@pytest.mark.rule("wallets.connect.required", "error.400.missing")
@pytest.mark.parametrize("field", ["address", "chain_id", "label", "signature"])
def test_connect_needs_its_required_fields(wire: Wire, field: str) -> None:
    body = proof()
    del body[field]
    answer = wire.post("/wallets", body)
    assert error_of(answer) == (400, "invalid_request")
    assert field in answer.json()["error"]["message"]


@pytest.mark.rule("wallets.connect.bad-signature", "error.400.signature")
@pytest.mark.parametrize("signature", ["0x", "0x1234", "no hexadecimal", "0x" + "00" * 65, "0x" + "ff" * 65])
def test_a_bad_signature_is_refused(wire: Wire, signature: str) -> None:
    assert error_of(wire.post("/wallets", proof() | {"signature": signature})) == (400, "invalid_signature")
    assert wire.get("/wallets").json() == {"data": []}


@pytest.mark.rule("wallets.connect.mismatch", "error.400.signature")
def test_a_signature_by_another_key_is_refused(wire: Wire) -> None:
    stolen = proof() | {"signature": proof(private_key=OTHER_KEY)["signature"]}
    assert error_of(wire.post("/wallets", stolen)) == (400, "invalid_signature")


@pytest.mark.rule("wallets.connect.mismatch")
def test_a_signature_for_another_chain_is_refused(wire: Wire) -> None:
    assert error_of(wire.post("/wallets", proof(chain_id=56) | {"chain_id": 8453})) == (400, "invalid_signature")


@pytest.mark.rule("chain.others")
def test_an_unknown_chain_is_refused(wire: Wire) -> None:
    assert error_of(wire.post("/wallets", proof(chain_id=1)))[0] in (400, 422)


@pytest.mark.rule("wallets.list.chain_id")
@pytest.mark.parametrize("chain", [8453, 56])
def test_list_can_be_filtered_by_chain(wire: Wire, chain: int) -> None:
    wire.connect(chain_id=8453)
    wire.connect(chain_id=56)
    assert [wallet["chain_id"] for wallet in wire.get("/wallets", chain_id=chain).json()["data"]] == [chain]


@pytest.mark.rule("wallet.balance.fields", "wallets.balance")
def test_a_balance_belongs_to_its_wallet(populated: Wire) -> None:
    for wallet in populated.get("/wallets").json()["data"]:
        assert populated.get(f"/wallets/{wallet['id']}/balance").json()["wallet_id"] == wallet["id"]


@pytest.mark.rule("agents.create.wallet", "error.404.missing", "error.404.foreign")
@pytest.mark.parametrize("whose", ["nobody's", "somebody else's"])
def test_wallets_of_others_do_not_exist(wire: Wire, neighbour: Wire, whose: str) -> None:
    wallet = "wal_of_nobody"
    if whose == "somebody else's":
        wallet = neighbour.connect(private_key=OTHER_KEY, chain_id=56)
    assert error_of(wire.get(f"/wallets/{wallet}/balance")) == (404, "not_found")
    answer = wire.post("/agents", {"name": "a", "wallet_id": wallet, "chain_id": 56})
    assert answer.status_code in (404, 422)
