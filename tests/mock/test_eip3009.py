"""Who signed: what a wallet signs and its signer, against a vector and against eth_account."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest

from tradesdk_mock.payments import eip3009, signatures
from tradesdk_mock.payments.eip3009 import Authorization, Domain

from .._rows import each_of
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
SIGNED = eip3009.signable(DOMAIN, VECTOR)
DIGEST = bytes.fromhex("68d49d6f7fc2ec80392af8634f10a04401ae72761e1462f373768b38058fed8d")
SIGNATURE = bytes.fromhex(
    "df041869fe73b44afa112ae557934674384f222789251693565b0565b35f4bc4"
    "12ad04a75cc27a00a41598f7574bd8e1481d6031a5ac18064dd68b5c54052a701b"
)


@pytest.mark.rule("payment.signed")
def test_the_vector() -> None:
    assert signatures.digest_of(SIGNED) == DIGEST
    assert signatures.signer_of(DIGEST, SIGNATURE) == VECTOR.payer == PAYER.address.lower()
    changes: list[Json] = [{"name": "USDC"}, {"version": "1"}, {"chain_id": 1}, {"contract": "0x" + "11" * 20}]
    for change in changes:
        assert eip3009.signable(replace(DOMAIN, **change), VECTOR) != SIGNED


def test_the_same_as_eth_account_over_random_transfers() -> None:
    dice = random.Random(4)
    for place in range(12):
        payer = (PAYER, STRANGER)[place % 2]
        chain, name, version = dice.choice([8453, 1]), dice.choice(["USD Coin", "Ünicode", ""]), str(dice.randrange(9))
        requirement: Json = {
            "network": f"eip155:{chain}",
            "amount": str(dice.choice([0, 1, dice.getrandbits(256)])),
            "asset": "0x" + dice.randbytes(20).hex(),
            "payTo": "0x" + dice.randbytes(20).hex(),
            "maxTimeoutSeconds": dice.randrange(1, 10**9),
            "extra": {"name": name, "version": version},
        }
        given = authorization(requirement, dice.randrange(2**40), "0x" + dice.randbytes(32).hex(), payer)
        given["validAfter"] = str(dice.getrandbits(256))
        value, after, before = (int(given[name]) for name in ("value", "validAfter", "validBefore"))
        transfer = Authorization(given["from"].lower(), given["to"], value, after, before, given["nonce"])
        signed = eip3009.signable(Domain(name, version, chain, requirement["asset"]), transfer)
        signature = bytes.fromhex(sign(requirement, given, payer)[2:])
        assert signatures.signer_of(signatures.digest_of(signed), signature) == payer.address.lower()


R, S, V = SIGNATURE[:32], SIGNATURE[32:64], SIGNATURE[64]
SPOILED = {
    "the twin with a high s": R + (ORDER - int.from_bytes(S, "big")).to_bytes(32, "big") + bytes([55 - V]),
    "v counted from 0": R + S + bytes([V - 27]),
    "v of a transaction": R + S + bytes([V + 10]),
    "the other v": R + S + bytes([55 - V]),
    "64 bytes": SIGNATURE[:64],
    "66 bytes": SIGNATURE + b"\0",
    "nothing": b"",
    "r is 0": bytes(32) + S + bytes([V]),
    "s is 0": R + bytes(32) + bytes([V]),
    "r beyond the order": ORDER.to_bytes(32, "big") + S + bytes([V]),
    "no point of the curve": (5).to_bytes(32, "big") + S + bytes([V]),
    "one bit of r": bytes([R[0] ^ 1]) + R[1:] + S + bytes([V]),
}


@pytest.mark.rule("payment.signed")
@each_of("name", SPOILED)
def test_what_is_not_the_payers_signature(name: str) -> None:
    assert signatures.signer_of(DIGEST, SPOILED[name]) != VECTOR.payer


@pytest.mark.long
def test_loading_leaves_the_recursion_limit_alone() -> None:
    code = "import sys\nfrom tradesdk_mock.payments import signatures\n"
    code += "before = sys.getrecursionlimit()\nsignatures.signer_of(bytes(32), bytes(64) + b'\\x1b')\n"
    code += "assert 'eth_keys' in sys.modules\nprint(sys.getrecursionlimit() - before)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=300).stdout == b"0\n"
