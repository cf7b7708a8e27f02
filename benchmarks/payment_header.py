"""From a 402 to the payment's header: parsed, guarded, signed, encoded. Ours beside the official x402 client.

Both with coincurve and without it. eth-account looks anew for its way of signing with every key, so that one process
can measure it both ways.
"""

import base64
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from _measure import Bar, Probe, finish, in_process, installed, measure, process, report, verdict
from eth_account import Account
from eth_account.messages import encode_typed_data

from tradesdk._market import token_prices
from tradesdk._sync.signing import ask_signer
from tradesdk._values.http import Headers, RawResponse
from tradesdk._values.payment import USDC, Payment
from tradesdk.payments.buyer import new_nonce
from tradesdk.payments.guards import DOMAIN_NAME, DOMAIN_VERSION, Limits, check_url, choose, longest_validity
from tradesdk.payments.protocol import encode_payment, parse_offer
from tradesdk.payments.signing.secp256k1 import keccak256
from tradesdk.payments.signing.signer import (
    LocalSigner,
    Signable,
    Signer,
    check_signature,
    digest_of,
    signed_authorization,
)

ROUNDS = 60
KEY = b"\x01" * 32
URL = "https://market.example/v1/token-prices"
MILLISECONDS = 40

offer: dict[str, Any] = {
    "x402Version": 2,
    "error": "Payment required",
    "resource": {"url": URL, "description": "token-prices", "mimeType": "application/json"},
    "accepts": [
        {
            "scheme": "exact",
            "network": "eip155:8453",
            "amount": "60000",
            "asset": USDC,
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
            "maxTimeoutSeconds": 60,
            "extra": {"name": DOMAIN_NAME, "version": DOMAIN_VERSION},
        }
    ],
}
headers = {
    "content-type": "application/json; charset=utf-8",
    "payment-required": base64.b64encode(json.dumps(offer, separators=(",", ":")).encode()).decode(),
    "cache-control": "no-store",
    "content-length": "2",
    "date": "Sat, 21 Nov 2026 16:00:56 GMT",
}
response = RawResponse(402, Headers(list(headers.items())), b"{}")
MAX_VALIDITY = 120


def pay(signer: Signer) -> str:
    """As a paid call does it, without the ledger, which has a program of its own."""
    check_url(URL)
    offered = parse_offer(response)
    most = token_prices(["ETH", "BRETT"]).price
    requirement = choose(offered, Limits(URL, signer.address, most, MAX_VALIDITY))
    now = int(time.time())
    payment = Payment(
        id="pay_" + "0" * 24,
        fingerprint="",
        url=URL,
        body=b"",
        payer=signer.address,
        pay_to=requirement.pay_to,
        amount=int(requirement.amount),
        nonce=new_nonce(),
        valid_before=now + longest_validity(requirement, MAX_VALIDITY),
        counts_until=now,
        created=now,
        updated=now,
    )
    return encode_payment(offered, requirement, payment, ask_signer(signed_authorization(signer, payment)))


