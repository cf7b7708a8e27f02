"""A purchase as its steps, driven by hand. What is left where it ends early, `test_every_course` looks at."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

from tradesdk import (
    Budget,
    Ledger,
    LocalSigner,
    MarketResult,
    Payment,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    RawResponse,
    RetryPolicy,
)
from tradesdk import _market as market
from tradesdk._http.response import status_error
from tradesdk._http.service_time import ServiceClock
from tradesdk._sync.signing import ask_signer
from tradesdk._values.http import Headers
from tradesdk.payments import ReasonCode
from tradesdk.payments.buyer import Buyer, PurchaseIntent, look, named_fingerprint, sign
from tradesdk.payments.effects import (
    Answer,
    Ask,
    Effect,
    Ended,
    HandOver,
    Look,
    Prove,
    Send,
    Sign,
    Sleep,
    Slot,
    Steps,
    Verified,
    Verify,
    Write,
)
from tradesdk.payments.ledger.changes import Submit
from tradesdk.payments.purchase import dry_run, purchase

from .._clock import VirtualClock
from .._payments import how
from .._rows import each_of
from .._seller import BASE, KEEPS, PRICE, TWO, Seller, asks_2, down
from ._ledger import claim, draft, release, submitted, told
from ._offers import offer_2, prices

CALL = market.token_prices(TWO)
INTENT = PurchaseIntent(base_url=BASE, call=CALL)


class Driver:
    """Carries effects out in order, and notes them; the answers to payments come from `sold`."""

    def __init__(self, sold: Callable[[], httpx.Response] | None = None) -> None:
        self.intent = INTENT
        self.clock = VirtualClock()
        self.ledger = Ledger.memory()
        self.seller = Seller(sold=None if sold is None else lambda _: sold())
        self.done: list[str] = []
        self.found = False  # whether a witness finds room
        self.verdict = Verified(is_asked=False)
        self.buyer = Buyer(
            ledger=self.ledger,
            origin=BASE,
            wallet=LocalSigner.from_key("0x" + "11" * 32),
            budget=Budget(total="0.06"),
            max_validity=120,
            pay_to=(),
            continue_for=600,
            collect=True,
            clock=self.clock,
            time=ServiceClock(),
        )

    def begin(self, of: Any = purchase, policy: RetryPolicy | None = None) -> Steps[Any]:
        steps: Steps[Any] = of(self.buyer, self.intent, policy or RetryPolicy(max_retries=0), 10_000.0)
        return steps

    def carry_out(self, effect: Effect) -> Any:
        self.done.append(type(effect).__name__)
        match effect:
            case Look(at, since):
                return look(self.buyer, self.intent, at, since)
            case Ask():
                return Answer(self._answer({}))
            case Prove():
                return self.found
            case Sign(terms, owner):
                return ask_signer(sign(self.buyer, self.intent, terms, owner))
            case Write(row, change):
                if isinstance(change, Submit):
                    return self.ledger.submit(change)
                return None if row is None else self.ledger.update(row.payment.id, change, row)
            case Verify():
                return self.verdict
            case Send(payment):
                found = self._answer(dict([payment.sent()]))
                is_success = found.status == 200
                return Answer(found, None if is_success else status_error("POST", self.intent.url, found, now=0.0))
        return None

    def _answer(self, headers: Any) -> RawResponse:
        request = httpx.Request("POST", self.intent.url, content=self.intent.body, headers=headers)
        response = self.seller(request)
        return RawResponse(response.status_code, Headers(response.headers.multi_items()), response.content)

    def until(self, steps: Steps[Any], kind: type[Effect]) -> Any:
        """The first effect of a kind, which is not carried out yet."""
        effect = next(steps)
        while not isinstance(effect, kind):
            effect = steps.send(self.carry_out(effect))
        return effect

    def run(self, steps: Steps[Any], effect: Effect | None = None) -> Any:
        """To the end: from the first step, or from an effect that is not carried out yet."""
        try:
            effect = effect or next(steps)
            while True:
                effect = steps.send(self.carry_out(effect))
                assert len(self.done) < 100, "it goes on and on"
        except StopIteration as end:
            return end.value


ANSWER = httpx.Response(200, json=prices("ETH", "BRETT")).content
PLAIN = ["Look", "Ask", "Slot", "Sign", "Write", "Send", "Write", "HandOver"]


def test_the_steps_of_a_purchase() -> None:
    driver = Driver()
    result = driver.run(driver.begin())
    assert isinstance(result, MarketResult)
    assert (driver.done, result.charged) == (PLAIN, "unknown")
    (payment,) = driver.ledger.history()
    assert (how(payment), payment.waits, payment.reply) == ("answered", False, None)


def test_an_answer_that_is_not_collected_waits_for_the_next_call() -> None:
    driver = Driver()
    driver.buyer.collect = False
    first = driver.run(driver.begin())
    (payment,) = driver.ledger.history()
    assert (payment.waits, payment.reply, first.payment) == (True, ANSWER, payment)
    again = driver.run(driver.begin())
    assert (again.again, again.payment.id, len(driver.seller.paid)) == (True, payment.id, 1)


def test_a_payer_is_the_same_however_the_address_is_written() -> None:
    payer = Driver().buyer.payer
    assert named_fingerprint("a", payer) == named_fingerprint("a", payer.lower())
    assert INTENT.fingerprint(payer) == INTENT.fingerprint(payer.lower())


class Contract:
    """A signer of a smart contract wallet."""

    is_contract = True
    address = "0x" + "12" * 20

    def sign_digest(self, digest: bytes, /) -> bytes:
        return digest * 3


def with_contract(verdict: Verified) -> Driver:
    driver = Driver()
    driver.buyer.wallet, driver.buyer.has_node, driver.verdict = Contract(), True, verdict
    return driver


ASKED = [*PLAIN[:5], "Verify", *PLAIN[5:]]


def test_the_steps_of_a_purchase_by_a_contract() -> None:
    """What is refused without a node is not held."""
    for verdict in (Verified(is_asked=True), Verified(is_asked=False)):
        driver = with_contract(verdict)
        driver.run(driver.begin())
        assert (driver.done, driver.ledger.history()[0].submissions) == (ASKED, 1)
    driver.buyer.has_node = False
    driver.done, driver.buyer.budget = [], Budget.unlimited()
    driver.run(driver.begin())
    assert driver.done == PLAIN, "without a node nobody is asked"
    for is_asked in (True, False):
        driver = with_contract(Verified(is_asked, "no"))
        with pytest.raises(PaymentRefusedError, match="signer_failed: no") as caught:
            driver.run(driver.begin())
        assert driver.done == [*PLAIN[:5], "Verify", "Write"]
        assert (caught.value.charged, driver.seller.paid) == ("unknown" if is_asked else False, [])
        (payment,) = driver.ledger.history()
        assert (payment.is_unsent, payment.in_doubt) == (not is_asked, is_asked)
        assert driver.ledger.spending(driver.buyer.budget, now=driver.clock.now()).held == PRICE * is_asked


def test_a_dry_run_ends_where_a_slot_would_be_taken() -> None:
    driver = Driver()
    plan = driver.run(driver.begin(dry_run))
    assert driver.done == PLAIN[:2]
    assert plan.authorization["value"] == str(PRICE)
    assert (plan.refusal, driver.ledger.history()) == (None, [])


def test_what_a_budget_refuses_asks_the_witness_once() -> None:
    """Whatever becomes of it, nothing is written down."""
    for found, done in ((True, ["Look", "Ask", "Prove", "Look", "Ask"]), (False, ["Look", "Ask", "Prove"])):
        driver = Driver()
        driver.found = found
        submitted(driver.ledger, draft(), now=driver.clock.now())
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            driver.run(driver.begin())
        assert driver.done == done
        assert len(driver.ledger.history()) == 1
    steps = driver.begin()
    driver.until(steps, Prove)
    with pytest.raises(Ended):
        steps.throw(Ended(is_sent=False))
    assert len(driver.ledger.history()) == 1


def test_a_refusal_by_the_budget_is_shown_before_it_is_raised() -> None:
    driver = Driver(sold=partial(asks_2))
    driver.buyer.budget = Budget(total="0.05")
    plan = driver.run(driver.begin(dry_run))
    assert (plan.refusal.code, plan.authorization["value"]) == ("over_budget", str(PRICE))
    with pytest.raises(type(plan.refusal), match="over_budget"):
        driver.run(driver.begin())
    assert driver.done[-1] == "Prove"
    assert HandOver.__name__ not in driver.done


def in_doubt(driver: Driver) -> Payment:
    """A payment whose outcome the driver's call does not learn."""
    driver.seller.sold = down
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        driver.run(driver.begin())
    return caught.value.payment


