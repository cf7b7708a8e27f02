"""Faults around payments in one table: the rule, what the same payment gets each time, and what was taken."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from .._rows import each_of
from ._buyer import BODY, PRICE
from ._http import START, client, silent
from ._paying import PAYER, Json, decode, encode, nonce_of, offer_of, payment, sign

URL = "/v1/token-prices"
ATTACKER = "0x6666666666666666666666666666666666666666"
BARE = "Payment is required: send PAYMENT-SIGNATURE with the request."
USED = "invalid_exact_evm_nonce_already_used"


@pytest.fixture(params=[pytest.param("sockets", marks=pytest.mark.long), "in process"])
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with silent(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock, None, timeout=10) as made:
        yield made


class Buyer:
    """Asks for the offer once, signs once, and may submit that as often as it likes."""

    def __init__(self, http: httpx.Client, nonce: int = 1) -> None:
        self.http = http
        self.offer = offer_of(http.post(URL, json=BODY).headers)
        self.content: Json = {}
        self.nonce = nonce
        self.transactions: list[str] = []

    def pay(self) -> httpx.Response:
        self.content = self.content or payment(self.offer, START, self.nonce)
        return self.http.post(URL, json=BODY, headers={"PAYMENT-SIGNATURE": encode(self.content)})

    def receipt(self, answer: httpx.Response) -> Json | None:
        value = answer.headers.get("payment-response")
        return None if value is None else decode(value)

    def outcome(self) -> str:
        """Submit the payment; returns what comes: its reason, a status, `paid`, `paid: data lost`, or an error."""
        try:
            answer = self.pay()
        except httpx.TransportError as failure:
            return type(failure).__name__
        receipt = self.receipt(answer)
        if answer.status_code == 402 and (receipt is not None or "payment-required" in answer.headers):
            return self._reason(answer, receipt)
        if receipt is None:
            return str(answer.status_code)
        assert receipt["success"] is True
        assert receipt["payer"] == PAYER.address
        self.transactions.append(receipt["transaction"])
        whole = answer.headers["content-type"] == "application/json" and answer.text.endswith("}")
        return "paid" if whole else "paid: data lost"

    def _reason(self, answer: httpx.Response, receipt: Json | None) -> str:
        """Why it was not taken. A settlement that failed has a receipt, everything else a fresh offer."""
        assert answer.json() == {}
        if receipt is None:
            return str(offer_of(answer.headers)["error"])
        assert "payment-required" not in answer.headers
        reason, transaction = receipt["errorReason"], receipt["transaction"]
        assert receipt == {
            "success": False,
            "errorReason": reason,
            "transaction": transaction,
            "network": "eip155:8453",
            "payer": PAYER.address,
        }
        if transaction:
            self.transactions.append(transaction)
        return str(reason)


Taken = list[int]
"""Of each payment that was taken, with what status the data left; 0 for none."""


def row(kind: str, given: Json, outcomes: list[str], taken: list[Taken], verdicts: list[str] | None = None) -> Any:
    """A rule; then, of each time that the payment is submitted, the result and what has been taken by then."""
    if verdicts is None:
        verdicts = ["settled", USED]
    return pytest.param(kind, given, outcomes, taken, verdicts, id=f"{kind}-{outcomes[0]}")


PENDING, FAILED = "settlement_pending", "transaction_failed"
LOST = ["not carried out", "settled"]
# fmt: off
ROWS = [
    # The money is taken, and the data doesn't arrive whole: the same payment again gets nothing, and pays nothing.
    row("reset", {"executed": True}, ["ReadError", USED], [[0], [0]]),
    row("reset", {"after": 20}, ["ReadError", USED], [[200], [200]]),
    row("status", {"executed": True, "status": 500}, ["500", USED], [[500], [500]]),
    row("status", {"executed": True, "status": 404}, ["404", USED], [[404], [404]]),
    row("truncate", {"after": 20}, ["RemoteProtocolError", USED], [[200], [200]]),
    row("bad_chunk", {}, ["RemoteProtocolError", USED], [[200], [200]]),
    row("malformed_json", {}, ["paid: data lost", USED], [[200], [200]]),
    row("body", {"text": "<html>"}, ["paid: data lost", USED], [[200], [200]]),
    row("body", {"text": ""}, ["paid: data lost", USED], [[200], [200]]),
    row("content_type", {}, ["paid: data lost", USED], [[200], [200]]),
    row("latency", {"seconds": 30}, ["ReadTimeout", USED], [[200], [200]]),
    row("latency", {"seconds": 0.05}, ["paid", USED], [[200], [200]]),
    # It is lost before anybody looked at the payment.
    row("reset", {}, ["ReadError", "paid"], [[], [200]], LOST),
    *(row("status", {"status": status}, [str(status), "paid"], [[], [200]], LOST) for status in (500, 503, 429)),
    # Faults of the payment itself.
    row("overlook", {}, [BARE, "paid", USED], [[], [200], [200]], ["overlooked", "settled", USED]),
    row("overlook", {"count": 2}, [BARE, BARE, "paid"], [[], [], [200]], ["overlooked", "overlooked", "settled"]),
    row("overlook", {"charged": True}, [BARE, USED], [[402], [402]]),
    row("verification", {"reason": "invalid_network"}, ["invalid_network", "paid"], [[], [200]],
        ["invalid_network", "settled"]),
    row("verification", {}, ["unexpected_verify_error", "paid"], [[], [200]], ["unexpected_verify_error", "settled"]),
    # Cashed, and denied with any status.
    row("verification", {"charged": True, "reason": "insufficient_funds"}, ["insufficient_funds", USED],
        [[402], [402]], ["insufficient_funds", USED]),
    *(row("verification", {"charged": charged, "reason": "no", "status": status},
          [str(status), *([USED] if charged else ["paid"])], [[status] * charged, [status if charged else 200]],
          ["no", USED if charged else "settled"])
      for status in (400, 404, 409, 501, 599) for charged in (True, False)),
    # A copy is kept, which is worth nothing when the money was taken.
    row("hold", {}, ["paid", USED], [[200], [200]]),
    row("settlement", {}, [FAILED, "paid"], [[], [200]], [FAILED, "settled"]),
    row("settlement", {"reason": "unexpected_settle_error"}, ["unexpected_settle_error", "paid"], [[], [200]],
        ["unexpected_settle_error", "settled"]),
    row("settlement", {"charged": True}, [FAILED, USED], [[402], [402]], [FAILED, USED]),
    *(row("settlement", {"reason": PENDING, "charged": charged, "count": 2}, [PENDING, PENDING, "paid", USED],
          [[402] * charged, [402] * charged, [200], [200]], [PENDING, PENDING, "settled", USED])
      for charged in (False, True)),
    row("receipt", {"missing": True}, ["200", USED], [[200], [200]]),
]
# fmt: on


@pytest.mark.rule("payment.refused", "payment.pending")
@pytest.mark.parametrize(("kind", "given", "outcomes", "taken", "verdicts"), ROWS)
def test_fault(
    mock: MockService,
    http: httpx.Client,
    kind: str,
    given: Json,
    outcomes: list[str],
    taken: list[Taken],
    verdicts: list[str],
) -> None:
    """The rule applies once by default."""
    mock.add_fault(kind, **{"paid": "only", "count": 1, **given})
    buyer = Buyer(http)
    for number, (outcome, expected) in enumerate(zip(outcomes, taken, strict=True), 1):
        http.timeout = 1 if outcome == "ReadTimeout" else 10
        assert buyer.outcome() == outcome
        books = [(each.amount, each.submitted, each.delivered) for each in mock.payments.settlements()]
        assert books == [(PRICE, number, status) for status in expected]
        assert mock.payments.spent() == PRICE * len(expected)
        assert mock.payments.balance(PAYER.address) == 1_000_000_000 - PRICE * len(expected)
    submissions = mock.payments.submissions()
    assert [each.verdict for each in submissions] == verdicts
    assert {each.payer for each in submissions} == {PAYER.address}
    assert mock.payments.signatures() == 1
    assert len(set(buyer.transactions)) <= 1  # what is pending is named as it will be when it has been settled
    (rule,) = mock.faults()
    assert rule.fired == given.get("count", 1)
    assert [entry.faults for entry in mock.journal() if entry.faults] == [(kind,)] * rule.fired
    mock.payments.assert_not_charged_twice()


def test_every_kind_of_payment_fault_is_shown_here() -> None:
    with silent("in process") as mock:
        kinds = {kind.name for kind in mock.fault_kinds() if kind.on == "payment"}
    assert kinds == {each.values[0] for each in ROWS} & kinds | {"offer"}


@pytest.mark.rule("payment.pending")
def test_what_is_pending_is_finished_by_the_same_payment_only(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("settlement", reason=PENDING, charged=True, count=1)
    buyer = Buyer(http)
    assert buyer.outcome() == PENDING
    assert [each.pending for each in mock.payments.settlements()] == [True]
    mock.payments.set_balance(PAYER.address, 0)
    same = buyer.content
    buyer.content = same | {"note": "other bytes"}
    assert buyer.outcome() == USED
    buyer.content = same
    assert buyer.outcome() == "paid"
    assert [each.pending for each in mock.payments.settlements()] == [False]


# What the service keeps


def held(mock: MockService) -> list[tuple[int, float, int]]:
    return [(each.amount, each.at - START, each.delivered) for each in mock.payments.settlements()]


def test_a_held_payment_is_cashed_in_its_last_second(mock: MockService, http: httpx.Client) -> None:
    """Whatever the service answered, and whoever looks."""
    mock.add_fault("hold", paid="only", count=1)
    mock.add_fault("verification", paid="only", count=1, status=503, reason="no")
    buyer = Buyer(http)
    assert buyer.outcome() == "503"
    mock.clock.advance(58.5)
    assert held(mock) == []
    mock.payments.assert_charged(times=0)
    assert mock.payments.balance(PAYER.address) == 1_000_000_000
    mock.clock.advance(0.5)
    assert held(mock) == [(PRICE, 59, 503)]
    assert mock.payments.balance(PAYER.address) == 1_000_000_000 - PRICE
    mock.clock.advance(86_400)
    assert held(mock) == [(PRICE, 59, 503)]
    assert mock.payments.settlements()[0].pay_to == mock.payments.pay_to
    (way,) = buyer.offer["accepts"]
    buyer.content = payment(buyer.offer, START + 86_500, 1)  # signed again, with the same nonce
    assert buyer.outcome() == USED
    assert way["payTo"] == mock.payments.pay_to


@pytest.mark.parametrize("wait", [0, 30, 58.999, 59, 120])
def test_nothing_is_cashed_twice(mock: MockService, http: httpx.Client, wait: float) -> None:
    """It is held each time, cashed and denied, sent again, and signed again with the same nonce."""
    mock.add_fault("hold", paid="only")
    mock.add_fault("verification", paid="only", charged=True, reason="no", nth=1)
    buyer = Buyer(http)
    assert buyer.outcome() == "no"
    mock.clock.advance(wait)
    late = "invalid_exact_evm_payload_authorization_valid_before"
    assert buyer.outcome() == (USED if wait <= 54 else late)
    buyer.content = payment(buyer.offer, mock.clock.now(), 1, value=str(PRICE))
    assert buyer.outcome() == USED
    mock.clock.advance(10_000)
    assert held(mock) == [(PRICE, 0, 402)]
    assert mock.payments.balance(PAYER.address) == 1_000_000_000 - PRICE
    mock.payments.assert_not_charged_twice()


@pytest.mark.parametrize("charged", [False, True])
def test_only_what_the_chain_would_take_is_cashed(mock: MockService, http: httpx.Client, charged: bool) -> None:
    """An amount that was not asked for it would; not what has expired, or begins later, or another's signature."""
    mock.add_fault("hold")
    mock.add_fault("verification", reason="no", charged=charged)
    mock.payments.set_balance(PAYER.address, PRICE)
    changes: list[dict[str, str]] = [{"validBefore": str(START)}, {"validAfter": str(2**40)}, {}, {"value": "7"}, {}]
    for nonce, fields in enumerate(changes):
        buyer = Buyer(http, nonce=nonce)
        buyer.content = payment(buyer.offer, START, nonce)
        inner = buyer.content["payload"]["authorization"] | fields
        buyer.content["payload"]["authorization"] = inner
        if nonce != 2:
            buyer.content["payload"]["signature"] = sign(buyer.offer["accepts"][0], inner)
        else:
            inner["validAfter"] = "1"
        assert buyer.outcome() == "no"
    mock.clock.advance(100)
    assert [(each.nonce, each.amount) for each in mock.payments.settlements()] == [(nonce_of(3), 7)]
    assert mock.payments.balance(PAYER.address) == PRICE - 7  # the last one found the wallet too empty


