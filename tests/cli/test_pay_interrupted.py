"""`trade pay resume` and `trade pay reconcile` when Ctrl-C or SIGTERM comes: what is handed over is waited for."""

from __future__ import annotations

import signal as signals

import pytest

from tradesdk._sync.payment_history import Payments
from tradesdk_cli.clock import SayingClock
from tradesdk_mock import MockServer

from ._terminal import Terminal

PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10", "--no-retry")


ENDS = pytest.mark.parametrize(("number", "code"), [(signals.SIGINT, 130), (signals.SIGTERM, 143)])


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[signals.Signals]:
    """The signals that come in the next wait between two submissions."""
    come: list[signals.Signals] = []

    def sleep(self: SayingClock, seconds: float) -> None:
        while come:
            signals.raise_signal(come.pop())

    monkeypatch.setattr(SayingClock, "sleep", sleep)
    return come


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
@ENDS
def test_what_is_handed_over_is_waited_for(
    buyer: Terminal, shop: MockServer, waits: list[signals.Signals], verb: str, number: signals.Signals, code: int
) -> None:
    shop.add_fault("status", status=500, paid="only", count=2)
    name = buyer(*PRICES).problem["payment"]["id"]
    waits.append(number)
    run = buyer("pay", verb, *([name] if verb == "resume" else []))
    found = run.lines if verb == "resume" else run.lines[0]["data"]
    assert (run.code, [one["symbol"] for one in found]) == (code, ["ETH", "BRETT"])
    assert "stops at once" in run.notes[0]["note"]
    assert run.notes[-1]["note"] == "interrupted, after the answer came"
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
@ENDS
def test_the_second_signal_does_not_wait(
    buyer: Terminal, shop: MockServer, waits: list[signals.Signals], verb: str, number: signals.Signals, code: int
) -> None:
    shop.add_fault("status", status=500, paid="only", count=2)
    name = buyer(*PRICES).problem["payment"]["id"]
    line = ("pay", verb, *([name] if verb == "resume" else []))
    waits += [number, number]
    run = buyer(*line)
    assert (run.code, run.out) == (code, "")
    assert [one["note"] for one in run.notes[1:]] == [
        f"a payment was under way: trade {' '.join(line)} goes on with the same one",
        "interrupted",
    ]
    shop.payments.assert_not_charged()
    assert buyer(*line).code == 0
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
def test_where_nothing_is_under_way_the_first_one_ends_it(
    buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """An answer that is kept, and a payment that was bought again: neither is handed over."""
    anew: list[str] = []
    if verb == "reconcile":
        shop.add_fault("status", status=503, paid="only", count=1)
        failed = buyer(*PRICES)
        assert failed.code == 14
        anew = ["--new-purchase", failed.problem["payment"]["id"]]
    bought = buyer(*PRICES, *anew)
    name = bought.notes[-1]["payments"]
    monkeypatch.setattr(Payments, verb, lambda *given: signals.raise_signal(signals.SIGTERM))
    run = buyer("pay", verb, *(name if verb == "resume" else []))
    assert (run.code, run.out, [one["note"] for one in run.notes]) == (143, "", ["interrupted"])
