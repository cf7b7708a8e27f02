"""Buy with the official client, again and again, until standard input ends.

Each line of it is a JSON object: `url`, `key`, `flavour` (`requests` or `httpx`), `buy`, a list of `[path, body]`, and
perhaps `identifier`, an id for the extension payment-identifier, and `ahead`, seconds by which the computer's clock is
wrong. The answer to it is one line of JSON too: what came of each purchase, or the error that ended them.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
# pyright: reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.extensions.payment_identifier import append_payment_identifier_to_extensions
from x402.http import decode_payment_required_header, decode_payment_response_header
from x402.http.clients import wrapHttpxWithPayment, x402_requests
from x402.mechanisms.evm.exact.register import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner

ahead = 0.0
right_time = time.time
time.time = lambda: right_time() + ahead


def _told(response: Any) -> dict[str, Any]:
    offer = response.headers.get("PAYMENT-REQUIRED")
    receipt = response.headers.get("PAYMENT-RESPONSE")
    return {
        "status": response.status_code,
        "body": json.loads(response.content),
        "receipt": receipt and decode_payment_response_header(receipt).model_dump(by_alias=True, exclude_none=True),
        "error": offer and decode_payment_required_header(offer).error,
    }


def _made(client: Any, asked: dict[str, Any]) -> Any:
    def identify(context: Any) -> None:
        append_payment_identifier_to_extensions(context.payment_required.extensions, asked["identifier"])

    if "identifier" in asked:
        client.on_before_payment_creation(identify)
    return register_exact_evm_client(client, EthAccountSigner(Account.from_key(asked["key"])))


def _blocking(asked: dict[str, Any]) -> list[dict[str, Any]]:
    with x402_requests(_made(x402ClientSync(), asked)) as session:
        return [_told(session.post(asked["url"] + path, json=body, timeout=30)) for path, body in asked["buy"]]


async def _async(asked: dict[str, Any]) -> list[dict[str, Any]]:
    async with wrapHttpxWithPayment(_made(x402Client(), asked), timeout=30) as http:
        return [_told(await http.post(asked["url"] + path, json=body)) for path, body in asked["buy"]]


def main() -> None:
    global ahead
    for line in sys.stdin:
        asked = json.loads(line)
        ahead = asked.get("ahead", 0)
        try:
            bought = _blocking(asked) if asked["flavour"] == "requests" else asyncio.run(_async(asked))
        except (Exception, KeyboardInterrupt) as error:
            bought = [{"raised": type(error).__name__, "said": str(error)}]
        print(json.dumps(bought), flush=True)


if __name__ == "__main__":
    main()