def test_what_is_held_is_in_the_state_file(tmp_path: Path) -> None:
    file, clock = tmp_path / "state.db", MockClock(START)
    with MockService(db=file, clock=clock, signals="scripted") as mock, client(mock, None) as http:
        mock.add_fault("hold")
        mock.add_fault("overlook")
        assert Buyer(http).outcome() == BARE
        clock.freeze()
    with MockService(db=file, clock=MockClock(START + 1_000), signals="scripted") as mock:
        mock.clock.set(START + 2_000)
        assert held(mock) == [(PRICE, 59, 402)]


# The offer


def test_an_offer_that_changes_between_two_payments(mock: MockService, http: httpx.Client) -> None:
    """Cashed at the old price, and the answer asks for a higher one."""
    mock.add_fault("verification", reason="no", charged=True, paid="only", count=1)
    buyer = Buyer(http)
    mock.add_fault("offer", fields={"amount": "90000"})
    answer = buyer.pay()
    offer = offer_of(answer.headers)
    (way,) = offer["accepts"]
    assert (offer["error"], way["amount"]) == ("no", "90000")
    buyer.content = payment(offer, START, 1)
    assert buyer.outcome() == USED
    assert [each.amount for each in mock.payments.settlements()] == [PRICE]
    buyer.content = payment(offer, START, 2)
    assert buyer.outcome() == "paid"
    assert [each.amount for each in mock.payments.settlements()] == [PRICE, 90_000]


