"""Cases that the model of the ledger leaves out: texts, odd values, unknown ids, URLs, dead owners, threads."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tradesdk import (
    Budget,
    InvalidArgumentError,
    Ledger,
    LedgerError,
    LedgerStore,
    Payment,
    PaymentRefusedError,
    PaymentState,
    Receipt,
)
from tradesdk._values.payment import GRACE, LIVE, UNRESOLVED
from tradesdk.payments.ledger import leases
from tradesdk.payments.ledger.leases import is_dead, owner_name

from ._ledger import ADDRESS, HEADER, NOW, ORIGIN, OTHER, PLENTY, draft, in_state, reserve, submitted

LATE = NOW + 10**6
REPLY = b'{"data": 1}'


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


def refused(ledger: Ledger, code: str, **changes: object) -> PaymentRefusedError:
    with pytest.raises(PaymentRefusedError) as caught:
        reserve(ledger, **changes)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert caught.value.charged is False
    return caught.value


def test_it_is_a_budget_store(ledger: Ledger) -> None:
    store: LedgerStore = ledger
    assert isinstance(store, LedgerStore)


def test_a_reservation_is_kept_as_it_was_given(ledger: Ledger) -> None:
    asked = draft(body=b"\x00\xff", purchase="tuesday", identified=True, amount=10**18, version=1, reason="why not")
    payment = reserve(ledger, asked, budget=Budget.unlimited())
    assert payment == asked
    assert ledger.get(asked.id) == asked
    assert ledger.find(asked.fingerprint, now=NOW) == asked


@pytest.mark.parametrize("state", sorted(set(PaymentState) - {PaymentState.RESERVED}))
def test_only_what_is_reserved_can_be(ledger: Ledger, state: PaymentState) -> None:
    with pytest.raises(InvalidArgumentError, match="RESERVED"):
        reserve(ledger, draft(state=state))
    assert ledger.history() == []


def test_another_recipient_is_refused_until_it_is_trusted(ledger: Ledger) -> None:
    submitted(ledger, draft(pay_to=ADDRESS))
    error = refused(ledger, "recipient_changed", payment=draft(pay_to=OTHER))
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert f"trade pay trust {OTHER}" in error.hint
    assert "pay_to=" in error.hint
    assert len(ledger.history()) == 1
    ledger.trust(ORIGIN, OTHER.lower(), now=NOW + 1)
    ledger.trust(ORIGIN, OTHER, now=NOW + 2)  # known already
    submitted(ledger, draft(pay_to=OTHER))
    submitted(ledger, draft(pay_to=ADDRESS))
    assert ledger.trusted(ORIGIN) == [ADDRESS, OTHER.lower()]


def test_configured_recipients_are_the_only_ones(ledger: Ledger) -> None:
    submitted(ledger, draft(pay_to=ADDRESS))
    other = reserve(ledger, draft(pay_to=OTHER), pay_to=[OTHER.lower()])
    ledger.submit(other, HEADER, pay_to=[OTHER.lower()], now=NOW)
    error = refused(ledger, "recipient_changed", payment=draft(pay_to=ADDRESS), pay_to=[OTHER])
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert "add it to pay_to=" in error.hint  # to trust it would not help
    assert ledger.trusted(ORIGIN) == [ADDRESS]  # what is configured is not remembered


def test_a_hostile_recipient_cannot_write_to_the_terminal(ledger: Ledger) -> None:
    submitted(ledger)
    error = refused(ledger, "recipient_changed", payment=draft(pay_to="0x\x1b[2J\n" + "A" * 500))
    assert (error.message + error.hint).isprintable()
    assert len(str(error)) < 1000


def test_the_same_id_cannot_be_reserved_twice(ledger: Ledger) -> None:
    first = reserve(ledger)
    with pytest.raises(LedgerError) as caught:
        reserve(ledger, draft(id=first.id))
    assert caught.value.code == "ledger_failed"
    assert ledger.history() == [first]


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


@pytest.mark.parametrize("raw", [{"deep": deep(900)}, {"set": {1}}, {"number": 10**5000}], ids=["deep", "type", "int"])
def test_an_odd_receipt_does_not_keep_the_rest_from_being_written(ledger: Ledger, raw: dict[str, Any]) -> None:
    odd = Receipt(success=True, transaction="0x\ud800", network="eip155:8453", raw=raw)
    payment = submitted(ledger)
    ledger.settle(payment.id, PaymentState.DELIVERED, reason="odd \ud800\x00", receipt=odd, now=NOW)
    kept = ledger.get(payment.id)
    assert kept is not None
    assert kept.receipt is not None
    assert (kept.state, kept.receipt.success, kept.receipt.transaction) == (PaymentState.DELIVERED, True, "0x\ud800")
    assert kept.reason == "odd \\ud800\x00"
    assert kept.receipt.raw in (raw, {})


def test_an_unknown_id(ledger: Ledger) -> None:
    assert ledger.get("pay_nobody") is None
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.mark("pay_nobody", paid=True, now=NOW)
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.claim("pay_nobody", owner="me", until=NOW + 1, now=NOW)
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.history(before="pay_nobody")
    moves: list[Callable[[], object]] = [
        lambda: ledger.submit(draft(id="pay_nobody"), HEADER, now=NOW),
        lambda: ledger.resubmit("pay_nobody", signatures=1, now=NOW),
        lambda: ledger.settle("pay_nobody", PaymentState.DELIVERED, now=NOW),
    ]
    for move in moves:
        with pytest.raises(LedgerError, match="pay_nobody is no longer in the ledger") as caught:
            move()
        assert caught.value.code == "ledger_failed"
    ledger.give_back("pay_nobody", owner="me")


def test_memory_keeps_what_it_knows_when_it_is_closed() -> None:
    with Ledger.memory() as ledger:
        payment = reserve(ledger)
    ledger.close()
    assert ledger.path is None
    assert ledger.get(payment.id) == payment
    assert Ledger.memory().history() == []
    assert ledger.spending(PLENTY, now=NOW).held == 30_000


def test_history_without_proof(ledger: Ledger) -> None:
    for number in range(5):
        payment = submitted(ledger, draft(f"call {number}", id=f"pay_{number}"))
        ledger.settle(payment.id, PaymentState.DELIVERED, now=NOW)
    receipt = Receipt(success=True, transaction="0x1", network="base", raw={})
    ledger.settle("pay_0", PaymentState.DELIVERED, receipt=receipt, now=NOW)
    ledger.settle("pay_2", PaymentState.DELIVERED, receipt=replace(receipt, success=False), now=NOW)
    ledger.mark("pay_3", paid=True, now=NOW)
    reserve(ledger, draft("call 5", id="pay_5"))
    for states, expected in (((), ["5", "4", "2", "1"]), ((PaymentState.DELIVERED,), ["4", "2", "1"])):
        found: list[Payment] = []
        while page := ledger.history(states=states, unproven=True, limit=2, before=found[-1].id if found else None):
            found += page
        assert [one.id for one in found] == [f"pay_{number}" for number in expected]


def answered(ledger: Ledger, **changes: Any) -> Payment:
    """A payment for "call" whose answer nobody has collected, claimed by "me"."""
    payment = submitted(ledger, draft("call", **changes), owner="me", until=NOW + 200)
    return ledger.settle(payment.id, PaymentState.DELIVERED, reply=b"prices", now=NOW)


@pytest.mark.parametrize(
    ("seconds", "given"),
    [(0, True), (59.999, True), (60, False), (1e6, False), (-5, True), (-5.001, False), (-1e6, False)],
)
def test_an_answer_waits_for_a_minute(ledger: Ledger, seconds: float, given: bool) -> None:
    """By a clock that was put back by more than five seconds, nobody knows how old it is."""
    payment = answered(ledger)
    now = NOW + seconds
    assert ledger.find("call", now=now) == (payment if given else None)
    asked = draft("call", pay_to=OTHER)
    # Neither the recipient nor the budget is looked at: nothing new is bought.
    if given:
        assert reserve(ledger, asked, budget=Budget(), now=now) == payment
    else:
        assert reserve(ledger, asked, pay_to=[OTHER], now=now).id == asked.id
    assert ledger.get(payment.id) == payment  # its reply stays


@pytest.mark.parametrize(("name", "keep", "kept"), [(None, False, False), (None, True, True), ("monday", False, True)])
def test_an_unnamed_answer_is_collected_once(ledger: Ledger, name: str | None, keep: bool, kept: bool) -> None:
    payment = answered(ledger, purchase=name)
    after = replace(payment, reply=b"prices" if kept else None)
    for kept_again in (keep, False):
        ledger.collect(payment.id, owner="me", keep=kept_again)
        assert ledger.get(payment.id) == after
        assert ledger.find("call", now=NOW) == (None if name is None else after)
        assert ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)  # its claim was given back
    ledger.reopen(payment.id, owner="other", reply=b"prices")
    opened = replace(after, reply=b"prices")
    assert ledger.get(payment.id) == opened
    assert ledger.find("call", now=NOW) == opened
    assert ledger.claim(payment.id, owner="another", until=NOW + 1, now=NOW)


def test_the_same_outcome_once_more_opens_nothing(ledger: Ledger) -> None:
    payment = answered(ledger)
    ledger.collect(payment.id, owner="me")
    ledger.settle(payment.id, PaymentState.DELIVERED, reply=b"prices", now=NOW)
    assert ledger.find("call", now=NOW) is None


def test_a_claim_of_somebody_else_stays(ledger: Ledger) -> None:
    payment = answered(ledger)
    ledger.reopen(payment.id, owner="other", reply=b"")
    assert not ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)
    ledger.collect(payment.id, owner="other")
    assert not ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)


def test_a_new_purchase_closes_the_earlier_answer(ledger: Ledger) -> None:
    first = answered(ledger)
    second = submitted(ledger, draft("call"), replaces=first.id)
    assert second.id != first.id
    ledger.settle(second.id, PaymentState.DELIVERED, reply=b"newer", now=NOW)
    ledger.collect(second.id, owner="nobody")
    assert ledger.find("call", now=NOW) is None
    assert ledger.get(first.id) == replace(first, superseded=True)


@pytest.mark.parametrize("state", sorted(LIVE | UNRESOLVED))
def test_a_new_purchase_supersedes_the_earlier_ones_when_it_is_signed(ledger: Ledger, state: PaymentState) -> None:
    first = in_state(ledger, state, fingerprint="call")
    second = reserve(ledger, draft("call"), replaces=first.id)
    assert reserve(ledger, draft("call"), replaces=first.id) == second  # asked for twice, it is one replacement
    other = submitted(ledger, draft("other call"))
    assert not any(payment.superseded for payment in ledger.history())
    # Both can still be taken, so both count.
    assert ledger.spending(PLENTY, now=NOW).total == 3 * 30_000
    second = ledger.submit(second, HEADER, now=NOW)
    found = {payment.id: payment.superseded for payment in ledger.history()}
    reserved = state is PaymentState.RESERVED
    assert found == {first.id: not reserved, second.id: False, other.id: False}
    assert ledger.find("call", now=NOW) == second
    assert ledger.spending(PLENTY, now=NOW).total == 3 * 30_000
    ledger.settle(second.id, PaymentState.DELIVERED, now=NOW)
    assert ledger.find("call", now=NOW) == (first if reserved else None)


@pytest.mark.parametrize("origin", [None, ORIGIN])
def test_expiry_is_to_the_second(ledger: Ledger, origin: str | None) -> None:
    payment = submitted(ledger, draft(valid_before=int(NOW) + 100))
    assert ledger.expire(NOW + 100 + GRACE - 0.001, now=NOW, origin=origin) == []
    assert [one.id for one in ledger.expire(NOW + 100 + GRACE, now=NOW, origin=origin)] == [payment.id]


OTHERS = [
    "http://127.0.0.1:8000",
    "http://market.example",
    "https://market.example:8443",
    "https://market.example0",
    "https://market.example.evil.example",
    "https://market",
    "https://a.market.example",
    "https://MARKET.example",
    "https://m%rket.example",
    "https://zebra.example",
]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_each_has_its_own_clock(ledger: Ledger, other: str, first: bool) -> None:
    origins = (ORIGIN, other) if first else (other, ORIGIN)
    one, two = [submitted(ledger, draft(url=f"{origin}/v1/a")) for origin in origins]
    assert [closed.id for closed in ledger.expire(LATE, now=NOW, origin=origins[0])] == [one.id]
    assert ledger.get(two.id) == two
    assert [closed.id for closed in ledger.expire(LATE, now=NOW, origin=origins[1])] == [two.id]
    assert [payment.state for payment in ledger.history()] == [PaymentState.EXPIRED_UNKNOWN] * 2


def test_all_of_an_origin_in_order(ledger: Ledger) -> None:
    urls = [f"{ORIGIN}/z", f"{ORIGIN}/", f"{ORIGIN}/a/b?c=d", f"{ORIGIN}/\u00fc"]
    made = [submitted(ledger, draft(url=url)) for url in urls]
    assert [one.id for one in ledger.expire(LATE, now=NOW, origin=ORIGIN)] == [one.id for one in made]


def test_a_reservation_closes_what_its_own_service_says(ledger: Ledger) -> None:
    """A mock whose clock is ahead must not free money that a real service can still take."""
    real = submitted(ledger, draft(url=f"{ORIGIN}/v1/a"))
    ledger.settle(real.id, PaymentState.REJECTED_LIVE, now=NOW)
    reserve(ledger, draft(url="http://127.0.0.1:8000/v1/a"), origin="http://127.0.0.1:8000", expired=LATE)
    found = ledger.get(real.id)
    assert found is not None
    assert found.state is PaymentState.REJECTED_LIVE
    reserve(ledger, draft(), expired=LATE)
    found = ledger.get(real.id)
    assert found is not None
    assert found.state is PaymentState.EXPIRED_UNPAID


@pytest.mark.parametrize("state", sorted(LIVE - {PaymentState.RESERVED}))
def test_what_is_resubmitted_may_be_taken(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state)
    again, may_be_sent = ledger.resubmit(payment.id, signatures=payment.signatures, now=NOW + 1)
    assert may_be_sent
    assert again.state is (PaymentState.SUBMITTED if state is PaymentState.REJECTED_LIVE else state)
    assert (again.submissions, again.header) == (payment.submissions + 1, HEADER)
    assert ledger.get(payment.id) == again


def test_the_newest_reply_of_a_named_purchase_counts(ledger: Ledger) -> None:
    first = answered(ledger, purchase="tuesday")
    second = submitted(ledger, draft("call", purchase="tuesday"), replaces=first.id)
    newest = ledger.settle(second.id, PaymentState.DELIVERED, reply=b"newer", now=NOW)
    ledger.collect(newest.id, owner="nobody")
    assert reserve(ledger, draft("call", purchase="tuesday"), now=NOW + 30 * 86400) == newest
    # After 30 days the answer is deleted, and it still stands.
    assert reserve(ledger, draft("call", purchase="tuesday"), now=NOW + 30 * 86400 + 1) == replace(newest, reply=None)


def test_threads_that_buy_one_name_pay_once(ledger: Ledger) -> None:
    """Each looks, sees nothing, and is late by any amount: the reservation itself has to notice."""
    start, got, lock = threading.Barrier(8), [], threading.Lock()

    def run() -> None:
        start.wait()
        while True:
            payment = reserve(ledger, asked := draft("call", purchase="tuesday"))
            if payment.id == asked.id:
                payment = ledger.settle(payment.id, PaymentState.DELIVERED, reply=REPLY, now=NOW)
            if payment.state is PaymentState.DELIVERED:
                with lock:
                    got.append(payment)
                return

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert [payment.id for payment in ledger.history()] == list({payment.id for payment in got})


@pytest.fixture
def dead() -> str:
    """The owner of a process that has ended."""
    code = "from tradesdk.payments.ledger.leases import owner_name; print(owner_name())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_claim_of_a_dead_process_does_not_count(ledger: Ledger, dead: str) -> None:
    payment = reserve(ledger, owner=dead, until=NOW + 60)
    assert ledger.claim(payment.id, owner=owner_name(), until=NOW + 60, now=NOW)


def test_a_dead_owner_holds_nothing_whatever_the_clock_says(ledger: Ledger, dead: str) -> None:
    payment = reserve(ledger, owner=dead, until=NOW + 300)
    assert ledger.claim(payment.id, owner="other", until=NOW, now=NOW - 30)


def test_owners(dead: str) -> None:
    name = owner_name()
    host, pid, chance = name.split(":")
    assert int(pid) == os.getpid()
    assert len(chance) == 12
    assert owner_name() != name
    assert not is_dead(name)
    assert dead.split(":")[0] == host
    assert is_dead(dead)


def test_only_what_is_certain_counts_as_dead(dead: str) -> None:
    host, pid, chance = dead.split(":")
    for name in (
        f"elsewhere:{pid}:{chance}",
        f"{host}:0:{chance}",
        f"{host}:-1:{chance}",
        f"{host}:{2**40}:{chance}",
        f"{host}:²:{chance}",
        f"{host}::{chance}",
        host,
        "",
        "nobody",
    ):
        assert not is_dead(name), name


@pytest.mark.parametrize(("answer", "dead"), [(ProcessLookupError, True), (PermissionError, False), (None, False)])
def test_somebody_elses_process_is_alive(
    monkeypatch: pytest.MonkeyPatch, answer: type[OSError] | None, dead: bool
) -> None:
    asked = []

    def kill(pid: int, signal: int) -> None:
        asked.append((pid, signal))
        if answer is not None:
            raise answer

    name = owner_name()
    monkeypatch.setattr("tradesdk.payments.ledger.leases.os.kill", kill)
    assert is_dead(name) is dead
    assert asked == [(os.getpid(), 0)]


def test_where_signals_cannot_ask_everybody_is_alive(monkeypatch: pytest.MonkeyPatch, dead: str) -> None:
    monkeypatch.setattr("tradesdk.payments.ledger.leases.os.name", "nt")
    monkeypatch.setattr("tradesdk.payments.ledger.leases.os.kill", None)
    assert not is_dead(dead)


def test_two_machines_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = set()
    for boot, space in (("one", "a"), ("two", "a"), ("one", "b")):
        leases._host.cache_clear()
        monkeypatch.setattr(leases, "_boot_id", lambda boot=boot: boot)
        monkeypatch.setattr(leases, "_pid_namespace", lambda space=space: space)
        hosts.add(owner_name().split(":")[0])
    leases._host.cache_clear()
    assert len(hosts) == 3


def test_a_host_name_cannot_break_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    leases._host.cache_clear()
    monkeypatch.setattr("tradesdk.payments.ledger.leases.socket.gethostname", lambda: "odd:name \n" + "x" * 300)
    name = owner_name()
    leases._host.cache_clear()
    assert name.count(":") == 2
    assert name.isprintable()
    assert len(name) < 120
