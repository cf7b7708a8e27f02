"""Connect a wallet and buy with an account at Coinbase, by Coinbase's package, until standard input ends.

Each line of it is a JSON object: `url` of the service, `signer`, the code of the documentation's class or null for
Coinbase's own `EvmLocalAccount`, `flavour` of our clients, and `tokens`. The answer is one line of JSON too: what came
of it, and what Coinbase was asked for.
"""

# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from cdp import CdpClient, EvmLocalAccount

from tradesdk import AsyncMarketClient, AsyncTradeClient, Budget, Ledger, MarketClient, TradeClient, TradeError

from .coinbase import Coinbase


async def account_of(client: Any) -> Any:
    return await client.evm.get_or_create_account(name="market-data")


def signer_of(account: Any, code: str | None) -> Any:
    if code is None:
        return EvmLocalAccount(account)
    shown: dict[str, Any] = {}
    exec(code, shown)  # noqa: S102 - the documentation's
    return shown["CdpSigner"](account)


def settings(asked: dict[str, Any], signer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of our two clients."""
    paying = {"signer": signer, "budget": Budget(per_day="1"), "ledger": Ledger.memory()}
    return {"base_url": asked["url"], "api_key": "mock_full_me"}, {"base_url": asked["url"], **paying}


async def buy_async(asked: dict[str, Any], cdp: dict[str, Any]) -> dict[str, Any]:
    async with CdpClient(**cdp) as client:
        signer = signer_of(await account_of(client), asked["signer"])
        connecting, paying = settings(asked, signer)
        async with AsyncTradeClient(**connecting) as trade, AsyncMarketClient(**paying) as market:
            wallet = await trade.wallets.connect_with(signer, label="Coinbase")
            bought = await market.token_avg_prices(asked["tokens"])
    return found(wallet, bought)


def buy_blocking(asked: dict[str, Any], cdp: dict[str, Any]) -> dict[str, Any]:
    async def made() -> Any:
        async with CdpClient(**cdp) as client:
            return signer_of(await account_of(client), asked["signer"])

    signer = asyncio.run(made())
    connecting, paying = settings(asked, signer)
    with TradeClient(**connecting) as trade, MarketClient(**paying) as market:
        wallet = trade.wallets.connect_with(signer, label="Coinbase")
        bought = market.token_avg_prices(asked["tokens"])
    return found(wallet, bought)


def found(wallet: Any, bought: Any) -> dict[str, Any]:
    return {"wallet": wallet.address, "payer": bought.payment.payer, "proven": bought.payment.paid}


def main() -> None:
    # Else the package tells Coinbase how it is used.
    os.environ |= dict.fromkeys(("DISABLE_CDP_USAGE_TRACKING", "DISABLE_CDP_ERROR_REPORTING"), "true")
    for line in sys.stdin:
        asked = json.loads(line)
        with Coinbase() as coinbase:
            cdp = {**coinbase.credentials, "base_path": coinbase.url}
            try:
                told = asyncio.run(buy_async(asked, cdp)) if asked["flavour"] == "async" else buy_blocking(asked, cdp)
            except TradeError as error:
                charged = getattr(error, "charged", None)
                told = {"code": error.code, "message": error.message, "charged": charged}
            print(json.dumps({**told, "asked": coinbase.asked}), flush=True)


if __name__ == "__main__":
    main()
