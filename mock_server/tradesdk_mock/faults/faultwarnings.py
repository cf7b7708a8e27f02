"""Rules about faults that can never be played: why, in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from ..core.errors import MockServerError
from .rules import FaultRule, chance, meets

if TYPE_CHECKING:
    from ..state.world import World

# Of rules that would do the same thing to an answer, the oldest is played; the others wait for their next request.
SAME = {"malformed_json": "spoiled", "huge_body": "spoiled", "truncate": "end", "bad_chunk": "end", "reset": "end"}
SAME |= {"half_event": "end of the stream", "drop": "end of the stream"}


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the service, as a rule sees it."""

    pattern: str
    methods: frozenset[str]
    market: bool = False
    stream: bool = False
    paid: bool = False


@lru_cache(maxsize=4)
def places(hidden: bool) -> tuple[Place, ...]:
    """Every path of the service; `hidden`: without those that exist under the gap option `no_routes=routes` only."""
    # Loaded here: endpoints import what imports this.
    from ..api.routes import MARKET_ROUTES, ROUTES

    found = [Place(path, frozenset({"POST"}), market=True, paid=sold.price > 0) for path, sold in MARKET_ROUTES]
    for path, endpoints in ROUTES:
        there = {method: each for method, each in endpoints.items() if not (hidden and each.option)}
        if there:
            found.append(Place(path, frozenset(there), stream=any(each.live for each in there.values())))
    return tuple(found)


def place_of(pattern: str | None) -> Place | None:
    """What stands behind a pattern of the router."""
    return next((place for place in places(False) if place.pattern == pattern), None)


@lru_cache(maxsize=4_096)
def reached_by(route: str | None, hidden: bool) -> tuple[Place, ...]:
    """The paths of the service that a route is about."""
    return tuple(place for place in places(hidden) if not route or could_meet(route, place.pattern))


def could_meet(route: str, pattern: str) -> bool:
    """Whether some path of this pattern is one that the route is about."""
    if "{" in route:
        return meets(route, "", pattern)
    # A placeholder is one character or more, none of them a slash; a star is any, or none.
    shape = [
        token for part in re.split(r"(\{[^/{}]*\})", pattern) for token in (["any", "many"] if "{" in part else part)
    ]
    reached = _skipping({0}, shape)
    for letter in route:
        if letter == "*":
            reached = set(range(min(reached, default=len(shape) + 1), len(shape) + 1))
        else:
            met = {at for at in reached if at < len(shape) and shape[at] == letter}
            within = {at for at in reached if at < len(shape) and len(shape[at]) > 1 and letter != "/"}
            stay = {at for at in within if shape[at] == "many"}
            reached = _skipping({at + 1 for at in met | (within - stay)} | stay, shape)
    return len(shape) in reached


def _skipping(reached: set[int], shape: list[str]) -> set[int]:
    """With the places that are reached as well because a placeholder needn't go on."""
    return reached | {at + 1 for at in reached if at < len(shape) and shape[at] == "many"}


