"""A buyer of market data: signs what an offer asks for with eth_account, pays with it, and reads the answers.

Nothing that signs here is the mock's or the SDK's: both are checked against it.
"""

from __future__ import annotations

import base64
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
from eth_account import Account

from tradesdk_mock import GapOptions, MockClock, MockService

from ._http import START

# Throw-away keys: whoever holds money never writes a key into a file.
PAYER = Account.from_key("0x" + "01" * 32)
STRANGER = Account.from_key("0x" + "02" * 32)
NETWORKS = {"base": 8453, "base-sepolia": 84532}
TYPES = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}

Json = dict[str, Any]


def encode(value: object) -> str:
    """JSON in base64, as every payment header has it."""
    return base64.b64encode(json.dumps(value).encode()).decode("ascii")


def decode(header: str) -> Json:
    found: Json = json.loads(base64.b64decode(header, validate=True))
    return found


def nonce_of(number: int) -> str:
    """A nonce that a test can name."""
    return f"0x{number:064x}"


def offer_of(headers: Mapping[str, str], body: Json | None = None, version: int = 2) -> Json:
    """The offer in a 402: of version 2 out of its header, of version 1 its body."""
    if version == 1:
        assert body is not None
        assert body["x402Version"] == 1
        return body
    named = {name.lower(): value for name, value in headers.items()}
    return decode(named["payment-required"])


def authorization(requirement: Json, now: float, nonce: int | str, payer: Any = PAYER, **changes: str) -> Json:
    """What is signed: six strings. `changes` replaces some of them."""
    return {
        "from": payer.address,
        "to": requirement["payTo"],
        "value": requirement.get("amount", requirement.get("maxAmountRequired")),
        "validAfter": "0",
        "validBefore": str(int(now) + int(requirement["maxTimeoutSeconds"])),
        "nonce": nonce_of(nonce) if isinstance(nonce, int) else nonce,
        **changes,
    }


def sign(requirement: Json, fields: Json, payer: Any = PAYER) -> str:
    """The signature over these fields in the domain that the requirement names."""
    network = str(requirement["network"])
    chain = NETWORKS[network] if network in NETWORKS else int(network.partition(":")[2])
    domain = {**requirement["extra"], "chainId": chain, "verifyingContract": requirement["asset"]}
    message = {
        **fields,
        **{name: int(fields[name]) for name in ("value", "validAfter", "validBefore")},
        "nonce": bytes.fromhex(fields["nonce"][2:]),
    }
    return "0x" + bytes(payer.sign_typed_data(domain, TYPES, message).signature).hex()


def payment(
    offer: Json,
    now: float,
    nonce: int | str,
    *,
    payer: Any = PAYER,
    choice: int = -1,
    identifier: str | None = None,
    **changes: str,
) -> Json:
    """The content of a payment header for an offer of either version.

    Args:
        offer: as `offer_of` gives it.
        now: the service's time in Unix seconds.
        nonce: a number for it, or the nonce itself.
        payer: an account of eth_account.
        choice: which of the offered ways to pay; the last one is the plain one.
        identifier: for the extension payment-identifier.
        changes: fields of the authorization to replace before it is signed.
    """
    requirement = offer["accepts"][choice]
    fields = authorization(requirement, now, nonce, payer, **changes)
    inner = {"signature": sign(requirement, fields, payer), "authorization": fields}
    if offer["x402Version"] == 1:
        named = {name: requirement[name] for name in ("scheme", "network")}
        return {"x402Version": 1, **named, "payload": inner}
    found: Json = {"x402Version": 2, "payload": inner, "accepted": requirement, "resource": offer["resource"]}
    extensions = json.loads(json.dumps(offer.get("extensions", {})))
    if identifier is not None:
        extensions["payment-identifier"]["info"]["id"] = identifier
    return found | {"extensions": extensions} if extensions else found


def header_name(content: Json) -> str:
    return "PAYMENT-SIGNATURE" if content["x402Version"] == 2 else "X-PAYMENT"


def pay(offer: Json, now: float, nonce: int | str, **options: Any) -> dict[str, str]:
    """The header that pays an offer, by its name. Arguments are those of `payment`."""
    content = payment(offer, now, nonce, **options)
    return {header_name(content): encode(content)}


# A mock behind its paywall

PER_TOKEN = ("token-signals", "token-prices", "signal-history", "token-win-rate", "token-avg-prices")
PAID = (*PER_TOKEN, "top-performers", "aggregate-metrics")
ALL = (*PAID, "supported-tokens")
JSON = (b"content-type", b"application/json")
Headers = Sequence[tuple[bytes, bytes]]


def tokens(*identifiers: str) -> Json:
    return {"tokens": [{"identifier": identifier} for identifier in identifiers]}


