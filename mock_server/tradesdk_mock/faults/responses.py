"""The answers that faults give in place of the service's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ..core import rate_limit
from ..core.errors import ApiError, Header
from ..core.messages import Answer, error_answer
from ..core.rate_limit import rate_headers
from .faultwarnings import Place
from .rules import FaultRule

if TYPE_CHECKING:
    from ..state import tenants
    from ..state.world import World

_CODES = {
    400: "invalid_request",
    401: "unauthorized",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    405: "invalid_request",
    409: "conflict",
    422: "validation_error",
    429: "rate_limited",
    500: "internal_error",
    503: "service_unavailable",
}
_WRAPPED = (400, 404, 502)
_BODYLESS = (204, 304)


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule and the request that it is played on.

    Attributes:
        ordinal: the request's number among those that match the rule.
        place: the path's, None where the service has none.
        market: it is a request for market data.
    """

    rule: FaultRule
    ordinal: int
    place: Place | None
    market: bool

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def answers(self) -> bool:
        """Whether it takes the place of the answer."""
        return self.kind == "status" or self.loses

    @property
    def loses(self) -> bool:
        """Whether there is no answer at all."""
        return self.kind == "reset" and "after" not in self.rule.parameters

    @property
    def skips(self) -> bool:
        """Whether the request isn't carried out."""
        return self.answers and not self.rule.parameters["executed"]

    def get(self, name: str) -> Any:
        return self.rule.parameters.get(name)


def code_of(hit: Hit) -> str | None:
    """The error code of an answer in place of another; interface B's wrapper has none."""
    if hit.kind != "status" or (hit.market and hit.get("status") in _WRAPPED):
        return None
    status = hit.get("status")
    return hit.get("code") or _CODES.get(status) or _phrase(status)


def _phrase(status: int) -> str:
    try:
        words = HTTPStatus(status).phrase.lower()
    except ValueError:
        return f"status_{status}"
    return "".join(letter if letter.isalpha() else "_" for letter in words)


def answer(hit: Hit, world: World, caller: tenants.Principal | None) -> Answer:
    """What is answered in place of the service's own answer."""
    if hit.loses:
        return Answer(0, body=b"")
    status = hit.get("status")
    headers: list[Header] = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    wait = hit.get("retry_after")
    if wait is None and status == 429:
        wait = 1
    if wait not in (None, ""):
        headers.append((b"retry-after", str(wait).encode("ascii")))
    counted = not hit.market and not (hit.place and hit.place.stream)
    if counted and (status not in (401, 404) or world.gaps.rate_headers == "always"):
        verdict = _standing(world, caller)
        if isinstance(wait, int | float):
            # The service would not name two times: clients wait for the later one.
            verdict.reset = min(verdict.reset, math.ceil(world.now() + wait))
        headers += rate_headers(verdict)
    if status in _BODYLESS:
        return Answer(status, headers=headers, body=b"")
    message = hit.get("message")
    if message is None:
        message = f"The mock was told to answer {status} (fault {hit.rule.id})."
    if hit.market and status in _WRAPPED:
        return Answer(status, {"success": False, "data": None, "error": message}, headers)
    return Answer(status, error_answer(ApiError(status, code_of(hit) or "", message), world.gaps).data, headers)


def _standing(world: World, caller: tenants.Principal | None) -> rate_limit.Verdict:
    """Where the caller stands, without counting the request."""
    if caller is None:
        return rate_limit.untouched(world.gaps, world.now())
    return world.limiter.peek(caller.key_id, rate_limit.per_minute(caller.plan, world.gaps), world.now())
