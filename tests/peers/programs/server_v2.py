"""The market-data API behind the official FastAPI middleware. Argument: the facilitator's URL."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from typing import Any

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


def _price(context: Any) -> str:
    return f"${int(context.adapter.get_header(PRICE_HEADER)) / 1_000_000:.6f}"


def _route(name: str, extensions: dict[str, Any] | None) -> dict[str, Any]:
    option = {"scheme": "exact", "payTo": PAY_TO, "price": _price, "network": "eip155:8453", "maxTimeoutSeconds": 60}
    return {"accepts": option, "mimeType": "application/json", "description": name, "extensions": extensions}


def main(facilitator: str, identified: bool) -> None:
    app = make_app()
    server = register_exact_evm_server(
        x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=facilitator))), "eip155:8453"
    )
    extensions = None
    if identified:
        server.register_extension(payment_identifier_resource_server_extension)
        extensions = {PAYMENT_IDENTIFIER: declare_payment_identifier_extension(required=False)}
    gate = payment_middleware({f"POST /v1/{name}": _route(name, extensions) for name in PRICES}, server)

    @app.middleware("http")
    async def paid(request: Any, call_next: Any) -> Any:
        # The middleware hands headers to a price that depends on the request, but no body.
        if request.url.path.removeprefix("/v1/") in PRICES:
            amount = str(price(request.url.path, await request.body())).encode()
            request.scope["headers"] = [*request.scope["headers"], (PRICE_HEADER.encode(), amount)]
            if hasattr(request, "_headers"):
                del request._headers
        return await gate(request, call_next)

    serve(app)


if __name__ == "__main__":
    main(sys.argv[1], "identified" in sys.argv[2:])
