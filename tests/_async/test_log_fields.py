"""What a program reads of the log: fields, not words."""

from __future__ import annotations

from typing import Any

import pytest

from .._eventful import broken_disk
from ._paidshop import Shop, outcome


def fields_of(caplog: pytest.LogCaptureFixture, *names: str) -> list[dict[str, Any]]:
    records = [vars(record) for record in caplog.records if record.name == "tradesdk"]
    return [{name: record.get(name) for name in ("event", *names)} for record in records]


async def test_a_payment_that_is_resent(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(["lost before"])
    bought = await shop.buy()
    (again,) = fields_of(caplog, "payment_id", "reason", "wait")
    assert (again["event"], again["payment_id"]) == ("payment_resent", bought.payment.id)
    assert again["wait"] == shop.clock.waits[0] > 0
    assert again["reason"] == "no answer in time", "how long it waits is a field of its own"


async def test_a_ledger_that_fails_after_a_payment_was_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    clean = Shop([])
    await clean.buy()
    shop = Shop([])
    shop.ledger.at, shop.ledger.event = clean.ledger.calls.index("record") + 1, broken_disk
    result, _ = await outcome(shop)
    failed, warned = fields_of(caplog, "payment_id", "code", "reason")[:2]
    assert failed == {
        "event": "ledger_failed",
        "payment_id": result.payment.id,
        "code": "ledger_failed",
        "reason": "the disk is broken",
    }
    assert (warned["event"], warned["payment_id"]) == ("payment_warning", result.payment.id)
    assert warned["reason"] in result.warnings
