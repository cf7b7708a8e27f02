"""Earlier payments: their calls and services."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tradesdk_cli.errors import NOT_FOUND, CliError
from tradesdk_cli.pay.calls import ENDPOINTS
from tradesdk_cli.pay.checkout import NO_SERVICE, market_client
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import MarketClient, Payment
    from tradesdk_cli.session import Session

ALL = 10**9
_VERBS = {f"/v1/{endpoint}": verb for verb, endpoint in ENDPOINTS.items()}


class NoSuchPayment(CliError):
    """The ledger has no payment with this id."""

    exit_code = NOT_FOUND
    code = "no_such_payment"


def find_payment(run: Session, payment_id: str) -> Payment:
    """The payment with this id, or the only one whose id begins with it."""
    from tradesdk_cli.lookup import PAYMENTS, the_one

    payment = run.ledger.get(payment_id)
    if payment is None:
        payment = the_one(run, PAYMENTS, payment_id, run.ledger.history(limit=ALL))
    if payment is None:
        from tradesdk_cli.redact import safe

        raise NoSuchPayment(
            f"the ledger has no payment {one_line(safe(payment_id), 60)}",
            f"see what there is: {run.settings.program} pay history",
        )
    return payment


def client_for(run: Session, payment: Payment | None, *, send_api_key: bool = False) -> MarketClient:
    """A client for the service of a payment; without a payment, for the service of the settings, if any."""
    if payment is not None:
        return market_client(run, at=payment.url.rpartition("/v1/")[0], send_api_key=send_api_key)
    at = None if run.settings.mock else run.settings.market_url or NO_SERVICE
    return market_client(run, at=at, send_api_key=send_api_key)


def verb_of(payment: Payment) -> str:
    """The verb of `trade market` for a payment."""
    path = urlsplit(payment.url).path
    return _VERBS.get(path[path.rfind("/v1/") :], "prices")
