"""A buyer who pays, for the tests of payments: asks a world directly, and signs by `_paying`."""

from __future__ import annotations

from typing import Any

from ._market import Answer, Headers, Market, tokens
from ._paying import Json, encode, header_name, offer_of, payment

PATH = "token-prices"
PRICE = 30_000
BODY = tokens("BRETT")


class Shop(Market):
    """A world behind its paywall."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"paywall": "closed", **options})

    def ask(self, version: int = 2, path: str = PATH, body: object = BODY) -> Json:
        """The offer of this version for a request."""
        answer = self.post(path, body)
        assert answer.status == 402
        return offer_of(answer.headers, answer.body, version)

    def signed(self, nonce: int | str, version: int = 2, path: str = PATH, body: object = BODY, **options: Any) -> Json:
        """The content of a payment header for a request. Further arguments are those of `_paying.payment`."""
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
        found: int = self.world.store.value("SELECT count(*) FROM settlements")
        return found


def reason(answer: Answer) -> str:
    """Why a payment was refused: the same in both generations of a 402 with a fresh offer."""
    assert answer.status == 402
    new, old = offer_of(answer.headers), answer.body
    assert (new["x402Version"], old["x402Version"]) == (2, 1)
    assert new["error"] == old["error"]
    assert new["accepts"]
    assert old["accepts"]
    assert "payment-response" not in answer.headers
    assert "x-payment-response" not in answer.headers
    text = new["error"]
    assert isinstance(text, str)
    return text
