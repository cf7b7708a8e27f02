"""Wallets as the specification has them, shown on the mock over bare HTTP: proof of ownership, listing, balances."""

from typing import Any

import pytest
from eth_account import Account

from .._rows import each_of
from ._wire import WALLET_KEY, Wire, error_of, proof, sign, walk

OTHER_KEY = "0x" + "2e" * 32
ADDRESS, OTHER = (Account.from_key(key).address for key in (WALLET_KEY, OTHER_KEY))


@pytest.mark.rule("chain.known", "wallets.connect", "wallets.list", "auth.scope.full-access")
@pytest.mark.parametrize("chain", [8453, 56])
def test_a_proven_wallet_is_connected(wire: Wire, chain: int) -> None:
    wallet = wire.post("/wallets", proof(chain_id=chain, label="Main ✓")).json()
    assert list(wallet) == ["id", "address", "chain_id", "label", "created_at"]
    assert wallet == {
        "id": wallet["id"],
        "address": ADDRESS,
        "chain_id": chain,
        "label": "Main ✓",
        "created_at": int(wire.server.clock.now()),
    }
    assert wire.get("/wallets").json() == {"data": [wallet]}


def test_a_proof_may_be_spelled_otherwise(wire: Wire, neighbour: Wire) -> None:
    """The address in lower case, the recovery byte 0 or 1 instead of 27 or 28."""
    body = proof()
    assert wire.post("/wallets", body | {"address": ADDRESS.lower()}).json()["address"] == ADDRESS
    low = f"{body['signature'][:-2]}{int(body['signature'][-2:], 16) - 27:02X}"
    assert neighbour.post("/wallets", body | {"signature": low}).is_success


@pytest.mark.rule("wallets.connect.required", "error.400.missing")
@each_of("field", ["address", "chain_id", "label", "signature"])
def test_connect_needs_its_required_fields(wire: Wire, field: str) -> None:
    body = proof()
    del body[field]
    assert error_of(wire.post("/wallets", body), field) == (400, "invalid_request")


@pytest.mark.rule("error.400.malformed")
@each_of(
    ("field", "values"),
    [("address", [5, None]), ("chain_id", ["8453", True]), ("label", [5]), ("signature", [5, None])],
)
def test_wrong_types_are_refused(wire: Wire, field: str, values: list[Any]) -> None:
    for value in values:
        assert error_of(wire.post("/wallets", proof() | {field: value}), field) == (400, "invalid_request")


GOOD = proof()["signature"]
# The twin of a signature: the same curve point, mirrored. It proves as much, but no signer makes it.
MIRRORED_S = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 - int(GOOD[66:130], 16)
MIRRORED_V = 55 - int(GOOD[130:], 16)
SIGNATURES = {
    "somebody else's": proof(private_key=OTHER_KEY)["signature"],
    "another chain's": proof(chain_id=56)["signature"],
    "another address's": sign(f"Trade wallet verification\nAddress: {OTHER}\nChain ID: 8453"),
    "another text's": sign("Trade wallet verification"),
    "empty": "",
    "no hex": "0x" + "zz" * 65,
    "short": "0x" + "00" * 64,
    "long": "0x" + "00" * 66,
    "zeros": "0x" + "00" * 65,
    "no point": "0x" + "ff" * 64 + "1b",
    "bad recovery": "0x" + "11" * 64 + "63",
    "no prefix": GOOD[2:],
    "newline": GOOD + "\n",
    "high s": f"{GOOD[:66]}{MIRRORED_S:064x}{MIRRORED_V:02x}",
    "high s, low byte": f"{GOOD[:66]}{MIRRORED_S:064x}{MIRRORED_V - 27:02x}",
    **{f"byte {v}": f"{GOOD[:130]}{v:02x}" for v in (2, 3, 26, 29, 35, 36, 37, 38, 127, 128, 255)},
}


@pytest.mark.rule("wallets.connect.bad-signature", "wallets.connect.mismatch", "error.400.signature")
@each_of("kind", SIGNATURES)
def test_signatures_that_prove_nothing(wire: Wire, kind: str) -> None:
    answer = wire.post("/wallets", proof() | {"signature": SIGNATURES[kind]})
    assert error_of(answer) == (400, "invalid_signature")
    assert wire.get("/wallets").json() == {"data": []}


@pytest.mark.rule("chain.others", "wallets.list.chain_id")
def test_only_two_chains_have_wallets(wire: Wire) -> None:
    for chain in (8453, 56):
        wire.connect(chain_id=chain)
    for chain in (8453, 56):
        assert [wallet["chain_id"] for wallet in wire.get("/wallets", chain_id=chain).json()["data"]] == [chain]
    assert error_of(wire.post("/wallets", proof(chain_id=1)), "chain_id")[0] in (400, 422)
    for wrong in (1, "base"):
        assert error_of(wire.get("/wallets", chain_id=wrong), "chain_id")[0] in (400, 422)


@pytest.mark.rule("wallet.balance.fields", "wallets.balance")
def test_a_balance_belongs_to_its_wallet(populated: Wire) -> None:
    for wallet in walk(populated, "/wallets"):
        assert populated.get(f"/wallets/{wallet['id']}/balance").json()["wallet_id"] == wallet["id"]


@pytest.mark.rule("error.404.missing", "error.404.foreign")
def test_balances_of_others_do_not_exist(wire: Wire, neighbour: Wire) -> None:
    for wallet in ("wal_of_nobody", neighbour.connect(private_key=OTHER_KEY, chain_id=56)):
        assert error_of(wire.get(f"/wallets/{wallet}/balance")) == (404, "not_found")
