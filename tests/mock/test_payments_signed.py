"""Who signed: the digest that a wallet signs and its signer, against a vector and against eth_account."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

from tradesdk_mock.payments import eip3009
from tradesdk_mock.payments.eip3009 import Authorization, Domain

from ._paying import PAYER, STRANGER, Json, authorization, nonce_of, sign

DOMAIN = Domain("USD Coin", "2", 8453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
VECTOR = Authorization(
    "0x1a642f0e3c3af545e7acbd38b07251b3990914f1",
    "0x209693bc6afc0c5328ba36faf03c514ef312287c",
    30_000,
    0,
    1_795_176_348,
    nonce_of(1),
)
DIGEST = bytes.fromhex("68d49d6f7fc2ec80392af8634f10a04401ae72761e1462f373768b38058fed8d")
SIGNATURE = bytes.fromhex(
    "df041869fe73b44afa112ae557934674384f222789251693565b0565b35f4bc4"
    "12ad04a75cc27a00a41598f7574bd8e1481d6031a5ac18064dd68b5c54052a701b"
)


@pytest.mark.rule("payment.signed")
def test_the_vector() -> None:
    assert eip3009.digest(DOMAIN, VECTOR) == DIGEST
    assert eip3009.signer(DIGEST, SIGNATURE) == VECTOR.payer == PAYER.address.lower()


def test_the_same_as_eth_account_over_random_transfers() -> None:
    dice = random.Random(4)
    for place in range(12):
        payer = (PAYER, STRANGER)[place % 2]
        requirement: Json = {
            "network": dice.choice(["eip155:8453", "eip155:1"]),
            "amount": str(dice.choice([0, 1, dice.getrandbits(256)])),
            "asset": "0x" + dice.randbytes(20).hex(),
            "payTo": "0x" + dice.randbytes(20).hex(),
            "maxTimeoutSeconds": dice.randrange(1, 10**9),
            "extra": {"name": dice.choice(["USD Coin", "Ünicode", ""]), "version": str(dice.randrange(9))},
        }
        given = authorization(requirement, dice.randrange(2**40), "0x" + dice.randbytes(32).hex(), payer)
        given["validAfter"] = str(dice.getrandbits(256))
        transfer = Authorization(
            given["from"].lower(),
            given["to"],
            int(given["value"]),
            int(given["validAfter"]),
            int(given["validBefore"]),
            given["nonce"],
        )
        domain = Domain(
            requirement["extra"]["name"],
            requirement["extra"]["version"],
            int(requirement["network"].removeprefix("eip155:")),
            requirement["asset"],
        )
        signature = bytes.fromhex(sign(requirement, given, payer)[2:])
        assert eip3009.signer(eip3009.digest(domain, transfer), signature) == payer.address.lower()


def spoiled() -> Iterator[tuple[str, bytes]]:
    r, s, v = SIGNATURE[:32], SIGNATURE[32:64], SIGNATURE[64]
    twin = (ORDER - int.from_bytes(s, "big")).to_bytes(32, "big")
    yield "the twin with a high s", r + twin + bytes([55 - v])
    yield "v counted from 0", r + s + bytes([v - 27])
    yield "v of a transaction", r + s + bytes([v + 10])
    yield "the other v", r + s + bytes([55 - v])
    yield "64 bytes", SIGNATURE[:64]
    yield "66 bytes", SIGNATURE + b"\0"
    yield "nothing", b""
    yield "r is 0", bytes(32) + s + bytes([v])
    yield "s is 0", r + bytes(32) + bytes([v])
    yield "r beyond the order", ORDER.to_bytes(32, "big") + s + bytes([v])
    yield "no point of the curve", (5).to_bytes(32, "big") + s + bytes([v])
    yield "one bit of r", bytes([r[0] ^ 1]) + r[1:] + s + bytes([v])


@pytest.mark.rule("payment.signed")
@pytest.mark.parametrize("signature", [pytest.param(value, id=name) for name, value in spoiled()])
def test_what_is_not_the_payers_signature(signature: bytes) -> None:
    assert eip3009.signer(DIGEST, signature) != VECTOR.payer


@pytest.mark.parametrize(
    "other",
    [
        Domain("USDC", "2", 8453, DOMAIN.contract),
        Domain("USD Coin", "1", 8453, DOMAIN.contract),
        Domain("USD Coin", "2", 1, DOMAIN.contract),
        Domain("USD Coin", "2", 8453, "0x" + "11" * 20),
    ],
)
def test_another_token_is_another_digest(other: Domain) -> None:
    assert eip3009.digest(other, VECTOR) != DIGEST


def test_loading_leaves_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    eip3009.load()
    assert eip3009.ready()
    assert sys.getrecursionlimit() == before
