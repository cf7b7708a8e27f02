"""The market-data API behind the official FastAPI middleware, first generation. Argument: the facilitator's URL."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from typing import Any

from x402.fastapi.middleware import require_payment

from .market import PAY_TO, PRICES, make_app, price
from .serving import serve


def main(facilitator: str) -> None:
    app = make_app()

    @app.middleware("http")
    async def paid(request: Any, call_next: Any) -> Any:
        path = request.url.path
        if path.removeprefix("/v1/") not in PRICES:
            return await call_next(request)
        amount = price(path, await request.body())
        gate = require_payment(
            price=f"${amount / 1_000_000:.6f}",
            pay_to_address=PAY_TO,
            path=path,
            network="base",
            mime_type="application/json",
            facilitator_config={"url": facilitator},
        )
        return await gate(request, call_next)

    serve(app)


if __name__ == "__main__":
    main(sys.argv[1])