def test_after_ten_minutes_it_is_another_purchase() -> None:
    """The transaction that writes it down sees that as the first look does."""
    driver = Driver()
    driver.buyer.budget = Budget(total="0.12")
    first = in_doubt(driver)
    driver.clock.advance(601)
    driver.seller.sold, driver.done = None, []
    result = driver.run(driver.begin())
    assert (driver.done, result.payment.nonce == first.nonce) == (PLAIN, False)


@each_of(("ahead", "later", "same"), [(100, 599, True), (100, 650, False), (-100, 650, True), (-100, 750, False)])
def test_ten_minutes_are_longer_if_the_clock_may_have_been_set_forward(ahead: float, later: float, same: bool) -> None:
    """Since the first signature, when the service's time is known to be behind; not when it is ahead."""
    driver = Driver()
    driver.buyer.budget, driver.seller.ahead, driver.seller.clock = Budget(total="0.12"), ahead, driver.clock
    first = in_doubt(driver)
    driver.clock.advance(later)
    driver.seller.sold = None
    assert (driver.run(driver.begin()).payment.nonce == first.nonce) == same


def test_a_new_process_whose_clock_was_set_forward_does_not_pay_again() -> None:
    """It learns that from the offer only, so its first look does not find the payment."""
    driver, other = Driver(), Driver()
    for one in (driver, other):
        one.buyer.budget, one.seller.clock = Budget(total="0.12"), one.clock
    first = in_doubt(driver)
    other.ledger = other.buyer.ledger = driver.ledger
    other.clock.advance(750)
    other.seller.ahead = -650
    assert other.run(other.begin()).payment.nonce == first.nonce


