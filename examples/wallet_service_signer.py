"""Pay with a wallet service: the key stays there, and its policy sees each amount and recipient.

`PrivySigner` follows Privy's REST API (docs.privy.io, `eth_signTypedData_v4`); for another service, change one request.
With PRIVY_APP_ID, PRIVY_APP_SECRET, PRIVY_WALLET_ID, PRIVY_WALLET_ADDRESS and TRADE_MARKET_BASE_URL (or TRADE_BASE_URL)
set, it pays $0.03 in USDC; without them, it starts a mock server and a stand-in for Privy, in play money.
"""

import json
import os
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tradesdk import Budget, ConfigError, Ledger, MarketClient, PaymentRefusedError
from tradesdk_mock import MockServer

DOMAIN_TYPES = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}


class PrivySigner:
    """Signs with an Ethereum wallet at Privy, with app id and secret.

    A wallet with an owner also needs the header `privy-authorization-signature`.
    """

    def __init__(self, address: str, wallet_id: str, app_id: str, app_secret: str, url: str) -> None:
        self.address = address
        self._path = f"/v1/wallets/{wallet_id}/rpc"
        self._http = httpx.Client(base_url=url, auth=(app_id, app_secret), headers={"privy-app-id": app_id}, timeout=10)

    def sign_typed_data(
        self, domain: dict[str, Any], types: dict[str, list[dict[str, str]]], message: dict[str, Any], /
    ) -> str:
        (primary_type,) = types
        typed_data = {
            "types": {"EIP712Domain": [{"name": n, "type": kind} for n, kind in DOMAIN_TYPES.items()], **types},
            "primary_type": primary_type,
            "domain": {**domain, "chainId": hex(domain["chainId"])},
            "message": {name: str(value) for name, value in message.items()},  # JSON numbers may lose digits
        }
        request = {"method": "eth_signTypedData_v4", "params": {"typed_data": typed_data}}
        response = self._http.post(self._path, json=request)
        if response.is_error:  # the client shows the text of a ConfigError, and only the type of other errors
            raise ConfigError(f"the wallet service did not sign: status {response.status_code}")
        return str(response.json()["data"]["signature"])

    def close(self) -> None:
        self._http.close()


def buy(market: MarketClient, tokens: list[str]) -> None:
    try:
        prices = market.token_prices(tokens)
    except PaymentRefusedError as refusal:
        print(f"not paid: {refusal.code}: {refusal.message}")
        return
    for token in prices.data.results:
        print(f"{token.symbol} {token.current_price_usd:,.6g} USD")
    if prices.receipt is not None:
        print(f"paid ${prices.receipt.amount_usd:.2f} by {prices.receipt.payer}")


class StandIn(BaseHTTPRequestHandler):
    """A stand-in for Privy: one wallet, and a policy that allows at most $0.05 a payment."""

    wallet: Any

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = asked["params"]["typed_data"]
        answer: dict[str, Any]
        status, answer = 400, {"error": "RPC request denied due to policy violation"}
        if int(data["message"]["value"]) <= 50_000:
            whole = {**data, "primaryType": data.pop("primary_type")}
            whole["domain"]["chainId"] = int(whole["domain"]["chainId"], 16)
            signature = "0x" + bytes(self.wallet.sign_typed_data(full_message=whole).signature).hex()
            status, answer = 200, {"method": asked["method"], "data": {"signature": signature, "encoding": "hex"}}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def rehearse() -> None:
    """A purchase, and one that the wallet's policy refuses."""
    from eth_account import Account  # takes a second to load; only the stand-in needs it

    StandIn.wallet = Account.from_key("0x" + "01" * 32)
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as privy, MockServer(seed=7) as server:
        threading.Thread(target=privy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{privy.server_port}"
        with (
            closing(PrivySigner(StandIn.wallet.address, "wallet", "app", "secret", url)) as signer,
            MarketClient(
                signer=signer, budget=Budget(per_day="0.25"), ledger=Ledger.memory(), base_url=server.url
            ) as market,
        ):
            buy(market, ["ETH"])
            buy(market, ["ETH", "BRETT"])
        privy.shutdown()
        server.payments.assert_charged(times=1, amount=30_000)


if __name__ == "__main__":
    names = ("PRIVY_WALLET_ADDRESS", "PRIVY_WALLET_ID", "PRIVY_APP_ID", "PRIVY_APP_SECRET")
    if not {*names, "TRADE_MARKET_BASE_URL", "TRADE_BASE_URL"} & os.environ.keys():
        rehearse()
    elif missing := [name for name in names if name not in os.environ]:
        sys.exit(f"not set: {', '.join(missing)}")
    else:
        address, wallet_id, app_id, app_secret = (os.environ[name] for name in names)
        url = os.environ.get("PRIVY_URL", "https://api.privy.io")
        with (
            closing(PrivySigner(address, wallet_id, app_id, app_secret, url)) as signer,
            MarketClient(signer=signer, budget=Budget(per_day="0.25")) as market,
        ):
            buy(market, ["ETH"])
