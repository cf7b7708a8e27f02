"""Paid market data about many tokens, async: batches under one limit, and a job that continues where it ended.

With TRADE_WALLET_KEY and TRADE_MARKET_BASE_URL (or TRADE_BASE_URL) set, it pays the service $0.33 in USDC, once: when
it runs again, the job has everything. Without them, it starts a mock server and pays it in play money.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from tradesdk import AsyncMarketClient, Budget, Ledger, LocalSigner, PaymentRefusedError
from tradesdk_mock import MockClock, MockServer

TOKENS = ["ETH", "BRETT", "DEGEN", "AERO", "VIRTUAL", "TOSHI", "HIGHER", "KEYCAT", "PRIME", "LINK", "MORPHO", "eth"]
JOB = "prices for the report of November"


async def prices(market: AsyncMarketClient, *, max_total: str) -> None:
    run = market.batches.token_prices(TOKENS, job=JOB, max_total=max_total)
    print(f"{len(run.tokens)} tokens in {run.count} batches for ${run.price:.2f}, ${max_total} at most now")
    try:
        async for batch in run:
            cost = "kept from before" if batch.again else f"${batch.spent_usd:.2f} spent"
            found = ", ".join(f"{token.symbol} {token.current_price_usd:.4g}" for token in batch.data.results)
            print(f"  {batch.number}/{batch.count} {cost}: {found}")
    except PaymentRefusedError as refusal:
        print(f"  stopped: {refusal.code}: {refusal.message}")


async def rehearse() -> None:
    """Two runs, such as two nights of a cron job. They share only the ledger's file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MockServer(seed=7, clock=MockClock(1_795_262_400)) as server,
    ):
        for max_total in ("0.30", "0.10"):
            with Ledger(Path(folder) / "ledger.sqlite3") as ledger:
                async with AsyncMarketClient(
                    signer=LocalSigner.from_key("0x" + "01" * 32),
                    budget=Budget(per_day="1.00"),
                    ledger=ledger,
                    base_url=server.url,
                    clock=server.clock,
                ) as market:
                    await prices(market, max_total=max_total)
        server.payments.assert_charged(times=3)
        server.payments.assert_not_charged_twice()


async def main() -> None:
    if {"TRADE_WALLET_KEY", "TRADE_MARKET_BASE_URL", "TRADE_BASE_URL"} & os.environ.keys():
        async with AsyncMarketClient(budget=Budget(per_day="1.00")) as market:
            await prices(market, max_total="0.30")
            await prices(market, max_total="0.10")
    else:
        await rehearse()


if __name__ == "__main__":
    asyncio.run(main())
