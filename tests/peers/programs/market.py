"""The market-data API as a seller would write it: what its paths cost and what they answer, without any payment."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

GOLDEN = Path(__file__).parents[2] / "contract" / "golden" / "market"
PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
# Millionths of a dollar, and whether that is for one token.
PRICES = {
    "token-signals": (50_000, True),
    "token-prices": (30_000, True),
    "signal-history": (50_000, True),
    "token-win-rate": (30_000, True),
    "token-avg-prices": (20_000, True),
    "top-performers": (60_000, False),
    "aggregate-metrics": (60_000, False),
}
STATUS = {"NOPE": 404, "BROKEN": 502}


def price(path: str, body: bytes) -> int:
    """What an answer costs. A body that can't be read costs as much as one token: the endpoint will refuse it."""
    amount, each = PRICES[path.removeprefix("/v1/")]
    try:
        return amount * (len(json.loads(body)["tokens"]) if each else 1)
    except (ValueError, KeyError, TypeError):
        return amount


def make_app() -> FastAPI:
    app = FastAPI()

    @app.post("/v1/{name}")
    async def answer(name: str, request: Request) -> Any:
        asked = await request.json()
        wanted = [token["identifier"] for token in asked.get("tokens", [])]
        for identifier in wanted:
            if identifier in STATUS:
                status = STATUS[identifier]
                return JSONResponse(json.loads((GOLDEN / f"error_{status}.json").read_text()), status)
        found = json.loads((GOLDEN / f"{name.replace('-', '_')}.json").read_text())
        if wanted:
            first = found["data"]["results"][0]
            symbol = "symbol" if "symbol" in first else "tokenSymbol"
            found["data"]["results"] = [{**first, symbol: identifier} for identifier in wanted]
        return found

    return app
