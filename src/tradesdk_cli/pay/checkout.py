"""The terms of a purchase, earlier payments, and the SDK's client for market data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.credentials import refuse_http
from tradesdk_cli.errors import NOT_FOUND, CliError, ConfigProblem, UsageProblem
from tradesdk_cli.lookup import PAYMENTS, the_one
from tradesdk_cli.redact import safe
from tradesdk_cli.text import one_line
from tradesdk_cli.wallet import Wallet

if TYPE_CHECKING:
    from tradesdk import AsyncMarketClient, MarketClient, Payment
    from tradesdk_cli.run import Run


def amount_of(option: str, text: str) -> int:
    """An amount in dollars as typed, read by the SDK, in micro-dollars."""
    from tradesdk import Budget, InvalidArgumentError

    try:
        return Budget(per_call=text).per_call or 0
    except InvalidArgumentError:
        given = one_line(text) if text.strip() else repr(text)
        given = given if len(given) <= 40 else "that"  # it may be a pasted key
        message = f"{option}: {given} is not an amount in dollars: write digits, with at most six decimals"
        hint = f"with a point, and without a dollar sign, which a shell takes for a variable: {option} 0.10"
        raise UsageProblem(message, hint) from None


ALL = 10**9


def find_payment(run: Run, payment_id: str) -> Payment:
    """The payment with this id, or the only one whose id begins with it."""
    payment = run.ledger.get(payment_id)
    if payment is None:
        payment = the_one(run, PAYMENTS, payment_id, run.ledger.history(limit=ALL))
    if payment is None:
        raise CliError(
            f"the ledger has no payment {one_line(safe(payment_id), 60)}",
            f"see what there is: {run.settings.program} pay history",
            code="no_such_payment",
            exit_code=NOT_FOUND,
        )
    return payment


def client_for(run: Run, payment: Payment | None, *, send_api_key: bool = False) -> MarketClient:
    """A client for the service of a payment; without a payment, for the service of the settings, if any."""
    if payment is not None:
        return market_client(run, at=payment.url.rpartition("/v1/")[0], send_api_key=send_api_key)
    at = None if run.settings.mock else run.settings.market_url or "https://nowhere.invalid"  # nothing is sent there
    return market_client(run, at=at, send_api_key=send_api_key)


def market_client(
    run: Run,
    wallet: Wallet | None = None,
    *,
    send_api_key: bool = False,
    at: str | None = None,
) -> MarketClient:
    """The SDK's client for market data, with the ledger of this run; closed at its end.

    Without a `wallet`, nothing is signed. `at`: the service's address, if known.
    """
    from tradesdk import ChainWitness, MarketClient

    client: MarketClient = _made(MarketClient, ChainWitness, run, wallet, run.http, send_api_key, at)
    run.stack.callback(client.close)
    return client


def async_market_client(run: Run, wallet: Wallet | None, http: Any) -> AsyncMarketClient:
    """The same for an event loop; `http` is the mock's client. The caller closes it."""
    from tradesdk import AsyncChainWitness, AsyncMarketClient

    client: AsyncMarketClient = _made(AsyncMarketClient, AsyncChainWitness, run, wallet, http, False, None)
    return client


def _made(
    kind: Any, witness: Any, run: Run, wallet: Wallet | None, http: Any, send_api_key: bool, at: str | None
) -> Any:
    from tradesdk_cli.retries import QUICK, OtherTime

    settings = run.settings
    now = node = None
    if settings.mock:
        service = run.mock
        at, now = at or service.market_url, service.clock.now
        node = witness(service.rpc_url, http_client=http)  # never a node of TRADE_RPC_URL, which is of another chain
    at = at or settings.market_url
    if at is None:
        raise ConfigProblem(
            "no address for market data: set TRADE_MARKET_BASE_URL or TRADE_BASE_URL",
            "without an account, try the mock: trade --mock market prices ETH",
        )
    if not settings.mock:
        refuse_http(at, "TRADE_MARKET_BASE_URL", "the address of market data", "a payment")
    key = run.api_key(at, market=True) if send_api_key else None
    if send_api_key and key is None:
        raise ConfigProblem("no API key to send: trade login keeps one", "or leave --send-api-key out")
    return run.made(
        kind,
        signer=wallet if wallet is not None else Wallet(NOBODY, _no_key) if settings.mock else None,
        ledger=run.ledger,
        allow_upfront=settings.allow_upfront,
        base_url=at,
        send_api_key=send_api_key,
        api_key=None if key is None else key[0],
        timeout=settings.timeout or (QUICK if wallet is None else None),  # a paid call reads longer by default
        clock=None if now is None else OtherTime(now),
        witness=node,
        collect=False,
        http_client=http,
        rate_limiter=run.rate_limiter if send_api_key else None,
    )


NOBODY = "0x" + "0" * 40


def _no_key() -> Any:
    raise ConfigProblem("nothing is signed by this command", None)
