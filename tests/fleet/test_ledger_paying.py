"""Paid calls on the shared ledger, in virtual time and after a failover; and bugs that shared budgets of others had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk import (
    Budget,
    LedgerError,
    LocalSigner,
    MarketClient,
    PaymentRefusedError,
    PaymentState,
    PaymentUndeliveredError,
    TradeError,
)
from tradesdk.fleet import RedisLedger
from tradesdk_mock import MockServer

from .._async.test_paying_schedules import Run
from .._redis_server import RedisServer
from ..unit._ledger import HEADER, NOW, OTHER, draft, reserve, submitted
from ._cutting import CuttingProxy
from ._ledger import KEY, ledgers

CENT = 10_000


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with MockServer(seed=5) as running:
        yield running


def market(mock: MockServer, ledger: RedisLedger, **options: Any) -> MarketClient:
    values = {"signer": LocalSigner(KEY), "budget": Budget(total="1"), "check_tokens": False, **options}
    return MarketClient(base_url=mock.market_url, ledger=ledger, **values)


@pytest.mark.parametrize(
    "seeds", [range(3), *(pytest.param(range(100 * n, 100 * n + 40), marks=pytest.mark.long) for n in range(1, 4))]
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_schedules_of_faults(server: RedisServer, tmp_path: Path, seeds: range) -> None:
    """The same as on the ledger in SQLite: no money is lost, none is paid twice."""
    for seed in seeds:
        with ledgers(server, tmp_path, timeout=30)() as ledger:
            await Run(seed, ledger).play()
            ledger.check()


def test_a_named_purchase_settles_once_after_a_failover(server: RedisServer, mock: MockServer, tmp_path: Path) -> None:
    """The server forgets it, and another machine buys the same name: it signs the same nonce, which the chain takes
    once. What the first one knows comes back when it reconciles.
    """
    make = ledgers(server, tmp_path)
    with make() as one, make() as two, market(mock, one) as first, market(mock, two) as second:
        bought = first.token_prices(["ETH"], purchase="monday")
        assert bought.payment is not None
        server.command("FLUSHALL")
        with pytest.raises(PaymentUndeliveredError) as caught:
            second.token_prices(["ETH"], purchase="monday")
        assert caught.value.code == "taken_elsewhere"
        with pytest.raises(LedgerError, match="ledger_went_back"):
            first.token_prices(["BRETT"])
        found = first.payments.reconcile()
        assert [payment.id for payment in found.restored] == [bought.payment.id]
        assert first.payments.reconcile().restored == ()
        first.token_prices(["BRETT"])
        for client in (first, second):
            with pytest.raises(TradeError):  # delivered, and its answer is lost; or taken elsewhere
                client.token_prices(["ETH"], purchase="monday")
        settled = [settlement.nonce for settlement in mock.payments.settlements()]
        assert settled.count(bought.payment.nonce) == 1
        assert len(settled) == 2
        assert first.payments.spending().spent == mock.payments.spent()
        one.check()


def between(monkeypatch: pytest.MonkeyPatch, ledger: RedisLedger, event: Callable[[], object]) -> None:
    """Something happens after a ledger has read, and before it writes."""
    commit, events = ledger._store._commit, [event]

    def late(*args: Any, **options: Any) -> Any:
        while events:
            events.pop()()
        return commit(*args, **options)

    monkeypatch.setattr(ledger._store, "_commit", late)


def test_check_then_increment(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two look at the same time, see room for one, and both write. The second decides again."""
    make = ledgers(server, tmp_path)
    budget = Budget(total="0.05")
    with make() as one, make() as two:
        between(monkeypatch, one, lambda: reserve(two, budget=budget))
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            reserve(one, budget=budget)
        assert len(one.history()) == 1
        assert one.spending(budget, now=NOW).total == 3 * CENT


