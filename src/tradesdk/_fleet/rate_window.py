"""The rate window that members of a fleet share: what an answer says of it, and what a member does alone. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .._http.rate_limit import RateWindow
from .._http.retry import with_jitter
from .._http.service_time import reset_time, server_date, server_wait
from .._values.http import RateClaim
from ..errors import ConfigError

ALONE = "alone"
"""The id of a claim that only this member knows."""

_SHORT = 1.0  # seconds; a wait for the answer to another request, not for the reset
_AT_LEAST = 1.0  # seconds to wait after a 429 that says nothing


@dataclass(frozen=True, slots=True)
class SharedWindow:
    """A rate limit that the members of a fleet share, as their server has it.

    Attributes:
        members: programs that asked for a request in the last two minutes, and have not closed their limiter.
        in_flight: requests that were allowed and have no answer yet.
        remaining: requests left, as the service said, without those in flight; None when it is not known.
        limit: requests per minute; None when it is not known.
        reset_in: seconds until the window is over; None when it is not known.
    """

    members: int
    in_flight: int
    remaining: int | None
    limit: int | None
    reset_in: float | None


def window_keys(prefix: str, window: str) -> list[str]:
    """The keys of a window. The part in braces keeps them together in a cluster."""
    key = f"{prefix}:{{{window}}}:rate"
    return [key, f"{key}:claims", f"{key}:members"]


def checked_prefix(prefix: str) -> str:
    """`prefix`, if it can begin keys."""
    if (
        not isinstance(prefix, str)
        or not prefix.isprintable()
        or not 0 < len(prefix) <= 100
        or set("{} ") & set(prefix)
    ):
        raise ConfigError("prefix must be 1 to 100 printable characters, without spaces and braces")
    return prefix


def answer_args(status: int, headers: Mapping[str, str], *, now: float, age: float = 0.0) -> list[str | int]:
    """What an answer says of the window, as arguments of the script. `age`: seconds since it came."""
    left, limit = _count(headers, "x-ratelimit-remaining"), _count(headers, "x-ratelimit-limit")
    reset, date = reset_time(headers), server_date(headers, now)
    away: str | int = "" if reset is None or date is None else int((reset - date) * 1000)
    if isinstance(away, int) and away > 0:
        away = max(0, int(away - age * 1000))
    wait = 0.0
    if status == 429:
        of_wait = {name: headers[name] for name in ("retry-after", "date", "age") if name in headers}
        wait = max(_AT_LEAST, server_wait(of_wait, now) or 0.0)
    return [status, limit, left, "" if reset is None else reset, away, int(wait * 1000)]


def has_numbers(headers: Mapping[str, str]) -> bool:
    return _count(headers, "x-ratelimit-remaining") != "" and reset_time(headers) is not None


def spread_out(wait: float, random: Callable[[], float] = random.random) -> float:
    """A wait with jitter. Members come back within the first second after a reset, not all at once."""
    return wait + random() if wait > _SHORT else with_jitter(wait, random)


def _count(headers: Mapping[str, str], name: str) -> str:
    text = headers.get(name, "")
    return text if text.isascii() and text.isdigit() and len(text) < 10 else ""


class Share:
    """What one member knows of a window. While the server is away it continues with its share of it."""

    def __init__(self) -> None:
        self.members = 1
        self._latest: tuple[Mapping[str, str], float, float] | None = None
        self._alone: RateWindow | None = None
        self._unreported = False

    def note(self, headers: Mapping[str, str], now: float, monotonic: float) -> None:
        """Keep what an answer says."""
        self._latest = headers, now, monotonic

    def claim(self, window: str, monotonic: float) -> RateClaim:
        """A claim that this member makes by itself; its wait is without jitter."""
        wait = self._window().claim(monotonic)
        return RateClaim(wait, self.members, window, "" if wait else ALONE)

    def answered(self) -> None:
        """The last answer was not reported to the others."""
        self._unreported = True
        if self._latest is not None:
            headers, now, monotonic = self._latest
            self._window().observe(self._divided(headers), now=now, monotonic=monotonic)

    def give_back(self) -> None:
        if self._alone is not None:
            self._alone.give_back()

    def to_report(self, monotonic: float) -> list[str | int] | None:
        """What the others have not been told, as arguments of the script."""
        if not self._unreported or self._latest is None:
            return None
        headers, now, came = self._latest
        return answer_args(200, headers, now=now, age=monotonic - came)

    def together(self) -> None:
        """The server is back, and knows what this member knows."""
        self._alone, self._unreported = None, False

    def _window(self) -> RateWindow:
        if self._alone is None:
            self._alone = RateWindow()
            if self._latest is not None:
                headers, now, monotonic = self._latest
                self._alone.observe(self._divided(headers), now=now, monotonic=monotonic)
        return self._alone

    def _divided(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if self.members == 1:
            return headers
        part = {name: headers[name] for name in ("x-ratelimit-reset", "date", "age") if name in headers}
        for name in ("x-ratelimit-limit", "x-ratelimit-remaining"):
            if text := _count(headers, name):
                part[name] = str(int(text) // self.members)
        return part
