"""Buy with tx402, again and again, until standard input ends.

Each line of it is a JSON object: `url`, `key`, `buy`, a list of `[path, body]`, and `ahead`, seconds by which the
computer's clock is wrong. The answer to it is one line of JSON too. One client for each key: what it remembers, it
remembers in memory.
"""

# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
import time
from functools import cache
from typing import Any

import httpx
from tx402 import Tx402Client
from tx402.signers import private_key_to_evm_signer

PLENTY = 1_000_000_000
ahead = 0.0
right_time, right_nanoseconds = time.time, time.time_ns
time.time = lambda: right_time() + ahead
time.time_ns = lambda: right_nanoseconds() + int(ahead * 1e9)


def node(request: httpx.Request) -> httpx.Response:
    """The node that is asked before a payment: which chain, and how much USDC the payer has."""
    asked = json.loads(request.content)
    found = hex(8453) if asked["method"] == "eth_chainId" else f"0x{PLENTY:064x}"
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "result": found})


@cache
def client(key: str) -> Any:
    return Tx402Client(
        evm_signer=private_key_to_evm_signer(key),
        evm_rpc_transport=httpx.MockTransport(node),
        allow_insecure_localhost=True,
    )


def buy(asked: dict[str, Any], path: str, body: Any) -> dict[str, Any]:
    try:
        return {"status": client(asked["key"]).post(asked["url"] + path, json=body).status_code}
    except (Exception, KeyboardInterrupt) as error:
        return {"raised": type(error).__name__, "said": str(error)}


def main() -> None:
    global ahead
    for line in sys.stdin:
        asked = json.loads(line)
        ahead = asked["ahead"]
        print(json.dumps([buy(asked, *one) for one in asked["buy"]]), flush=True)


if __name__ == "__main__":
    main()