def good_body(path: str) -> Json:
    """A body that the endpoint accepts."""
    return tokens("BRETT") if path in PER_TOKEN else {"sortBy": "ROI"} if path == "top-performers" else {}


PATH, BODY, PRICE = "token-prices", tokens("BRETT"), 30_000


@dataclass(frozen=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: Any

    @property
    def data(self) -> Any:
        """What was bought, out of the wrapper."""
        assert self.status == 200, self.body
        assert self.body == {"success": True, "data": self.body["data"], "error": None}
        assert isinstance(self.body["data"], dict)
        return self.body["data"]

    @property
    def error(self) -> str:
        """The text of a failure in the wrapper."""
        assert self.body == {"success": False, "data": None, "error": self.body["error"]}
        text = self.body["error"]
        assert isinstance(text, str)
        assert 0 < len(text) < 400
        assert text.isprintable()
        return text

    @property
    def reason(self) -> str:
        """Why a payment was refused: the same in both generations of a 402 with a fresh offer, without a receipt."""
        assert self.status == 402
        new, old = offer_of(self.headers), self.body
        assert (new["x402Version"], old["x402Version"]) == (2, 1)
        assert new["error"] == old["error"]
        assert new["accepts"]
        assert old["accepts"]
        assert not {"payment-response", "x-payment-response"} & set(self.headers)
        return str(new["error"])

    def receipt(self, version: int = 2) -> Json:
        assert self.status == 200, self.body
        return decode(self.headers["payment-response" if version == 2 else "x-payment-response"])


class Shop(MockService):
    """A mock behind its paywall, on a clock that stands still. Further arguments are gap options."""

    def __init__(
        self,
        *,
        seed: int | None = None,
        signals: Literal["live", "scripted"] | None = None,
        db: Path | None = None,
        **gaps: Any,
    ) -> None:
        super().__init__(seed=seed, signals=signals, db=db, clock=MockClock(START), gaps=GapOptions(**gaps))
        self.http = httpx.Client(transport=self.transport(), base_url=self.url, trust_env=False)
        weakref.finalize(self, self.world.close)

    def send(self, method: str, path: str, content: bytes = b"", headers: Headers = ()) -> Answer:
        answer = self.http.request(method, f"/v1/{path}", content=content, headers=list(headers))
        assert answer.headers["content-type"] == "application/json"
        body = None if method == "HEAD" else json.loads(answer.content, parse_constant=_no_number)
        return Answer(answer.status_code, answer.headers, body)

    def post(self, path: str, body: object, headers: Headers = ()) -> Answer:
        return self.send("POST", path, json.dumps(body).encode(), [JSON, *headers])

    def results(self, path: str, *identifiers: str, **fields: object) -> list[Json]:
        """The results for some tokens."""
        found: list[Json] = self.post(path, {**tokens(*identifiers), **fields}).data["results"]
        return found

    def account(self, path: str, tenant: str) -> Any:
        """What the account API answers to a tenant."""
        key = f"Bearer mock_full_enterprise_{tenant}"
        answer = self.http.get(f"/v1/{path}", headers={"Authorization": key})
        assert answer.status_code == 200, answer.text
        return answer.json()

    # Payments

    def ask(self, version: int = 2, path: str = PATH, body: object = BODY) -> Json:
        """The offer of this version for a request."""
        answer = self.post(path, body)
        assert answer.status == 402
        return offer_of(answer.headers, answer.body, version)

    def signed(self, nonce: int | str, version: int = 2, path: str = PATH, body: object = BODY, **options: Any) -> Json:
        """The content of a payment header for a request. Further arguments are those of `payment`."""
        return payment(self.ask(version, path, body), self.world.now(), nonce, **options)

    def present(self, content: Json, path: str = PATH, body: object = BODY, more: Headers = ()) -> Answer:
        """Send a request with this payment."""
        return self.raw(encode(content).encode(), header_name(content), path, body, more)

    def raw(
        self, value: bytes, name: str = "payment-signature", path: str = PATH, body: object = BODY, more: Headers = ()
    ) -> Answer:
        return self.post(path, body, [(name.lower().encode(), value), *more])

    def buy(self, nonce: int | str, version: int = 2, path: str = PATH, body: object = BODY, **options: Any) -> Answer:
        """Ask, sign and pay."""
        return self.present(self.signed(nonce, version, path, body, **options), path, body)

    def settled(self) -> int:
        return len(self.payments.settlements())

    def verdicts(self) -> list[tuple[str, int]]:
        return [(each.verdict, each.status) for each in self.payments.presentations()]


def open_shop(**options: Any) -> Shop:
    """Nobody has to pay."""
    return Shop(paywall="open", **options)


def _no_number(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")