def test_ten_minutes_that_end_while_it_waits_for_another_call_change_nothing() -> None:
    driver = Driver()
    driver.buyer.budget = Budget(total="0.12")
    first = in_doubt(driver)
    driver.clock.advance(599)
    claim(driver.ledger, first, "another", until=driver.clock.now() + 200, now=driver.clock.now())
    driver.seller.sold, steps = None, driver.begin()
    effect = driver.until(steps, Sleep)
    driver.clock.advance(5)
    release(driver.ledger, first, "another")
    assert driver.run(steps, effect).payment.nonce == first.nonce


def test_a_clock_that_was_set_forward_by_an_hour_still_finds_the_kept_answer() -> None:
    """Nothing is signed by such a clock, but the bytes that were paid for are resent."""
    driver = Driver()
    driver.seller.offer = offer_2(**KEEPS)
    driver.buyer.budget, driver.seller.clock = Budget(total="0.12"), driver.clock
    first = in_doubt(driver)
    driver.clock.advance(3_800)
    driver.seller.ahead, driver.seller.sold = -3_600, None
    with pytest.raises(PaymentRefusedError, match="clock_difference"):
        driver.run(driver.begin())
    assert driver.run(driver.begin()).payment.nonce == first.nonce


def test_ten_minutes_that_end_while_it_signs_change_nothing() -> None:
    """What the call has seen as the same purchase stays that: it signs the same nonce again, and looks once."""
    driver = Driver()
    first = in_doubt(driver)
    driver.clock.advance(599)
    driver.seller.sold, driver.done = None, []
    steps = driver.begin()
    effect = driver.until(steps, Sign)
    driver.clock.advance(2)
    result = driver.run(steps, effect)
    assert (driver.done, result.payment.nonce == first.nonce) == ([PLAIN[0], "Sync", *PLAIN[1:]], True)


