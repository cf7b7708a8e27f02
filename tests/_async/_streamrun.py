"""Follows a scripted stream to its end, in virtual time, and has every item judged."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, Heartbeat, StreamStats

from .._answers import BASE, KEY
from .._clock import VirtualClock
from .._streamservice import Hook, StreamService
from .._streamservice_judge import StreamJudge
from .._streamservice_plan import CHAIN, Plan
from ._network import networked


class AsyncStreamRun:
    """One plan, played; with `patch`, by our own connections. `options` go to `signals.stream`.

    Attributes:
        stats: what the stream says of itself in the end.
        to_the_end: also when there was a difference before.
        at_thousand: called after every thousand signals.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        hook: Hook | None = None,
        gaps_allowed: bool = False,
        patch: pytest.MonkeyPatch | None = None,
        **options: Any,
    ) -> None:
        self.plan = plan
        self.clock = VirtualClock()
        self.service = StreamService(plan, self.clock, hook)
        self.network = None if patch is None else networked(patch, self.service)
        self.judge = StreamJudge(self.service, gaps_allowed=gaps_allowed)
        self.options = options
        self.stats = StreamStats()
        self.to_the_end = False
        self.at_thousand: Callable[[], None] | None = None

    async def play(self) -> StreamStats:
        """To the end, or to the first difference, which is raised."""
        before = random.getstate()
        random.seed(self.plan.seed)  # what the client draws is part of the plan as well
        try:
            return await self._follow()
        except Exception:
            if not self.judge.problem:  # else it tells the same
                print(f"seed {self.plan.seed}; the service's last acts:", *self.service.log, sep="\n")
            raise
        finally:
            random.setstate(before)

    async def _follow(self) -> StreamStats:
        service, judge, dawdles = self.service, self.judge, self.plan.dawdles
        given = httpx.AsyncClient(transport=service)
        async with (
            given,
            AsyncTradeClient(
                api_key=KEY, base_url=BASE, clock=self.clock, http_client=given if self.network is None else None
            ) as client,
            client.signals.stream(
                chain=CHAIN,
                since=self.plan.since,
                heartbeats=True,
                unknown_events=True,
                reports=True,
                **self.options,
            ) as stream,
        ):
            async for item in stream:
                before = judge.taken
                judge.take(item)
                if isinstance(item, Heartbeat) and service.over(item.timestamp.timestamp()):
                    break
                if judge.problem and not self.to_the_end:
                    break
                if judge.taken > before:
                    if judge.taken in dawdles:
                        self.clock.advance(dawdles[judge.taken])
                    if judge.taken % 1000 == 0 and self.at_thousand is not None:
                        self.at_thousand()
        self.stats = stream.stats
        judge.finish(self.stats)
        assert not judge.problem, judge.problem
        return self.stats
