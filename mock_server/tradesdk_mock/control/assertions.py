"""Finding requests in the journal, and assertions about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.request_log import JournalEntry, listed
from ..core.router import path_pattern

if TYPE_CHECKING:
    from ..state.world import World

_LONG = 120
"""The most characters of an untrusted text in a failure."""
_METHOD = re.compile(r"[A-Za-z]+")


class RequestAssertions:
    """The requests so far, and assertions about them. A part of `MockService`."""

    world: World

    def journal(self, tenant: str | None = None, *, after: int = 0, limit: int | None = None) -> list[JournalEntry]:
        """List the requests that the mock received, oldest first.

        The latest 10,000 are kept. The status is 0 where a fault broke the connection. Requests to the control API are
        left out.

        Args:
            tenant: only requests with a key of this tenant.
            after: only requests with a higher number (`n`).
            limit: only the latest of them, this many.

        Raises:
            ValueError: a `limit` below 1.
        """
        if limit is not None and limit < 1:
            raise ValueError("limit: must be at least 1")
        return self.world.journal.entries(tenant, after)[-(limit or 0) :]

    def clear_journal(self) -> None:
        """Forget the requests so far."""
        self.world.journal.clear()

    def requests(
        self,
        method: str | None = None,
        path: str | None = None,
        *,
        tenant: str | None = None,
        status: int | None = None,
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> list[JournalEntry]:
        """The requests in the journal that match, oldest first. Omitted arguments match anything.

        Args:
            method: `GET`, `POST` and so on.
            path: as sent, or a pattern: `{name}` is one segment, `*` anything.
            tenant: the tenant of the key.
            status: of the response; 0 when a fault reset the connection instead.
            query: parameters that were sent; others may be present. The value None: this one was not sent.
            body: a mapping is compared field by field, at every depth; other fields may be present, and None means a
                field that is absent. Anything else must equal the body.

        Raises:
            ValueError: not a method, or not a path (it has a query, or begins with neither `/` nor `*`).
        """
        wanted = RequestMatcher(method, path, tenant, status, query, body)
        return [entry for entry in self.journal() if not wanted.differences(entry)]

    def assert_requested(
        self,
        method: str | None = None,
        path: str | None = None,
        *,
        times: int | None = None,
        tenant: str | None = None,
        status: int | None = None,
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> list[JournalEntry]:
        """AssertionError unless such a request was sent; its message shows other requests, the closest first.

        `times`: exactly this many, such as 0; by default at least one. Other arguments are those of `requests`.
        Returns the requests, oldest first.
        """
        __tracebackhide__ = True
        if times is not None and (type(times) is not int or times < 0):
            raise ValueError(f"times: must be a count, not {times!r}")
        wanted, entries = RequestMatcher(method, path, tenant, status, query, body), self.journal()
        found = [entry for entry in entries if not wanted.differences(entry)]
        if len(found) == times or (times is None and found):
            return found
        if not found:
            raise AssertionError(f"there was no {wanted}\n{wanted.nearest(entries)}")
        near = f"\n{wanted.nearest(entries)}" if times is not None and len(found) < times else ""
        count = f" {len(found)} times, not {times}" if times else ""
        raise AssertionError(f"{wanted} was sent{count}:\n{listed([line(entry) for entry in found])}{near}")


@dataclass(frozen=True, slots=True)
class RequestMatcher:
    """The conditions of a search for requests. None: anything."""

    method: str | None = None
    path: str | None = None
    tenant: str | None = None
    status: int | None = None
    query: Mapping[str, object] | None = None
    body: object = None

    def __post_init__(self) -> None:
        # Refused: an assertion with it could never fail.
        if self.method is not None and not _METHOD.fullmatch(self.method):
            raise ValueError(f"method: {self.method!r} is not a method such as GET; a path goes into path=")
        if self.path is not None and self.path[:1] not in ("/", "*"):
            raise ValueError(f"path: {self.path!r} is not a path such as /v1/agents, nor a pattern that begins with *")
        if self.path is not None and "?" in self.path:
            raise ValueError(f"path: {self.path!r} has a query; that goes into query=")

    def __str__(self) -> str:
        words = ["request" if self.method is None else self.method.upper()]
        if self.path is not None:
            words.append(self.path)
        others = {"tenant": self.tenant, "status": self.status, "query": self.query, "body": self.body}
        words += [f"{name}={_quoted(value)}" for name, value in others.items() if value is not None]
        return " ".join(words)

    def differences(self, entry: JournalEntry) -> list[str]:
        """How a request differs, in words; empty when it matches."""
        found = []
        if self.method is not None and entry.method != self.method.upper():
            found.append(f"method {entry.method}")
        if self.path is not None and not path_pattern(self.path).fullmatch(entry.path):
            found.append("another path")
        if self.tenant is not None and entry.tenant != self.tenant:
            found.append("no tenant" if entry.tenant is None else f"tenant {entry.tenant}")
        if self.status is not None and entry.status != self.status:
            found.append(f"status {entry.status}")
        sent: Mapping[str, object] = entry.query
        for name, value in (self.query or {}).items():
            text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            found += _unlike(text, sent.get(name), _plain(f"query {name}"))
        if self.body is not None:
            found += _unlike(self.body, entry.body, "body")
        return found

    def nearest(self, entries: Sequence[JournalEntry]) -> str:
        """The requests that don't match, those with the fewest differences first."""
        others = [(self.differences(entry), entry) for entry in entries]
        # With equal differences, a request to the same endpoint is closer.
        others = sorted(
            (other for other in others if other[0]),
            key=lambda other: (len(other[0]), other[0][0].startswith(("method", "another path"))),
        )
        if not others:
            return "there was no other request" if entries else "there were no requests"
        lines = [f"{line(entry)}, but {', '.join(words)}" for words, entry in others]
        return f"other requests, the closest first:\n{listed(lines)}"


def line(entry: JournalEntry) -> str:
    """A request in one line: `#3 GET /v1/agents?limit=100: 503 service_unavailable (fault: status)`."""
    query = "&".join(f"{name}={value}" for name, value in entry.query.items())
    status = f"{entry.status}" if entry.status else "no response"
    error = f" {entry.error}" if entry.error else ""
    faults = f" (fault: {', '.join(entry.faults)})" if entry.faults else ""
    return f"#{entry.n} {_plain(entry.method)} {_plain(entry.path + (query and '?' + query))}: {status}{error}{faults}"


def _unlike(wanted: object, sent: object, where: str) -> list[str]:
    """How `sent` differs from `wanted`, in words. Only the wanted fields of a mapping are compared."""
    if isinstance(wanted, Mapping):
        if not isinstance(sent, Mapping):
            return [f"no {where}" if sent is None else f"{where} {_quoted(sent)}"]
        fields: Mapping[Any, object] = sent
        pairs = [(_plain(f"{where}.{name}"), value, fields.get(name)) for name, value in wanted.items()]
        return [word for field, value, found in pairs for word in _unlike(value, found, field)]
    if wanted == sent and isinstance(wanted, bool) == isinstance(sent, bool):
        return []
    return [f"no {where}" if sent is None else f"{where} {_quoted(sent)}"]


def _quoted(value: object) -> str:
    return _plain(repr(value) if isinstance(value, str) else str(value))


def _plain(text: str) -> str:
    """An untrusted text on one line, without control characters."""
    text = text if len(text) <= _LONG else text[: _LONG - 3] + "..."
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
