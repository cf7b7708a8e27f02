"""The table of payment scenarios, on a mock: one signature, one settlement, and a ledger that agrees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tradesdk import Budget, Ledger, LocalSigner, TradeError
from tradesdk_mock import GapOptions, MockClock, MockService

from .._clock import START
from .._paidscenarios import PRICE, SCENARIOS, JumpyClock, Scenario
from .._payments import how
from .._rows import each_of
from ._market import buyer_of

pytestmark = pytest.mark.twin

numbers = count(1)
LIMIT = 4 * PRICE


@pytest.fixture(scope="module")
def shop() -> Iterator[MockService]:
    with MockService(seed=5, clock=MockClock(START)) as running:
        yield running


@each_of("scenario", SCENARIOS, ids=str)
async def test_scenario(shop: MockService, scenario: Scenario) -> None:
    """Played by a payer of its own to the end of all authorizations."""
    signer, ledger = LocalSigner.from_key(f"0x{0xABC000 + next(numbers):064x}"), Ledger.memory()
    payer, payments, clock = signer.address, shop.payments, JumpyClock(shop.clock, scenario.jump)
    shop.clear_faults()
    shop.set_gaps(**{name: getattr(GapOptions(), name) for name in ("clock_skew", "payment_identifier")})
    shop.set_gaps(**scenario.gaps)
    if scenario.balance is not None:
        payments.set_balance(payer, scenario.balance)
    for kind, parameters in scenario.faults:
        shop.add_fault(kind, **parameters)
    client = buyer_of(
        shop,
        signer=signer,
        budget=Budget.from_micro({"total": LIMIT}),
        ledger=ledger,
        clock=clock,
        **scenario.options,
    )
    highest = 0

    async def called() -> tuple[Any, TradeError | None]:
        nonlocal highest
        found: tuple[Any, TradeError | None]
        try:
            found = await client.token_prices(["ETH"]), None
        except TradeError as error:
            found = None, error
        counted = (await client.payments.spending()).total.counted
        highest = max(highest, counted)
        assert payments.spent(payer) <= counted <= LIMIT, "the ledger counts too little"
        return found

    for _ in range(scenario.by_hand):
        result, error = await called()
    (payment,) = ledger.history(limit=1)
    assert named(error) == scenario.error
    assert scenario.code in ("", getattr(error, "code", ""))
    assert getattr(error or result, "charged", payment.charged) == scenario.charged
    assert how(payment) == scenario.state
    assert (payments.signatures(payer), len(payments.settlements(payer))) == (1, scenario.settled)
    assert highest == PRICE, "counted once, whatever happened"

    shop.clear_faults()
    payments.set_balance(payer, 10_000_000)
    again, problem = await called()
    anew = again is not None and again.payment.id != payment.id
    outcome = "bought again" if anew else getattr(problem, "code", None) or named(problem) or "delivered"
    assert outcome == scenario.again

    clock.right()
    shop.clock.advance(3000)
    unresolved = await client.payments.reconcile()
    assert unresolved.live == ()
    settlements = {settlement.nonce for settlement in payments.settlements(payer)}
    for left in unresolved.unresolved:  # what a person does in the end: look at the wallet
        await client.payments.mark(left.id, paid=left.nonce in settlements)
    assert payments.signatures(payer) == 1 + anew
    assert len(settlements) == len(payments.settlements(payer)) <= 1 + anew
    counted = (await client.payments.spending()).total.counted
    assert counted == payments.spent(payer) == PRICE * len(settlements) <= LIMIT


def named(error: TradeError | None) -> str:
    return "" if error is None else type(error).__name__
