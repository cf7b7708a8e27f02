"""Payments in the demo: a budget, and a lost connection that is not paid for twice."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.demo.common import START, check, private_key
from tradesdk_cli.output.columns import Column
from tradesdk_cli.purchase.records import brief
from tradesdk_cli.text import dollars, usd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk import MarketClient, Signal
    from tradesdk_cli.demo.screen import Screen
    from tradesdk_mock import MockServer

CAP = "0.20"
TOKENS = ("ETH", "BRETT")
_LATER = START + 600  # prices follow the time, and by then the steps before have waited for as long as chance said

_LEDGER_COLUMNS = (
    Column("endpoint"),
    Column("amount_usd", "number", title="usd"),
    Column("status", "state"),
    Column("submissions", "number", title="sent"),
    Column("charged", optional=True),
)


def paid_data(screen: Screen, server: MockServer, seed: int, signal: Signal) -> None:
    """Buys prices, and more signals of the token of `signal`; runs into the limit; loses a connection; shows it all."""
    from tradesdk import Budget, Ledger, LocalSigner, MarketClient

    server.clock.move(to=_LATER)
    server.set_gaps(payment_identifier="optional")
    screen.step(f"Pay for market data, with ${CAP} as the limit")
    screen.call(f'market = MarketClient(signer=signer, budget=Budget(total="{CAP}"), ledger=Ledger.memory())')
    signer = LocalSigner.from_key(private_key(seed))
    with _own_budgets_aside():
        market = MarketClient(
            signer=signer,
            budget=Budget(total=CAP),
            ledger=Ledger.memory(),
            base_url=server.url,
            clock=server.clock,
        )
    with market:
        _bought(screen, market, server, signal)
        _refused(screen, market, server)
        screen.step("Settled, and then the connection is lost")
        _recovered(screen, market, server)
        _ledger(screen, market, server)


@contextmanager
def _own_budgets_aside() -> Iterator[None]:
    """Leaves the budgets of the environment out: they are for real money, and the demo has its own."""
    aside = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("TRADE_BUDGET_")}
    try:
        yield
    finally:
        os.environ.update(aside)


def _bought(screen: Screen, market: MarketClient, server: MockServer, signal: Signal) -> None:
    names = ", ".join(f'"{token}"' for token in TOKENS)
    screen.call(f"market.quote.token_prices([{names}])")
    before = len(server.journal())
    quote = market.quote.token_prices(TOKENS)
    check(quote.amount == 60_000, f"prices of two tokens are quoted with {dollars(quote.price)}, not $0.06")
    check(quote.affordable, "the budget does not leave six cents")
    check(len(server.journal()) == before, "a quote was sent to the service")
    screen.result(f"{dollars(quote.price)} by the published table; nothing was sent or signed")

    screen.call(f"prices = market.token_prices([{names}])")
    prices = market.token_prices(TOKENS)
    found = {one.symbol: one.current_price_usd for one in prices.data.results}
    check(tuple(found) == TOKENS, f"the prices are those of {', '.join(found)}")
    check(prices.charged is True, "the prices were not paid for")
    check(prices.receipt is not None and prices.receipt.amount == 60_000, "the receipt does not say $0.06")
    check(not prices.warnings, "the receipt disagrees with what was signed")
    told = ", ".join(f"{symbol} {price:,.6g} USD" for symbol, price in found.items())
    screen.result(f"{told}: {dollars(quote.price)} paid in USDC, and the receipt agrees")

    screen.call("newest = market.token_signals([signals[0].token_address], limit=5)")
    newest = market.token_signals([signal.token_address], limit=5)
    [found_signals] = newest.data.results
    check(found_signals.token_address == signal.token_address, "the signals are those of another token")
    records = found_signals.signals
    check(1 <= len(records) <= 5, f"{len(records)} signals came, and at most 5 were asked for")
    at = [record.created_at for record in records]
    check(at == sorted(at, reverse=True), "the signals are not the newest first")
    check(newest.charged is True, "the signals were not paid for")
    screen.result(
        f"{len(records)} of {found_signals.token_symbol} for $0.05, the newest: {records[0].signal} at "
        f"{records[0].signal_price_usd:.4g} USD"
    )


def _refused(screen: Screen, market: MarketClient, server: MockServer) -> None:
    from tradesdk import PaymentRefusedError

    screen.call('market.token_signals(["BRETT", "DEGEN"])  # $0.10, and $0.09 is left')
    signatures = server.payments.signatures()
    try:
        market.token_signals(["BRETT", "DEGEN"])
    except PaymentRefusedError as refusal:
        check(refusal.code == "over_budget", f"it was refused with {refusal.code}, not over_budget")
        check(refusal.charged is False, "something was paid all the same")
        screen.result(f"refused before signing: {refusal.code}: {refusal.message}", "yellow")
    else:
        check(False, "a call beyond the limit was paid")
    check(server.payments.signatures() == signatures, "something was signed beyond the limit")


def _recovered(screen: Screen, market: MarketClient, server: MockServer) -> None:
    screen.call('top = market.top_performers("ROI", limit=3)  # the answer gets lost after settling')
    books = server.payments
    before = (books.signatures(), len(books.submissions()), len(books.settlements()))
    server.add_fault("reset", paid="only", executed=True, nth=1)
    top = market.top_performers("ROI", limit=3)
    check(len(top.data.tokens) == 3, f"{len(top.data.tokens)} tokens came, not 3")
    check(top.payment is not None and top.payment.submissions == 2, "the payment was not sent twice")
    after = (books.signatures(), len(books.submissions()), len(books.settlements()))
    signed, sent, settled = (now - then for now, then in zip(after, before, strict=True))
    check(signed == 1, f"{signed} payments were signed for one call")
    check(sent == 2, f"a payment reached the service {sent} times, not 2")
    check(settled == 1, f"one call was settled {settled} times")
    check(not books.charged_twice(), "something was paid for twice")
    screen.result("the service took $0.06, then the connection was reset", "yellow")
    screen.result("the client sent the same signed bytes again, and got the answer that the service had kept")
    screen.result(f"the service counted: signed {signed}x, sent {sent}x, settled {settled}x")


def _ledger(screen: Screen, market: MarketClient, server: MockServer) -> None:
    screen.call("payments = market.payments.list()")
    payments = market.payments.list()
    settlements = server.payments.settlements()
    ours = {payment.nonce: payment.amount for payment in payments}
    theirs = {one.nonce: one.amount for one in settlements}
    check(ours == theirs, "the ledger and the records of the service disagree")
    check(all(payment.stage == "answered" for payment in payments), "a payment was not answered")
    screen.table(_LEDGER_COLUMNS, [brief(payment, server.clock.now()) for payment in reversed(payments)])
    screen.call("spending = market.payments.spending()")
    spending = market.payments.spending()
    check(spending.total == server.payments.spent() == 170_000, "it is not $0.17 that was spent")
    left = spending.left or 0
    screen.result(f"{dollars(usd(spending.total))} spent, {dollars(usd(left))} left: the service counted the same")
