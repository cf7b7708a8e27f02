"""Checks of the services: both interfaces are asked for something free, and their clocks are compared with ours."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tradesdk_cli.doctor.findings import Finding
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk_cli.session import Session

TIMEOUT = 5.0
_FAR = 30.0
_NEAR = 3.0
_NOBODY = "/v1/agents/agt_that_never_was"
_WIRE = "tradesdk.wire"


class Heard(logging.Handler):
    """The last answer that came: its headers, when, and how long it took."""

    def __init__(self, run: Session) -> None:
        super().__init__(logging.DEBUG)
        self._run = run
        self.headers: dict[str, str] = {}
        self.seconds = 0.0
        self.at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        said = vars(record).get("wire", {})
        if said.get("event") == "answer":
            self.headers, self.seconds, self.at = said["headers"], said["seconds"], self._run.now()

    @property
    def difference(self) -> float | None:
        """Seconds that the service's clock is ahead of ours; None: it did not say."""
        try:
            there = parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError, OSError):
            return None
        # A date has whole seconds: it is half a second more on average, and was written half a way ago.
        return there + 0.5 - (self.at - self.seconds / 2)


@contextmanager
def hearing(run: Session) -> Iterator[Heard]:
    """Listens to the answers that come meanwhile."""
    logger, heard = logging.getLogger(_WIRE), Heard(run)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.propagate = propagate
        logger.setLevel(level)


def account(run: Session) -> list[Finding]:
    """The API is there and takes the key; plan, rate limit, scope of the key; the clock."""
    settings = run.settings
    if not settings.mock and not settings.base_url:
        hint = "log in: trade login; or look around without an account: trade demo"
        return [Finding("api", "problem", "no address is set", hint, config=True)]
    client = run.client.with_options(timeout=TIMEOUT, max_retries=0, deadline=TIMEOUT)
    with hearing(run) as heard:
        found = client.account.get()
        clock = _clock(heard.difference)
        limit = client.rate_limit
        took = heard.seconds
    last4 = found.api_key_last4[-4:]  # a service may say more
    facts: dict[str, Any] = {
        "url": client.base_url,
        "email": found.email,
        "plan": found.plan,
        "api_key_last4": last4,
        "api_key_source": settings.sources.get("api_key"),
        "milliseconds": round(took * 1000),
        "rate_limit": None if limit is None else {"limit": limit.limit, "remaining": limit.remaining},
    }
    parts = [
        f"{one_line(found.email, 80)}, plan {one_line(found.plan, 40)}",
        f"key …{one_line(last4)}",
    ]
    if limit is not None and limit.remaining is not None:
        parts.append(f"{limit.remaining} of {limit.limit} requests left this minute")
    where = f"mock world {settings.world}" if settings.mock else client.base_url
    said = f"{where} answers in {took * 1000:.0f} ms: {'; '.join(parts)}"
    return [Finding("api", "ok", said, None, facts), _scope(client), *clock]


def _scope(client: Any) -> Finding:
    """An empty change of an agent that never was is refused, for want of rights or of the agent."""
    from tradesdk import APIError, PermissionDeniedError

    how = "an empty change of an agent that never was is not permitted"
    try:
        client.request("PATCH", _NOBODY, json={})
    except PermissionDeniedError:
        said = f"read only, or the plan permits no changes ({how})"
        return Finding("key scope", "ok", said, "to change something: a key with the scope full-access", _scoped(False))
    except APIError as error:
        if getattr(error, "status", None) in (400, 404, 422):
            return Finding("key scope", "ok", "full access", None, _scoped(True))
    return Finding("key scope", "skipped", "the service did not say whether it may change things", None, _scoped(None))


def _scoped(full: bool | None) -> dict[str, Any]:
    return {"full_access": full}


def _clock(difference: float | None) -> list[Finding]:
    if difference is None:
        return [Finding("clock", "skipped", "the service does not say what time it is")]
    facts = {"difference_seconds": round(difference, 1)}
    if abs(difference) <= _NEAR:
        return [Finding("clock", "ok", "the same time here and at the service", None, facts)]
    said = f"the service is {abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} this machine"
    if abs(difference) <= _FAR:
        return [Finding("clock", "ok", said, None, facts)]
    hint = "set this machine's clock (timedatectl set-ntp true): payments are valid for a minute only"
    return [Finding("clock", "warning", said, hint, facts)]


def market(run: Session) -> list[Finding]:
    """Market data is there: it is asked for what costs nothing. There is no wallet in this, so nothing can be paid."""
    from tradesdk import PaymentError
    from tradesdk_cli.purchase.checkout import market_client

    settings = run.settings
    if not settings.mock and not settings.market_url:
        hint = "only needed to buy: TRADE_MARKET_BASE_URL, or --market-url"
        return [Finding("market data", "skipped", "no address is set", hint)]
    client = market_client(run).with_options(timeout=TIMEOUT, max_retries=0, deadline=TIMEOUT)
    where = f"mock world {settings.world}" if settings.mock else client.base_url
    facts: dict[str, Any] = {"url": client.base_url}
    with hearing(run) as heard:
        try:
            found = client.supported_tokens(limit=1).data.total
            told = f"{found:,} tokens" if isinstance(found, int) else "tokens are listed"
        except PaymentError:
            told = "it asks to be paid even for the list of tokens; nothing was paid"
        difference = heard.difference
    facts |= {"milliseconds": round(heard.seconds * 1000)}
    said = f"{where} answers in {heard.seconds * 1000:.0f} ms: {told}"
    finding = Finding("market data", "ok", said, None, facts)
    if difference is None or abs(difference) <= _FAR:
        return [finding]
    return [finding, *_clock(difference)]