def test_a_changed_offer_is_what_is_taken(mock: MockService, http: httpx.Client) -> None:
    """A payer who checks nothing pays it."""
    mock.add_fault("offer", fields={"amount": "90000", "payTo": ATTACKER, "maxTimeoutSeconds": 90, "note": "more"})
    buyer = Buyer(http)
    (way,) = buyer.offer["accepts"]
    assert way["amount"] == "90000"
    assert (way["payTo"], way["maxTimeoutSeconds"], way["note"]) == (ATTACKER, 90, "more")
    assert buyer.outcome() == "paid"
    (taken,) = mock.payments.assert_charged(times=1, amount=90_000)
    assert taken.pay_to.lower() == ATTACKER
    assert taken.pay_to != mock.payments.pay_to


def test_an_offer_for_those_who_have_not_paid_is_not_kept(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("offer", fields={"amount": "90000"}, paid="never")
    assert Buyer(http).outcome() == "No matching payment requirements"
    mock.payments.assert_charged(times=0)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"scheme": "upto"}, "unsupported_scheme"),
        ({"scheme": None}, "unsupported_scheme"),
        ({"network": "eip155:1"}, "invalid_network"),
        ({"network": ["eip155:8453"]}, "invalid_network"),
        ({"payTo": None}, "invalid_exact_evm_payload_recipient_mismatch"),
        ({"extra": {"name": "USD Coin"}}, "missing_eip712_domain"),
        ({"extra": {"name": "Evil", "version": "2"}}, "paid"),
        ({"asset": ATTACKER}, "paid"),
        ({"amount": str(10**15)}, "insufficient_funds"),
    ],
)
def test_offers_of_other_sorts(mock: MockService, http: httpx.Client, fields: Json, outcome: str) -> None:
    mock.add_fault("offer", fields=fields)
    buyer = Buyer(http)
    (way,) = buyer.offer["accepts"]
    assert {name: way.get(name) for name in fields} == fields
    # What can be signed of it; the rest is as it usually is.
    usual = {"scheme": "exact", "network": "eip155:8453", "payTo": ATTACKER, "extra": {"name": "x", "version": "2"}}
    whole = usual | {name: value for name, value in way.items() if isinstance(value, str | int)}
    whole["extra"] |= way["extra"]
    buyer.content = payment(buyer.offer | {"accepts": [whole]}, START, 1) | {"accepted": way}
    assert buyer.outcome() == outcome


