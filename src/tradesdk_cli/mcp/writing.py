"""Purchases and changes while they are carried out: each answers in time, and what was sent ends by itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio

from tradesdk_cli.mcp.answers import own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Writes:
    """Runs each write in a task of its own. Use it as an async context manager, which waits for their ends."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[anyio.CancelScope, anyio.Event]] = {}
        self._ends = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Writes:
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.finish()
        await self._stack.aclose()

    async def finish(self) -> None:
        """Begin nothing more, send nothing more, and wait until what was sent has ended."""
        self._ends = True
        for scope, end in tuple(self._under_way.values()):
            scope.cancel()
            await end.wait()

    async def run(self, key: str, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """The result of `work`, after others of the same key.

        When the caller is canceled, `work` is too. The SDK and `agent_change` let what was sent end even then, and the
        caller does not wait for that.
        """
        while (other := self._under_way.get(key)) is not None:
            await other[1].wait()
        if self._ends:
            raise own("in_progress", "this server ends; nothing was done")
        scope, end = self._under_way[key] = anyio.CancelScope(), anyio.Event()
        results: list[dict[str, Any] | Exception] = []

        async def carry_out() -> None:
            try:
                with scope:
                    results.append(await work())
            except Exception as error:
                results.append(error)
            finally:
                del self._under_way[key]
                end.set()

        self._group.start_soon(carry_out)
        try:
            await end.wait()
        finally:
            scope.cancel()
        if not results:
            raise own("still_under_way")
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]
