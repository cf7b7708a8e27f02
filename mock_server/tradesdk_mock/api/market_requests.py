"""Bodies of requests for market data, checked before a payment is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from ..core.checks import quoted
from ..core.errors import invalid, refused
from ..core.messages import Request
from ..market.tokens import Token, find
from ..state.world import World
from .validation import json_body

BASE = 8453
BATCH = 5
_MOST_SIGNALS = 100
SIGNALS = ("BUY", "SELL", "WAITING FOR SIGNAL", "ALL")
SORTS = ("winRate", "ROI")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NamedToken:
    """A token of a request.

    Attributes:
        identifier: as in the request.
        token: None when there is none on Base.
        limit: the number of its signals.
    """

    identifier: str
    token: Token | None
    limit: int


@dataclass(frozen=True, slots=True)
class MarketQuery:
    """A valid request for market data.

    Attributes:
        tokens: in the order of the request.
        limit: the number of tokens.
        start, end: Unix seconds, both inclusive.
    """

    tokens: Sequence[NamedToken] = ()
    limit: int = 0
    start: float | None = None
    end: float | None = None
    signal: str = "ALL"
    sort_by: str = "winRate"


class MarketBody:
    """The JSON object of a request. 400 when it is missing, or has a name twice."""

    def __init__(self, world: World, request: Request) -> None:
        self._world = world
        self._gaps = world.gaps
        self._found = json_body(request.headers, request.content)
        # The parser above takes the last of two values; a paid request must not be ambiguous. It has also refused
        # nesting so deep that this one might overflow the stack.
        json.loads(request.content or b"", object_pairs_hook=_unambiguous)

    def only(self, *names: str) -> None:
        """Other fields are ignored or, by gap option, refused."""
        self._only(self._found, names, "")

    def nothing(self) -> None:
        if self._found:
            raise refused(self._gaps.b_invalid, quoted(next(iter(self._found))), "the body must be the empty object {}")

    def limit(self, default: int, high: int) -> int:
        return self._limit(self._found, "limit", default, high)

    def moment(self, name: str) -> float | None:
        """ISO 8601 as Unix seconds; the default zone is UTC, the default time midnight."""
        if name not in self._found:
            return None
        value = self._found[name]
        if not isinstance(value, str):
            raise invalid(f"{name}: must be a string")
        try:
            if not _DATE.fullmatch(value.upper()):
                raise ValueError
            moment = datetime.fromisoformat(value.upper())
        except ValueError:
            raise invalid(f"{name}: {quoted(value)} is not a date of ISO 8601, such as 2026-01-31T12:00:00Z") from None
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH).total_seconds()

    def span(self) -> tuple[float | None, float | None]:
        start, end = self.moment("startDate"), self.moment("endDate")
        if start is not None and end is not None and start > end:
            raise refused(self._gaps.b_invalid, "startDate", "must not be after endDate")
        return start, end

    def one_of(self, name: str, values: Sequence[str], default: str | None = None) -> str:
        if name not in self._found:
            if default is None:
                raise invalid(f"{name}: required")
            return default
        value = self._found[name]
        if not isinstance(value, str):
            raise invalid(f"{name}: must be a string")
        if value not in values:
            raise refused(self._gaps.b_invalid, name, f"{quoted(value)} is not one of {', '.join(values)}")
        return value

    def tokens(self, limits: tuple[int, int] | None = None) -> list[NamedToken]:
        """Up to five tokens, none of them twice. `limits`: the default and the highest `limit` of a token."""
        items = self._found.get("tokens")
        if items is None:
            raise invalid("tokens: required")
        if not isinstance(items, list):
            raise invalid("tokens: must be an array")
        if not 1 <= len(items) <= BATCH:
            raise refused(self._gaps.b_invalid, "tokens", f"must have from 1 to {BATCH} items, not {len(items)}")
        found: list[NamedToken] = []
        seen: dict[str, str] = {}
        for index, item in enumerate(items):
            at = f"tokens[{index}]"
            if not isinstance(item, dict):
                raise invalid(f"{at}: must be an object")
            self._only(item, ("identifier", "limit") if limits else ("identifier",), f"{at}.")
            identifier = item.get("identifier")
            if not isinstance(identifier, str):
                raise invalid(f"{at}.identifier: {'must be a string' if 'identifier' in item else 'required'}")
            if not identifier.strip():
                raise invalid(f"{at}.identifier: must not be blank")
            token = find(self._world.seed, BASE, identifier)
            # An address and a symbol may name the same token: it would be paid for twice.
            earlier = seen.setdefault(token.address if token else identifier.lower(), identifier)
            if len(seen) <= index:
                same = f"{at}.identifier", f"{quoted(identifier)} is the same token as {quoted(earlier)}"
                raise refused(self._gaps.b_invalid, *same)
            limit = self._limit(item, f"{at}.limit", *limits) if limits else _MOST_SIGNALS
            found.append(NamedToken(identifier, token, limit))
        return found

    def _limit(self, where: dict[str, Any], at: str, default: int, high: int) -> int:
        value = where.get("limit", default)
        # true is a number in Python, not in JSON.
        if type(value) is not int:
            raise invalid(f"{at}: must be an integer")
        if not 1 <= value <= high:
            raise refused(self._gaps.b_invalid, at, f"must be from 1 to {high}")
        return value

    def _only(self, where: dict[str, Any], names: Sequence[str], prefix: str) -> None:
        unknown = sorted(where.keys() - set(names)) if self._gaps.unknown_field == "400" else ()
        if unknown:
            raise invalid(f"{prefix}{quoted(unknown[0])}: not a field of this request")


Reader = Callable[[MarketBody], MarketQuery]


def only_tokens(body: MarketBody) -> MarketQuery:
    body.only("tokens")
    return MarketQuery(body.tokens())


def tokens_with_limits(body: MarketBody) -> MarketQuery:
    body.only("tokens")
    return MarketQuery(body.tokens((10, _MOST_SIGNALS)))


def tokens_in_a_span(body: MarketBody) -> MarketQuery:
    body.only("tokens", "startDate", "endDate", "signalType")
    found = body.tokens()
    start, end = body.span()
    signal = body.one_of("signalType", SIGNALS, "ALL")
    return MarketQuery(found, start=start, end=end, signal=signal)


def sorted_tokens(body: MarketBody) -> MarketQuery:
    body.only("sortBy", "limit")
    return MarketQuery(sort_by=body.one_of("sortBy", SORTS), limit=body.limit(300, 300))


def number_of_tokens(body: MarketBody) -> MarketQuery:
    body.only("limit")
    return MarketQuery(limit=body.limit(100, 500))


def nothing(body: MarketBody) -> MarketQuery:
    body.nothing()
    return MarketQuery()


def tokens_sent(request: Request) -> int:
    """The number of tokens in a request, valid or not: its price depends on it."""
    try:
        items = from_json(request.content or b"{}")["tokens"]
    except (ValueError, TypeError, KeyError):
        return 1
    return min(max(len(items), 1), BATCH) if isinstance(items, list) else 1


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise invalid(f"{quoted(name)}: given twice")
        found[name] = value
    return found