def test_an_offer_may_be_anything(mock: MockService, http: httpx.Client) -> None:
    def asked(**parameters: Any) -> httpx.Response:
        mock.clear_faults()
        mock.add_fault("offer", **parameters)
        answer = http.post(URL, json=BODY)
        assert answer.status_code == 402
        return answer

    answer = asked(top={"accepts": [], "error": None, "x402Version": 3, "padding": "x" * 70_000})
    found = offer_of(answer.headers)
    assert (found["accepts"], found["x402Version"], len(found["padding"])) == ([], 3, 70_000)
    assert "error" not in found
    assert answer.json() == {}
    answer = asked(header="not base64 at all!", body="<html>")
    assert (answer.headers["payment-required"], answer.text) == ("not base64 at all!", "<html>")
    assert answer.headers["content-length"] == "6"
    answer = asked(header="")
    assert "payment-required" not in answer.headers
    assert answer.json() == {}
    deep = base64.b64encode(b"[" * 40_000).decode()
    assert asked(header=deep, body="").headers["payment-required"] == deep


# The receipt


@pytest.mark.parametrize(
    "fields",
    [
        {"payer": ATTACKER},
        {"amount": "1"},
        {"success": False, "errorReason": "transaction_failed", "transaction": ""},
        {"payer": None, "network": None},
        {"extra": {"a": [1, None]}, "success": "yes"},
    ],
    ids=str,
)
def test_a_receipt_that_lies(mock: MockService, http: httpx.Client, fields: Json) -> None:
    """The rest of it is true, and the money was taken."""
    mock.add_fault("receipt", fields=fields, nth=2)
    honest, other = Buyer(http, nonce=1), Buyer(http, nonce=2)
    truth, answer = honest.receipt(honest.pay()), other.pay()
    receipt = other.receipt(answer)
    assert truth is not None
    assert receipt is not None
    assert answer.json()["success"] is True
    truth["transaction"] = mock.payments.settlements()[1].transaction
    assert receipt == {name: value for name, value in {**truth, **fields}.items() if value is not None}
    assert mock.payments.spent() == 2 * PRICE


