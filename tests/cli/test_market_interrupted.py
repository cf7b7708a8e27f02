"""A signal while something is being paid: the answer is waited for, and the exit code says which one came."""

from __future__ import annotations

import os
import signal as signals

import pytest

from tradesdk import Ledger, SystemClock
from tradesdk._sync.payment_history import Payments
from tradesdk.payments.ledger.changes import LedgerChange, LedgerRow, Record
from tradesdk_cli.output.printer import Output
from tradesdk_cli.pay import buy as buying
from tradesdk_cli.wallet import Wallet
from tradesdk_mock import MockServer

from ._terminal import Terminal

OTHERS = [(signals.SIGTERM, 143), *([(signals.SIGHUP, 129)] if hasattr(signals, "SIGHUP") else [])]
ENDS = pytest.mark.parametrize(("number", "code"), [(signals.SIGINT, 130), *OTHERS])
# The same, where the number of the signal decides nothing more than the exit code.
ANY = pytest.mark.parametrize(
    ("number", "code"), [(signals.SIGINT, 130), *(pytest.param(*end, marks=pytest.mark.long) for end in OTHERS)]
)


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> list[signals.Signals]:
    """The signals that come right after the next signature."""
    come: list[signals.Signals] = []
    sign = Wallet.sign_digest

    def and_then(self: Wallet, digest: bytes) -> bytes:
        signature = sign(self, digest)
        while come:
            signals.raise_signal(come.pop())
        return signature

    monkeypatch.setattr(Wallet, "sign_digest", and_then)
    return come


@ENDS
def test_what_is_being_paid_is_waited_for(
    buyer: Terminal, shop: MockServer, signed: list[signals.Signals], number: signals.Signals, code: int
) -> None:
    signed.append(number)
    run = buyer("market", "prices", "ETH", "--max-price", "0.03")
    assert (run.code, [one["symbol"] for one in run.lines]) == (code, ["ETH"])
    name = "Ctrl-C" if number == signals.SIGINT else "the same signal"
    assert f"{name} again stops at once" in run.err
    assert ("Ctrl-C" in run.err) is (number == signals.SIGINT)
    assert run.notes[-1]["note"] == "interrupted after the answer arrived"
    shop.payments.assert_charged(times=1)
    assert "nothing was paid" not in buyer("market", "prices", "ETH", "--max-price", "0.03").err, "it was printed"


@ANY
def test_the_second_signal_does_not_wait(
    buyer: Terminal,
    shop: MockServer,
    signed: list[signals.Signals],
    number: signals.Signals,
    code: int,
) -> None:
    signed += [number, number]
    run = buyer("market", "prices", "ETH", "--max-price", "0.03")
    assert (run.code, run.out) == (code, "")
    assert run.notes[-1]["note"] == "interrupted"
    shop.payments.assert_charged(times=0)


