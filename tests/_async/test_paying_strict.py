"""What looks harmless and would pay twice, pay somebody else, or lose what was paid for."""

from __future__ import annotations

import base64
import logging
import pickle
import traceback
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    Budget,
    ConfigError,
    Ledger,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
    PermissionDeniedError,
    TradeError,
)

from .._paidservice import BASE, PRICE, CountingSigner, JumpingClock, PaidService
from .._payments import how
from .._rows import each_of
from .._seller import KEEPS, TWO, Seller, asks_2, lost, settled
from ..unit._offers import decoded, encoded, offer_2, prices, requirement_2
from ._market import in_doubt, market_of

pytestmark = pytest.mark.twin

OTHER = "0x" + "42" * 20


class Buyer:
    """Clients of one service over one ledger."""

    def __init__(self, *kinds: str) -> None:
        self.clock = JumpingClock()
        self.service = PaidService(self.clock, kinds=list(kinds))
        self.ledger = Ledger.memory()
        self.signer = CountingSigner()

    def client(self, **options: Any) -> AsyncMarketClient:
        settings = {"signer": self.signer, "ledger": self.ledger, "clock": self.clock}
        return market_of(self.service.handle, **{**settings, **options})


async def test_an_earlier_payment_is_not_handed_over_to_a_recipient_that_this_call_does_not_allow() -> None:
    buyer = Buyer("403 before")
    with pytest.raises(Exception, match="403"):
        await buyer.client().token_prices(["ETH"])
    with pytest.raises(PaymentRefusedError) as elsewhere:
        await buyer.client(pay_to=[OTHER]).token_prices(["ETH"])
    assert elsewhere.value.code == "recipient_changed"
    assert "resume" in elsewhere.value.hint
    assert not buyer.service.taken
    plan = await buyer.client().dry_run.token_prices(["ETH"])
    assert plan.existing is not None
    assert plan.authorization is not None
    assert (plan.authorization["nonce"], plan.refusal) == (plan.existing.nonce, None)


