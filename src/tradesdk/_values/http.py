"""Responses of the service: status, headers, body, JSON and rate limit; and whether a host is this machine."""

from __future__ import annotations

import ipaddress
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")

_HALVES = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"  # a pair
    rb"|(\\u[dD][89a-fA-F][\da-fA-F]{2}|\xed[\xa0-\xbf][\x80-\xbf])"  # a single one, escaped or not
    rb"|\\.(?:[^\\\xed]|\\(?!u[dD]).)*+",  # other escapes, and what follows
    re.DOTALL,
)
"""Surrogates in JSON: group 1 is half a character."""


class Headers(Mapping[str, str]):
    """Headers of a response: names in any case; repeated headers are joined by commas.

    Its `repr` has no values: a service may repeat the signed payment.
    """

    __slots__ = ("_values",)

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        values: dict[str, str] = {}
        for name, value in items:
            name = name.lower()
            values[name] = f"{values[name]}, {value}" if name in values else value
        self._values = values

    @classmethod
    def received(cls, items: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Headers from the bytes that HTTP libraries give."""
        return cls([(name.decode("latin-1"), value.decode("latin-1")) for name, value in items])

    def hidden(self, hide: Callable[[str], str]) -> Headers:
        """The same without secrets that a service repeats, also inside base64."""
        values = [_inside(value) or value for value in self.values()]
        if hide(text := "\n".join(values)) == text:  # usually there are none: check all at once
            return self
        return Headers((name, _hidden(value, hide)) for name, value in self.items())

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name.lower(), default)  # the inherited method raises and catches an error

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self._values)})"


def _hidden(value: str, hide: Callable[[str], str]) -> str:
    inside = _inside(value)
    if inside is None:
        return hide(value)
    shown = hide(inside)
    return value if shown == inside else b64encode(shown.encode()).decode()


def _inside(value: str) -> str | None:
    try:
        return b64decode(value, validate=True).decode()
    except ValueError:  # it is not text in base64
        return None


class SentHeaders(list[tuple[bytes, bytes]]):
    """Headers of a request, in order. Its `repr` has no values: they may contain an API key or a payment."""

    def __repr__(self) -> str:
        return f"SentHeaders({', '.join(name.decode('latin-1') for name, _ in self)})"


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response. In errors, `****` replaces the key and the payment of the request, if the service repeats them.

    Attributes:
        status: the HTTP status.
        headers: the headers; names in any case.
        content: the body, decompressed.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 are replaced."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError` when it is not JSON (`NaN` and `Infinity` are not)."""
        return parse_json(self.content)

    def __repr__(self) -> str:
        return f"RawResponse(status={self.status}, {len(self.content)} bytes)"


@dataclass(frozen=True, slots=True)
class RateClaim:
    """A rate limiter's decision about one request.

    Attributes:
        wait: seconds until the request may ask again, with jitter; 0 when it may be sent now.
        name: the name of the rate limit: a hash of the API key. Empty if only one client uses the limiter.
        id: the limiter's id of the claim; empty if the claim was refused.
    """

    wait: float = 0.0
    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rate limit in a response. Each value is None when the response does not have it.

    Attributes:
        limit: requests per minute.
        remaining: requests left before the reset.
        reset: when the window ends (aware, UTC).
    """

    limit: int | None
    remaining: int | None
    reset: datetime | None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def json_bytes(value: Any) -> bytes:
    """JSON as it is sent. Raises `TypeError`, `ValueError` or `RecursionError` for what JSON cannot represent."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def parse_json(content: bytes) -> Any:
    """Parse JSON. Raises `ValueError` for anything else, and for nesting of more than about 200 levels."""
    return read_json(parse_strictly, content)


def parse_strictly(content: bytes) -> Any:
    """Parse JSON as `parse_json` does, without replacing anything.

    The standard library's parser would overflow the stack if another library has raised the recursion limit.
    """
    from pydantic_core import from_json  # imported late: most responses are parsed by a model

    return from_json(content, allow_inf_nan=False)


def read_json(read: Callable[[bytes], T], content: bytes) -> T:
    """The result of `read` for JSON. If it fails, it is tried again without a byte order mark and half characters.

    Half a character, such as half an emoji in a symbol, becomes U+FFFD.
    """
    try:
        return read(content)
    except ValueError:
        whole = content.removeprefix(b"\xef\xbb\xbf")
        whole = _HALVES.sub(lambda found: "\ufffd".encode() if found.lastindex else found[0], whole)
        if whole == content:
            raise
    return read(whole)
