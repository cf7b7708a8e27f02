"""Named purchases: a name is paid for once, whatever machine, ledger or release asks for it."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import shutil
import traceback
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    Budget,
    ConfigError,
    InvalidArgumentError,
    Ledger,
    LocalSigner,
    MarketResult,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
    TradeError,
)
from tradesdk_mock import MockService

from .._clock import VirtualClock
from .._hostilepayee import PUBLISHED, HostilePayee
from .._paidservice import CountingSigner
from .._payments import how
from .._seeds import drawn
from .._seller import BASE, PRICE, TWO, Seller
from ._client import collected
from ._market import buyer_of, in_doubt_at, market_of

pytestmark = pytest.mark.twin

NAME = "2026-11-22/prices"
KEY = "0x" + "01" * 32
USDC = "833589fcd6edb6e08f4c7c32d4f71b54bda02913"
EXPIRED = 200
"""Seconds after which no signature of these tests is valid any more."""
DAY = 86_400
COURSES = 10
COURSES = 3  # the decisions are those of the blocking flavour, which plays more  # async only


async def failed(client: AsyncMarketClient, code: str, **more: Any) -> PaymentError:
    with pytest.raises(PaymentError) as caught:
        await client.token_prices(TWO, **({"purchase": NAME} | more))
    assert caught.value.code == code, caught.value
    return caught.value


async def test_a_name_is_paid_for_once(mock: MockService) -> None:
    client = buyer_of(mock)
    first = await client.token_prices(TWO, purchase=NAME)
    assert (first.again, first.payment and first.payment.purchase) == (False, NAME)
    assert first.paid_usd == Decimal("0.06")
    for later in (0, 61, DAY, 29 * DAY - 100):
        mock.clock.advance(later)
        again = await client.token_prices(TWO, purchase=f" {NAME} ")
        assert (again.again, again.data, again.answered_at) == (True, first.data, first.answered_at)
        assert again.paid_usd == 0
    both = [await client.token_prices(TWO), await client.token_prices(TWO, purchase="x" * 500)]
    assert [one.again for one in both] == [False, False]
    assert (await client.supported_tokens()).paid_usd == 0
    mock.payments.assert_charged(times=3)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/token-prices", {"tokens": [{"identifier": "ETH"}]}),
        ("/v1/token-win-rate", {"tokens": [{"identifier": one} for one in TWO]}),
    ],
)
async def test_a_name_for_other_data_is_refused(mock: MockService, path: str, body: dict[str, Any]) -> None:
    client = buyer_of(mock)
    first = await client.token_prices(TWO, purchase=NAME)
    with pytest.raises(PaymentRefusedError, match="purchase_changed") as caught:
        await client.request(path, json=body, purchase=NAME)
    assert "/v1/token-prices" in caught.value.message
    assert first.payment is not None
    assert first.payment.id in caught.value.message
    assert caught.value.charged is False
    assert (await client.dry_run.request(path, json=body, purchase=NAME)).refusal is not None
    mock.payments.assert_charged(times=1)


async def test_the_order_of_fields_does_not_matter(mock: MockService) -> None:
    client = buyer_of(mock)
    fields = [{"identifier": "ETH", "limit": 2}, {"limit": 2, "identifier": "ETH"}]
    results = [await client.request("/v1/token-signals", json={"tokens": [one]}, purchase=NAME) for one in fields]
    assert [one.again for one in results] == [False, True]
    # What is resent are the same bytes.
    rule = mock.add_fault("reset", paid="only", executed=True)
    with pytest.raises(PaymentOutcomeUnknownError):
        await client.with_options(max_retries=0).request("/v1/token-signals", json={"tokens": fields[:1]}, purchase="b")
    mock.remove_fault(rule.id)
    with pytest.raises(PaymentUndeliveredError):
        await client.request("/v1/token-signals", json={"tokens": fields[1:]}, purchase="b")
    sent = [json.dumps(one.body) for one in mock.requests() if one.payment][-2:]
    assert sent[0] == sent[1]


async def test_another_ledger_does_not_pay_again(mock: MockService) -> None:
    here, there = buyer_of(mock), buyer_of(mock)
    first = await here.token_prices(TWO, purchase=NAME)
    error = await failed(there, "taken_elsewhere")
    assert isinstance(error, PaymentUndeliveredError)
    assert error.charged == "unknown"  # this ledger paid nothing, and nothing proves that it was not its own payment
    assert error.payment is not None
    assert first.payment is not None
    assert error.payment.nonce == first.payment.nonce
    assert (await failed(there, "taken_elsewhere")).payment == error.payment  # nothing is signed or sent
    spending = await there.payments.spending()
    assert (spending.spent, spending.held) == (0, PRICE)
    assert not (await there.token_prices(["AERO"])).again  # nothing else is blocked
    mock.payments.assert_charged(times=2)


@pytest.mark.parametrize("purchase", [NAME, None])
async def test_a_ledger_that_was_copied_or_set_back(mock: MockService, tmp_path: Path, purchase: str | None) -> None:
    """What it knew is safe without a name, too: the nonce is in the copy."""
    first, copy = tmp_path / "first.sqlite3", tmp_path / "copy.sqlite3"
    with Ledger(first) as ledger:
        await in_doubt_at(mock, buyer_of(mock, ledger=ledger), purchase=purchase)
    shutil.copy2(first, copy)
    mock.clock.advance(EXPIRED)
    with Ledger(first) as ledger:
        assert (await buyer_of(mock, ledger=ledger).token_prices(TWO, purchase=purchase)).charged is True
    with Ledger(copy) as ledger:
        await failed(buyer_of(mock, ledger=ledger), "paid_undelivered", purchase=purchase)
        await failed(buyer_of(mock, ledger=ledger), "unresolved_payment", purchase=purchase)
    mock.payments.assert_charged(times=1)


def expected_nonce(secret: bytes, name: str) -> str:
    """As the docs have it."""
    payer = bytes.fromhex(LocalSigner.from_key(KEY).address[2:])
    parts = (8453).to_bytes(32, "big") + bytes.fromhex(USDC) + payer + hashlib.sha256(name.encode()).digest()
    return "0x" + hmac.new(secret, b"\x01" + parts, hashlib.sha256).hexdigest()


def own_secret() -> bytes:
    """HKDF-SHA256 of the key."""
    extracted = hmac.new(b"tradesdk", bytes.fromhex(KEY[2:]), hashlib.sha256).digest()
    return hmac.new(extracted, b"purchase secret 1\x01", hashlib.sha256).digest()


async def test_the_nonce_of_a_name_never_changes(mock: MockService) -> None:
    """Another release, or another program, must make the same: else it pays again."""
    client = buyer_of(mock)
    first = (await client.token_prices(TWO, purchase=NAME)).payment
    assert first is not None
    assert first.nonce == expected_nonce(own_secret(), NAME)
    (batch,) = await collected(client.batches.token_prices(["BRETT", "ETH"], job="nightly"))
    named = batch.result.payment
    assert named is not None
    item = 'nightly: /v1/token-prices {"tokens":[{"identifier":"BRETT"},{"identifier":"ETH"}]}'
    assert (named.purchase, named.nonce) == (item, expected_nonce(own_secret(), item))


class OutsideSigner(CountingSigner):
    """A key service: it signs, and has no secret for names."""

    purchase_secret: Any = None


async def test_a_signer_without_a_secret_needs_one(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    client = buyer_of(mock, signer=OutsideSigner())
    error = await failed(client, "no_purchase_secret")
    assert "TRADE_PURCHASE_SECRET" in error.hint
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", "hunter2" * 9)
    assert "hunter2" not in str(await failed(client, "no_purchase_secret"))
    assert await client.payments.list() == []
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", "0x" + "ab" * 32)
    assert (await client.token_prices(TWO, purchase=NAME)).charged is True
    await client.token_prices(["AERO"])  # others need none


async def test_another_secret_is_refused_until_it_is_accepted(
    mock: MockService, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = CountingSigner()
    client = buyer_of(mock, signer=signer)
    assert (await client.payments.purchase_secret_ids())[0] is None
    await client.token_prices(TWO, purchase=NAME)
    secret = "cd" * 32
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", secret)
    assert (await client.token_prices(TWO, purchase=NAME)).again  # what the ledger has needs no secret
    error = await failed(client, "purchase_secret_changed", purchase="new name")
    assert len(signer.digests) == 1, "nothing more was signed"
    assert secret not in f"{error} {error.hint}"
    assert "paid for again" in error.hint
    await client.token_prices(["AERO"])
    known, given = await client.payments.purchase_secret_ids()
    accepted = await client.payments.accept_purchase_secret()
    assert f"{accepted}, and the ledger has {known}" in error.message
    assert (given, await client.payments.purchase_secret_ids()) == (accepted, (accepted, accepted))
    assert secret not in accepted
    bought = (await client.token_prices(TWO, purchase="new name")).payment
    assert bought is not None
    assert bought.nonce == expected_nonce(bytes.fromhex(secret), "new name")
    monkeypatch.delenv("TRADE_PURCHASE_SECRET")
    await failed(client, "purchase_secret_changed", purchase="third name")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[2J", "x" * 501, "\ud800", 5])
async def test_a_name_that_cannot_be_used(mock: MockService, name: Any) -> None:
    client = buyer_of(mock)
    with pytest.raises(InvalidArgumentError, match="purchase"):
        await client.token_prices(TWO, purchase=name)
    assert mock.requests() == []


async def test_a_dry_run_knows_the_name(mock: MockService) -> None:
    signer = CountingSigner()
    client = buyer_of(mock, signer=signer)
    before = await client.dry_run.token_prices(TWO, purchase=NAME)
    assert before.authorization is not None
    assert "nonce" not in before.authorization
    assert (before.existing, before.refusal, signer.digests) == (None, None, [])
    bought = await client.token_prices(TWO, purchase=NAME)
    mock.add_fault("offer", fields={"amount": "900000"})  # what a new one would cost does not matter
    after = await client.dry_run.token_prices(TWO, purchase=NAME)
    assert after.refusal is None
    assert after.existing is not None
    assert bought.payment is not None
    assert (after.authorization, after.existing.id) == (None, bought.payment.id)


async def test_a_dry_run_of_a_name_in_doubt_shows_its_nonce(mock: MockService) -> None:
    client = buyer_of(mock, signer=CountingSigner())
    payment = await in_doubt_at(mock, client, purchase=NAME)
    mock.clock.advance(600)  # it would be signed again
    plan = await client.dry_run.token_prices(TWO, purchase=NAME)
    assert plan.existing is not None
    assert plan.authorization is not None
    assert (plan.existing.id, plan.authorization["nonce"]) == (payment.id, payment.nonce)


@pytest.mark.parametrize("purchase", [None, NAME])
async def test_a_mark_of_paid_closes_it(mock: MockService, purchase: str | None) -> None:
    client = buyer_of(mock)
    mock.add_fault("reset", paid="only", executed=True, count=1)
    with pytest.raises(PaymentUndeliveredError) as caught:
        await client.token_prices(TWO, purchase=purchase)
    lost = caught.value.payment
    assert lost is not None
    await client.payments.mark(lost.id, paid=True)
    if purchase is not None:  # it would not be paid for once, if the name could be bought again
        error = await failed(client, "already_delivered")
        assert "another name" in error.hint
        assert "was paid for without an answer, as was noted on" in error.message
    assert not (await client.token_prices(TWO, purchase=None if purchase is None else "another")).again
    mock.payments.assert_charged(times=2)


async def test_how_long_is_a_setting(mock: MockService) -> None:
    client = buyer_of(mock, continue_for=0)
    mock.add_fault("reset", paid="only", executed=True, count=1)
    with pytest.raises(PaymentUndeliveredError):
        await client.token_prices(TWO)
    mock.clock.advance(EXPIRED)
    assert not (await client.token_prices(TWO)).again
    for wrong in (-1, float("nan"), float("inf"), "600", None, True):
        with pytest.raises(ConfigError, match="continue_for must be 0 or more seconds"):
            buyer_of(mock, continue_for=wrong)


async def test_a_job_goes_on_past_what_its_name_has_paid_for(mock: MockService) -> None:
    client, there = buyer_of(mock), buyer_of(mock)
    tokens = ["ETH", "BRETT", "TOSHI", "AERO"]
    [elsewhere] = await collected(there.batches.token_prices(["ETH"], size=1, job="nightly"))
    mock.add_fault("reset", paid="only", executed=True, nth=2, count=1)
    run = client.batches.token_prices(tokens, size=1, job="nightly")
    for lost in ("taken_elsewhere", "paid_undelivered"):
        with pytest.raises(PaymentUndeliveredError, match=lost):
            await collected(run)
        assert run.passed_over == (("ETH",),) * (lost == "paid_undelivered")
    again = client.batches.token_prices(tokens, size=1, job="nightly")
    assert [batch.tokens for batch in await collected(again)] == [("TOSHI",), ("AERO",)]
    assert again.passed_over == (("ETH",), ("BRETT",))
    assert elsewhere.tokens == ("ETH",)
    mock.payments.assert_charged(times=4)


async def test_an_answer_without_a_receipt_is_held_until_it_is_marked() -> None:
    seller = Seller()
    seller.receipt = None
    client = market_of(seller, signer=LocalSigner.from_key(KEY))
    first = await client.token_prices(TWO, purchase=NAME)
    assert first.payment is not None
    assert first.charged == "unknown"
    assert (await client.payments.spending()).held == PRICE
    with pytest.raises(PaymentRefusedError, match=r"not_unresolved: .* may still be taken until"):
        await client.payments.mark(first.payment.id, paid=False)
    seller.clock.advance(EXPIRED)
    unpaid = await client.payments.mark(first.payment.id, paid=False)
    assert (how(unpaid), unpaid.charged) == ("answered, unpaid by person", False)
    assert (await client.payments.spending()).total.counted == 0
    assert (await client.token_prices(TWO, purchase=NAME)).again  # its answer stays
    second = (await client.token_prices(TWO, purchase="b")).payment
    assert second is not None
    paid = await client.payments.mark(second.id, paid=True)
    assert (how(paid), paid.charged) == ("answered, paid by person", True)
    spending = await client.payments.spending()
    assert (spending.spent, spending.held) == (PRICE, 0)


@pytest.mark.parametrize(
    "secret", [lambda: b"x", lambda: "short", lambda: [][1], lambda: None], ids=["size", "text", "error", "none"]
)
async def test_a_signer_with_a_bad_secret(mock: MockService, secret: Any) -> None:
    signer = OutsideSigner()
    signer.purchase_secret = secret
    client = buyer_of(mock, signer=signer)
    error = await failed(client, "signer_failed")
    assert "purchase secret" in error.message
    assert await client.payments.list() == []


async def test_a_refused_call_does_not_fix_the_secret(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    client = buyer_of(mock, budget=Budget(total="0.01"))
    wrong = "cd" * 32
    monkeypatch.setenv("TRADE_PURCHASE_SECRET", wrong)
    error = await failed(client, "over_budget")
    seen = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert wrong not in seen
    assert str(bytes.fromhex(wrong)) not in seen
    monkeypatch.delenv("TRADE_PURCHASE_SECRET")
    await failed(client, "over_budget")  # and not purchase_secret_changed


async def test_a_person_knows_better_than_a_receipt(mock: MockService) -> None:
    """A receipt is the service's word; the wallet shows whether it is true. The same nonce is signed again."""
    client = buyer_of(mock)
    mock.add_fault("malformed_json", paid="only", count=1)
    lost = (await failed(client, "paid_undelivered")).payment
    assert lost is not None
    assert lost.charged is True
    mock.clock.advance(EXPIRED)
    assert (await client.payments.mark(lost.id, paid=False)).charged is False
    await failed(client, "paid_undelivered")
    mock.payments.assert_charged(times=1)
    assert (await client.payments.spending()).total.counted == PRICE


