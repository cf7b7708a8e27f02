"""A bot in a FastAPI app: a task follows signals, requests read them, and a shutdown ends the stream.

    pip install fastapi uvicorn
    uvicorn --app-dir examples fastapi_bot:app

TRADE_API_KEY and TRADE_BASE_URL say which service. One client and one stream serve the whole process.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request

from tradesdk import AsyncTradeClient, StreamSignal, TradeError

BASE = 8453


async def follow(client: AsyncTradeClient, latest: deque[StreamSignal]) -> None:
    """Keep the latest signals, newest first. The stream handles reconnects and gaps."""
    try:
        async with client.signals.stream(chain=BASE) as stream:
            async for signal in stream:
                latest.appendleft(signal)
    except TradeError as error:  # such as a revoked key: a retry can't fix it
        logging.getLogger(__name__).error("the stream has ended: %s", error)
        raise


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncTradeClient() as client:
        latest: deque[StreamSignal] = deque(maxlen=100)
        app.state.client, app.state.latest = client, latest
        app.state.following = asyncio.create_task(follow(client, latest))
        try:
            yield
        finally:
            app.state.following.cancel()  # leaving the stream closes its connection
            await asyncio.gather(app.state.following, return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.get("/health")
async def health(request: Request) -> dict[str, str]:
    """503 when the stream has ended, so that a supervisor restarts the bot."""
    if request.app.state.following.done():
        raise HTTPException(503, "the stream has ended")
    return {"status": "ok"}


@app.get("/signals")
async def signals(request: Request, limit: int = 10) -> list[dict[str, Any]]:
    return [signal.model_dump(mode="json") for signal in list(request.app.state.latest)[:limit]]


@app.get("/agents")
async def agents(request: Request) -> list[str]:
    client: AsyncTradeClient = request.app.state.client
    return [f"{agent.name}: {agent.status}" async for agent in client.agents.list(max_items=20)]
