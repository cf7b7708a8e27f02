"""Connections that end before a request arrives or after it ran: each step is done once, and says what it did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from tradesdk import Budget, LedgerError, PaymentState
from tradesdk.fleet import RedisLedger

from .._redis_server import RedisServer
from ..unit._ledger import HEADER, NOW, ORIGIN, OTHER, PLENTY, draft, reserve, submitted
from ._cutting import CuttingProxy
from ._ledger import ledgers


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[CuttingProxy]:
    with CuttingProxy(server.port) as made:
        yield made


def course(ledger: RedisLedger, number: int) -> list[Any]:
    """Every method that changes something, and what it returned."""
    asked = draft(id=f"pay_{number}", fingerprint=f"call {number}", nonce="0x01")
    told: list[Any] = [
        ledger.reserve(asked, PLENTY, origin=ORIGIN, pay_to=(), owner="me", until=NOW + 60, expired=0, over=0, now=NOW)
    ]
    payment = ledger.submit(asked, HEADER, owner="me", secret_id="s", now=NOW)
    told += [payment, ledger.resubmit(payment.id, signatures=1, owner="me", now=NOW + 1)]
    told += [ledger.settle(payment.id, PaymentState.DELIVERED, reply=b"prices", owner="me", now=NOW + 2)]
    ledger.collect(payment.id, owner="me")
    told += [ledger.get(payment.id), ledger.claim(payment.id, owner="you", until=NOW + 60, now=NOW)]
    ledger.reopen(payment.id, owner="you", reply=b"prices")
    told += [ledger.get(payment.id)]
    other = submitted(ledger, draft(id=f"pay_other_{number}", fingerprint=f"other {number}", nonce="0x02"))
    told += [other, ledger.expire(NOW + 10**6, now=NOW + 3), ledger.mark(other.id, paid=False, now=NOW + 10**6)]
    ledger.give_back(payment.id, owner="you")
    ledger.trust(ORIGIN, OTHER, now=NOW)
    ledger.set_budget(Budget(total="9"))
    told += [ledger.trusted(ORIGIN)]
    return [*told, ledger.budget(), ledger.history(), ledger.spending(Budget(), now=NOW)]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_at_any_request_changes_nothing(
    server: RedisServer, proxy: CuttingProxy, tmp_path: Path, when: Literal["before", "after"], step: int
) -> None:
    make = ledgers(server, tmp_path)
    with make(prefix="calm") as calm:
        expected = course(calm, 0)
    # A step reads, then writes: of every second step, the script that writes.
    at, requests = -(step // 2), 1
    while at < requests:  # those of the last round
        at += step
        with make(url=proxy.url, prefix=f"cut-{when}-{at}") as ledger:
            ledger.history()
            proxy.arm(at, when)
            assert course(ledger, 0) == expected, f"cut {when} request {at}"
            requests = proxy.requests
            proxy.arm(0, when)
            ledger.check()
    assert at > 30


def test_a_server_that_answers_after_the_time_is_up(server: RedisServer, tmp_path: Path) -> None:
    """Its step may be done later. It is the caller's, and it expires: it is not leaked."""
    with RedisServer("valkey", tmp_path / "own") as own:
        make = ledgers(own, tmp_path, timeout=0.4)
        with make() as ledger, make(timeout=60) as other:
            before = reserve(other, owner="me", until=NOW + 60)
            while True:
                with suppress(LedgerError):  # where the disk is busy, its time may be up here as well
                    assert ledger.history() == [before]
                    break
            own.pause()
            began = time.monotonic()
            with pytest.raises(LedgerError) as caught:
                reserve(ledger, draft(id="pay_late", fingerprint="late"), owner="me", until=NOW + 60)
            assert caught.value.code == "server_unreachable"
            assert "nothing was sent" in str(caught.value)
            assert 0.3 < time.monotonic() - began < 30
            with pytest.raises(LedgerError):
                ledger.submit(before, HEADER, owner="me", now=NOW)
            own.go_on()
            assert other.spending(PLENTY, now=NOW).total in (30_000, 60_000)
            found = other.history()
            assert {one.state for one in found} <= {PaymentState.RESERVED, PaymentState.SUBMITTED}
            # Whatever was done late expires: what was never signed is free again, what was stays held.
            other.expire(NOW + 10**6, now=NOW + 10**6)
            held = sum(30_000 for one in other.history() if one.signatures)
            assert other.spending(PLENTY, now=NOW).total == held
            other.check()


def test_scripts_that_were_flushed_are_sent_again(server: RedisServer, tmp_path: Path) -> None:
    with ledgers(server, tmp_path)() as ledger:
        for number in range(3):
            server.command("SCRIPT", "FLUSH")
            payment = reserve(ledger, draft(id=f"pay_{number}"))
            server.command("SCRIPT", "FLUSH")
            ledger.submit(payment, HEADER, now=NOW)
        ledger.check()
        assert len(ledger.history()) == 3
