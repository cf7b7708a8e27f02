"""Held money is in the way of a call: it asks the witness once, and no more than it needs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tradesdk import (
    AsyncChainWitness,
    AsyncMarketClient,
    Budget,
    Ledger,
    LocalSigner,
    MarketResult,
    Payment,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    Receipt,
)
from tradesdk.payments import BudgetDetails, ReasonCode
from tradesdk_mock import MockClock, MockService

from .._clock import START
from .._flavour_async import at_once
from .._payments import how
from .._rows import each_of
from ..unit._ledger import draft, submitted, told
from ._market import buyer_of
from .test_chain_witness import FAULTS, witness_of

pytestmark = pytest.mark.twin

PRICE, ONE = 30_000, Decimal("0.03")
ENDED = 60.0
"""Seconds after which what `hold` writes down is no longer valid."""
FINALITY = 1_200
PAID = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
UNPAID = "sent, unpaid by chain"
LONGEST = 10
"""Seconds that a call waits for nodes."""
LIMITS = ["per_hour", *(pytest.param(limit, marks=pytest.mark.long) for limit in ("per_day", "per_month", "total"))]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as service:
        yield service


def hold(ledger: Ledger, amount: int = PRICE, *, ago: float = 2_000) -> Payment:
    """A payment of this long ago that nothing is known of; the chain never saw it."""
    made = START - ago
    return submitted(ledger, draft(amount=amount, valid_before=int(made + ENDED)), Budget.unlimited(), now=made)


_BALANCE_OF = "0x70a08231"


def asked(mock: MockService) -> int:
    """How many requests about payments the nodes got; others are about the balance, which the first signature needs."""
    about = [str(entry.body) for entry in mock.journal() if entry.path.startswith("/rpc")]
    return len([body for body in about if _BALANCE_OF not in body])


def client_of(mock: MockService, ledger: Ledger, budget: Budget, **options: Any) -> AsyncMarketClient:
    if "witness" not in options:
        options["witness"] = witness_of(mock)
    client = buyer_of(mock, ledger=ledger, budget=budget, **options)
    client._paying.buyer.asks_balance = False  # nodes are asked about payments only
    return client


async def refused(client: AsyncMarketClient, tokens: tuple[str, ...] = ("BRETT",), **options: Any) -> BudgetDetails:
    with pytest.raises(PaymentRefusedError, match="over_budget") as caught:
        await client.token_prices(tokens, **options)
    details = caught.value.details
    assert caught.value.charged is False
    assert isinstance(details, BudgetDetails)
    return details


@pytest.mark.parametrize("limit", LIMITS)
async def test_what_the_chain_has_not_seen_makes_room(mock: MockService, limit: str) -> None:
    ledger = Ledger.memory()
    held = hold(ledger)
    client = client_of(mock, ledger, Budget.from_micro({limit: PRICE}))
    result = await client.token_prices(["BRETT"])
    assert (result.charged, asked(mock)) == (True, 2)
    assert how(await client.payments.get(held.id)) == UNPAID
    assert (await client.payments.spending()).by_limit()[limit].counted == PRICE
    mock.payments.assert_charged(times=1)
    assert (await refused(client)).spent == ONE
    assert asked(mock) == 2, "nothing is held"


async def test_a_lost_call_and_one_that_was_taken(mock: MockService) -> None:
    """Through the service: one payment was lost before it had it, one was cashed without an answer."""
    ledger = Ledger.memory()
    client = client_of(mock, ledger, Budget(total="0.06"))
    for token, taken in (("ETH", False), ("DEGEN", True)):
        mock.add_fault("status", paid="only", status=503, executed=taken)
        with pytest.raises(PaymentOutcomeUnknownError):
            await client.token_prices([token])
        mock.clear_faults()
    mock.clock.advance(120 + FINALITY)
    assert (await client.token_prices(["BRETT"])).charged is True
    taken_, lost = [how(one) for one in (await client.payments.list())[1:]]
    assert (taken_, lost) == ("taken, unknown, paid by chain", "sent, unknown, unpaid by chain")
    spending = await client.payments.spending()
    assert (spending.spent, spending.held) == (mock.payments.spent(), 0) == (2 * PRICE, 0)
    assert spending.left == 0


async def test_what_was_taken_makes_no_room_and_is_told(mock: MockService) -> None:
    ledger = Ledger.memory()
    hold(ledger)
    mock.add_fault("node_lie", used=True)
    client = client_of(mock, ledger, Budget(total="0.03"))
    details = await refused(client)
    assert (details.held, details.spent, asked(mock)) == (Decimal(0), ONE, 2)
    mock.payments.assert_charged(times=0)


def needs_two(ledger: Ledger) -> dict[str, Any]:
    hold(ledger)
    submitted(ledger, draft(valid_before=int(START) + 60), now=START)  # it may still be taken
    return {"budget": Budget(total="0.06"), "tokens": ("BRETT", "ETH")}


def too_early(ledger: Ledger) -> dict[str, Any]:
    hold(ledger, ago=ENDED + FINALITY - 1)
    return {"budget": Budget(total="0.03")}


def nothing_held(ledger: Ledger) -> dict[str, Any]:
    told(ledger, hold(ledger), ReasonCode.DELIVERED, receipt=PAID)
    return {"budget": Budget(total="0.03")}


def another_limit_stays(ledger: Ledger) -> dict[str, Any]:
    hold(ledger)
    return {"budget": Budget(total="0.03", per_call="0.02")}


def in_another_day(ledger: Ledger) -> dict[str, Any]:
    hold(ledger, ago=86_400)
    submitted(ledger, draft(valid_before=int(START) + 60), now=START)
    return {"budget": Budget(per_day="0.03")}


def no_witness(ledger: Ledger) -> dict[str, Any]:
    hold(ledger)
    return {"budget": Budget(total="0.03"), "witness": None}


@each_of("made", [needs_two, too_early, nothing_held, another_limit_stays, in_another_day, no_witness])
async def test_nothing_is_asked_that_would_not_make_room(mock: MockService, made: Callable[[Ledger], Any]) -> None:
    ledger = Ledger.memory()
    given = made(ledger)
    before, tokens = ledger.history(), given.pop("tokens", ("BRETT",))
    await refused(client_of(mock, ledger, **given), tokens)
    assert (asked(mock), ledger.history()) == (0, before)


async def test_a_dry_run_and_a_quote_ask_nothing(mock: MockService) -> None:
    ledger = Ledger.memory()
    hold(ledger)
    client = client_of(mock, ledger, Budget(total="0.03"))
    plan = await client.dry_run.token_prices(["BRETT"])
    assert plan.refusal is not None
    assert plan.refusal.code == "over_budget"
    assert (await client.quote.token_prices(["BRETT"])).affordable is False
    assert asked(mock) == 0
    assert (await client.token_prices(["BRETT"])).charged is True


@pytest.mark.parametrize("name", ["slow", "a split"])  # how else nodes fail: test_chain_witness.py
async def test_a_node_that_decides_nothing_and_is_not_asked_again_soon(mock: MockService, name: str) -> None:
    ledger = Ledger.memory()
    held = hold(ledger)
    client = client_of(mock, ledger, Budget(total="0.03"), witness=witness_of(mock, "b"))
    for kind, parameters in FAULTS[name][0]:
        mock.add_fault(kind, **parameters | ({"used": True} if kind == "node_lie" else {}))
    began = mock.clock.monotonic()
    details = await refused(client)
    took = mock.clock.monotonic() - began
    assert (details.held, took <= 2 * LONGEST) == (ONE, True)
    assert how(await client.payments.get(held.id)) == "sent"
    first = asked(mock)
    assert first > 0
    mock.clear_faults()
    other = client_of(mock, ledger, Budget(total="0.03"))  # of the same process
    await refused(client)
    mock.clock.advance(300 - LONGEST - 1)
    await refused(other)
    assert asked(mock) == first
    mock.clock.advance(LONGEST + 2)
    assert (await other.token_prices(["BRETT"])).charged is True
    assert asked(mock) == first + 2


async def test_a_witness_that_is_closed_decides_nothing(mock: MockService) -> None:
    ledger = Ledger.memory()
    hold(ledger)
    witness = AsyncChainWitness("https://node.example")
    await witness.aclose()
    assert (await refused(client_of(mock, ledger, Budget(total="0.03"), witness=witness))).held == ONE


async def test_the_oldest_64_are_asked_about(mock: MockService) -> None:
    ledger = Ledger.memory()
    held = [hold(ledger, ago=5_000 - number) for number in range(70)]
    client = client_of(mock, ledger, Budget.from_micro({"total": 70 * PRICE}))
    await client.token_prices(["BRETT"])
    assert asked(mock) == 1 + 64 // 8
    found = [how(ledger.get(one.id) or one) for one in held]
    assert found == [UNPAID] * 64 + ["sent"] * 6


async def test_what_is_in_the_way_is_asked_about_and_not_what_is_older(mock: MockService) -> None:
    ledger = Ledger.memory()
    old = [hold(ledger, ago=86_400 * 3 + number) for number in range(70)]
    today = hold(ledger)
    await client_of(mock, ledger, Budget.from_micro({"total": 80 * PRICE, "per_day": PRICE})).token_prices(["BRETT"])
    assert {how(ledger.get(one.id) or one) for one in old} == {"sent"}
    assert how(ledger.get(today.id) or today) == UNPAID


class Busy(LocalSigner):
    """While it signs, something happens."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(b"\x01" * 32)
        self.meanwhile, self.signed = meanwhile, 0

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.signed += 1
        if self.signed == 1:
            self.meanwhile()
        return super().sign_digest(digest)