def test_an_answer_is_not_taken_from_a_call_that_still_works_on_it() -> None:
    """A late answer to an earlier call: the later one may be about to get its own."""
    driver = Driver()
    payment = in_doubt(driver)
    claim(driver.ledger, payment, "another", until=driver.clock.now() + 200, now=driver.clock.now())
    told(driver.ledger, payment, ReasonCode.DELIVERED, reply=b"{}", now=driver.clock.now())
    steps, driver.done = driver.begin(), []
    driver.until(steps, Sleep)
    assert driver.done == ["Look"]


def test_a_named_purchase_waits_for_another_call_until_it_is_answered() -> None:
    """Then every call gets the answer, also while that call still works on it."""
    driver = Driver()
    driver.intent = replace(INTENT, name="tuesday")
    payment = in_doubt(driver)
    claim(driver.ledger, payment, "another", until=driver.clock.now() + 200, now=driver.clock.now())
    steps = driver.begin()
    effect = steps.send(driver.carry_out(next(steps)))
    assert isinstance(effect, Sleep)
    told(driver.ledger, payment, ReasonCode.DELIVERED, reply=ANSWER, now=driver.clock.now())
    driver.done = []
    result = driver.run(steps, effect)
    assert (driver.done, result.again, result.payment.id) == (["Sleep", "Look", "HandOver"], True, payment.id)


@each_of("at", ["before it is resent", "between two resends", "while it is resent"])
def test_an_answer_that_another_call_kept_is_an_answer(at: str) -> None:
    """On another machine: this call has seen the payment as open, and a claim or report meets the answer."""
    driver = Driver()
    payment = in_doubt(driver)
    driver.seller.sold, driver.done = down, []
    steps = driver.begin(policy=RetryPolicy(max_retries=2))
    wanted, sends = {"before it is resent": (Slot, 0), "between two resends": (Slot, 1)}.get(at, (Send, 0))
    effect = next(steps)
    while not (isinstance(effect, wanted) and driver.done.count("Send") == sends):
        effect = steps.send(driver.carry_out(effect))
    told(driver.ledger, payment, ReasonCode.DELIVERED, owner="another", reply=ANSWER, now=driver.clock.now())
    result = driver.run(steps, effect)
    assert (result.again, result.payment.id, driver.done.count("Sign")) == (True, payment.id, 0)
    kept = driver.ledger.get(payment.id)
    assert kept is not None
    assert (kept.stage, kept.waits) == ("answered", False)


def test_a_newer_signature_is_asked_for_an_answer_of_its_own() -> None:
    """The service kept no answer for the expired one; another call has signed since, and that has expired too."""
    driver = Driver()
    driver.seller.offer = offer_2(**KEEPS)
    payment = in_doubt(driver)
    driver.clock.advance(100)
    driver.seller.sold = lambda _: asks_2(driver.seller.offer)
    steps = driver.begin()
    effect = next(steps)
    looks = 1
    while looks < 2:
        effect = steps.send(driver.carry_out(effect))
        looks += isinstance(effect, Look)
    other = Driver()
    other.ledger = other.buyer.ledger = driver.ledger
    other.clock.advance(100)
    other.seller.offer = driver.seller.offer
    other.seller.sold = lambda _: asks_2(other.seller.offer) if len(other.seller.paid) == 1 else down(_)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        other.run(other.begin())
    assert (caught.value.payment.id, caught.value.payment.signatures) == (payment.id, 2)
    driver.clock.advance(100)
    driver.done = []
    while not isinstance(effect, Send):
        assert not isinstance(effect, Ask)
        effect = steps.send(driver.carry_out(effect))
    assert effect.payment.signatures == 2
