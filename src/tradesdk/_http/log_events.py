"""Fields of the log records of `tradesdk`: `record.event` is one of `LogEvent`. docs/errors.md lists them.

`listener` gets the same events, and the begin and end of calls, purchases and connections.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from .._system.interrupts import failures, suppress
from .._values.text import printable
from ..errors import APIError

if TYPE_CHECKING:
    from typing import Unpack

    from ..errors import ErrorCode, TradeError

logger = logging.getLogger("tradesdk")
wire = logging.getLogger("tradesdk.wire")
"""For whole requests and responses: see `wire_logging`, which is imported only when it is on."""

LogEvent = Literal[
    "profile_overridden",
    "request_answered",
    "request_failed",
    "request_interrupted",
    "retry",
    "rate_limit_wait",
    "rate_limiter_failed",
    "create_found",
    "tokens_unchecked",
    "clock_difference",
    "recipient_remembered",
    "payment_resent",
    "payment_warning",
    "batch_passed_over",
    "ledger_failed",
    "fleet_alone",
    "fleet_again",
    "fleet_relay_waits",
    "fleet_relay_leads",
    "fleet_relay_lost",
    "fleet_signal_unstorable",
    "fleet_unrelayed",
    "fleet_untrimmed",
    "service_time_unknown",
    "wallet_unknown",
    "history_unread",
    "stream_connected",
    "stream_disconnected",
    "stream_gap",
    "stream_position_reset",
    "stream_since_ignored",
    "stream_invalid_event",
    "stream_unknown_event",
]


class LogFields(TypedDict, total=False):
    """Fields that a record may have besides `event`. Texts are printable and contain no secrets."""

    reason: str
    code: ErrorCode
    wait: float
    method: str
    url: str
    status: int
    seconds: float
    remaining: int | None
    payment_id: str
    address: str
    chain: int
    tries: int
    start: datetime
    end: datetime
    position: datetime
    signal: str
    source: str
    type: str
    profile: str
    variable: str


class Span(AbstractContextManager[Any], Protocol):
    """Something in progress. Events inside the block belong to it, and an error that leaves the block ends it."""

    def end(self, result: object = None) -> None:
        """End it. Ending again does nothing."""
        ...


class Listener(Protocol):
    """Receives all events, whatever the log level. It must not raise."""

    def note(self, name: str, level: int, fields: Mapping[str, Any]) -> None:
        """An event of the log, or `sign`, which is not logged."""
        ...

    def begin(self, name: Literal["call", "submission", "purchase", "connection"], **fields: Any) -> Span:
        """Begin a span. It ends with its block, except a connection's: a stream enters that block whenever it works."""
        ...

    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers to send with a request that has no payment."""
        ...


class _NoSpan(nullcontext[Any]):
    def end(self, result: object = None) -> None:
        """Do nothing: no span has begun."""


listener: Listener | None = None
"""None: spans cost only this check. Another thread may set it, so read it once."""

NO_SPAN = _NoSpan()


def event(
    name: LogEvent,
    text: str,
    error: TradeError | None = None,
    *,
    level: int = logging.WARNING,
    **fields: Unpack[LogFields],
) -> None:
    """Log a record. Its `text` names the fields, as in `%(chain)d`; `error` fills in `code` and `reason`."""
    values: dict[str, object] = {"event": name}
    if error is not None:
        reason = error.headline if isinstance(error, APIError) else error.message
        values |= {"code": error.code, "reason": printable(reason, 300)}
    values |= {field: value for field, value in fields.items() if value is not None}
    if (now := listener) is not None:
        now.note(name, level, values)
    log(logger, level, text, values, values)


def is_shown(to: logging.Logger, level: int) -> bool:
    """Whether the program wants such records. If its own logger class raises, it gets none."""
    try:
        return to.isEnabledFor(level)
    except failures(Exception):
        return False


def log(to: logging.Logger, level: int, text: str, argument: object, fields: Mapping[str, Any]) -> None:
    """Log a record as of the caller's caller. Errors of a program's factory, filter or handler are dropped here."""
    if not is_shown(to, level):
        return
    for extra in (fields, None):  # a factory may have set one of our field names
        with suppress(Exception):
            file, line, function, _ = to.findCaller(stacklevel=3)
            record = to.makeRecord(to.name, level, file, line, text, (argument,), None, function, extra)
            passed = to.filter(record)
            break
    else:
        return
    if passed:
        with suppress(Exception):  # no second attempt: some handlers may have it
            to.callHandlers(passed if isinstance(passed, logging.LogRecord) else record)


def limiter_failed(error: Exception) -> None:
    """Log that a rate limiter raised an error after a request was sent."""
    text = "the rate limiter failed: %(reason)s"
    event("rate_limiter_failed", text, reason=printable(f"{type(error).__name__}: {error}", 300))


def ledger_failed(error: TradeError, payment_id: str) -> None:
    """Log that something about a payment could not be written; the call continues."""
    event("ledger_failed", "payment %(payment_id)s: %(reason)s", error, level=logging.ERROR, payment_id=payment_id)


def log_retry(error: APIError, wait: float) -> None:
    url = printable(error.url, 300)
    text = "%(reason)s (%(method)s %(url)s); trying again in %(wait).1f s"
    event("retry", text, error, method=error.method, url=url, wait=wait, tries=error.retries + 1)
