# Generated from src/tradesdk/_async/resources/account.py by scripts/unasync.py: change that file instead.
"""The account."""

from __future__ import annotations

from ..._http.request import endpoint, model_request
from ...models.account import Account, Usage
from ..session import Resource


class AccountResource(Resource):
    """`client.account`: the key's account and its usage."""

    def get(self) -> Account:
        """The account that the key belongs to (`GET /v1/account`)."""
        return self._session.call(model_request(Account, "GET", endpoint("account")))

    def usage(self) -> Usage:
        """Requests and agents used in the billing period (`GET /v1/account/usage`)."""
        return self._session.call(model_request(Usage, "GET", endpoint("account", "usage")))
