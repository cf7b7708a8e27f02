"""Receipts: what they say, what cannot be read, and where they disagree with what was signed."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Receipt
from tradesdk._values.http import Headers
from tradesdk.payments.protocol import MAX_OFFER, read_receipt, receipt_warnings

from .._payments import payment
from .._rows import each_of
from .._texts import texts
from ._offers import MISSING, PAY_TO, PAYER, changed, encoded, receipt_headers
from ._pickled import pickled

PAID = payment(amount=60_000, payer=PAYER)
TRANSACTION = "0x" + "89" * 32
ANYTHING: list[Any] = [1.0, [1], {}, True, -1, 2**256]
GOOD: dict[str, Any] = {
    "success": True,
    "transaction": TRANSACTION,
    "network": "eip155:8453",
    "payer": PAYER,
    "amount": "60000",
}


def read(**changes: Any) -> Receipt:
    receipt, problem = read_receipt(receipt_headers(changed(GOOD, changes)))
    assert problem is None
    assert receipt is not None
    return receipt


def warnings(**changes: Any) -> tuple[str, ...]:
    found = receipt_warnings(read(**changes), PAID)
    assert all(text.isprintable() and len(text) < 300 for text in found)
    return found


@each_of("name", ["PAYMENT-RESPONSE", "payment-response"])
def test_it_is_read_from_its_header(name: str) -> None:
    receipt, problem = read_receipt(receipt_headers(GOOD, name))
    assert problem is None
    assert receipt is not None
    assert receipt == Receipt(
        success=True, transaction=TRANSACTION, network="eip155:8453", payer=PAYER, amount=60_000, raw=GOOD
    )
    assert str(receipt.amount_usd) == "0.060000"
    assert pickled(receipt) == receipt


def test_what_may_be_null_or_missing() -> None:
    for nothing in (None, MISSING):
        names = ("transaction", "network", "payer", "errorReason", "amount", "extensions", "errorMessage", "extra")
        receipt = read(**dict.fromkeys(names, nothing))
        assert (receipt.success, receipt.transaction, receipt.network) == (True, "", "")
        assert (receipt.payer, receipt.error_reason, receipt.amount) == (None, None, None)
        assert receipt_warnings(receipt, PAID) == ("the receipt has no transaction",)


@each_of(
    ("amount", "expected"),
    [
        *(("0", 0), ("007", 7), (60_000, 60_000), (0, 0), ("9" * 78, int("9" * 78))),
        *((text, None) for text in ("-1", "1.5", "1e3", "\u0663", "", " 1", "1\n", "9" * 79)),
        *((value, None) for value in ANYTHING),
    ],
)
def test_the_amount(amount: Any, expected: int | None) -> None:
    assert read(amount=amount).amount == expected


@each_of(
    "header",
    [
        *("", "?", "e30", "bnVsbA==", "W10=", "e30=", "IntcIn0i", "x" * (MAX_OFFER + 1), "é" * 10, "\x1b[2J"),
        *map(encoded, (b"\xff", b"[" * 9000, "NaN")),
        *(encoded({"success": value}) for value in (*ANYTHING[:3], None, "true", 0)),
        encoded(GOOD) + ", " + encoded(GOOD),
    ],
)
def test_what_cannot_be_read_is_said_and_never_raised(header: str) -> None:
    receipt, problem = read_receipt(Headers([("payment-response", header)]))
    assert receipt is None
    assert problem is not None
    assert problem.startswith("the receipt ")
    assert problem.isprintable()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    receipt=st.fixed_dictionaries(
        {"success": st.booleans()},
        optional=dict.fromkeys(("transaction", "network", "payer", "errorReason", "amount"), VALUES),
    )
)
def test_no_value_raises(receipt: dict[str, Any]) -> None:
    text = json.dumps(receipt)
    read, problem = read_receipt({"payment-response": encoded(text)})
    if read is None:  # only what no JSON can say
        assert "\\ud" in text
        assert problem is not None
    else:
        assert all(line.isprintable() for line in receipt_warnings(read, PAID))


def test_a_receipt_that_agrees() -> None:
    assert warnings() == ()
    assert warnings(payer=PAYER.lower()) == ()
    assert warnings(payer=MISSING, amount=MISSING, network=MISSING) == ()
    assert warnings(payer="", network="") == ()


@each_of(
    ("changes", "said"),
    [
        ({"payer": PAY_TO}, f"the receipt has the payer {PAY_TO}, and {PAYER} signed"),
        ({"network": "eip155:1"}, "the receipt has the network eip155:1, not eip155:8453"),
        ({"network": "base"}, "the receipt has the network base, not eip155:8453"),
        ({"amount": "60001"}, "the receipt has the amount $0.060001, and $0.06 was signed"),
        ({"amount": 0}, "the receipt has the amount $0.00, and $0.06 was signed"),
        ({"amount": "9" * 78}, "the receipt has the amount an absurd amount, and $0.06 was signed"),
        ({"transaction": ""}, "the receipt has no transaction"),
        ({"transaction": 7}, "the receipt has no transaction"),
        ({"success": False, "transaction": ""}, "the receipt says that the payment failed, but the answer arrived"),
        (
            {"success": False, "errorReason": "transaction_failed"},
            "the receipt says that the payment failed (transaction_failed), but the answer arrived",
        ),
        ({"payer": 5}, "the receipt's payer cannot be read"),
        ({"network": ["base"]}, "the receipt's network cannot be read"),
        ({"amount": "lots"}, "the receipt's amount cannot be read"),
        ({"amount": -60000}, "the receipt's amount cannot be read"),
    ],
)
def test_each_lie_is_a_warning(changes: dict[str, Any], said: str) -> None:
    assert warnings(**changes) == (said,)


def test_foreign_text_in_a_warning_is_shown_with_care() -> None:
    evil = "\x1b[2J" + "x" * 5000
    found = warnings(success=False, errorReason=evil, payer=evil, network=evil)
    assert len(found) == 3
    assert "\x1b" not in "".join(found)
