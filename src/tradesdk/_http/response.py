"""Responses: from status, headers and bytes to a model, a page or an error. No I/O."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from .._values.hints import of_request
from .._values.http import RawResponse, is_loopback, parse_json, read_json
from .._values.text import printable
from ..errors import APIConnectionError, APIResponseError, APIStatusError, status_error_class
from .rate_limit import rate_limit
from .retry import Failure, FailureCause
from .service_time import server_wait

if TYPE_CHECKING:
    from ..models._base import Model, Page

M = TypeVar("M", bound="Model")
T = TypeVar("T")

MAX_BODY = 4 * 1024 * 1024
MAX_ERROR_BODY = 64 * 1024
_GZIP = b"\x1f\x8b"
_MAX_MEMBERS = 10_000  # of a gzip body: empty members take time and never reach the size limit


class BodyReader:
    """Collects the chunks of a body, decompresses gzip, and stops at the size limit."""

    def __init__(self, status: int, content_encoding: str) -> None:
        self._ok = 200 <= status < 300
        self._room = MAX_BODY if self._ok else MAX_ERROR_BODY
        self._received, self._most = 0, 2 * self._room  # gzip data can be endless and decompress to nothing
        self._chunks: list[bytes] = []
        self._members = 1
        self.problem: str | None = None
        self.cut_short = False
        coding = content_encoding.strip().lower()
        self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding in ("gzip", "x-gzip") else None
        if self._gzip is None and coding not in ("", "identity"):
            self.problem = f"its content encoding is {printable(coding, 60)}; only gzip is accepted"

    def feed(self, chunk: bytes) -> bool:
        """Add a chunk; False when no more is needed."""
        self._received += len(chunk)
        if self._gzip is None:
            return self._collect(chunk)
        while True:
            if self._gzip.eof and chunk:  # another member may follow
                self._members += 1
                if not chunk.startswith(_GZIP[: len(chunk)]) or self._members > _MAX_MEMBERS:
                    self.problem = "it has data after the end of its gzip"
                    return False
                self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = self._gzip.decompress(chunk, self._room + 1)
            except zlib.error:
                self.problem = "its gzip is damaged"
                return False
            if not self._collect(piece):
                return False
            chunk = self._gzip.unused_data
            if not chunk:
                return True

    def _collect(self, piece: bytes) -> bool:
        self._chunks.append(piece)
        self._room -= len(piece)
        if self._room < 0:
            self._chunks[-1] = piece[: self._room]
        if self._room < 0 or self._received > self._most:
            if self._ok:
                self.problem = f"it is larger than {MAX_BODY // 1024 // 1024} MiB"
            return False
        return True

    def content(self) -> bytes:
        """The body as read; `problem` is set if something is wrong with it."""
        body = b"".join(self._chunks)
        unfinished = self._gzip is not None and not self._gzip.eof and self._received > 0
        if unfinished and self.problem is None and self._room >= 0:
            self.problem, self.cut_short = "its gzip is cut short", True
        return body


def service_error(content: bytes) -> tuple[str | None, str] | None:
    """Code and message of an error body of the service; None for any other body.

    The account API sends `{"error": {"code", "message"}}`, the market-data API `{"success", "data", "error"}` without
    a code.
    """
    try:
        body = parse_json(content)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, str) and body.get("success") is False:
        return None, error
    if isinstance(error, dict) and isinstance(error.get("code"), str):
        message = error.get("message")
        return error["code"], message if isinstance(message, str) else ""
    return None


def status_error(method: str, url: str, response: RawResponse, *, now: float) -> APIStatusError:
    service_code, message = service_error(response.content) or (None, "")
    if not message:
        message = _plain_reason(response)
    wait = server_wait(response.headers, now) if response.status in (429, 503) else None
    error = status_error_class(response.status, service_code)(
        message,
        method=method,
        url=url,
        status=response.status,
        service_code=service_code,
        response=response,
        retry_after=wait,
        retry_at=moment_after(now, wait),
        rate_limit=rate_limit(response.headers),
    )
    if own := of_request(response.status, method, url):
        error._set_hint(own)
    return error


def is_of_market_data(error: APIStatusError) -> bool:
    """Whether an error has the form of the market-data API: a text and no code."""
    return error.service_code is None and service_error(error.body) is not None


def failure_of(error: Exception) -> Failure:
    """The error in the form of the retry policy."""
    if isinstance(error, APIConnectionError):
        if not error.temporary:
            return Failure(FailureCause.HOPELESS)
        if error.sent:
            return Failure(FailureCause.LOST)
        here = error.code == "connection_refused" and is_loopback(urlsplit(error.url).hostname or "")
        return Failure(FailureCause.NOT_SENT, here=here)
    if isinstance(error, APIStatusError) and error.response is not None:
        from_service = service_error(error.body) is not None
        return Failure(FailureCause.STATUS, error.status, error.headers, service_error=from_service)
    return Failure(FailureCause.HOPELESS)


def _plain_reason(response: RawResponse) -> str:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = "unknown status"
    if 300 <= response.status < 400:
        return f"{phrase}: redirects are never followed; check the base URL"
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if response.content and kind and kind != "application/json":
        return f"{phrase} (the response is {printable(kind, 60)}, so it may not come from the service itself)"
    return phrase


def moment_after(now: float, seconds: float | None) -> datetime | None:
    """`now` plus `seconds`; None for None, and for a time beyond the calendar."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(now + seconds, UTC)  # the same, to the microsecond, as if the caller adds them
    except (OverflowError, ValueError, OSError):
        return None