@each_of(
    ("status", "where", "part"),
    [
        *((status, "body", "all") for status in (200, 404, 402, 429)),
        *((402, "body", part) for part in ("its first half", "payment=", "SIGNATURE")),
        *((402, "offer", part) for part in ("all", "SIGNATURE")),
        *((402, "receipt", part) for part in ("its first half", "payment=")),
        (500, "receipt", "SIGNATURE"),
        *((status, "another", part) for status in (200, 404, 402) for part in ("all", "its first half", "SIGNATURE")),
    ],
)
async def test_a_service_that_repeats_the_payment_does_not_get_it_shown(
    status: int, part: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in an error, its cause or its traceback, nor in the ledger or a log."""
    secrets: list[str] = []

    def sold(request: httpx.Request) -> httpx.Response:
        header = request.headers["PAYMENT-SIGNATURE"]
        signature = decoded(header)["payload"]["signature"]
        secrets[:] = [header, header[:60], header[-60:], signature, signature[2:].upper(), signature[40:80]]
        first = header[: len(header) // 2] + "..."
        said = {"all": header, "its first half": first, "payment=": f"payment={first}"}
        text = f"bad payment: {said.get(part, signature.upper())}"
        body: dict[str, Any] = {"success": False, "data": None, "error": text, "x402Version": 1, "accepts": []}
        receipt = settled(success=False, errorReason=text, transaction=text, extra={"why": [text]})
        headers = {"offer": {"PAYMENT-REQUIRED": encoded(body)}, "receipt": {"PAYMENT-RESPONSE": encoded(receipt)}}
        headers["another"] = {"X-Got": text, "X-Payment": said.get(part, signature), "X-All": encoded({"got": text})}
        return httpx.Response(status, json=body if where == "body" else {}, headers=headers.get(where, {}))

    caplog.set_level(logging.DEBUG)
    seller = Seller(sold=sold)
    client = market_of(seller, max_retries=0)
    with pytest.raises(TradeError) as caught:
        await client.token_prices(TWO)
    [payment] = await client.payments.list()
    cause = caught.value.__cause__
    shown = [*traceback.format_exception(caught.value), repr(caught.value), caught.value.hint, caplog.text]
    shown += [str(cause), repr(cause and vars(cause)), repr(vars(caught.value)), payment.reason, repr(payment.receipt)]
    shown += [(payment.reply or b"").decode()]
    response = getattr(caught.value, "response", None)
    if response is not None:
        headers = response.headers.values()
        shown += [response.text, *headers]
        shown += [base64.b64decode(value).decode("latin-1") for value in headers if value.endswith("=")]
    shown += [pickle.dumps(caught.value).decode("latin-1"), pickle.dumps(response).decode("latin-1")]
    assert secrets
    assert not [text for text in shown for secret in secrets if secret in text]
    if status != 500:
        assert "****" in "".join(shown)


async def test_a_dry_run_says_that_an_earlier_payment_is_in_the_way() -> None:
    buyer = Buyer("garbage")
    with pytest.raises(PaymentUndeliveredError):
        await buyer.client().token_prices(["ETH"])
    plan = await buyer.client().dry_run.token_prices(["ETH"])
    assert plan.refusal is not None
    assert plan.refusal.code == "unresolved_payment"


@each_of("hooked", [False, True])
@each_of(
    "raised",
    [
        httpx.ConnectError("refused, at its own second try"),
        httpx.LocalProtocolError("late"),
        UnicodeError("late"),
        httpx.InvalidURL("late"),
    ],
)
async def test_an_error_out_of_somebody_elses_client_proves_nothing(raised: Exception, hooked: bool) -> None:
    """Its hooks run after the answer has come, and its transport may retry by itself."""
    buyer = Buyer()

    def paid_and_lost(request: httpx.Request) -> httpx.Response:
        response = buyer.service.handle(request)
        if response.status_code == 200 and not hooked:
            raise raised
        return response

    async def hook(response: httpx.Response) -> None:
        if response.status_code == 200:
            raise raised

    http = httpx.AsyncClient(transport=httpx.MockTransport(paid_and_lost), event_hooks={"response": [hook]})
    client = buyer.client(http_client=http, max_retries=0)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await client.token_prices(["ETH"])
    assert caught.value.charged == "unknown"
    assert (await client.payments.spending()).held == PRICE == buyer.service.total


@each_of(
    "answer",
    [
        httpx.Response(302, headers={"Location": "mailto:x"}),
        httpx.InvalidURL("late"),
        httpx.UnsupportedProtocol("late"),
        httpx.LocalProtocolError("late"),
        httpx.ReadError("late"),
        UnicodeError("late"),
    ],
)
async def test_nor_does_our_own_behind_a_proxy(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception
) -> None:
    """httpx raises errors about a request while it reads an answer, such as where that redirects to."""
    buyer = Buyer()

    def handle(request: httpx.Request) -> httpx.Response:
        if "payment-signature" not in request.headers:
            return buyer.service.handle(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr(
        "tradesdk._async.httpx_sender.proxied_client",
        lambda proxy: httpx.AsyncClient(transport=httpx.MockTransport(handle)),
    )
    client = buyer.client(http_client=None, max_retries=0)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await client.token_prices(["ETH"])
    assert caught.value.charged == "unknown"
    assert (await client.payments.spending()).held == PRICE


@each_of(
    ("good", "error", "left"),
    [(2, PaymentOutcomeUnknownError, "sent, unknown"), (1, ConfigError, "unsent, not_received")],
)
async def test_an_api_key_that_is_gone(good: int, error: type[Exception], left: str) -> None:
    """While the outcome is open, or before anything was handed over."""
    buyer, keys = Buyer("lost after"), ["good"] * good

    def key() -> str:
        if not keys:
            raise ConfigError("the vault is sealed")
        return keys.pop()

    with pytest.raises(error, match="the vault is sealed"):
        await buyer.client(send_api_key=True, api_key=key, check_tokens=False).token_prices(["ETH"])
    (kept,) = await buyer.client().payments.list()
    assert (how(kept), kept.charged) == (left, "unknown" if good == 2 else False)


async def test_a_clock_that_is_put_back_does_not_revive_a_payment_of_a_service_without_a_date() -> None:
    buyer = Buyer(*["lost before"] * 6)
    buyer.service.dated = False

    def put_back(clock: JumpingClock) -> None:
        clock.advance(30)
        clock.off -= 600

    clock = buyer.service.clock = JumpingClock(put_back)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await buyer.client(clock=clock).token_prices(["ETH"])
    assert caught.value.payment is not None
    assert caught.value.payment.submissions == 2  # at once and after 30 s; a third one would be after its end


async def test_what_a_service_that_is_gone_was_to_be_paid_expires() -> None:
    """By the local clock: only its own answers tell its time, and there are none any more. It stays held."""
    clock, ledger = JumpingClock(), Ledger.memory()
    gone, here = PaidService(clock, kinds=["403 before"]), PaidService(clock)

    def client(service: PaidService, base_url: str) -> AsyncMarketClient:
        return market_of(service.handle, base_url=base_url, ledger=ledger, clock=clock)

    with pytest.raises(PermissionDeniedError):
        await client(gone, "https://gone.example.test").token_prices(["ETH"])
    assert len((await client(here, BASE).payments.reconcile()).live) == 1
    clock.advance(3_600)
    found = await client(here, BASE).payments.reconcile()
    assert (len(found.live), len(found.unresolved)) == (0, 1)
    assert (await client(here, BASE).payments.spending()).held == PRICE


async def test_a_date_that_is_ahead_hands_nothing_over_past_the_total_of_a_run() -> None:
    """By that date the payments of earlier calls are over, and only an answer that was kept is asked for."""
    seller = Seller(offer=offer_2(requirement_2(amount="30000", maxTimeoutSeconds=120), **KEEPS), sold=lost)
    ledger, tokens = Ledger.memory(), ["ETH", "BRETT", "TOSHI"]
    for token in tokens:
        await in_doubt(market_of(seller, ledger=ledger), [token])
    seller.ahead, seller.sold = 140, lambda request: httpx.Response(200, json=prices("ETH"))
    run = market_of(seller, ledger=ledger).batches.token_prices(tokens, size=1, max_total="0.03")
    with pytest.raises(PaymentRefusedError, match="over_total"):
        [batch async for batch in run]
    assert (len(seller.paid), run.spent) == (len(tokens) + 1, PRICE)


async def test_a_payment_that_was_handed_over_again_is_not_free_by_an_earlier_word() -> None:
    seller = Seller(offer=offer_2(requirement_2(maxTimeoutSeconds=120), **KEEPS))
    seller.sold = lambda request: asks_2(offer_2(error="invalid_exact_evm_payload_signature"))
    client = market_of(seller, max_retries=0, budget=Budget(total="0.12"))
    with pytest.raises(PaymentRejectedError):
        await client.token_prices(TWO)
    seller.ahead, seller.sold = 140, lost
    with pytest.raises(PaymentRefusedError, match="clock_difference"):  # it tells the time
        await client.token_prices(["TOSHI", "DEGEN"])
    await in_doubt(client)
    seller.clock.advance(200)
    assert (await client.payments.spending()).held == 2 * PRICE
