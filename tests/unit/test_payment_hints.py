"""The hint of an error is where somebody looks: in the traceback, and in words that Python can use."""

from __future__ import annotations

import copy
import pickle
import re
import traceback
from collections.abc import Callable
from dataclasses import replace

import pytest

from tradesdk import ConfigError, MarketClient, Payment, PaymentError, PaymentRefusedError
from tradesdk._sync.payment_history import Payments
from tradesdk.payments.ledger.rules import recipient_refusal
from tradesdk.payments.messages import already_known, blocking_error, not_expired, outcome_error
from tradesdk.payments.state_machine import OPEN, UNDELIVERED, Meaning, Report

from .._payments import MARKED_PAID, MARKED_UNPAID, REJECTED, UNKNOWN, UNUSABLE, payment
from .._rows import each_of

NAME = "pay_000000000000000000000001"


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_traceback_shows_it_once_and_so_does_a_copys() -> None:
    error = PaymentRefusedError("no", code="no_signer", hint="do\nthis")
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    for one in (error, copy.copy(error), pickled):
        assert shown(one).splitlines()[-2:] == [
            "tradesdk.errors.PaymentRefusedError: no_signer: no",
            "hint: do\\nthis",
        ]
    assert "hint" not in str(error)


def outcome(payment: Payment, meaning: Meaning, reason: str) -> PaymentError:
    error = outcome_error(payment, Report(meaning, reason))
    assert error is not None
    return error


def errors() -> list[PaymentError]:
    open_, spoiled = payment(**UNKNOWN), payment(**UNUSABLE)
    return [
        outcome(open_, OPEN, "status 500"),
        outcome(spoiled, UNDELIVERED, "no JSON"),
        blocking_error(open_),
        blocking_error(spoiled),
        not_expired(open_),
        already_known(payment(paid=True)),
    ]


@each_of("error", errors(), ids=lambda error: error.code)
def test_it_names_a_method_with_the_payment(error: PaymentError) -> None:
    call = re.search(rf"client\.payments\.(\w+)\('{NAME}'", error.hint)
    assert call is not None
    assert hasattr(Payments, call[1])
    assert "trade " not in error.hint


def test_another_recipient() -> None:
    other = "0x" + "ab" * 20
    refusal = recipient_refusal(other, ["0x" + "cd" * 20])
    assert refusal is not None
    assert f"client.payments.trust('{other}')" in refusal.hint


def test_what_became_of_it_is_said() -> None:
    live = not_expired(payment(**REJECTED))
    moments = re.findall(r"\d\d:\d\d:\d\d UTC", live.message)
    assert len(moments) == 2
    assert moments[0] < moments[1]
    for place, words in ((MARKED_UNPAID, "it was not paid"), (MARKED_PAID, "it was paid")):
        assert already_known(payment(**place)).message.endswith(f"is known: {words}")


def test_when_time_is_up_the_same_call_goes_on() -> None:
    open_ = payment(**UNKNOWN)
    error = blocking_error(open_)
    assert error.code == "time_is_up"
    assert "has expired or is about to" in error.message
    assert error.hint.startswith("make the same call again: it signs the same nonce again")


@each_of(
    "said", [blocking_error, lambda open_: outcome(open_, OPEN, "the connection was lost")], ids=["resume", "call"]
)
def test_until_when_the_same_call_is_the_same_purchase(said: Callable[[Payment], PaymentError]) -> None:
    """Without a name, a call that is made again later pays once more: nobody is sent there."""
    hint = said(payment(**UNKNOWN)).hint
    assert "; 10 minutes after its first signing (continue_for=) it makes a new payment; or" in hint
    assert "a new payment" not in said(replace(payment(**UNKNOWN), purchase="2026-11-22/prices")).hint


def test_plain_http_is_told_apart_from_the_account() -> None:
    with pytest.raises(ConfigError, match="payments are never sent over plain http") as caught:
        MarketClient(base_url="http://example.com")
    assert "API key" not in str(caught.value)
