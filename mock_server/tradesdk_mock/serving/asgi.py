"""The service as an ASGI application: bytes from a socket to the pipeline, and its responses back, with their pauses.

All of it runs in the server's event loop. While a response is sent step by step, a second task
(`ClientConnection.watch`) reads from the client: its disconnect ends a wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ..core.clock import MockClock, make_up
from ..core.errors import crashed
from ..core.messages import Delay, Disconnect, Request, Response, WaitForEvent, close_body

if TYPE_CHECKING:
    from ..api.pipeline import Pipeline


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_IN_A_ROW = 4
BREAK_OFF = "tradesdk_mock.break_off"
"""Key in a scope: the function that breaks its connection in ways for which ASGI has no message."""


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class App:
    """The ASGI application. `market_port()`: the port that serves only market data, or None."""

    def __init__(self, pipeline: Pipeline, market_port: Callable[[], int | None] = lambda: None) -> None:
        self._pipeline = pipeline
        self._market_port = market_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content: bytes | None = b""
        client, server = scope.get("client"), scope.get("server")
        if scope["method"] in ("POST", "PATCH", "PUT"):
            limit = self._pipeline.longest_body(scope["path"], client[0] if client else None)
            try:
                content = await read_content(scope, receive, limit)
            except ClientGone:
                return
        market_port = self._market_port()
        request = Request(
            scope["method"],
            scope["path"],
            scope["query_string"],
            scope["headers"],
            content,
            client[0] if client else None,
            market_port is not None and server is not None and server[1] == market_port,
        )
        context = self._pipeline.open(request)
        await self._deliver(self._pipeline.handle(context), scope, receive, send)

    async def _deliver(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        body = response.body
        if isinstance(body, bytes) and not response.before:
            await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
            await send({"type": "http.response.body", "body": body})
            return
        client = ClientConnection(self._pipeline.world.clock)
        watch = asyncio.ensure_future(client.watch(receive))
        try:
            broken = await self._play(response, scope, send, client)
        finally:
            watch.cancel()
            close_body(body)
        if broken is not None:
            scope[BREAK_OFF](broken)
            # Until the server notices: it responds with 500 for an application that ends without a response.
            while (await receive())["type"] != "http.disconnect":
                pass

    async def _play(self, response: Response, scope: Scope, send: Send, client: ClientConnection) -> Disconnect | None:
        """Send step by step, to the end or until the client disconnects. Returns how to break it, or None."""
        for before in response.before:
            if isinstance(before, Disconnect):
                return before
            await client.pause(before.seconds)
        if client.has_left:
            return None
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        steps = iter([response.body]) if isinstance(response.body, bytes) else response.body
        sent = 0
        while not client.has_left:
            try:
                step = next(steps, None)
            except Exception:
                crashed(f"the response to {scope['path']!r}")
                return Disconnect.CLOSE
            if step is None:
                await send({"type": "http.response.body", "body": b""})
                break
            if isinstance(step, Disconnect):
                return step
            if isinstance(step, bytes):
                await send({"type": "http.response.body", "body": step, "more_body": True})
                # Sending waits only for slow readers; in a long backlog, other tasks need turns.
                sent += 1
                if sent % _IN_A_ROW == 0:
                    await asyncio.sleep(0)
            elif isinstance(step, Delay):
                await client.pause(step.seconds)
            else:
                await client.wait_for(step)
        return None


class ClientConnection:
    """A client that receives a response step by step: waits end when it disconnects."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self.has_left = False

    async def watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self._wake.set()

    async def pause(self, seconds: float) -> None:
        ends = self._loop.time() + seconds
        while not self.has_left and (left := ends - self._loop.time()) > 0:
            await self._wait(left)

    async def wait_for(self, step: WaitForEvent) -> None:
        limits = [step.poll, None if step.until is None else self._clock.real_seconds_until(step.until)]
        seconds = min((limit for limit in limits if limit is not None), default=None)
        began = self._clock.now()
        step.notifier.listen(self._wake_up)
        try:
            if not step.notifier.take():
                await self._wait(seconds)
                if not (step.notifier.take() or self.has_left):
                    make_up(self._clock, began, seconds)
        finally:
            step.notifier.listen(None)

    def _wake_up(self) -> None:
        """From any thread. The loop may have ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _wait(self, seconds: float | None) -> None:
        timer = None if seconds is None else self._loop.call_later(seconds, self._wake.set)
        try:
            if not self.has_left:
                await self._wake.wait()
        finally:
            self._wake.clear()
            if timer is not None:
                timer.cancel()


async def read_content(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """The request's body; None when it is longer than `limit`, and then the rest isn't read."""
    for name, value in scope["headers"]:
        # Always a number: the HTTP parser refuses anything else.
        if name == b"content-length" and int(value) > limit:
            return None
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        content += message.get("body", b"")
        if len(content) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(content)
