"""The official facilitator classes behind the three paths that resource servers call, on a chain of our own.

Besides: `GET /chain` says what happened on the chain, `POST /chain` changes it.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from x402 import x402FacilitatorSync
from x402.mechanisms.evm.exact.register import register_exact_evm_facilitator
from x402.schemas import PaymentPayload, PaymentRequirements

from .chain import FACTORY, Chain, Wallets
from .serving import serve

chain = Chain()
# Smart contract wallets are deployed only by contracts that are named: by default none.
_plain, _deploying = (
    register_exact_evm_facilitator(x402FacilitatorSync(), chain, ["eip155:8453"], factories)
    for factories in ([], [FACTORY])
)
calls = {"verify": 0, "settle": 0}
app = FastAPI()


def _facilitator() -> Any:
    return _deploying if chain.deploys else _plain


def _read(body: dict[str, Any]) -> tuple[Any, Any]:
    payload, requirements = body["paymentPayload"], body["paymentRequirements"]
    return PaymentPayload.model_validate(payload), PaymentRequirements.model_validate(requirements)


@app.get("/supported")
def supported() -> Any:
    return _facilitator().get_supported().model_dump(by_alias=True, exclude_none=True)


@app.post("/verify")
async def verify(request: Request) -> Any:
    calls["verify"] += 1
    return _facilitator().verify(*_read(await request.json())).model_dump(by_alias=True, exclude_none=True)


@app.post("/settle")
async def settle(request: Request) -> Any:
    calls["settle"] += 1
    return _facilitator().settle(*_read(await request.json())).model_dump(by_alias=True, exclude_none=True)


@app.get("/chain")
def look() -> Any:
    return {"balances": chain.balances, "transfers": chain.transfers, **calls}


@app.post("/chain")
async def change(request: Request) -> Any:
    wanted = await request.json()
    chain.balances.update({who.lower(): amount for who, amount in wanted.get("balances", {}).items()})
    chain.revert = wanted.get("revert", chain.revert)
    chain.pending = wanted.get("pending", chain.pending)
    chain.deploys = wanted.get("deploys", chain.deploys)
    if "wallets" in wanted:
        chain.wallets = wanted["wallets"] and Wallets(wanted["wallets"])
    return look()


if __name__ == "__main__":
    serve({"": app})
