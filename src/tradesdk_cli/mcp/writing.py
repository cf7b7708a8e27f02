"""Runs purchases and changes: each call answers in time, and a request under way is always completed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from tradesdk_cli.mcp.answers import own


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