@ANY
@pytest.mark.parametrize("step", ["handed over", "printed"])
def test_an_answer_that_was_not_printed_is_kept_for_the_same_command(
    buyer: Terminal,
    shop: MockServer,
    monkeypatch: pytest.MonkeyPatch,
    number: signals.Signals,
    code: int,
    step: str,
) -> None:
    """It was paid for and written down, and the command ends before the answer is handed over, or printed."""
    come = [number, number] if step == "handed over" else [number]  # the first one waits for the answer
    update, write = Ledger.update, Output.write

    def handing_over(self: Ledger, payment_id: str, change: LedgerChange, row: LedgerRow | None = None) -> LedgerRow:
        result = update(self, payment_id, change, row)
        while come and step == "handed over" and isinstance(change, Record):
            signals.raise_signal(come.pop())
        return result

    def printing(self: Output, text: str) -> None:
        if come and step == "printed":
            signals.raise_signal(come.pop())
        write(self, text)

    monkeypatch.setattr(Ledger, "update", handing_over)
    monkeypatch.setattr(Output, "write", printing)
    line = ("market", "prices", "ETH", "--max-price", "0.03")
    first = buyer(*line)
    assert (first.code, first.out) == (code, "")
    (payment,) = buyer("pay", "history").lines
    assert payment["stage"] == "answered"
    kept = f"the same command prints it for 60 s, trade pay resume {payment['id']} at any time"
    assert f"$0.03 was paid, and the answer is kept: {kept}" in first.err
    second = buyer(*line)
    assert (second.code, [one["symbol"] for one in second.lines]) == (0, ["ETH"])
    assert "nothing was paid" in second.err
    shop.payments.assert_charged(times=1)
    third = buyer(*line)
    assert (third.code, "nothing was paid" in third.err) == (0, False)
    shop.payments.assert_charged(times=2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_what_could_not_be_written_is_not_collected(buyer: Terminal, shop: MockServer) -> None:
    line = ("market", "prices", "ETH", "--max-price", "0.03")
    assert buyer(*line, "-o", "json", "--out", "/dev/full").problem["charged"] is True
    second = buyer(*line)
    assert (second.code, [one["symbol"] for one in second.lines]) == (0, ["ETH"])
    shop.payments.assert_charged(times=1)


def test_a_signal_after_it_is_printed_has_nothing_to_say(
    buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buying, "_note_payment", lambda *_: signals.raise_signal(signals.SIGTERM))
    run = buyer("market", "prices", "ETH", "--max-price", "0.03")
    assert (run.code, [one["symbol"] for one in run.lines]) == (143, ["ETH"])
    assert [one["note"] for one in run.notes][1:] == ["interrupted"]
    assert "nothing was paid" not in buyer("market", "prices", "ETH", "--max-price", "0.03").err


@ANY
def test_a_signal_before_anything_is_signed_ends_it_at_once(
    buyer: Terminal,
    shop: MockServer,
    monkeypatch: pytest.MonkeyPatch,
    number: signals.Signals,
    code: int,
) -> None:
    monkeypatch.setattr(Wallet, "sign_digest", lambda *_: signals.raise_signal(number))
    run = buyer("market", "prices", "ETH", "--max-price", "0.03")
    assert (run.code, run.out) == (code, "")
    assert run.err.splitlines()[-1].find("interrupted") >= 0
    assert shop.payments.submissions() == []


# trade pay resume and reconcile


PRICES = ("market", "prices", "ETH", "BRETT", "--max-price", "0.10")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[signals.Signals]:
    """The signals that come in the next wait between two submissions."""
    come: list[signals.Signals] = []

    def sleep(self: SystemClock, seconds: float) -> None:
        while come:
            signals.raise_signal(come.pop())

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    return come


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
@ANY
def test_what_is_handed_over_is_waited_for(
    buyer: Terminal, shop: MockServer, waits: list[signals.Signals], verb: str, number: signals.Signals, code: int
) -> None:
    shop.add_fault("status", status=500, paid="only", count=2)
    name = buyer(*PRICES).problem["payment"]["id"]
    del buyer.env["TRADE_MAX_RETRIES"]
    waits.append(number)
    run = buyer("pay", verb, *([name] if verb == "resume" else []))
    found = run.lines if verb == "resume" else run.lines[0]["data"]
    assert (run.code, [one["symbol"] for one in found]) == (code, ["ETH", "BRETT"])
    assert any("stops at once" in note["note"] for note in run.notes)
    assert run.notes[-1]["note"] == "interrupted after the answer arrived"
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
@ANY
def test_the_second_signal_does_not_wait_for_what_is_handed_over(
    buyer: Terminal, shop: MockServer, waits: list[signals.Signals], verb: str, number: signals.Signals, code: int
) -> None:
    shop.add_fault("status", status=500, paid="only", count=2)
    name = buyer(*PRICES).problem["payment"]["id"]
    line = ("pay", verb, *([name] if verb == "resume" else []))
    del buyer.env["TRADE_MAX_RETRIES"]
    waits += [number, number]
    run = buyer(*line)
    assert (run.code, run.out) == (code, "")
    assert [one["note"] for one in run.notes[-2:]] == [
        f"a payment was under way: trade {' '.join(line)} continues the same one",
        "interrupted",
    ]
    shop.payments.assert_charged(times=0)
    assert buyer(*line).code == 0
    shop.payments.assert_charged(times=1)


@pytest.mark.parametrize("verb", ["resume", "reconcile"])
def test_where_nothing_is_under_way_the_first_one_ends_it(
    buyer: Terminal, shop: MockServer, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """An answer that is kept is only read."""
    bought = buyer(*PRICES)
    name = bought.notes[-1]["payments"]
    monkeypatch.setattr(Payments, verb, lambda *given: signals.raise_signal(signals.SIGTERM))
    run = buyer("pay", verb, *(name if verb == "resume" else []))
    assert (run.code, run.out, [one["note"] for one in run.notes]) == (143, "", ["interrupted"])
