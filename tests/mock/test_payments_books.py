"""Asking a mock what it was paid: settlements, submissions, balances, assertions, and the same over HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockPayments, MockServerError, MockService, Settlement, Submission

from ._buyer import BODY, PATH, PRICE, Shop, tokens
from ._http import START, control, error, ok
from ._paying import PAYER, STRANGER, Json, nonce_of, offer_of, pay

URL = f"/v1/{PATH}"
UNREADABLE = [(b"payment-signature", b"?")]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_settlements(shop: Shop) -> None:
    books = shop.payments
    assert isinstance(books, MockPayments)
    assert books.settlements() == []
    shop.submit(shop.signed(1), more=[(b"authorization", b"Bearer mock_full_me")])
    shop.clock.advance(5)
    shop.buy(2, path="signal-history", payer=STRANGER)
    first, second = books.settlements()
    assert isinstance(first, Settlement)
    assert asdict(first) | {"fingerprint": "", "header": "", "transaction": ""} == {
        "n": 1,
        "payer": PAYER.address,
        "nonce": nonce_of(1),
        "amount": PRICE,
        "pay_to": books.pay_to,
        "method": "POST",
        "path": URL,
        "fingerprint": "",
        "tenant": "me",
        "at": START,
        "transaction": "",
        "header": "",
        "pending": False,
        "delivered": 200,
        "submitted": 1,
    }
    assert all(len(value) == 64 for value in (first.fingerprint, first.header))
    assert (second.n, second.at, second.tenant, second.amount) == (2, START + 5, None, 50_000)
    assert first.fingerprint != second.fingerprint
    assert books.settlements(STRANGER.address.lower()) == books.settlements(path="/v1/signal-*") == [second]
    assert books.settlements(PAYER.address.upper().replace("X", "x"), "/v1/{name}") == [first]
    assert (books.spent(), books.spent(PAYER.address)) == (80_000, 30_000)


def test_submissions_and_the_journal(shop: Shop) -> None:
    books = shop.payments
    content = shop.signed(1)
    shop.submit(content)
    shop.submit(content)
    shop.buy(2, value="5", payer=STRANGER)
    shop.post(PATH, BODY, UNREADABLE)
    shop.post(PATH, tokens("a", "A"))
    found = books.submissions()
    assert all(isinstance(each, Submission) for each in found)
    mismatch = "invalid_exact_evm_payload_authorization_value_mismatch"
    expected = [
        (1, PAYER.address, nonce_of(1), "settled", 200),
        (2, PAYER.address, nonce_of(1), "invalid_exact_evm_nonce_already_used", 402),
        (3, STRANGER.address, nonce_of(2), mismatch, 402),
        (4, None, None, "unreadable", 402),
    ]
    assert [(each.n, each.payer, each.nonce, each.verdict, each.status) for each in found] == expected
    assert books.submissions(STRANGER.address) == found[2:3]
    assert (books.signatures(), books.signatures(PAYER.address)) == (2, 1)
    assert len({each.fingerprint for each in found}) == 1
    entries = [entry for entry in shop.journal() if entry.payment]
    assert [entry.payment for entry in entries] == [
        {"payer": payer and payer.lower(), "nonce": nonce, "verdict": verdict}
        for _, payer, nonce, verdict, _ in expected
    ]
    assert [(entry.status, entry.error) for entry in entries[:2]] == [(200, None), (402, "payment_required")]
    last = shop.journal()[-1]
    assert (last.path, last.status, last.error, last.body) == (URL, 400, "invalid_request", tokens("a", "A"))
    told = control(shop, "GET", "journal")["data"]
    assert [each["payment"] for each in told] == [entry.payment for entry in shop.journal()]
    assert "signature" not in json.dumps(told)


def test_only_the_latest_submissions_are_kept(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk_mock.payments.settlements._KEPT", 20)
    monkeypatch.setattr("tradesdk_mock.payments.settlements._TIDY", 10)
    for _ in range(45):
        shop.post(PATH, BODY, UNREADABLE)
    assert [each.n for each in shop.payments.submissions()] == list(range(21, 46))


def test_balances(shop: Shop) -> None:
    books = shop.payments
    assert books.balance(PAYER.address) == 1_000_000_000
    assert books.balances() == {}
    shop.buy(1)
    books.set_balance(STRANGER.address.lower(), 7)
    assert books.balances() == {PAYER.address: 1_000_000_000 - PRICE, STRANGER.address: 7}
    books.set_balance(PAYER.address, 0)
    assert books.balance(PAYER.address.lower()) == 0
    assert shop.buy(2).reason == "insufficient_funds"


def test_amounts_and_addresses_that_are_none(shop: Shop) -> None:
    books = shop.payments
    amounts: list[Any] = [-1, 10**15 + 1, 1.5, "5", True, None]
    for amount in amounts:
        with pytest.raises(MockServerError, match="a balance is 0 to"):
            books.set_balance(PAYER.address, amount)
    payers: list[Any] = ["", "0x12", "me", PAYER.address[2:], PAYER.address + "0", "0x" + "g" * 40, 5]
    for payer in payers:
        for ask in (books.balance, books.settlements, books.submissions, lambda each: books.set_balance(each, 1)):
            with pytest.raises(MockServerError, match="is not an address"):
                ask(payer)
    assert books.balances() == {}


def lost(shop: Shop, nonce: int) -> None:
    """It is charged, and the answer does not arrive."""
    shop.add_fault("overlook", charged=True, count=1)
    assert shop.buy(nonce).status == 402


def test_equal_calls_that_were_answered_are_purchases_of_their_own(shop: Shop) -> None:
    shop.add_fault("settlement", reason="settlement_pending", charged=True, count=1)
    first = shop.signed(1)
    assert shop.submit(first, PATH, BODY).status == 402
    assert shop.submit(first, PATH, BODY).status == 200
    for nonce in (2, 3):
        shop.buy(nonce)
    shop.clock.advance(100)
    shop.buy(4)
    shop.payments.assert_charged(times=4)
    assert shop.payments.charged_twice() == []
    shop.payments.assert_not_charged_twice(within=1e9)


def test_charged_twice(shop: Shop) -> None:
    books = shop.payments
    lost(shop, 1)
    shop.buy(2, body=tokens("ETH"))
    shop.buy(3, path="token-signals")
    shop.buy(4, payer=STRANGER)
    assert books.charged_twice() == []
    books.assert_not_charged_twice()
    shop.clock.advance(100)
    shop.buy(5)
    (pair,) = books.charged_twice()
    assert [each.nonce for each in pair] == [nonce_of(1), nonce_of(5)]
    assert books.charged_twice(STRANGER.address) == books.charged_twice(within=99) == []
    assert books.charged_twice(within=100) == [pair]
    books.assert_not_charged_twice(within=99)
    with pytest.raises(AssertionError, match="charged more than once for the same purchase") as failed:
        books.assert_not_charged_twice()
    message = str(failed.value)
    assert f"#1 POST {URL}: 0.030000 USD of {PAYER.address}" in message
    assert "#5" in message
    assert "#2" not in message
    for nonce, seconds in ((6, 0), (7, 600), (8, 601)):  # the last one wants the data of another time
        shop.clock.advance(seconds)
        lost(shop, nonce)
    assert [[each.n for each in series] for series in books.charged_twice()] == [[1, 5], [6, 7]]
    assert [[each.n for each in series] for series in books.charged_twice(within=601)] == [[1, 5], [6, 7, 8]]


def test_assert_charged(shop: Shop) -> None:
    books = shop.payments
    with pytest.raises(AssertionError, match="charged 0 times, not at least once\nno payment has arrived"):
        books.assert_charged()
    shop.buy(1, value="1")
    with pytest.raises(AssertionError, match=r"submitted:\n  #1 /v1/token-prices: invalid_exact_evm_.*402"):
        books.assert_charged()
    books.assert_charged(times=0)
    shop.buy(2)
    shop.buy(3, payer=STRANGER, body=tokens("ETH"))
    assert books.assert_charged() == books.assert_charged(times=2, amount=60_000) == books.settlements()
    assert [each.n for each in books.assert_charged(times=1, payer=STRANGER.address, path="/v1/token-*")] == [2]
    books.assert_charged(path="/v1/token-signals", times=0)
    with pytest.raises(AssertionError, match=f"charged 2 times, not 1 times path={URL}\n  #1 POST"):
        books.assert_charged(times=1, path=URL)
    with pytest.raises(AssertionError, match="charged 60,000 micro-dollars, not 30,000"):
        books.assert_charged(amount=30_000)
    with pytest.raises(AssertionError, match="charged 2 times, not 0 times"):
        books.assert_charged(times=0)
    for times in (-1, 1.0, True, "1"):
        with pytest.raises(ValueError, match="times: must be a count"):
            books.assert_charged(times=times)  # type: ignore[arg-type]  # a slip of the pen
    for nonce in range(20, 30):
        shop.buy(nonce)
    with pytest.raises(AssertionError, match="and 4 more"):
        books.assert_charged(times=1)


def test_over_http(server: MockService, anyone: httpx.Client) -> None:
    offer = offer_of(anyone.post(URL, json=BODY).headers)
    for nonce in (1, 1, 2):
        anyone.post(URL, json=BODY, headers=pay(offer, START, nonce))
    found = ok(anyone.get("/_mock/payments"))
    assert found == {
        "data": [asdict(each) for each in server.payments.settlements()],
        "spent": 2 * PRICE,
        "signatures": 2,
        "pay_to": server.payments.pay_to,
    }
    assert ok(anyone.get("/_mock/payments?after=1&limit=5"))["data"] == found["data"][1:]
    assert ok(anyone.get(f"/_mock/payments?payer={STRANGER.address}"))["data"] == []
    assert ok(anyone.get("/_mock/payments?path=/v1/top-*"))["spent"] == 0
    arrived = ok(anyone.get("/_mock/payments/submissions"))["data"]
    assert arrived == [asdict(each) for each in server.payments.submissions()]
    assert ok(anyone.get("/_mock/payments/submissions?limit=1"))["data"] == arrived[:1]
    assert ok(anyone.get("/_mock/payments/twice"))["data"] == []
    server.add_fault("overlook", charged=True, count=1)
    for nonce in (3, 4):
        anyone.post(URL, json=BODY, headers=pay(offer, START, nonce))
    twice = ok(anyone.get("/_mock/payments/twice"))["data"]
    assert twice == [ok(anyone.get("/_mock/payments"))["data"][2:]]
    assert ok(anyone.get(f"/_mock/payments/twice?within=0&payer={PAYER.address}"))["data"] == twice
    assert ok(anyone.get("/_mock/payments/balances")) == {
        "data": [{"payer": PAYER.address, "balance": 1_000_000_000 - 4 * PRICE}],
        "others": 1_000_000_000,
    }
    one = f"/_mock/payments/balances/{STRANGER.address.lower()}"
    assert ok(anyone.get(one)) == {"payer": STRANGER.address, "balance": 1_000_000_000}
    assert ok(anyone.put(one, json={"balance": 5})) == {"payer": STRANGER.address, "balance": 5}
    assert server.payments.balance(STRANGER.address) == 5
    assert ok(anyone.get("/_mock/status"))["settlements"] == 4
    queries = [
        "?payer=me",
        "?path=token-prices",
        "?limit=0",
        "?limit=10001",
        "?nonsense=1",
        "/submissions?path=/v1/x",
    ]
    queries += ["/twice?within=-1", "/twice?within=soon", "/balances/me"]
    for query in queries:
        error(anyone.get(f"/_mock/payments{query}"), 400, "invalid_request")
    error(anyone.put("/_mock/payments/balances/me", json={"balance": 1}), 400, "invalid_request")
    bodies: list[Json] = [{}, *({"balance": each} for each in (-1, True, "1")), {"balance": 1, "more": 2}]
    for body in bodies:
        error(anyone.put(one, json=body), 400, "invalid_request")


def test_a_mock_that_is_closed_has_no_books(shop: Shop) -> None:
    books = shop.payments
    shop.close()
    with pytest.raises(MockServerError, match="closed"):
        books.settlements()
