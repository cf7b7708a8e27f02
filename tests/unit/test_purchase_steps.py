"""A purchase as its steps: driven by hand, canceled or dropped at each of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from tradesdk import Budget, Ledger, LocalSigner, MarketResult, PaymentRefusedError, RawResponse, RetryPolicy
from tradesdk import _market as market
from tradesdk._http.service_time import ServiceClock
from tradesdk._values.http import Headers
from tradesdk.payments.buyer import Buyer, look, sign
from tradesdk.payments.effects import Answer, Ask, Effect, Ended, HandOver, Lock, Look, Prove, Send, Sign, Steps, Write
from tradesdk.payments.ledger.changes import Submit
from tradesdk.payments.purchase import dry_run, purchase
from tradesdk.payments.purchases import PurchaseIntent

from .._clock import VirtualClock
from .._payments import how
from .._rows import each_of
from .._seller import BASE, PRICE, TWO, Seller, asks_2
from ._ledger import draft, submitted

CALL = market.token_prices(TWO)
INTENT = PurchaseIntent(
    url=BASE + CALL.request.path, body=CALL.request.body or b"", path=CALL.request.path, tokens=2,
    amount=PRICE,
)  # fmt: skip


class Driver:
    """Carries effects out in order, and notes them; the answers to payments come from `sold`."""

    def __init__(self, sold: Callable[[], httpx.Response] | None = None) -> None:
        self.clock = VirtualClock()
        self.ledger = Ledger.memory()
        self.seller = Seller(sold=None if sold is None else lambda _: sold())
        self.done: list[str] = []
        self.found = False  # whether a witness finds room
        self.buyer = Buyer(
            ledger=self.ledger,
            wallet=LocalSigner.from_key("0x" + "11" * 32),
            budget=Budget(total="0.06"),
            max_validity=120,
            pay_to=(),
            continue_for=600,
            collect=True,
            clock=self.clock,
            time=ServiceClock(),
        )

    def begin(self, of: Any = purchase) -> Steps[Any]:
        steps: Steps[Any] = of(self.buyer, INTENT, CALL.request, RetryPolicy(max_retries=0), 10_000.0)
        return steps

    def carry_out(self, effect: Effect) -> Any:
        self.done.append(type(effect).__name__)
        match effect:
            case Lock():
                return True
            case Look(at):
                return look(self.buyer, INTENT, at)
            case Ask():
                return Answer(self._answer({}))
            case Prove():
                return self.found
            case Sign(terms, seen, owner):
                return sign(self.buyer, INTENT, terms, seen, owner)
            case Write(row, change):
                if isinstance(change, Submit):
                    return self.ledger.submit(change)
                return None if row is None else self.ledger.update(row.payment.id, change, row)
            case Send(payment):
                return Answer(self._answer(dict([payment.sent()])))
        return None

    def _answer(self, headers: Any) -> RawResponse:
        request = httpx.Request("POST", INTENT.url, content=INTENT.body, headers=headers)
        response = self.seller(request)
        return RawResponse(response.status_code, Headers(response.headers.multi_items()), response.content)

    def run(self, steps: Steps[Any]) -> Any:
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self.carry_out(effect))
        except StopIteration as end:
            return end.value

    def run_until(self, at: int, *, after: bool = False) -> tuple[Steps[Any], Effect]:
        """Stop at effect `at`, or `after` it is carried out."""
        steps = self.begin()
        effect = next(steps)
        for _ in range(at):
            effect = steps.send(self.carry_out(effect))
        if after:
            self.carry_out(effect)
        return steps, effect

    def cancel(self, steps: Steps[Any], ended: Ended) -> None:
        """It may write once."""
        effect = steps.throw(ended)
        assert isinstance(effect, Write)
        steps.send(self.carry_out(effect))


PLAIN = ["Lock", "Look", "Ask", "Slot", "Sign", "Write", "Send", "Write", "HandOver"]


def test_the_steps_of_a_purchase() -> None:
    driver = Driver()
    result = driver.run(driver.begin())
    assert isinstance(result, MarketResult)
    assert (driver.done, result.charged) == (PLAIN, "unknown")
    (payment,) = driver.ledger.history()
    assert (how(payment), payment.waits, payment.reply) == ("answered", False, None)


def test_a_dry_run_ends_where_a_slot_would_be_taken() -> None:
    driver = Driver()
    plan = driver.run(driver.begin(dry_run))
    assert driver.done == PLAIN[1:3]
    assert plan.authorization["value"] == str(PRICE)
    assert (plan.refusal, driver.ledger.history()) == (None, [])


@each_of(
    ("at", "is_sent", "left"),
    [
        *((at, False, []) for at in range(5)),
        (5, False, []),
        (6, False, ["unsent, not_received"]),
        (6, True, ["sent, unknown"]),
        (8, False, ["answered"]),
    ],
)
def test_what_a_call_leaves_that_is_canceled(at: int, is_sent: bool, left: list[str]) -> None:
    """Written down in one write, and the payment is free for the next call, which gets what was paid for."""
    driver = Driver()
    steps, _ = driver.run_until(at)
    ended = Ended(KeyboardInterrupt(), is_sent=is_sent)
    with pytest.raises(Ended) as caught:
        driver.cancel(steps, ended)
    assert caught.value is ended
    assert [how(payment) for payment in driver.ledger.history()] == left
    spent = driver.ledger.spending(Budget(), now=driver.clock.now()).total.counted
    assert spent == (0 if left in ([], ["unsent, not_received"]) else PRICE)
    assert driver.run(driver.begin()).again == (left == ["answered"])
    assert len(driver.ledger.history()) == 1


def test_what_a_budget_refuses_asks_the_witness_once() -> None:
    """Whatever becomes of it, nothing is written down."""
    for found, done in ((True, ["Look", "Ask", "Refuse", "Prove"] * 2), (False, ["Look", "Ask", "Refuse", "Prove"])):
        driver = Driver()
        driver.found = found
        submitted(driver.ledger, draft(), now=driver.clock.now())
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            driver.run(driver.begin())
        assert driver.done == ["Lock", *done[: 7 if found else 4]]
        assert len(driver.ledger.history()) == 1
    steps, effect = driver.run_until(4)
    assert isinstance(effect, Prove)
    with pytest.raises(Ended):
        steps.throw(Ended(KeyboardInterrupt(), is_sent=False))
    assert len(driver.ledger.history()) == 1


@each_of("at", range(len(PLAIN)))
@each_of("after", [False, True])
def test_one_that_is_dropped_writes_nothing(at: int, after: bool) -> None:
    """As a kill does. What is in the ledger then is within the budget, and no second nonce is signed beside it."""
    driver = Driver()
    steps, _ = driver.run_until(at, after=after)
    written = driver.ledger.history()
    steps.close()
    assert driver.ledger.history() == written
    driver.clock.advance(301)  # longer than a claim
    if (at, after) >= (7, True):  # it is collected in the write that records it, and its copy is lost
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            driver.run(driver.begin())
    else:
        driver.run(driver.begin())
    assert len(driver.ledger.history()) == 1


def test_a_refusal_by_the_budget_is_shown_before_it_is_raised() -> None:
    driver = Driver(sold=partial(asks_2))
    driver.buyer.budget = Budget(total="0.05")
    plan = driver.run(driver.begin(dry_run))
    assert (plan.refusal.code, plan.authorization["value"]) == ("over_budget", str(PRICE))
    with pytest.raises(type(plan.refusal), match="over_budget"):
        driver.run(driver.begin())
    assert driver.done[-2:] == ["Refuse", "Prove"]
    assert HandOver.__name__ not in driver.done
