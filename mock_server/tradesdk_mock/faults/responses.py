"""The responses of faults, in place of the service's own."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from ..core import rate_limit
from ..core.errors import CODES, ApiError, Header
from ..core.messages import Response, error_response, market_response
from ..core.rate_limit import rate_headers

if TYPE_CHECKING:
    from ..state import tenants
    from ..state.world import World
    from .rules import MatchedFaults, MatchedRule

_WRAPPED = (400, 404, 502)
_BODYLESS = (204, 304)
_CODES = {each.value: each.name.lower() for each in HTTPStatus} | CODES


def replacement(matched: MatchedFaults, world: World, caller: tenants.Principal | None) -> tuple[Response, str | None]:
    """The response in place of the service's own, and its error code."""
    match = matched.replacement
    assert match is not None  # noqa: S101 - nothing else skips the request
    return response(match, world, caller), _code_of(match)


def response(match: MatchedRule, world: World, caller: tenants.Principal | None) -> Response:
    """The response of one rule, in place of the service's own."""
    if match.resets:
        return Response(0)
    status = match.get("status")
    headers: list[Header] = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    wait = match.get("retry_after")
    if wait is None and status == 429:
        wait = 1
    if wait not in (None, ""):
        headers.append((b"retry-after", str(wait).encode("ascii")))
    counted = not match.market and match.target != "stream"
    if counted and (status not in (401, 404) or world.gaps.rate_headers == "always"):
        verdict = rate_limit.anonymous(world.gaps, world.now())
        if caller is not None:
            # Without counting the request.
            per_minute = rate_limit.per_minute(caller.plan, world.gaps)
            verdict = world.limiter.current(caller.key_id, per_minute, world.now())
        if isinstance(wait, int | float):
            # The service never names two times: clients wait for the later one.
            verdict.reset = min(verdict.reset, math.ceil(world.now() + wait))
        headers += rate_headers(verdict)
    if status in _BODYLESS:
        return Response(status, headers=headers)
    message = match.get("message")
    if message is None:
        message = f"Injected by fault {match.rule.id}: status {status}."
    if match.market and status in _WRAPPED:
        found = market_response(status, error=message)
    else:
        found = error_response(ApiError(status, _code_of(match) or "", message), world.gaps)
    found.headers += headers
    return found


def _code_of(match: MatchedRule) -> str | None:
    """The error code of the response; the wrapper of the market-data API has none."""
    if match.kind != "status" or (match.market and match.get("status") in _WRAPPED):
        return None
    status = match.get("status")
    return match.get("code") or _CODES.get(status, f"status_{status}")
