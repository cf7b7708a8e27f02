"""What a service may do around an offer: send us elsewhere, lie about the time, lie in a receipt, ask for an echo."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tradesdk import APIStatusError, AsyncMarketClient, Budget, Ledger, PaymentOutcomeUnknownError

from .._clock import VirtualClock
from .._hostile import Visit, answer, hostile
from .._paidservice import CountingSigner
from .._payments import how
from .._rows import each_of
from .._seller import BASE, PRICE, TWO, Seller, asks_2, settled
from ..unit._offers import encoded, offer_2, prices
from ._market import market_of, refused

pytestmark = pytest.mark.twin

REDIRECTS = (301, 302, 303, 307, 308)
OTHER = "0x" + "Ab" * 20


# Sent elsewhere.


@each_of("status", REDIRECTS)
@each_of("leg", ["asking", "paying"])
async def test_a_redirect_is_not_followed(leg: str, status: int) -> None:
    """Over real connections: the second host never hears of us, and so never of a payment."""

    def elsewhere(visit: Visit) -> None:
        visit.send(answer(b"{}"))

    def answering(visit: Visit) -> None:
        if leg == "paying" and b"payment-signature" not in visit.head.lower():
            visit.send(answer(b"{}", status="402 Payment Required", PAYMENT_REQUIRED=encoded(offer_2())))
        else:
            visit.send(answer(b"", status=f"{status} Go", Location=f"{other.url}/v1/token-prices"))

    with hostile(elsewhere) as other, hostile(answering) as server:
        signer, ledger = CountingSigner(), Ledger.memory()
        settings: dict[str, Any] = {"signer": signer, "ledger": ledger, "budget": Budget(total="1")}
        async with AsyncMarketClient(
            base_url=server.url, clock=VirtualClock(), check_tokens=False, **settings
        ) as client:
            with pytest.raises((APIStatusError, PaymentOutcomeUnknownError)) as caught:
                await client.token_prices(TWO)
            kept = await client.payments.list()
        refused = caught.value if leg == "asking" else caught.value.__cause__
        assert isinstance(refused, APIStatusError)
        assert refused.status == status
        assert "redirects are never followed" in str(refused)
        assert other.visits == []
        assert other.connections == 0
        assert len(server.visits) == (1 if leg == "asking" else 6)  # the same bytes again
    if leg == "asking":
        assert (signer.digests, kept, refused.payment) == ([], [], None)
    else:
        # Servers take the money for what they answer below 400, so nobody knows.
        assert [how(one) for one in kept] == ["sent, unknown"]
        assert len(signer.digests) == 1


@each_of("status", REDIRECTS)
async def test_a_client_that_follows_redirects_does_not_do_so_for_us(status: int) -> None:
    asked: list[httpx.Request] = []

    def service(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if "PAYMENT-SIGNATURE" not in request.headers and len(asked) > 1:
            return asks_2()
        return httpx.Response(status, headers={"Location": "https://elsewhere.example/v1/token-prices"})

    http = httpx.AsyncClient(transport=httpx.MockTransport(service), follow_redirects=True)
    client = market_of(service, http_client=http)
    for kind in (APIStatusError, PaymentOutcomeUnknownError):
        with pytest.raises(kind):
            await client.token_prices(TWO)
    assert len(asked) == 2 + 5
    assert {request.url.host for request in asked} == {"market.example"}


# The time.


LOOPBACK = "http://127.0.0.1:8787"


@each_of(
    ("base_url", "ahead"),
    [*((BASE, ahead) for ahead in (111, 600, -3_600, 10**9)), (LOOPBACK, 111), (LOOPBACK, -3_600)],
)
async def test_a_date_far_from_ours_is_refused(ahead: float, base_url: str) -> None:
    """Ahead, it would make a payment valid for a long time; behind, one that no verifier takes."""
    error = await refused(Seller(ahead=ahead), "clock_difference", base_url=base_url)
    assert "clock" in error.hint


@each_of(
    ("base_url", "ahead"),
    [
        *((BASE, ahead) for ahead in (110, 61, 60, 16, 15, 3, 0, None, -3, -15, -16, -900)),
        (LOOPBACK, 110),
        (LOOPBACK, -16),
    ],
)
async def test_a_date_near_ours_is_honoured(
    ahead: float | None, base_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """From more than 5 s on; below that it is the network's doing. Nothing is valid for longer than 120 s by either."""
    seller = Seller(ahead=ahead)
    client = market_of(seller, base_url=base_url)
    await client.dry_run.token_prices(TWO)
    assert [vars(record).get("event") for record in caplog.records] == []
    await client.token_prices(TWO)
    signed = seller.payments[0]["payload"]["authorization"]
    local = int(seller.clock.now())
    service = local + (int(ahead) if ahead is not None and abs(ahead) > 5 else 0)
    assert int(signed["validBefore"]) == min(service + 60, local + 120)
    assert signed["validAfter"] == "0"
    reported = [vars(record)["seconds"] for record in caplog.records if vars(record)["event"] == "clock_difference"]
    assert reported == ([ahead] if abs(ahead or 0) > 15 else [])


