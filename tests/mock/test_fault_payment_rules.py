"""Rules about payments: which requests they are for, what they leave to one another, and what they may say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import httpx
import pytest

from tradesdk_mock import MockServerError
from tradesdk_mock.control.service import MockService

from ._buyer import URL, Buyer, failed, reason, verdicts
from ._faulty import CARRIERS, carried, connect
from ._paying import Json, payment
from ._shop import BODY
from ._support import START


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock, None, read_timeout=2) as made:
        yield made


def test_two_that_apply_to_one_payment(mock: MockService, http: httpx.Client) -> None:
    """A settlement that fails, and an answer that says nothing of it."""
    mock.add_fault("status", paid="only", executed=True, count=1)
    mock.add_fault("settlement", count=1)
    mock.add_fault("offer", fields={"note": "x"})
    buyer = Buyer(http)
    assert buyer.pay().status_code == 500
    assert mock.journal()[-1].faults == ("offer", "settlement", "status")
    assert verdicts(mock) == ["transaction_failed"]
    mock.payments.assert_not_charged()
    assert buyer.pay().status_code == 200


def test_what_is_not_carried_out_leaves_rules_about_payments_alone(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("settlement", count=1)
    mock.add_fault("status", paid="only", count=1)
    buyer = Buyer(http)
    assert buyer.pay().status_code == 500
    assert [(each.kind, each.seen, each.fired) for each in mock.faults()] == [("settlement", 1, 0), ("status", 1, 1)]
    failed(buyer, buyer.pay(), "transaction_failed")


def test_rules_that_come_too_late_for_a_payment_do_not_apply(mock: MockService, http: httpx.Client) -> None:
    for kind in ("settlement", "receipt"):
        mock.add_fault(kind)
    mock.add_fault("overlook", charged=True)
    buyer = Buyer(http)
    buyer.content = payment(buyer.offer, START, 1, value="1")
    assert reason(buyer.pay()) == "invalid_exact_evm_payload_authorization_value_mismatch"
    assert [(each.seen, each.fired) for each in mock.faults()] == [(1, 0)] * 3
    assert mock.journal()[-1].faults == ()


def test_only_requests_that_pay_are_counted(mock: MockService, http: httpx.Client) -> None:
    only = mock.add_fault("status", status=599, paid="only", nth=2)
    never = mock.add_fault("status", status=598, paid="never", nth=3)
    buyer = Buyer(http)
    assert buyer.pay().status_code == 200
    http.post(URL, json=BODY)
    assert buyer.pay().status_code == 599
    assert http.post(URL, json=BODY).status_code == 598
    seen = {each.id: (each.seen, each.paid) for each in mock.faults()}
    assert seen == {only.id: (2, "only"), never.id: (3, "never")}
    # Any header of a payment counts, readable or not.
    assert http.post(URL, json=BODY, headers={"x-payment": "?"}).status_code == 402
    assert {each.seen for each in mock.faults()} == {3}


APPLIED: list[tuple[str, Json, bool]] = [
    ("settlement", {}, True),
    ("settlement", {"route": "/v1/token-*"}, True),
    ("settlement", {"route": "/v1/account"}, False),
    ("receipt", {"route": "/v1/supported-tokens"}, False),
    ("settlement", {"method": "GET"}, False),
    ("verification", {"paid": "never"}, False),
    ("offer", {"paid": "never", "fields": {"note": "x"}}, True),
]


@pytest.mark.parametrize(("kind", "given", "expected"), APPLIED, ids=range(len(APPLIED)))
def test_where_rules_about_payments_apply(
    mock: MockService, http: httpx.Client, kind: str, given: Json, expected: bool
) -> None:
    mock.add_fault(kind, **given)
    Buyer(http).pay()
    for path in ("/v1/account", "/v1/supported-tokens"):
        http.get(path)
    assert [rule.fired > 0 for rule in mock.faults()] == [expected]


def test_the_oldest_of_a_kind_applies(mock: MockService, http: httpx.Client) -> None:
    for reason_given in ("one", "two"):
        mock.add_fault("settlement", reason=reason_given)
    Buyer(http).pay()
    assert verdicts(mock) == ["one"]
    assert [(each.seen, each.fired) for each in mock.faults()] == [(1, 1), (1, 0)]


def test_where_nobody_pays_no_payment_fails(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("settlement")
    buyer = Buyer(http)
    mock.set_gaps(paywall="open")
    assert buyer.pay().status_code == 200
    assert [(each.seen, each.fired) for each in mock.faults()] == [(1, 0)]


BAD: list[tuple[str, Json, str]] = [
    ("offer", {"fields": {}}, "fields: must be an object of 1 to 50"),
    ("offer", {"fields": "amount=1"}, "fields: must be an object"),
    ("offer", {"fields": {1: "x"}}, "fields: must have text for names"),
    ("offer", {"fields": {"a": float("nan")}}, "fields: must be JSON"),
    ("offer", {"fields": {"a": b"x"}}, "fields: must be JSON"),
    ("offer", {"fields": {"a": "\ud800"}}, "in characters that UTF-8 has"),
    ("offer", {"fields": {"a": "x" * 2**20}}, "at most 1 MiB"),
    ("offer", {"top": {str(name): 1 for name in range(51)}}, "top: must be an object of 1 to 50"),
    ("offer", {"header": "a\r\nb: c"}, "header: 'a"),
    ("offer", {"header": " a"}, "is not printable ASCII"),
    ("offer", {"header": "ü"}, "is not printable ASCII"),
    ("offer", {"header": "x" * (2**20 + 1)}, "is not printable ASCII of at most 1 MiB"),
    ("offer", {"body": 5}, "body: must be text"),
    ("overlook", {"charged": "yes"}, "charged: must be true or false"),
    ("settlement", {"reason": True}, "reason: must be text"),
    ("receipt", {"raw": "a\nb"}, "raw: must be printable ASCII"),
    ("receipt", {"missing": 1}, "missing: must be true or false"),
    ("settlement", {"paid": "sometimes"}, "paid: must be one of only, never"),
    ("settlement", {"executed": True}, "fault settlement has no parameter 'executed'; it has reason, charged"),
]


@pytest.mark.parametrize(("kind", "given", "words"), BAD, ids=range(len(BAD)))
def test_bad_input(kind: str, given: Json, words: str) -> None:
    with carried(CARRIERS[1]) as mock:
        with pytest.raises(MockServerError) as refused:
            mock.add_fault(kind, **given)
        assert words in str(refused.value)
        assert mock.faults() == []


def test_rules_as_the_control_api_has_them(mock: MockService) -> None:
    deep = {"a": [{"b": None}, "ü"]}
    rule = mock.control("POST", "faults", {"kind": "offer", "paid": "only", "fields": deep})
    assert (rule["paid"], rule["on"], rule["parameters"]) == ("only", "payment", {"fields": deep})
    assert mock.control("GET", "faults")["data"] == [rule]
    assert json.loads(json.dumps(asdict(mock.faults()[0]))) == rule