def decode_model(model: type[M], method: str, url: str, response: RawResponse) -> M:
    result: M = validated(model.__pydantic_validator__.validate_json, model.__name__, method, url, response)
    return result


def decode_page(item: type[M], method: str, url: str, response: RawResponse) -> Page[M]:
    result: Page[M] = validated(_page_validator(item), f"a page of {item.__name__}", method, url, response)
    return result


def decode_nothing(method: str, url: str, response: RawResponse) -> None:
    """Expect an empty body. A body that is not JSON, such as the page of a captive portal, is not from the service."""
    if response.content.strip() and response.status != 204:
        validated(parse_json, "an empty body or JSON", method, url, response)


def decode_raw(method: str, url: str, response: RawResponse) -> RawResponse:
    return response


@cache
def _page_validator(item: type[Model]) -> Any:
    from ..models._base import Page

    return Page[item].__pydantic_validator__.validate_json  # type: ignore[valid-type] # a class that is only known now


def validated(validate: Any, expected: str, method: str, url: str, response: RawResponse) -> Any:
    """The body as a model's validator reads it; else an `APIResponseError` with `expected` in its message."""
    try:
        return read_json(validate, response.content)
    except ValueError as error:
        reason = _what_is_wrong(error, response)
    raise APIResponseError(f"expected {expected}, but {reason}", method=method, url=url, response=response)


def _what_is_wrong(error: ValueError, response: RawResponse) -> str:
    if not response.content.strip():
        return f"the response ({response.status}) is empty"
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    try:
        response.json()
    except ValueError as problem:
        declared = f"({printable(kind, 60)}) " if kind and kind != "application/json" else ""
        return f"the response {declared}is not JSON: {printable(str(problem), 200)}"
    return explained(error, "the response")


def explained(error: ValueError, whole: str = "it") -> str:
    """The first problem that a model found, without the value; `whole`: what was read."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return printable(str(error), 200)
    details = errors(include_url=False, include_context=False, include_input=False)
    first = details[0]
    where = ".".join(str(part) for part in first["loc"])
    what = printable(where, 120) if where else whole
    message = printable(first["msg"], 200)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return (f"{what}{message.removeprefix('Input')}" if message.startswith("Input ") else f"{what}: {message}") + more