class Warnings:
    """Looks for what keeps rules from being played. They are asked about in their order, the oldest first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys: set[str] | None = None
        # The rules behind which nothing of the same sort is played: by what they do, and their conditions.
        self._walls: dict[tuple[object, ...], FaultRule] = {}

    def of(self, rule: FaultRule) -> str | None:
        """Why this one can't be played; None when it can."""
        found = self._unmet(rule) or self._out_of_time(rule) or self._nobody(rule) or self._behind(rule)
        if found is None and _always(rule):
            for what in _taken(rule):
                self._walls.setdefault((what, *_conditions(rule)), rule)
        return found

    def _unmet(self, rule: FaultRule) -> str | None:
        if rule.probability == 0:
            return "its probability is 0"
        there: Iterable[Place] = reached_by(rule.route, self._world.gaps.no_routes == "404")
        if not there:
            query = ""
            if "?" in (rule.route or ""):
                query = "; routes are compared with the path alone, and what a query must have is the condition query"
            return f"the service has no path {rule.route}{query}"
        if rule.on == "stream":
            there = [place for place in there if place.stream]
            if not there:
                return f"{rule.route} is no stream, and {rule.kind} is something that happens on one"
        elif rule.on == "payment":
            there = [place for place in there if place.paid]
            if not there:
                return f"{rule.route} is not paid for, and {rule.kind} is something that happens to payments"
            if self._world.gaps.paywall == "open":
                return f"nobody pays: the gap option paywall is open, and {rule.kind} happens to payments"
            if rule.paid == "never" and rule.kind != "offer":
                return f"its paid is never, and {rule.kind} is something that happens to payments"
        elif SAME.get(rule.kind) == "spoiled" and all(place.stream for place in there):
            return f"{rule.route} is a stream, and {rule.kind} is something that happens to a whole body"
        methods = {method for place in there for method in place.methods}
        if rule.method is not None and rule.method not in methods:
            where = rule.route or ("the stream" if rule.on == "stream" else "the service")
            return f"{where} has no method {rule.method}; it has {', '.join(sorted(methods))}"
        if rule.nth is not None and not rule.fired:
            if rule.seen >= rule.nth:
                return f"request {rule.nth} has come and gone"
            seed = self._world.seed
            if rule.probability is not None and chance(seed, rule, "hit", rule.nth) >= rule.probability:
                return f"request {rule.nth} is not among those that the probability chooses"
        return None

    def _out_of_time(self, rule: FaultRule) -> str | None:
        if rule.until is None:
            return None
        if rule.since is not None and rule.until <= rule.since:
            return "its until is not after its since"
        now = self._world.now()
        return f"its until is over: the service's time is {now:.3f}" if rule.until <= now else None

    def _nobody(self, rule: FaultRule) -> str | None:
        from ..state import tenants

        if rule.tenant is not None:
            try:
                tenants.check_tenant(rule.tenant)
            except MockServerError as error:
                return str(error)
        if rule.key is not None:
            if self._keys is None:
                self._keys = {str(key["id"]) for key in tenants.listing(self._world)}
            if rule.key not in self._keys:
                return f"there is no key {rule.key!r} so far"
        return None

    def _behind(self, rule: FaultRule) -> str | None:
        wider = product(*((None, each) if each is not None else (None,) for each in _conditions(rule)))
        for conditions in wider:
            for what in _needed(rule):
                wall = self._walls.get((what, *conditions))
                if wall is not None:
                    return f"fault {wall.id} ({wall.kind}) is older, is always played, and leaves nothing to this one"
        return None


def _conditions(rule: FaultRule) -> tuple[object, ...]:
    query = None if rule.query is None else tuple(sorted(rule.query.items()))
    return rule.route, rule.method, rule.tenant, rule.key, query, rule.paid, rule.since, rule.until


def _always(rule: FaultRule) -> bool:
    """Whether it hits every request that it is about."""
    rare = rule.nth is not None or rule.every not in (None, 1) or rule.probability not in (None, 1)
    return not rare and rule.count is None and rule.kind != "latency"


def _answers(rule: FaultRule) -> bool:
    return rule.kind == "status" or _loses(rule)


def _loses(rule: FaultRule) -> bool:
    return rule.kind == "reset" and "after" not in rule.parameters


def _taken(rule: FaultRule) -> Iterator[str]:
    """What it takes from younger rules."""
    yield "answer" if _answers(rule) else SAME.get(rule.kind, rule.kind)
    if _loses(rule):
        yield "all"
    if _answers(rule) and not rule.parameters["executed"]:
        yield "payment"


def _needed(rule: FaultRule) -> Iterator[str]:
    """What an older one may have taken from it."""
    if rule.kind == "latency":
        return
    if rule.on == "payment":
        yield rule.kind
        yield "payment"
        return
    yield "answer" if _answers(rule) else SAME.get(rule.kind, rule.kind)
    yield "all"
    if rule.on == "stream":
        # There are no events in another answer, nor in another body.
        yield "answer"
        yield "body"
