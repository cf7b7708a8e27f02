# Generated from tests/_async/_streamrun.py by scripts/unasync.py: change that file instead.
"""Follows a scripted stream to its end, in virtual time, and has every item judged."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import httpx

from tradesdk import Heartbeat, StreamStats, TradeClient

from .._answers import BASE, KEY
from .._clock import VirtualClock
from .._streamservice import Hook, StreamService
from .._streamservice_judge import StreamJudge
from .._streamservice_plan import CHAIN, Plan


class StreamRun:
    """One plan, played. `options` go to `signals.stream`.

    Attributes:
        stats: what the stream says of itself in the end.
        to_the_end: also when there was a difference before.
        at_thousand: called after every thousand signals.
    """

    def __init__(self, plan: Plan, *, hook: Hook | None = None, gaps_allowed: bool = False, **options: Any) -> None:
        self.plan = plan
        self.clock = VirtualClock()
        self.service = StreamService(plan, self.clock, hook)
        self.judge = StreamJudge(self.service, gaps_allowed=gaps_allowed)
        self.options = options
        self.stats = StreamStats()
        self.to_the_end = False
        self.at_thousand: Callable[[], None] | None = None

    def play(self) -> StreamStats:
        """To the end, or to the first difference, which is raised."""
        before = random.getstate()
        random.seed(self.plan.seed)  # what the client draws is part of the plan as well
        try:
            return self._follow()
        except Exception:
            if not self.judge.problem:  # else it tells the same
                print(f"seed {self.plan.seed}; the service's last acts:", *self.service.log, sep="\n")
            raise
        finally:
            random.setstate(before)

    def _follow(self) -> StreamStats:
        service, judge, dawdles = self.service, self.judge, self.plan.dawdles
        with (
            httpx.Client(transport=service) as http,
            TradeClient(api_key=KEY, base_url=BASE, clock=self.clock, http_client=http) as client,
            client.signals.stream(
                chain=CHAIN,
                since=self.plan.since,
                heartbeats=True,
                unknown_events=True,
                reports=True,
                **self.options,
            ) as stream,
        ):
            for item in stream:
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