def without_coincurve() -> LocalSigner:
    there = sys.modules.get("coincurve")
    sys.modules["coincurve"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        return LocalSigner.from_key(KEY)
    finally:
        del sys.modules["coincurve"]
        if there is not None:
            sys.modules["coincurve"] = there


def check(header: str) -> None:
    """It says what it should, and another implementation finds its signer."""
    payment = json.loads(base64.b64decode(header))
    payload = payment["payload"]
    assert payment["accepted"] == offer["accepts"][0]
    fields = ("from:address", "to:address", "value:uint256", "validAfter:uint256", "validBefore:uint256")
    types = [field.split(":") for field in (*fields, "nonce:bytes32")]
    message: dict[str, Any] = {
        name: int(payload["authorization"][name]) if kind == "uint256" else payload["authorization"][name]
        for name, kind in types
    }
    message["nonce"] = bytes.fromhex(message["nonce"][2:])
    domain = {"name": DOMAIN_NAME, "version": DOMAIN_VERSION, "chainId": 8453, "verifyingContract": USDC}
    typed = {"TransferWithAuthorization": [{"name": name, "type": kind} for name, kind in types]}
    signable = encode_typed_data(domain, typed, message)
    assert Account.recover_message(signable, signature=payload["signature"]) == LocalSigner.from_key(KEY).address


SLOW, FAST = "without coincurve", "with coincurve"
BACKENDS = {SLOW: "eth_keys.backends.NativeECCBackend", FAST: "eth_keys.backends.CoinCurveECCBackend"}
OURS, OFFICIAL, BARE = "tradesdk", "x402", "eth-account, one signature"
FLOOR = "the least: two hashes, one signature of coincurve"
signable: Signable = (b"\x01", bytes(32), bytes(32))
digest, fields = digest_of(signable), bytes(224)


def sign_by(way: str) -> None:
    """How eth-account signs from here on."""
    os.environ["ECC_BACKEND_CLASS"] = BACKENDS[way]


def probe(name: str, call: Callable[[], object]) -> Probe:
    """Times a call whose name says how eth-account is to sign."""
    way = SLOW if name.endswith(SLOW) else FAST
    timed = in_process(call, times=3 if way == SLOW else 40)

    def prepared() -> tuple[float, float]:
        sign_by(way)
        return timed()

    return prepared


sign_by(SLOW)
account, slow = Account.from_key(KEY), without_coincurve()
calls = {f"{OURS}, {SLOW}": lambda: pay(slow), f"{BARE}, {SLOW}": lambda: account.unsafe_sign_hash(os.urandom(32))}
bars = [Bar(f"{OURS}, {SLOW}", f"{BARE}, {SLOW}", 1.1)]
check(pay(slow))

peers = ["eth-account", *(name for name in ("coincurve", "x402") if installed(name))]
if "coincurve" in peers:
    fast = LocalSigner.from_key(KEY)
    signature = fast.sign_digest(digest)
    assert signature == slow.sign_digest(digest) == account.unsafe_sign_hash(digest).signature
    calls[f"{OURS}, {FAST}"] = lambda: pay(fast)
    calls[f"{BARE}, {FAST}"] = lambda: account.unsafe_sign_hash(os.urandom(32))
    calls[f"{OURS}, another's signature checked, {FAST}"] = lambda: check_signature(fast.address, signable, signature)
    check(pay(fast))

    from coincurve import PrivateKey

    private = PrivateKey(KEY)
    bars.append(Bar(f"{OURS}, {FAST}", FLOOR, 1.6))
    calls[FLOOR] = lambda: (keccak256(fields), keccak256(fields), private.sign_recoverable(os.urandom(32), hasher=None))
if "x402" in peers:
    from x402 import x402ClientSync
    from x402.http import x402HTTPClientSync
    from x402.mechanisms.evm.exact import register_exact_evm_client
    from x402.mechanisms.evm.signers import EthAccountSigner

    official = x402HTTPClientSync(register_exact_evm_client(x402ClientSync(), EthAccountSigner(account)))
    for way in (SLOW, FAST) if "coincurve" in peers else (SLOW,):
        sign_by(way)
        check(official.handle_402_response(headers, b"{}", URL)[0]["PAYMENT-SIGNATURE"])
        calls[f"{OFFICIAL}, {way}"] = lambda: official.handle_402_response(headers, b"{}", URL)
    if "coincurve" in peers:
        bars.append(Bar(f"{OURS}, {FAST}", f"{OFFICIAL}, {FAST}", 0.2))

figures = measure({name: probe(name, call) for name, call in calls.items()}, rounds=ROUNDS)
del os.environ["ECC_BACKEND_CLASS"]
held = report("From a 402 to the payment's header", figures, bars, unit="µs", peers=peers)

if "coincurve" in peers:
    sign = "from tradesdk import LocalSigner; LocalSigner.from_key('01' * 32).sign_digest(bytes(32))"
    programs = {
        "bare interpreter": "pass",
        "tradesdk, first signature": sign,
        "tradesdk, first signature, without coincurve": f"import sys; sys.modules['coincurve'] = None; {sign}",
        "import coincurve and a hash": "import coincurve; from Crypto.Hash import keccak",
        "import eth_account": "import eth_account",
    }
    starts = measure({name: process([sys.executable, "-c", code]) for name, code in programs.items()}, rounds=12)
    start_bars = [
        Bar("tradesdk, first signature", "import coincurve and a hash", 1.25),
        Bar("tradesdk, first signature", "import eth_account", 0.25),
    ]
    held &= report("The first signature in a fresh process", starts, start_bars, unit="ms", peers=peers)
    first, bare = (median(starts[name].cpu) * 1e3 for name in ("tradesdk, first signature", "bare interpreter"))
    text = f"tradesdk, first signature, over a bare interpreter: {first - bare:.1f} ms  (bar {MILLISECONDS:g} ms)"
    held &= verdict(first - bare <= MILLISECONDS, text)
finish(held)
