"""Buy with the official client, first generation, again and again, until standard input ends.

Each line of it is a JSON object: `url`, `key`, `flavour` (`requests` or `httpx`) and `buy`, a list of `[path, body]`.
The answer to it is one line of JSON too.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
# pyright: reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from eth_account import Account
from x402.clients.base import decode_x_payment_response
from x402.clients.httpx import x402HttpxClient
from x402.clients.requests import x402_requests


def _told(response: Any, content: bytes) -> dict[str, Any]:
    body = json.loads(content)
    receipt = response.headers.get("X-PAYMENT-RESPONSE")
    return {
        "status": response.status_code,
        "body": body,
        "receipt": receipt and decode_x_payment_response(receipt),
        "error": body.get("error") if response.status_code == 402 else None,
    }


def _blocking(asked: dict[str, Any], account: Any) -> list[dict[str, Any]]:
    bought = []
    for path, body in asked["buy"]:
        # This generation's clients pay with every second request only: a session for each purchase.
        with x402_requests(account) as session:
            answer = session.post(asked["url"] + path, json=body, timeout=30)
            bought.append(_told(answer, answer.content))
    return bought


async def _async(asked: dict[str, Any], account: Any) -> list[dict[str, Any]]:
    bought = []
    for path, body in asked["buy"]:
        async with x402HttpxClient(account, base_url=asked["url"], timeout=30) as http:
            answer = await http.post(path, json=body)
            bought.append(_told(answer, await answer.aread()))
    return bought


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        account = Account.from_key(asked["key"])
        bought = _blocking(asked, account) if asked["flavour"] == "requests" else asyncio.run(_async(asked, account))
        print(json.dumps(bought), flush=True)


if __name__ == "__main__":
    main()