@pytest.mark.parametrize("proven", [True, False])
async def test_what_another_call_took_while_this_one_signed(mock: MockService, proven: bool) -> None:
    """The ledger refuses the signature. It is dropped, the witness is asked, and the call begins again."""
    ledger = Ledger.memory()
    hold(ledger)
    signer = Busy(lambda: submitted(ledger, draft(valid_before=int(START) + 60), now=START))
    client = client_of(mock, ledger, Budget(total="0.06"), signer=signer)
    if proven:
        assert (await client.token_prices(["BRETT"])).charged is True
    else:
        mock.add_fault("node_lie", used=True)
        await refused(client)
    assert (signer.signed, asked(mock)) == (1 + proven, 2)
    assert len(mock.payments.submissions()) == proven
    assert len(ledger.history()) == 2 + proven


async def test_calls_at_once_wait_for_the_one_that_asks(mock: MockService) -> None:
    ledger = Ledger.memory()
    for _ in range(4):
        hold(ledger)
    client = client_of(mock, ledger, Budget.from_micro({"total": 4 * PRICE}))
    results: list[MarketResult[Any]] = await at_once(
        [partial(client.token_prices, [token]) for token in ("ETH", "BRETT", "DEGEN", "AERO")]
    )
    assert [result.charged for result in results] == [True] * 4
    assert asked(mock) == 2
    mock.payments.assert_charged(times=4)


async def test_the_purchase_itself_is_not_in_its_own_way(mock: MockService) -> None:
    """Its nonce counts once when it is signed again: what another purchase holds is in the way."""
    ledger = Ledger.memory()
    mock.add_fault("status", paid="only", status=503)
    with pytest.raises(PaymentOutcomeUnknownError):
        await client_of(mock, ledger, Budget(total="0.06")).token_prices(["BRETT"], purchase="today")
    mock.clear_faults()
    mock.clock.advance(2_000)
    now = mock.clock.now()
    submitted(ledger, draft(valid_before=int(now) + 60), now=now)
    await refused(client_of(mock, ledger, Budget(total="0.03")), purchase="today")
    assert asked(mock) == 0
