"""A buyer of market data: pays for what it asks, and reads the answers."""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from tradesdk_mock import GapOptions, MockClock, MockService

from .._stock import stocked
from ._http import START
from ._paying import JSON, PER_TOKEN, Headers, Json, decode, encode, offer_of, payment


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
        """Why a payment was refused: a 402 with a fresh offer, without a receipt."""
        assert (self.status, self.body) == (402, {})
        offer = offer_of(self.headers)
        assert offer["x402Version"] == 2
        assert offer["accepts"]
        assert "payment-response" not in self.headers
        return str(offer["error"])

    def receipt(self) -> Json:
        assert self.status == 200, self.body
        return decode(self.headers["payment-response"])


class Shop(MockService):
    """A mock behind its paywall, on a clock that stands still. Further arguments are gap options.

    With `traded` it has its trades at once: building them for the first answer about them takes a quarter of a second.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        signals: Literal["live", "scripted"] | None = None,
        db: Path | None = None,
        traded: bool = False,
        **gaps: Any,
    ) -> None:
        super().__init__(seed=seed, signals=signals, db=db, clock=MockClock(START), gaps=GapOptions(**gaps))
        if traded:
            stocked(self, START)
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

    def ask(self, path: str = PATH, body: object = BODY) -> Json:
        """The offer for a request, in the header or in the body."""
        answer = self.post(path, body)
        assert answer.status == 402
        found: Json = offer_of(answer.headers) if "payment-required" in answer.headers else answer.body
        return found

    def signed(self, nonce: int | str, path: str = PATH, body: object = BODY, **options: Any) -> Json:
        """The content of a payment header for a request. Further arguments are those of `payment`."""
        return payment(self.ask(path, body), self.world.now(), nonce, **options)

    def submit(self, content: Json, path: str = PATH, body: object = BODY, more: Headers = ()) -> Answer:
        """Send a request with this payment."""
        return self.raw(encode(content).encode(), path, body, more)

    def raw(self, value: bytes, path: str = PATH, body: object = BODY, more: Headers = ()) -> Answer:
        return self.post(path, body, [(b"payment-signature", value), *more])

    def buy(self, nonce: int | str, path: str = PATH, body: object = BODY, **options: Any) -> Answer:
        """Ask, sign and pay."""
        return self.submit(self.signed(nonce, path, body, **options), path, body)

    def settled(self) -> int:
        return len(self.payments.settlements())

    def verdicts(self) -> list[tuple[str, int]]:
        return [(each.verdict, each.status) for each in self.payments.submissions()]


def open_shop(**options: Any) -> Shop:
    """Nobody has to pay."""
    return Shop(paywall="open", **options)


def _no_number(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")