# Receipts.

LIES: list[tuple[dict[str, Any], str]] = [
    ({"amount": "1"}, r"the amount \$0\.000001, and \$0\.06 was signed"),
    ({"success": False, "errorReason": "transaction_failed"}, r"failed \(transaction_failed\), but the answer"),
    ({"payer": [OTHER]}, "payer cannot be read"),
]
UNREADABLE = [("@@@", "it is not base64"), ("A" * 70_000, "is larger than 64 KiB")]


@each_of(("lie", "warning"), LIES, ids=[warning for _, warning in LIES])
async def test_a_receipt_that_lies_is_a_warning(lie: dict[str, Any], warning: str) -> None:
    result = await market_of(Seller(receipt=settled(**lie))).token_prices(TWO)
    assert [one.symbol for one in result.data.results] == TWO
    assert len(result.warnings) == 1
    assert re.search(warning, result.warnings[0])
    assert result.receipt is not None
    assert result.receipt.raw == settled(**lie)
    assert result.payment is not None
    assert how(result.payment) == "answered"


@each_of(("text", "why"), UNREADABLE, ids=range(len(UNREADABLE)))
async def test_a_receipt_that_cannot_be_read_is_a_warning(text: str, why: str) -> None:
    def sold(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=prices(*TWO), headers={"PAYMENT-RESPONSE": text})

    client = market_of(Seller(sold=sold))
    result = await client.token_prices(TWO)
    assert [one.symbol for one in result.data.results] == TWO
    (warning,) = result.warnings
    assert warning.startswith("the receipt ")
    assert warning.count("receipt") == 1
    assert why in warning
    assert (result.receipt, result.charged) == (None, "unknown")
    assert (await client.payments.spending()).total.counted == PRICE


# What goes back untouched.

EXTENSIONS = {"bazaar": {"info": {"deep": [[{"a": None}]]}, "schema": {"$ref": "#/ü"}}, "other": None, "n": 1.0}


def same(sent: Any, came: Any) -> bool:
    """Also in the types of numbers and the order of names, which a strict comparison might look at."""
    return repr(sent) == repr(came)


@each_of("required", [True, False])
async def test_a_payment_gets_an_identifier_where_one_is_wanted(required: bool) -> None:
    wanted = {"info": {"required": required, "x": 1}, "schema": {"type": "object"}}
    seller = Seller(offer=offer_2(extensions={"payment-identifier": wanted, **EXTENSIONS}))
    client = market_of(seller)
    results = [await client.token_prices(TWO) for _ in range(2)]
    found = [payment["extensions"] for payment in seller.payments]
    for extensions, result in zip(found, results, strict=True):
        identifier = extensions["payment-identifier"]["info"].pop("id")
        assert re.fullmatch(r"[A-Za-z0-9_-]{16,128}", identifier)
        assert result.payment is not None
        assert result.payment.identified
        assert identifier == result.payment.id
        assert same(extensions, {"payment-identifier": wanted, **EXTENSIONS})
    assert len({result.payment.id for result in results if result.payment is not None}) == 2