# Machines with one wallet and no common ledger


async def machines(seed: int, tmp_path: Path | None = None) -> int:
    """Three machines ask a hostile service for the same names. Their ledgers get lost, copied and set back.

    Returns how many payments were taken.
    """
    draw, clock = random.Random(f"machines {seed}"), VirtualClock()
    payee = HostilePayee(seed, clock)
    ledgers = [Ledger.memory() for _ in range(3)]
    files: list[Path | None] = [None] * 3
    if tmp_path is not None:
        files = [tmp_path / f"{seed}_{number}.sqlite3" for number in range(3)]
        ledgers = [Ledger(path, sync=False) for path in files if path is not None]
    names, codes = ["monday", "tuesday"], set[str]()
    tokens = {"monday": ["ETH", "BRETT"], "tuesday": ["TOSHI"]}

    def client(number: int) -> AsyncMarketClient:
        return AsyncMarketClient(
            base_url=draw.choice([BASE, BASE + "/", BASE + ":443"]),
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(payee)),
            signer=LocalSigner.from_key(KEY),
            budget=Budget(total="100"),
            ledger=ledgers[number],
            clock=clock,
            check_tokens=False,
            max_retries=draw.choice([0, 1, 5]),
        )

    async def buy(number: int, name: str) -> MarketResult[Any]:
        fields = [{"identifier": one} for one in tokens[name]]
        body = {"tokens": fields, "note": 1} if draw.random() < 0.5 else {"note": 1, "tokens": fields}
        return await client(number).request("/v1/token-prices", json=body, purchase=name)

    for _ in range(30):
        number = draw.randrange(3)
        try:
            await buy(number, draw.choice(names))
        except TradeError as error:
            codes.add(error.code)
        path, what = files[number], draw.random()
        if what < 0.06 and path is not None:  # lost
            ledgers[number].close()
            for file in path.parent.glob(path.name + "*"):
                file.unlink()
            ledgers[number] = Ledger(path, sync=False)
        elif what < 0.12 and path is not None:  # a copy of another one, which may be its own of before
            other = draw.randrange(3)
            source = files[other]
            ledgers[number].close()
            ledgers[other].close()
            if source is not None and source != path and source.exists():
                shutil.copy2(source, path)
        if draw.random() < 0.3:
            payee.cash_late()
        clock.advance(draw.choice([0, 0, 1, 30, 61, 130, 200, 600, 90_000]))
    for ledger in ledgers:
        ledger.close()
    assert not codes & {"invalid_argument", "ledger_failed", "purchase_changed"}, codes
    assert len(payee.taken) <= len(names), f"{seed}: a name was paid for twice"
    assert payee.total <= 3 * PUBLISHED
    return len(payee.taken)


async def test_three_machines_pay_once(tmp_path: Path) -> None:
    """Also if their ledgers are lost and copied."""
    assert await machines(0) > 0
    assert await machines(0, tmp_path) > 0


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_MACHINE_COURSES", COURSES, together=100))
async def test_three_machines_in_many_courses(seeds: range, tmp_path: Path) -> None:
    """A third with ledgers that are lost; or as many as TRADE_MACHINE_COURSES says."""
    for seed in seeds:
        await machines(seed, tmp_path if seed % 3 == 0 else None)
