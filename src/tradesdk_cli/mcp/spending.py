"""The spending limit of a session, besides the ledger's budgets."""

from __future__ import annotations

from tradesdk_cli.mcp.answers import own
from tradesdk_cli.text import dollars, usd


class SessionLimit:
    """Counts each purchase once, by its name, before it is made.

    Only a purchase that was certainly not sent is subtracted again. Amounts are micro-dollars.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._counted: dict[str, int] = {}

    @property
    def spent(self) -> int:
        """The amount that was or may have been spent."""
        return sum(self._counted.values())

    @property
    def left(self) -> int:
        return max(0, self.limit - self.spent)

    def check(self, purchase: str, price: int) -> None:
        """Refuse a purchase above the limit (`over_session_limit`), before a person is asked."""
        if price - self._counted.get(purchase, 0) > self.left:
            left, limit = dollars(usd(self.left)), dollars(usd(self.limit))
            raise own(
                "over_session_limit",
                f"it costs {dollars(usd(price))}, and of {limit} for this session {left} is left; nothing was done",
            )

    def take(self, purchase: str, price: int) -> bool:
        """Count a purchase, if the limit allows it; False if it was counted before."""
        self.check(purchase, price)
        before = self._counted.get(purchase, 0)
        self._counted[purchase] = max(price, before)
        return before == 0

    def release(self, purchase: str) -> None:
        """Subtract it: nothing was sent, or it was paid before."""
        self._counted.pop(purchase, None)
