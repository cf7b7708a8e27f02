"""One purchase with our client, by a seller whose facilitator is the judge's: FACILITATOR_URL, HOSTILE_CLIENT_TIMEOUT.

What a bot's owner does, in a hurry: buy; when that fails, ask the chain what became of the payment, and buy again under
the same name. The seller hands each payment to the judge and passes on how that failed. The chain's node knows what the
judge answers to "did it land?", and nothing where that is no answer.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import httpx

from tradesdk import Budget, ChainWitness, Ledger, LocalSigner, MarketClient, TradeError

from .client_tradesdk import HurriedClock

PRICE = 30_000
OFFER = {
    "scheme": "exact",
    "network": "eip155:8453",
    "amount": str(PRICE),
    "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin", "version": "2"},
}
DATA = {"tokenAddress": "0x" + "cd" * 20, "symbol": "ETH", "currentPriceEth": 1.0, "currentPriceUsd": 2.0}
HASH = "0x" + "11" * 32
BALANCE_OF = "0x70a08231"


def header(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


class Market(httpx.BaseTransport):
    """The seller and the node of the chain, in this process; both ask the judge."""

    def __init__(self, judge: str, patience: float, clock: HurriedClock) -> None:
        self._judge = httpx.Client(base_url=judge, timeout=patience, trust_env=False)
        self._clock = clock

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.read())
        if request.url.path == "/node":
            answers = [{"jsonrpc": "2.0", "id": each["id"], **self._node(each)} for each in asked]
            return httpx.Response(200, json=answers)
        return self._sell(request)

    def _sell(self, request: httpx.Request) -> httpx.Response:
        offer = {"x402Version": 2, "resource": {"url": str(request.url)}, "accepts": [OFFER]}
        paid = request.headers.get("payment-signature")
        if paid is None:
            return httpx.Response(402, headers={"payment-required": header(offer)}, json={})
        wanted = {"paymentPayload": json.loads(base64.b64decode(paid)), "paymentRequirements": OFFER}
        try:
            settled = self._judge.post("/settle", json=wanted)
        except httpx.TimeoutException:
            return httpx.Response(504, json={})
        if settled.status_code != 200:
            offered = {"payment-required": header(offer)} if settled.status_code == 402 else {}
            return httpx.Response(settled.status_code, headers=offered, json={})
        data = {"success": True, "data": {"results": [DATA]}, "error": None}
        return httpx.Response(200, headers={"payment-response": header(settled.json())}, json=data)

    def _node(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["method"]:
            case "eth_chainId":
                return {"result": hex(8453)}
            case "eth_getBlockByNumber":
                return {"result": {"hash": HASH, "number": "0x1", "timestamp": hex(int(self._clock.now()))}}
            case _ if asked["params"][0]["data"].startswith(BALANCE_OF):
                return {"result": f"0x{10**9:064x}"}
            case _:
                nonce = "0x" + asked["params"][0]["data"][-64:]
                try:
                    found = self._judge.get("/reconcile", params={"nonce": nonce}).raise_for_status().json()["found"]
                except (httpx.HTTPError, ValueError, KeyError):
                    return {"error": {"code": -32000, "message": "not known"}}
                return {"result": "0x" + f"{int(found):064x}"}


def main() -> None:
    clock = HurriedClock()
    market = Market(os.environ["FACILITATOR_URL"], float(os.environ["HOSTILE_CLIENT_TIMEOUT"]), clock)
    with (
        httpx.Client(transport=market) as http,
        MarketClient(
            base_url="http://127.0.0.1:9",
            http_client=http,
            signer=LocalSigner.from_key("0x" + os.urandom(32).hex()),
            budget=Budget(per_day="0.25"),
            ledger=Ledger.memory(),
            witness=ChainWitness("http://127.0.0.1:9/node", http_client=http, clock=clock),
            check_tokens=False,
            max_retries=0,
            clock=clock,
        ) as client,
    ):
        for _ in range(3):
            try:
                client.token_prices(["ETH"], purchase="once")
                return
            except TradeError:
                clock.sleep(600)
                client.payments.reconcile()


if __name__ == "__main__":
    main()
