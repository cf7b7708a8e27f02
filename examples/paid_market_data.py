"""Paid market data, blocking: a quote, a purchase under a budget, its receipt, a refusal, a payment in doubt.

With TRADE_WALLET_KEY and TRADE_MARKET_BASE_URL (or TRADE_BASE_URL) set, it pays the service $0.12 in USDC; without
them, a mock server that it starts, in play money.
"""

import logging
import os
import sys

from tradesdk import (
    Budget,
    Ledger,
    LocalSigner,
    MarketClient,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    TokenResults,
    TokenWinRate,
)
from tradesdk_mock import GapOptions, MockClock, MockServer

TOKENS = ["ETH", "BRETT"]
BUDGET = Budget(per_call="0.10", per_day="0.25")


def tour(market: MarketClient) -> None:
    quote = market.quote.token_prices(TOKENS)  # nothing is sent
    print(f"prices of {quote.tokens} tokens: ${quote.price:.2f}, and the budgets allow it: {quote.affordable}")

    prices = market.token_prices(TOKENS)
    for token in prices.data.results:
        print(f"  {token.symbol:<5} {token.current_price_usd:,.6g} USD")
    if prices.receipt is not None:
        print(f"paid ${prices.receipt.amount_usd:.2f}, transaction {prices.receipt.transaction}")

    try:
        market.token_signals([*TOKENS, "DEGEN"])
    except PaymentRefusedError as refusal:
        print(f"refused here, nothing was signed: {refusal.code}: {refusal.message}")

    for rate in win_rates(market):
        print(
            f"  {rate.token_symbol:<5} {'too little to go by' if rate.win_rate is None else f'{rate.win_rate:.1f} %'}"
        )

    for payment in market.payments.list():
        print(f"{payment.stage} ${payment.amount_usd:.2f}, sent {payment.submissions}x, charged: {payment.charged}")
    print(f"spent today: ${market.payments.spending().today.counted_usd:.2f}")


def win_rates(market: MarketClient) -> list[TokenWinRate]:
    """Win rates for one payment, even if the connection breaks after the money was taken."""
    try:
        return market.token_win_rate(TOKENS).data.results
    except PaymentOutcomeUnknownError as error:
        if error.payment is None:
            raise
        print(f"in doubt: ${error.payment.amount_usd:.2f} may have been paid, sent {error.payment.submissions}x")
        in_doubt = error.payment.id  # also in the ledger: another process can continue it later
    try:
        # The same signed payment again: it can't be taken twice.
        return market.payments.resume(in_doubt, TokenResults[TokenWinRate]).data.results
    except PaymentOutcomeUnknownError as error:
        print(f"still in doubt, and not paid for again: {error.hint}")
        return []


def rehearse() -> None:
    """The tour on a mock that takes the money and breaks the connection, five times in a row."""
    gaps = GapOptions(payment_identifier="optional")
    with (
        MockServer(seed=7, clock=MockClock(1_795_262_400), gaps=gaps) as server,
        MarketClient(
            signer=LocalSigner.from_key("0x" + "01" * 32),
            budget=BUDGET,
            ledger=Ledger.memory(),
            base_url=server.url,
            clock=server.clock,  # waits take no time
        ) as market,
    ):
        server.add_fault("reset", route="/v1/token-win-rate", paid="only", executed=True, count=5)
        tour(market)
        server.payments.assert_charged(times=2)
        server.payments.assert_not_charged_twice()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, format="  %(message)s")  # why the client waits
    if {"TRADE_WALLET_KEY", "TRADE_MARKET_BASE_URL", "TRADE_BASE_URL"} & os.environ.keys():
        with MarketClient(budget=BUDGET) as market:
            try:
                tour(market)
            except PaymentRefusedError as refusal:  # for example, the day's budget is used up after two tours
                sys.exit(f"not paid, nothing was signed: {refusal.message}\nwhat to do: {refusal.hint}")
    else:
        rehearse()
