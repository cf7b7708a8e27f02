"""Asking a mock what it was paid: settlements, presentations, balances, assertions, and the same over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockPayments, MockServer, MockServerError, MockService, Presentation, Settlement

from ._paying import PAYER, STRANGER, Json, nonce_of, offer_of, pay
from ._shop import BODY, PATH, PRICE
from ._support import START, error, ok

URL = f"/v1/{PATH}"
ETH = {"tokens": [{"identifier": "ETH"}]}


class Bazaar:
    """A mock and whoever buys there."""

    def __init__(self) -> None:
        self.mock = MockService(clock=MockClock(START))
        self.http = httpx.Client(transport=self.mock.transport(), base_url=self.mock.url)
        self.nonce = 0

    def buy(self, path: str = URL, body: Json = BODY, **options: Any) -> httpx.Response:
        """A new authorization each time, unless `nonce` says otherwise. `headers` go along with it."""
        headers = options.pop("headers", {})
        offer = offer_of(self.http.post(path, json=body).headers)
        self.nonce += 1
        header = pay(offer, self.mock.world.now(), options.pop("nonce", self.nonce), **options)
        return self.http.post(path, json=body, headers=header | headers)


@pytest.fixture
def bazaar() -> Iterator[Bazaar]:
    made = Bazaar()
    with made.mock, made.http:
        yield made


def test_settlements(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    assert isinstance(books, MockPayments)
    assert books.settlements() == []
    bazaar.buy(headers={"Authorization": "Bearer mock_full_me"})
    bazaar.mock.clock.advance(5)
    bazaar.buy("/v1/top-performers", {"sortBy": "ROI"}, payer=STRANGER)
    first, second = books.settlements()
    assert isinstance(first, Settlement)
    assert asdict(first) | {"fingerprint": "", "header": "", "transaction": ""} == {
        "n": 1,
        "payer": PAYER.address,
        "nonce": nonce_of(1),
        "amount": PRICE,
        "pay_to": books.pay_to,
        "version": 2,
        "method": "POST",
        "path": URL,
        "fingerprint": "",
        "tenant": "me",
        "at": START,
        "transaction": "",
        "header": "",
        "pending": False,
        "delivered": 200,
        "presented": 1,
    }
    assert all(len(value) == 64 for value in (first.fingerprint, first.header))
    assert (second.n, second.at, second.tenant, second.amount) == (2, START + 5, None, 60_000)
    assert first.fingerprint != second.fingerprint
    assert books.settlements(STRANGER.address.lower()) == books.settlements(path="/v1/top-*") == [second]
    assert books.settlements(PAYER.address.upper().replace("X", "x"), "/v1/{name}") == [first]
    assert (books.spent(), books.spent(PAYER.address)) == (90_000, 30_000)


def test_presentations(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    bazaar.buy()
    bazaar.buy(nonce=1)
    bazaar.buy(value="5", payer=STRANGER)
    bazaar.http.post(URL, json=BODY, headers={"X-PAYMENT": "?"})
    found = books.presentations()
    assert all(isinstance(each, Presentation) for each in found)
    assert [(each.n, each.version, each.payer, each.status) for each in found] == [
        (1, 2, PAYER.address, 200),
        (2, 2, PAYER.address, 402),
        (3, 2, STRANGER.address, 402),
        (4, 1, None, 402),
    ]
    assert [each.verdict for each in found] == [
        "settled",
        "invalid_exact_evm_nonce_already_used",
        "invalid_exact_evm_payload_authorization_value_mismatch",
        "unreadable",
    ]
    assert books.presentations(STRANGER.address) == found[2:3]
    assert (books.signatures(), books.signatures(PAYER.address)) == (2, 1)
    assert len({each.fingerprint for each in found}) == 1


def test_only_the_latest_presentations_are_kept(bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch) -> None:
    from tradesdk_mock.payments import settlements

    monkeypatch.setattr(settlements, "_KEPT", 20)
    monkeypatch.setattr(settlements, "_TIDY", 10)
    for _ in range(45):
        bazaar.http.post(URL, json=BODY, headers={"X-PAYMENT": "?"})
    numbers = [each.n for each in bazaar.mock.payments.presentations()]
    assert numbers == list(range(21, 46))


def test_balances(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    assert books.balance(PAYER.address) == 1_000_000_000
    assert books.balances() == {}
    bazaar.buy()
    books.set_balance(STRANGER.address.lower(), 7)
    assert books.balances() == {PAYER.address: 1_000_000_000 - PRICE, STRANGER.address: 7}
    books.set_balance(PAYER.address, 0)
    assert books.balance(PAYER.address.lower()) == 0
    assert bazaar.buy().status_code == 402


@pytest.mark.parametrize("amount", [-1, 10**15 + 1, 1.5, "5", True, None])
def test_amounts_that_are_none(bazaar: Bazaar, amount: Any) -> None:
    with pytest.raises(MockServerError, match="a balance is 0 to"):
        bazaar.mock.payments.set_balance(PAYER.address, amount)
    assert bazaar.mock.payments.balances() == {}


@pytest.mark.parametrize("payer", ["", "0x12", "me", PAYER.address[2:], PAYER.address + "0", "0x" + "g" * 40, 5])
def test_addresses_that_are_none(bazaar: Bazaar, payer: Any) -> None:
    books = bazaar.mock.payments
    for ask in (books.balance, books.settlements, books.presentations, lambda each: books.set_balance(each, 1)):
        with pytest.raises(MockServerError, match="is not an address"):
            ask(payer)


def test_charged_twice(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    bazaar.buy()
    bazaar.buy(body=ETH)
    bazaar.buy("/v1/token-signals")
    bazaar.buy(payer=STRANGER)
    assert books.charged_twice() == []
    books.assert_not_charged_twice()
    bazaar.mock.clock.advance(100)
    bazaar.buy()
    (pair,) = books.charged_twice()
    assert [each.nonce for each in pair] == [nonce_of(1), nonce_of(5)]
    assert books.charged_twice(STRANGER.address) == []
    assert books.charged_twice(within=99) == []
    assert books.charged_twice(within=100) == [pair]
    books.assert_not_charged_twice(within=99)
    with pytest.raises(AssertionError, match="charged several times for the same request") as failed:
        books.assert_not_charged_twice()
    message = str(failed.value)
    assert f"#1 POST {URL}: 0.030000 USD of {PAYER.address}" in message
    assert "#5" in message
    assert "#2" not in message
    bazaar.mock.clock.advance(200)
    bazaar.buy()
    bazaar.mock.clock.advance(100)
    bazaar.buy()
    assert [len(series) for series in books.charged_twice()] == [4]
    assert [[each.n for each in series] for series in books.charged_twice(within=150)] == [[1, 5], [6, 7]]


def test_assert_charged(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    with pytest.raises(AssertionError, match="charged 0 times, not at least once\nno payment has arrived"):
        books.assert_charged()
    bazaar.buy(value="1")
    with pytest.raises(AssertionError, match=r"presented:\n  #1 /v1/token-prices: invalid_exact_evm_.*402"):
        books.assert_charged()
    books.assert_not_charged()
    bazaar.buy()
    bazaar.buy(payer=STRANGER, body=ETH)
    assert books.assert_charged() == books.assert_charged(times=2, amount=60_000) == books.settlements()
    assert [each.n for each in books.assert_charged(times=1, payer=STRANGER.address, path="/v1/token-*")] == [2]
    books.assert_not_charged(path="/v1/token-signals")
    with pytest.raises(AssertionError, match=f"charged 2 times, not 1 times path={URL}\n  #1 POST"):
        books.assert_charged(times=1, path=URL)
    with pytest.raises(AssertionError, match="charged 60,000 millionths of a dollar, not 30,000"):
        books.assert_charged(amount=30_000)
    with pytest.raises(AssertionError, match="charged 2 times, not 0 times"):
        books.assert_not_charged()
    for times in (-1, 1.0, True, "1"):
        with pytest.raises(ValueError, match="times: must be a count"):
            books.assert_charged(times=times)  # type: ignore[arg-type]  # a slip of the pen
    for nonce in range(20, 30):
        bazaar.buy(nonce=nonce)
    with pytest.raises(AssertionError, match="and 4 more"):
        books.assert_charged(times=1)


def test_the_journal_has_the_payment(bazaar: Bazaar) -> None:
    bazaar.buy()
    bazaar.http.post(URL, json=BODY, headers={"X-PAYMENT": "?"})
    unpaid, paid, odd = bazaar.mock.journal()
    assert unpaid.payment is None
    assert paid.payment == {
        "version": 2,
        "payer": PAYER.address.lower(),
        "nonce": nonce_of(1),
        "verdict": "settled",
    }
    assert odd.payment == {"version": 1, "payer": None, "nonce": None, "verdict": "unreadable"}
    found = bazaar.mock.control("GET", "journal")["data"]
    assert [each["payment"] for each in found] == [None, paid.payment, odd.payment]
    assert "signature" not in json.dumps(found)


def test_over_http(server: MockServer, anyone: httpx.Client) -> None:
    offer = offer_of(anyone.post(URL, json=BODY).headers)
    for nonce in (1, 1, 2):
        anyone.post(URL, json=BODY, headers=pay(offer, START, nonce))
    found = ok(anyone.get("/_mock/payments"))
    settled = server.payments.settlements()
    assert found == {
        "data": [asdict(each) for each in settled],
        "spent": 2 * PRICE,
        "signatures": 2,
        "pay_to": server.payments.pay_to,
    }
    assert ok(anyone.get("/_mock/payments?after=1&limit=5"))["data"] == found["data"][1:]
    assert ok(anyone.get(f"/_mock/payments?payer={STRANGER.address}"))["data"] == []
    assert ok(anyone.get("/_mock/payments?path=/v1/top-*"))["spent"] == 0
    arrived = ok(anyone.get("/_mock/payments/presentations"))["data"]
    assert arrived == [asdict(each) for each in server.payments.presentations()]
    assert ok(anyone.get("/_mock/payments/presentations?limit=1"))["data"] == arrived[:1]
    twice = ok(anyone.get("/_mock/payments/twice"))["data"]
    assert twice == [found["data"]]
    assert ok(anyone.get(f"/_mock/payments/twice?within=0&payer={PAYER.address}"))["data"] == twice
    assert ok(anyone.get("/_mock/payments/balances")) == {
        "data": [{"payer": PAYER.address, "balance": 1_000_000_000 - 2 * PRICE}],
        "others": 1_000_000_000,
    }
    one = f"/_mock/payments/balances/{STRANGER.address.lower()}"
    assert ok(anyone.get(one)) == {"payer": STRANGER.address, "balance": 1_000_000_000}
    assert ok(anyone.put(one, json={"balance": 5})) == {"payer": STRANGER.address, "balance": 5}
    assert server.payments.balance(STRANGER.address) == 5
    assert ok(anyone.get("/_mock/status"))["settlements"] == 2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "payments?payer=me", None),
        ("GET", "payments?path=token-prices", None),
        ("GET", "payments?limit=0", None),
        ("GET", "payments?limit=10001", None),
        ("GET", "payments?nonsense=1", None),
        ("GET", "payments/presentations?path=/v1/x", None),
        ("GET", "payments/twice?within=-1", None),
        ("GET", "payments/twice?within=soon", None),
        ("GET", "payments/balances/me", None),
        ("PUT", "payments/balances/me", {"balance": 1}),
        ("PUT", f"payments/balances/{PAYER.address}", {}),
        ("PUT", f"payments/balances/{PAYER.address}", {"balance": -1}),
        ("PUT", f"payments/balances/{PAYER.address}", {"balance": True}),
        ("PUT", f"payments/balances/{PAYER.address}", {"balance": "1"}),
        ("PUT", f"payments/balances/{PAYER.address}", {"balance": 1, "more": 2}),
    ],
)
def test_bad_questions_over_http(anyone: httpx.Client, method: str, path: str, body: Json | None) -> None:
    error(anyone.request(method, f"/_mock/{path}", json=body), 400, "invalid_request")


def test_a_mock_that_is_closed_has_no_books(bazaar: Bazaar) -> None:
    books = bazaar.mock.payments
    bazaar.mock.close()
    with pytest.raises(MockServerError, match="closed"):
        books.settlements()
