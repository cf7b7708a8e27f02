"""What a program reads of the log: fields, not words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tradesdk._http.log_events import LogFields

from .._answers import SCRIPTED, Service, agent, bare, ok, page, summary
from .._eventful import broken_disk
from .._rows import each_of
from .._streamscript import StreamScript, live
from .._streamservice_plan import BACKEND
from ._client import client_of
from ._following import followed
from ._paidshop import Shop, outcome


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


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
        "reason": "the disk is broken; the outcome of the payment is written later, with the next change",
    }
    assert (warned["event"], warned["payment_id"]) == ("payment_warning", result.payment.id)
    assert warned["reason"] in result.warnings


def refuse(record: logging.LogRecord) -> bool:
    raise RuntimeError("of the program")


ELSEWHERE = {"start", "end", "position", "signal", "source", "type"}
"""Fields that none of these calls logs."""


@contextmanager
def logging_of_a_program(sets: str, raises: str) -> Iterator[list[logging.LogRecord]]:
    """Whole logs of a program, of which a part raises or sets a field; the records that arrive."""
    arrived: list[logging.LogRecord] = []
    usual, loggers = logging.getLogRecordFactory(), [logging.getLogger(name) for name in ("tradesdk", "tradesdk.wire")]
    first, handler, raising = logging.Handler(), logging.Handler(), logging.Filter()
    first.emit, raising.filter = arrived.append, refuse  # type: ignore[assignment,method-assign]

    def factory(*args: Any, **named: Any) -> logging.LogRecord:
        record = usual(*args, **named)
        setattr(record, sets, "of the program")
        if raises == "factory":
            refuse(record)
        return record

    if raises == "handler":
        handler.emit = refuse  # type: ignore[assignment,method-assign]
    elif raises == "filter of a handler":
        handler.addFilter(raising)
    logging.setLogRecordFactory(factory)
    for logger in loggers:
        logger.handlers, logger.propagate = [first, handler], False
        logger.setLevel(logging.DEBUG)
        if raises == "filter":
            logger.addFilter(raising)
        elif raises == "logger":
            logger.isEnabledFor = refuse  # type: ignore[assignment,method-assign]
    try:
        yield arrived
    finally:
        logging.setLogRecordFactory(usual)
        for logger in loggers:
            logger.handlers, logger.propagate = [], True
            logger.setLevel(logging.NOTSET)
            logger.removeFilter(raising)
            vars(logger).pop("isEnabledFor", None)


async def every_call() -> list[object]:
    """What a GET, a create, a purchase and a stream bring, each after something that is logged."""
    lost = Service(httpx.ReadError("lost"), ok(page([summary("a1", name="one")])), ok(agent(name="one")))
    got = await client_of(Service(bare(503), ok(agent()))).agents.get("a1")
    SCRIPTED.stop(clear=True, reset=True)
    made = await client_of(lost).agents.create(name="one", wallet_id="w1", chain_id=8453)
    SCRIPTED.stop(clear=True, reset=True)
    bought = await Shop(["lost before"]).buy()
    stream = await followed(StreamScript([live("s1", 1), httpx.ReadError("lost")], [live("end", 9)]))
    return [got.id, made.name, bought.payment.charged, stream.ids, stream.error]


@pytest.mark.twin
@each_of("name", ["event", "wire", *sorted(set(LogFields.__annotations__) - ELSEWHERE)])
async def test_a_factory_that_sets_a_field_of_ours_changes_no_result(name: str) -> None:
    await play(name, "nothing")


@pytest.mark.twin
@each_of("place", ["logger", "factory", "filter", "filter of a handler", "handler"])
async def test_logging_that_raises_changes_no_result(place: str) -> None:
    await play("other", place)


async def play(sets: str, raises: str) -> None:
    with logging_of_a_program(sets, raises) as arrived:
        assert await every_call() == ["a1", "one", True, ["s1"], None]
    assert bool(arrived) is (raises not in ("logger", "factory", "filter"))
    assert len(set(map(id, arrived))) == len(arrived), "a record came twice"
    texts = [record.getMessage() for record in arrived]
    assert not arrived or any("trying again" in text for text in texts), texts
    assert all(getattr(record, sets) == "of the program" for record in arrived)


@each_of("interrupt", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_a_handler_is_no_failure_of_logging(interrupt: type[BaseException]) -> None:
    handler = logging.Handler()

    def stop(record: logging.LogRecord) -> None:
        raise interrupt

    handler.emit = stop  # type: ignore[method-assign]
    logger = logging.getLogger("tradesdk")
    logger.addHandler(handler)
    try:
        with pytest.raises(interrupt):
            await client_of(Service(bare(503), ok(agent()))).agents.get("a1")
    finally:
        logger.removeHandler(handler)
