"""The request log: the requests of clients, for the assertions of tests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_KEPT = 10_000
_TEXT = 2_000
BODY_KEPT = 4_096
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One request and its response.

    Attributes:
        method: `GET`, `POST` and so on.
        path: without the query.
        query: names and values; of a repeated name, the last value.
        key_last4: the end of the key that was sent, None when it was not accepted. The key itself is not kept.
        tenant: the tenant of the key, None as above.
        status: of the response; 0 when a fault reset the connection instead.
        at: Unix seconds by the service's clock.
        error: the response's error code, None for a success.
        body: the JSON that was sent, None when there was none or more than 4 KiB of it.
        faults: the kinds of faults that were applied on this request.
        n: its number, from 1, in the order of the responses.
        payment: of a payment header its `payer`, `nonce` and `verdict`; None when there was none.
    """

    method: str
    path: str
    query: Mapping[str, str]
    key_last4: str | None
    tenant: str | None
    status: int
    at: float
    error: str | None = None
    body: object = None
    faults: tuple[str, ...] = ()
    n: int = 0
    payment: Mapping[str, object] | None = None


class Journal:
    """The latest 10,000 requests to the service (not to the control API) of this process."""

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        self._count = 0

    def add(self, entry: JournalEntry) -> None:
        with self._lock:
            self._count += 1
            # Readers can't change it; the number is set once, here.
            object.__setattr__(entry, "n", self._count)
            self._entries.append(entry)

    def entries(self, tenant: str | None = None, after: int = 0) -> list[JournalEntry]:
        """The requests, oldest first; `tenant` selects those of one tenant, `after` those after this number."""
        with self._lock:
            entries = list(self._entries)
        return [entry for entry in entries if entry.n > after and (tenant is None or entry.tenant == tenant)]

    @property
    def last(self) -> int:
        """The number of the latest request; `clear` doesn't restart it."""
        return self._count

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


def listed(lines: Sequence[str]) -> str:
    """The lines for the message of a failed assertion: the first ones, and how many more there are."""
    more = [f"... and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {each}" for each in [*lines[:_SHOWN], *more])


def shortened(text: str) -> str:
    return text if len(text) <= _TEXT else text[:_TEXT]