def test_two_at_the_same_payment(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One claims it; one counts what the other has counted; and the word of a call that is late is not written."""
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        payment = submitted(two)
        between(monkeypatch, one, lambda: two.claim(payment.id, owner="two", until=NOW + 60, now=NOW))
        assert not one.claim(payment.id, owner="one", until=NOW + 60, now=NOW)
        between(monkeypatch, one, lambda: two.resubmit(payment.id, signatures=1, owner="two", now=NOW))
        assert one.resubmit(payment.id, signatures=1, now=NOW)[0].submissions == 3
        between(monkeypatch, one, lambda: two.settle(payment.id, PaymentState.DELIVERED, reply=b"x", now=NOW))
        assert one.settle(payment.id, PaymentState.UNKNOWN, now=NOW).state is PaymentState.DELIVERED
        one.check()


def test_two_first_recipients(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        mine, other = reserve(one), reserve(two, draft(pay_to=OTHER))
        between(monkeypatch, one, lambda: two.submit(other, HEADER, now=NOW))
        with pytest.raises(PaymentRefusedError, match="recipient_changed"):
            one.submit(mine, HEADER, now=NOW)
        assert one.trusted(mine.origin) == [OTHER]


def test_a_reservation_that_leaks_on_an_error_path(server: RedisServer, mock: MockServer, tmp_path: Path) -> None:
    class Broken(LocalSigner):
        def sign_digest(self, digest: bytes, /) -> bytes:
            raise OSError("the device is gone")

    with ledgers(server, tmp_path)() as ledger, market(mock, ledger, signer=Broken(KEY)) as client:
        for _ in range(3):
            with pytest.raises(PaymentRefusedError, match="signer_failed"):
                client.token_prices(["ETH"])
        assert client.payments.spending().total == 0
        assert {payment.state for payment in client.payments.list()} == {PaymentState.CANCELLED}


def test_counters_that_grow_with_each_timeout(server: RedisServer, tmp_path: Path) -> None:
    """The reply is lost, so the step is sent again: it is one step."""
    with CuttingProxy(server.port) as proxy, ledgers(server, tmp_path)(url=proxy.url) as ledger:
        for number in range(1, 6):
            ledger.history()
            proxy.arm(2, "after")  # the script that writes
            reserve(ledger)
            assert ledger.spending(Budget(), now=NOW).total == 3 * CENT * number
        assert len(ledger.history()) == 5
        ledger.check()


def test_a_window_that_the_last_writer_resets(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    budget = Budget(per_hour="0.05")
    with make() as one, make() as two:
        reserve(one, draft(valid_before=int(NOW)), budget, now=NOW)
        for _ in range(2):  # in each other minute, and at the end of the hour
            with pytest.raises(PaymentRefusedError, match="over_budget"):
                reserve(two, budget=budget, now=NOW + 3599)
        reserve(two, draft(valid_before=int(NOW) + 3600), budget, now=NOW + 3600)
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            reserve(one, budget=budget, now=NOW + 3601)


def test_a_local_read_that_is_stale(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    budget = Budget(total="0.05")
    with make() as one, make() as two:
        assert one.spending(budget, now=NOW).left == 5 * CENT
        payment = submitted(two, budget=budget)
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            reserve(one, budget=budget)
        two.settle(payment.id, PaymentState.UNKNOWN, now=NOW)
        again, may_be_sent = one.resubmit(payment.id, signatures=1, now=NOW)
        assert (again.state, may_be_sent) == (PaymentState.UNKNOWN, True)


def test_a_cap_that_a_new_member_evades(server: RedisServer, tmp_path: Path) -> None:
    """The budget is that of the wallet: new names, owners, processes and journals get no more of it."""
    make = ledgers(server, tmp_path)
    budget = Budget(total="0.09")
    for number in range(3):
        with make() as member:
            reserve(member, draft(f"agent {number}"), budget, owner=f"agent {number}")
    with make() as member, pytest.raises(PaymentRefusedError, match="over_budget"):
        reserve(member, draft("agent 9"), budget, owner="agent 9")


def test_a_request_id_that_is_used_again(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        payment = submitted(one)
        with pytest.raises(LedgerError, match="with its id"):
            reserve(two, draft(id=payment.id))
        assert two.get(payment.id) == payment
        assert two.spending(Budget(), now=NOW).total == payment.amount
