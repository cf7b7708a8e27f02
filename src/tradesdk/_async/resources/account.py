"""The account."""

from __future__ import annotations

from ..._http.request import endpoint, model_request
from ...models.account import Account, Usage
from ..session import AsyncResource


class AsyncAccountResource(AsyncResource):
    """`client.account`: the key's account and its usage."""

    async def get(self) -> Account:
        """The account that the key belongs to (`GET /v1/account`)."""
        return await self._session.call(model_request(Account, "GET", endpoint("account")))

    async def usage(self) -> Usage:
        """Requests and agents used in the billing period (`GET /v1/account/usage`)."""
        return await self._session.call(model_request(Usage, "GET", endpoint("account", "usage")))
