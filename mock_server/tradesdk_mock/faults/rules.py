"""Rules about faults: what they may say, which requests they are for, and which of those they hit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ..core.clock import END
from ..core.errors import MockServerError
from ..core.seeding import SeededRandom
from ..payments.header import has_payment
from .faultchecks import Check, choice, integer, is_text, number, shown

if TYPE_CHECKING:
    from ..core.messages import Request

_METHOD = re.compile(r"[A-Za-z]{1,20}", re.ASCII)
CONDITIONS = (
    "route", "method", "tenant", "key", "query", "paid", "since", "until", "nth", "every", "probability", "count"
)  # fmt: skip
LATER = ("key", "query", "paid", "since", "until")
"""Conditions that stand among the parameters in the state: the table has no columns for them."""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """What is to go wrong, and when. A request that meets all of its conditions is hit.

    Several rules may hit the same request. Of those that would do the same (two that answer, two that end a body) only
    the oldest is played, and the others wait: rules with a `count` are played one after the other. A rule that finds
    nothing to spoil (no body, a stream that was refused) hasn't been played.

    Attributes:
        id: names the rule in `remove_fault`.
        kind: one of the kinds of `trade mock fault kinds`.
        on: `response` or `stream`.
        route: a path, one with `*`, or a pattern such as `/v1/agents/{agent_id}`; None for every path.
        method: `GET`, `POST` and so on; None for every method.
        tenant: whose key the request has to carry; None for anybody's, or none.
        key: the id of the key that it has to carry; None for any.
        query: names and values that stand in its query, among others; None for any query.
        paid: `only` requests that carry a payment header, or `never` those; None for both.
        since: from this time on, in Unix seconds of the service; None for all that was. A stream is met when it opens.
        until: before this time; None for no end.
        nth: only the n-th matching request, counted from 1.
        every: every n-th matching request.
        probability: 0 to 1; which requests are hit follows from the seed.
        count: so many times, then no more; None for no end.
        parameters: of the kind.
        seen: matching requests so far; for a kind that is on streams, connections.
        fired: how often it was played.
        warning: why it can't be met, in plain words; None when it can.
    """

    id: str
    kind: str
    on: str
    route: str | None
    method: str | None
    tenant: str | None
    key: str | None
    query: Mapping[str, str] | None
    paid: str | None
    since: float | None
    until: float | None
    nth: int | None
    every: int | None
    probability: float | None
    count: int | None
    parameters: Mapping[str, Any]
    seen: int = 0
    fired: int = 0
    warning: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as the control API has it."""
        return asdict(self)


def conditions(given: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, object]]:
    """What was given, as conditions that were checked, and the parameters that are left. MockServerError otherwise."""
    found: dict[str, Any] = {name: given.get(name) for name in CONDITIONS}
    route, method, tenant = found["route"], found["method"], found["tenant"]
    if route is not None and not (is_text(route, 2_000) and route[:1] in ("/", "*")):
        raise MockServerError("route: must be a path that begins with /, or * and what a path ends with")
    if method is not None:
        if not isinstance(method, str) or not _METHOD.fullmatch(method):
            raise MockServerError(f"method: must be one such as GET, not {shown(method)}")
        found["method"] = method.upper()
    if tenant is not None and not (is_text(tenant, 64) and tenant):
        raise MockServerError("tenant: must be the name of one, at most 64 characters")
    if found["key"] is not None and not (is_text(found["key"], 64) and found["key"]):
        raise MockServerError("key: must be the id of one, at most 64 characters")
    if found["key"] is not None and not found["key"].startswith("key_"):
        raise MockServerError("key: that is not the id of a key, which begins with key_")
    checks: dict[str, Check] = {name: integer(1, 10**9) for name in ("nth", "every", "count")}
    checks |= {
        "paid": choice("only", "never"),
        "probability": number(0, 1),
        "since": number(0, int(END)),
        "until": number(0, int(END)),
        "query": _query,
    }
    for name, check in checks.items():
        if found[name] is not None:
            try:
                found[name] = check(found[name])
            except ValueError as error:
                raise MockServerError(f"{name}: {error}") from None
    if found["nth"] is not None and found["every"] is not None:
        raise MockServerError("nth and every: a rule has one of them, not both")
    return found, {name: value for name, value in given.items() if name not in CONDITIONS}


def _query(value: object) -> object:
    if not isinstance(value, Mapping) or not value or len(value) > 20:
        raise ValueError("must be an object of 1 to 20 names and values")
    found = {}
    for name, each in value.items():
        if isinstance(each, int | float) and not isinstance(each, bool):
            each = str(each)
        if not (is_text(name, 200) and is_text(each, 2_000)):
            raise ValueError(f"{shown(name)}: must be text, at most 200 characters of a name and 2,000 of a value")
        found[name] = each
    return found


def holds(rule: FaultRule, request: Request, now: float) -> bool:
    """Whether its method, its query, its payment and the time are what the rule says."""
    return (
        (rule.method is None or rule.method == request.method)
        and (rule.paid is None or (rule.paid == "only") == has_payment(request))
        and (rule.since is None or rule.since <= now)
        and (rule.until is None or now < rule.until)
        and (rule.query is None or rule.query.items() <= _pairs(request.query))
    )


def _pairs(query: bytes) -> set[tuple[str, str]]:
    return set(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


@lru_cache(maxsize=2_048)
def _regex(route: str) -> re.Pattern[str]:
    """What a route stands for: paths; for one with placeholders, patterns, whatever their placeholders are called."""
    first, *others = [
        "".join(r"\{[^/{}]*\}" if part[:1] == "{" else re.escape(part) for part in re.split(r"(\{[^/{}]*\})", piece))
        for piece in route.split("*")
    ]
    if not others:
        return re.compile(first)
    # Atomic: what stands between two stars is found where it comes first, and a long path costs no more than that.
    between = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(f"{first}{between}.*{others[-1]}", re.DOTALL)


def meets(route: str | None, path: str, pattern: str | None) -> bool:
    """Whether a request for this path, under this pattern of the router, is one that the route is about."""
    if route is None:
        return True
    return _regex(route).fullmatch(pattern or "" if "{" in route else path) is not None


def chance(seed: int, rule: FaultRule, *parts: object) -> float:
    """A number in [0, 1) for a rule and what happens to it."""
    return SeededRandom(seed, "fault", rule.id, *parts, draws=1).unit()


def hits(seed: int, rule: FaultRule, ordinal: int) -> bool:
    """Whether a rule is for the matching request of this ordinal, counted from 1."""
    if rule.nth is not None and ordinal != rule.nth:
        return False
    if rule.every is not None and ordinal % rule.every:
        return False
    if rule.count is not None and rule.fired >= rule.count:
        return False
    return rule.probability is None or chance(seed, rule, "hit", ordinal) < rule.probability
