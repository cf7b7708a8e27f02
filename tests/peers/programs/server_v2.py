"""The market-data API behind the official FastAPI middleware, for each of KINDS. Argument: the facilitator's URL."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from fastapi.responses import JSONResponse
from x402 import x402ResourceServer
from x402.extensions.payment_identifier import (
    PAYMENT_IDENTIFIER,
    declare_payment_identifier_extension,
    payment_identifier_resource_server_extension,
)
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import payment_middleware
from x402.mechanisms.evm.exact.register import register_exact_evm_server

from .market import PAY_TO, PRICES, make_app, price
from .serving import serve

PRICE_HEADER = "x-price"
OFFER = "payment-required"
KINDS = ("", "identified", "body", "upfront", "body upfront")
"""In words: with an extension; with the offer in the body; settled before the work."""


def _price(context: Any) -> str:
    return f"${int(context.adapter.get_header(PRICE_HEADER)) / 1_000_000:.6f}"


def _route(name: str, words: list[str]) -> dict[str, Any]:
    option: dict[str, Any] = {
        "scheme": "exact",
        "payTo": PAY_TO,
        "price": _price,
        "network": "eip155:8453",
        "maxTimeoutSeconds": 60,
        "extra": {"paymentFlow": "upfront"} if "upfront" in words else None,
    }
    extensions = None
    if "identified" in words:
        extensions = {PAYMENT_IDENTIFIER: declare_payment_identifier_extension(required=False)}
    return {"accepts": option, "mimeType": "application/json", "description": name, "extensions": extensions}


def _in_body(response: Any) -> Any:
    """The package writes the offer into the header, always: here the app moves it."""
    headers = dict(response.headers)
    offer = headers.pop(OFFER, None)
    if offer is None:
        return response
    del headers["content-length"]
    return JSONResponse(json.loads(base64.b64decode(offer)), response.status_code, headers)


def _app(facilitator: str, words: list[str]) -> Any:
    app = make_app()
    server = register_exact_evm_server(
        x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=facilitator))), "eip155:8453"
    )
    if "identified" in words:
        server.register_extension(payment_identifier_resource_server_extension)
    gate = payment_middleware({f"POST /v1/{name}": _route(name, words) for name in PRICES}, server)

    @app.middleware("http")
    async def paid(request: Any, call_next: Any) -> Any:
        # The middleware hands headers to a price that depends on the request, but no body.
        if request.url.path.removeprefix("/v1/") in PRICES:
            amount = str(price(request.url.path, await request.body())).encode()
            request.scope["headers"] = [*request.scope["headers"], (PRICE_HEADER.encode(), amount)]
            if hasattr(request, "_headers"):
                del request._headers
        response = await gate(request, call_next)
        return _in_body(response) if "body" in words else response

    return app


def main(facilitator: str) -> None:
    serve({kind: _app(facilitator, kind.split()) for kind in KINDS})


if __name__ == "__main__":
    main(sys.argv[1])
