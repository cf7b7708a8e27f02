"""Runs purchases and changes, within the spending limit of the session.

Each call answers in time, and a request under way is always completed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

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


class Writes:
    """Runs each write in its own task. The async context manager waits for all of them."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self._ends = False

    async def __aenter__(self) -> Writes:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.finish()
        await self._group.__aexit__(None, None, None)

    async def finish(self) -> None:
        """Start and send nothing more, and wait for requests under way."""
        self._ends = True
        for scope, end in tuple(self._under_way.values()):
            scope.cancel()
            await end.wait()

    async def run(self, key: str, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """The result of `work`, after earlier work of the same key.

        Canceling the caller cancels `work`. The SDK and `agent_change` still complete a request under way, and the
        caller does not wait for that.
        """
        while (other := self._under_way.get(key)) is not None:
            await other[1].wait()
        if self._ends:
            raise own("in_progress", "this server ends; nothing was done")
        scope, end = self._under_way[key] = anyio.CancelScope(), anyio.Event()
        result: dict[str, Any] | Exception = own("still_under_way")  # if it is canceled

        async def carry_out() -> None:
            nonlocal result
            try:
                with scope:
                    result = await work()
            except Exception as error:
                result = error
            finally:
                del self._under_way[key]
                end.set()

        self._group.start_soon(carry_out)
        try:
            await end.wait()
        finally:
            scope.cancel()
        if isinstance(result, Exception):
            raise result
        return result
