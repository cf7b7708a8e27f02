"""Actions that one member of a fleet takes."""

from __future__ import annotations

import math
import secrets

from ..._fleet.streams import Keys
from ..._values.text import display
from ...errors import FleetError, InvalidArgumentError
from .connection import AsyncFleetConnection

_TRIES = 3
_LONGEST = 1024


class AsyncOnce:
    """Tells one caller of the fleet apart from all others."""

    def __init__(self, url: str | None, keys: Keys) -> None:
        self._url = url
        self._keys = keys
        self._opened: AsyncFleetConnection | None = None

    async def first(self, action: str, *, keep: float) -> bool:
        """Whether this caller is the first to name `action`; it is remembered for `keep` seconds."""
        if not isinstance(action, str) or not 0 < len(action) <= _LONGEST:
            raise InvalidArgumentError(f"action must be a text of 1 to {_LONGEST} characters, not {display(action)}")
        if isinstance(keep, bool) or not isinstance(keep, int | float) or not 1 <= keep < math.inf:
            raise InvalidArgumentError(f"keep must be 1 second or more, not {display(keep)}")
        token = secrets.token_hex(16)  # the step may run twice, if its reply is lost
        if self._opened is None:
            self._opened = AsyncFleetConnection(self._url)
        connection = self._opened
        for left in reversed(range(_TRIES)):
            try:
                arguments: list[str | bytes | int | float] = [token, int(keep * 1000)]
                return bool(await connection.run("once", [self._keys.once(action)], arguments))
            except FleetError as error:
                if not left or not error.may_have_run:
                    raise
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close its connection."""
        if self._opened is not None:
            await self._opened.aclose()
