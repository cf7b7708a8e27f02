"""Requests as values: method, path, query, body, and how to read the response. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlencode

from .._values.http import json_bytes
from ..errors import InvalidArgumentError
from .response import decode_model, decode_page
from .retry import Operation

if TYPE_CHECKING:
    from .._values.http import RawResponse
    from ..models._base import Model, Page

M = TypeVar("M", bound="Model")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "/v1"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
_OPERATIONS: dict[str, Operation] = {
    "GET": Operation.READ,
    "PUT": Operation.WRITE,
    "PATCH": Operation.WRITE,
    "DELETE": Operation.WRITE,
    "POST": Operation.CREATE,
}


@dataclass(frozen=True, slots=True)
class CreateLookup(Generic[T]):
    """How to find out whether a create happened: list, compare, read by id (`fetch`; None: use the list's item)."""

    listing: Listing[Any]
    expected: tuple[object, ...]
    identity: Callable[[Any], tuple[object, ...]]
    fetch: Callable[[str], Request[T]] | None = None

    def id_of(self, created: T) -> str:
        return str(attrgetter("id")(created))


class Request(NamedTuple, Generic[T]):
    """One request to one endpoint. `target`: path and query, encoded; `lookup` finds out whether a create happened.

    `reads_offers`: a 402 is a response for `decode`, not an error.
    """

    method: str
    target: str
    decode: Callable[[str, str, RawResponse], T]
    body: bytes | None = None
    operation: Operation = Operation.READ
    lookup: CreateLookup[T] | None = None
    reads_offers: bool = False


@dataclass(frozen=True, slots=True)
class Listing(Generic[M]):
    """A list that is read page by page; its filters are checked."""

    path: str
    item: type[M]
    query: Mapping[str, Any]

    def page(self, *, limit: int, cursor: str | None) -> Request[Page[M]]:
        return request(
            "GET", self.path, partial(decode_page, self.item), query={**self.query, "limit": limit, "cursor": cursor}
        )


def request(
    method: Method,
    path: str,
    decode: Callable[[str, str, RawResponse], T],
    *,
    query: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    lookup: CreateLookup[T] | None = None,
) -> Request[T]:
    """A request to a known endpoint; values that are None are left out of query and body."""
    return Request(
        method,
        _target(path, query),
        decode,
        body=None if body is None else encode_body({key: value for key, value in body.items() if value is not None}),
        operation=_OPERATIONS[method],
        lookup=lookup,
    )


def model_request(
    model: type[M],
    method: Method,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    lookup: CreateLookup[M] | None = None,
) -> Request[M]:
    return request(method, path, partial(decode_model, model), query=query, body=body, lookup=lookup)


def raw_request(
    method: str,
    path: str,
    decode: Callable[[str, str, RawResponse], T],
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
) -> Request[T]:
    """A request to any path; `path` is checked and sent unchanged."""
    method = method.upper() if isinstance(method, str) else ""
    if method not in _OPERATIONS:
        raise InvalidArgumentError(f"method must be one of {', '.join(_OPERATIONS)}", hint='write method="GET"')
    if not isinstance(path, str) or not path.startswith("/") or path.startswith("//"):
        raise InvalidArgumentError("path must start with one slash", hint='write path="/v1/account"')
    if "?" in path or "#" in path:
        hint = 'pass what is behind the ? as query={"chain": 8453}'
        raise InvalidArgumentError("path must not contain ? or #", hint=hint)
    if any(segment in (".", "..") for segment in unquote(path).split("/")):
        hint = "write the whole path, without . and .."
        raise InvalidArgumentError("path must not contain . or .. as a segment", hint=hint)
    if "\\" in path or not path.isascii() or not path.isprintable() or " " in path:
        raise InvalidArgumentError(
            "path must be printable ASCII without spaces or backslashes",
            hint="write other characters percent-encoded: urllib.parse.quote(path)",
        )
    return Request(
        method,
        _target(path, query),
        decode,
        body=None if body is None else encode_body(body),
        operation=_OPERATIONS[method],
    )


def endpoint(*segments: str) -> str:
    """The path of an endpoint: `endpoint("agents", agent_id)` is `/v1/agents/…` with the id quoted."""
    return "/".join([PREFIX, *[quote(segment, safe="") for segment in segments]])


def _target(path: str, query: Mapping[str, Any] | None) -> str:
    encoded = encode_query(query) if query else ""
    return f"{path}?{encoded}" if encoded else path


def encode_query(query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value is not None}
    try:
        return urlencode(
            {key: str(value).lower() if isinstance(value, bool) else value for key, value in given.items()}
        )
    except UnicodeEncodeError:
        hint = "remove the lone surrogate from its texts"
        raise InvalidArgumentError("the query cannot be sent as UTF-8", hint=hint) from None


def encode_body(body: Any) -> bytes:
    try:
        return json_bytes(body)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "pass dicts, lists, texts, finite numbers, True, False and None only"
        raise InvalidArgumentError(f"the body cannot be sent as JSON: {error}", hint=hint) from None
