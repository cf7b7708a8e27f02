"""Drives a call and cancels it where it waits for the time number `at`, as a task or a scope is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

MODES = ("early", "late", "storm")


class Cancelling(Awaitable[Any]):
    """Awaits `call` and cancels it at its wait number `at` (1, 2, …); `reached` says whether there were so many.

    Early, while it waits; late, when what it waits for is there and it has not seen it; in a storm, at the next 24
    waits as well. `cancel` is called at once, as scopes are cancelled. By default its task is, as `asyncio.wait_for`
    and `asyncio.timeout` do it: no scope shields from that.
    """

    def __init__(
        self, call: Awaitable[object], at: int, mode: str = "early", cancel: Callable[[], object] | None = None
    ) -> None:
        self._call, self._at, self._mode, self._at_once = call, at, mode, cancel
        self.waits = 0

    @property
    def reached(self) -> bool:
        return self.waits >= self._at

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call.__await__()
        resume: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                wanted = resume()
            except StopIteration as end:
                return end.value
            self.waits += 1
            if 0 <= self.waits - self._at < (25 if self._mode == "storm" else 1):
                self._cancel(wanted)
            try:
                got = yield wanted
            except BaseException as error:
                resume = partial(steps.throw, error)
            else:
                resume = partial(steps.send, got)

    def _cancel(self, wanted: Any) -> None:
        if self._at_once is not None:
            self._at_once()
            return
        task = asyncio.current_task()
        assert task is not None
        if self._mode == "late" and wanted is not None:
            wanted.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)  # the loop has to know first what is waited for

    async def in_a_task(self) -> asyncio.Task[Any]:
        """Its task, when it is over."""

        async def driven() -> Any:
            return await self

        task = asyncio.ensure_future(driven())
        await asyncio.wait([task], timeout=60)
        assert task.done(), f"it hangs: {self._mode}, {self._at}"
        return task