def test_a_receipt_that_is_none(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("receipt", raw="gar bage!")
    answer = Buyer(http).pay()
    assert answer.status_code == 200
    assert answer.headers["payment-response"] == "gar bage!"
    assert mock.payments.spent() == PRICE


# Which requests rules about payments are for


def test_only_requests_that_pay_are_counted(mock: MockService, http: httpx.Client) -> None:
    only = mock.add_fault("status", status=599, paid="only", nth=2)
    never = mock.add_fault("status", status=598, paid="never", nth=3)
    buyer = Buyer(http)
    assert buyer.outcome() == "paid"
    http.post(URL, json=BODY)
    assert buyer.outcome() == "599"
    assert http.post(URL, json=BODY).status_code == 598
    seen = {each.id: (each.seen, each.paid) for each in mock.faults()}
    assert seen == {only.id: (2, "only"), never.id: (3, "never")}
    # Any header of a payment counts, readable or not.
    assert http.post(URL, json=BODY, headers={"payment-signature": "?"}).status_code == 402
    assert {each.seen for each in mock.faults()} == {3}


# fmt: off
TOGETHER: list[tuple[list[tuple[str, Json]], str, list[tuple[int, int]]]] = [
    # A settlement that fails, and an answer that says nothing of it.
    ([("status", {"paid": "only", "executed": True}), ("settlement", {}), ("offer", {"fields": {"note": "x"}})],
     "500", [(1, 1), (1, 1), (2, 2)]),
    # What is not carried out leaves rules about payments alone.
    ([("settlement", {}), ("status", {"paid": "only"})], "500", [(1, 0), (1, 1)]),
    # The oldest of a kind applies.
    ([("settlement", {"reason": "one"}), ("settlement", {"reason": "two"})], "one", [(1, 1), (1, 0)]),
    ([("settlement", {"route": "/v1/token-*"})], FAILED, [(1, 1)]),
    ([("settlement", {"route": "/v1/account"})], "paid", [(0, 0)]),
    ([("receipt", {"route": "/v1/supported-tokens"})], "paid", [(0, 0)]),
    ([("settlement", {"method": "GET"})], "paid", [(0, 0)]),
    ([("verification", {"paid": "never"})], "paid", [(0, 0)]),
    ([("offer", {"paid": "never", "fields": {"note": "x"}})], "No matching payment requirements", [(1, 1)]),
]
# fmt: on


@each_of(("rules", "outcome", "counts"), TOGETHER, ids=range(len(TOGETHER)))
def test_which_rules_apply_to_a_payment(
    rules: list[tuple[str, Json]], outcome: str, counts: list[tuple[int, int]]
) -> None:
    """How many requests each rule has met, and to how many it was applied."""
    with silent("in process") as mock, client(mock, None) as http:
        for kind, given in rules:
            mock.add_fault(kind, **given)
        assert Buyer(http).outcome() == outcome
        for path in ("/v1/account", "/v1/supported-tokens"):
            http.get(path)
        assert [(each.seen, each.fired) for each in mock.faults()] == counts


def test_rules_that_come_too_late_for_a_payment_do_not_apply(mock: MockService, http: httpx.Client) -> None:
    for kind in ("settlement", "receipt"):
        mock.add_fault(kind)
    mock.add_fault("overlook", charged=True)
    buyer = Buyer(http)
    buyer.content = payment(buyer.offer, START, 1, value="1")
    assert buyer.outcome() == "invalid_exact_evm_payload_authorization_value_mismatch"
    assert [(each.seen, each.fired) for each in mock.faults()] == [(1, 0)] * 3
    assert mock.journal()[-1].faults == ()


def test_where_nobody_pays_no_payment_fails(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("settlement")
    buyer = Buyer(http)
    mock.set_gaps(paywall="open")
    assert buyer.outcome() == "200"
    assert [(each.seen, each.fired) for each in mock.faults()] == [(1, 0)]
