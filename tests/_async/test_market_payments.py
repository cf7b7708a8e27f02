"""The ledger of a market client: finding payments, resuming unfinished ones, resolving them by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tradesdk import (
    AsyncMarketClient,
    Budget,
    ConfigError,
    InvalidArgumentError,
    Ledger,
    Payment,
    PaymentError,
    PaymentRefusedError,
    PaymentStage,
    PaymentUndeliveredError,
    Reconciliation,
    TokenPrice,
    TokenResults,
    TokenWinRate,
    TopPerformers,
)
from tradesdk.payments import ReasonCode
from tradesdk_mock import MockService

from .._clock import START
from .._paidservice import JumpingClock, PaidService
from .._payments import how
from .._rows import each_of
from .._seller import PRICE, TWO, Seller
from ..unit._ledger import draft, submitted, told
from ._market import buyer_of, in_doubt, in_doubt_at, market_of

pytestmark = pytest.mark.twin

USED_UP = 200
"""Seconds after which no payment of these tests is valid any more."""


async def doubtful(client: Any, mock: MockService, **fault: Any) -> Payment:
    """A payment whose outcome nobody knows: every answer is lost."""
    found = await in_doubt_at(mock, client, **fault)
    assert (how(found), found.charged) == ("sent, unknown", "unknown")
    return found


# Looking up.


async def test_payments_are_listed_newest_first(mock: MockService) -> None:
    client = buyer_of(mock)
    bought = [await client.token_prices(TWO) for _ in range(3)]
    with pytest.raises(PaymentRefusedError):
        await client.token_prices(TWO, max_price="0.01")
    ids = [result.payment.id for result in bought if result.payment is not None]
    found = await client.payments.list()
    assert [one.id for one in found] == ids[::-1]
    assert [one.id for one in await client.payments.list(limit=2)] == [ids[2], ids[1]]
    assert [one.id for one in await client.payments.list(before=ids[1])] == [ids[0]]
    assert await client.payments.list(stages=[PaymentStage.SENT]) == []
    assert len(await client.payments.list(stages=[PaymentStage.SENT, PaymentStage.ANSWERED])) == 3
    assert await client.payments.list(unproven=True) == []
    one = await client.payments.get(ids[0])
    assert one == found[-1]
    assert (how(one), one.amount, one.charged, one.submissions) == ("answered", PRICE, True, 1)
    assert one.url == f"{mock.url}/v1/token-prices"
    assert one.receipt is not None
    assert one.receipt.transaction == mock.payments.settlements()[0].transaction


async def test_what_is_asked_for_is_checked(mock: MockService) -> None:
    client = buyer_of(mock)
    for unknown in ("pay_0", "", "x'; DROP TABLE payments", "pay_" + "0" * 24):
        for call in (client.payments.get, client.payments.resume):
            with pytest.raises(PaymentRefusedError, match="no_such_payment"):
                await call(unknown)
        with pytest.raises(PaymentRefusedError, match="no_such_payment"):
            await client.payments.mark(unknown, paid=True)
    for take in (client.payments.get, client.payments.resume):
        with pytest.raises(InvalidArgumentError, match="payment_id cannot be sent as UTF-8"):
            await take("pay_\ud83d")
    wrong: Any
    for wrong in (0, -1, True, 1.5, "5", None):
        with pytest.raises(InvalidArgumentError, match="limit"):
            await client.payments.list(limit=wrong)
    for wrong in ("", "0x12", "service.eth", "0x" + "g" * 40, None, 5):
        with pytest.raises(InvalidArgumentError, match="recipient"):
            await client.payments.trust(wrong)


async def test_spending_is_what_the_mock_has_taken(mock: MockService) -> None:
    client = buyer_of(mock, budget=Budget(per_hour="0.50", total="1"))
    for _ in range(2):
        await client.token_prices(TWO)
    spending = await client.payments.spending()
    assert (
        spending.total.counted
        == spending.today.counted
        == spending.last_hour.counted
        == mock.payments.spent()
        == 2 * PRICE
    )
    assert (spending.held, spending.left) == (0, 380_000)
    mock.clock.advance(3600 + 60 + 60)  # the last minute in which they could be taken, and an hour
    assert (await client.payments.spending()).last_hour.counted == 0
    assert (await client.payments.spending()).left == 500_000


# Going on.


async def test_in_another_process_it_needs_no_signer_and_no_budget(mock: MockService) -> None:
    ledger = Ledger.memory()
    doubted = await doubtful(buyer_of(mock, ledger=ledger), mock)
    mock.payments.assert_charged(times=0)
    later = buyer_of(mock, ledger=ledger, signer=None, budget=None)
    result = await later.payments.resume(doubted.id, TokenResults[TokenPrice])
    assert result.payment is not None
    assert (result.charged, result.payment.id, how(result.payment)) == (True, doubted.id, "answered")
    assert [one.symbol for one in result.data.results] == TWO
    assert mock.payments.signatures() == 1
    mock.payments.assert_charged(times=1, amount=PRICE)


async def test_what_it_bought_is_compared_before_it_is_sent(mock: MockService) -> None:
    client = buyer_of(mock)
    doubted = await doubtful(client, mock)
    arrived = len(mock.payments.submissions())
    wrong: list[Any] = [TopPerformers, TokenResults[TokenWinRate], TokenPrice, str, "TokenPrice", None]
    for data in wrong:
        with pytest.raises(
            InvalidArgumentError, match=rf"{doubted.id} bought TokenResults\[TokenPrice\], not "
        ) as caught:
            await client.payments.resume(doubted.id, data)
        assert "TokenResults[TokenPrice]" in caught.value.hint
    assert len(mock.payments.submissions()) == arrived
    result = await client.payments.resume(doubted.id)
    assert type(result.data) is TokenResults[TokenPrice]


async def test_a_payment_of_another_service_is_not_sent_here(mock: MockService) -> None:
    ledger = Ledger.memory()
    doubted = await doubtful(buyer_of(mock, ledger=ledger), mock)
    seller = Seller()
    for url in ("https://elsewhere.example", f"{mock.url}.example", f"{mock.url}/v2x"):
        elsewhere = market_of(seller, ledger=ledger, base_url=url, allow_insecure=True)
        with pytest.raises(ConfigError, match=doubted.id):
            await elsewhere.payments.resume(doubted.id)
    assert seller.requests == []


# Everything at once.


async def test_reconcile_sorts_out_everything(mock: MockService) -> None:
    ledger = Ledger.memory()
    client = buyer_of(mock, ledger=ledger)
    seen: dict[str, str] = {}

    async def ends(name: str, tokens: list[str], kind: str, **fault: Any) -> None:
        rule = mock.add_fault(kind, paid="only", **fault)
        with pytest.raises(PaymentError) as caught:
            await client.with_options(max_retries=0).token_prices(tokens)
        mock.remove_fault(rule.id)
        assert caught.value.payment is not None
        seen[caught.value.payment.id] = name

    mock.set_gaps(payment_window=10)
    await ends("expired unpaid", ["TOSHI"], "verification", reason="invalid_exact_evm_payload_signature")
    await ends("expired unknown", ["DEGEN"], "status", status=500)
    mock.set_gaps(payment_window=60)
    await ends("never arrived", ["ETH"], "reset")
    await ends("taken", ["BRETT"], "reset", executed=True)
    await ends("rejected", ["ETH", "BRETT"], "verification", reason="invalid_exact_evm_payload_signature")

    mock.clock.advance(45)
    fresh = buyer_of(mock, ledger=ledger)  # as after a restart
    found = await fresh.payments.reconcile()
    assert isinstance(found, Reconciliation)
    assert [seen[one.payment.id] for one in found.delivered if one.payment is not None] == ["never arrived"]
    assert [(seen[one.id], type(error)) for one, error in found.failed] == [("taken", PaymentUndeliveredError)]
    assert {seen[one.id] for one in found.unresolved} == {"expired unpaid", "expired unknown", "taken"}
    assert [seen[one.id] for one in found.live] == ["rejected"]
    spending = await fresh.payments.spending()
    assert mock.payments.spent() == 60_000
    assert spending.spent == 30_000  # "taken" has no receipt
    assert spending.held == 4 * 30_000 + PRICE - 30_000

    mock.clock.advance(USED_UP)
    again = await fresh.payments.reconcile()
    assert (again.delivered, again.failed, again.live) == ((), (), ())
    for one in again.unresolved:
        marked = await fresh.payments.mark(one.id, paid=seen[one.id] == "taken")
        assert marked.charged is (seen[one.id] == "taken")
    assert (await fresh.payments.spending()).total.counted == mock.payments.spent()


async def test_reconcile_of_nothing(mock: MockService) -> None:
    found = await buyer_of(mock).payments.reconcile()
    assert found == Reconciliation(delivered=(), failed=(), unresolved=(), live=())


async def test_reconcile_goes_through_more_than_a_page(mock: MockService) -> None:
    """Of payments that are unresolved, because those stay."""
    ledger = Ledger.memory()
    for number in range(102):
        one = draft(f"call {number}", url=f"{mock.url}/v1/token-prices", valid_before=int(START) + 60)
        made = submitted(ledger, one, budget=Budget.unlimited(), now=START)
        told(ledger, made, ReasonCode.UNDELIVERED, now=START)
    client = buyer_of(mock, ledger=ledger)
    found = (await client.payments.reconcile()).unresolved
    assert len({one.id for one in found}) == len(found) == 102
    assert len(await client.payments.list()) == 100


# Saying what it was.


@pytest.mark.parametrize("paid", [True, False])
async def test_a_person_says_what_it_was(paid: bool, mock: MockService) -> None:
    client = buyer_of(mock)
    doubted = await doubtful(client, mock, executed=paid)
    with pytest.raises(PaymentRefusedError, match="not_unresolved") as caught:
        await client.payments.mark(doubted.id, paid=paid)  # it could still be taken
    assert caught.value.hint
    mock.clock.advance(USED_UP)
    await client.supported_tokens(limit=1)
    marked = await client.payments.mark(doubted.id, paid=paid)
    assert how(marked) == ("taken, unknown, paid by person" if paid else "sent, unknown, unpaid by person")
    assert marked.charged is paid
    assert (await client.payments.spending()).total.counted == mock.payments.spent() == (PRICE if paid else 0)
    with pytest.raises(PaymentRefusedError, match="not_unresolved"):
        await client.payments.mark(doubted.id, paid=not paid)
    await client.token_prices(TWO)  # no longer in the way
    mock.payments.assert_charged(times=2 if paid else 1)


async def test_a_fast_clock_does_not_let_anybody_mark_what_could_still_be_taken() -> None:
    """The next process has a clock that is ten minutes ahead, and has heard nothing from the service yet."""
    clock, ledger = JumpingClock(), Ledger.memory()
    service = PaidService(clock, kinds=["lost before"] * 9)

    def another() -> AsyncMarketClient:
        return market_of(service.handle, ledger=ledger, clock=clock, max_retries=0)

    doubted = await in_doubt(another(), ["ETH"])
    clock.off = 600.0
    with pytest.raises(PaymentRefusedError) as refused:
        await another().payments.mark(doubted.id, paid=False)
    assert refused.value.code == "not_unresolved"
    clock.advance(91)
    marked = await another().payments.mark(doubted.id, paid=False)
    assert how(marked) == "sent, unknown, unpaid by person"


@each_of("word", ["no", "", -1, 0, 1, None, [], 0.0])
async def test_nobody_says_anything_but_true_or_false(word: Any, mock: MockService) -> None:
    """None would have erased what a receipt proves, and -1 have made money of it that is left."""
    client = buyer_of(mock)
    doubted = await doubtful(client, mock, executed=True)
    mock.clock.advance(USED_UP)
    before = (await client.payments.list(), await client.payments.spending())
    for call in (
        lambda: client.payments.mark(doubted.id, paid=word),
        lambda: client.payments.list(unproven=word),
    ):
        with pytest.raises(InvalidArgumentError, match="must be True or False, not "):
            await call()
    assert (await client.payments.list(), await client.payments.spending()) == before
    for ledger in (lambda: Ledger("ledger.sqlite3", sync=word), lambda: Ledger.memory().history(unproven=word)):
        with pytest.raises(InvalidArgumentError, match="must be True or False, not "):
            ledger()
