"""Errors: the service's error responses, and the errors of the mock itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

Header = tuple[bytes, bytes]

CODES = {
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
"""The usual error code of a status."""


class ApiError(Exception):
    """An error response of the service: `{"error": {"code", "message"}}` with the given status."""

    def __init__(self, status: int, code: str, message: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = tuple(headers)


class MockServerError(RuntimeError):
    """The mock can't do what its user requested: a port in use, an unusable state file, an unknown key id."""

    def __init__(self, message: str, api_error: ApiError | None = None) -> None:
        super().__init__(message)
        self.api_error = api_error
        """The error response of the control API, if not 400 with the same message."""


class StateFileError(MockServerError):
    """A state file can't be used: damaged, in use, of another version, or made with another seed.

    Attributes:
        path: the file.
        problem: what is wrong with it; the end of a sentence that begins with its name.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the state file {path} {problem}")
        self.path = path
        self.problem = problem


def unknown(message: str) -> MockServerError:
    """For an unknown id: 404 in the control API."""
    return MockServerError(message, ApiError(404, "not_found", f"{message}."))


def invalid(message: str) -> ApiError:
    """400: the body or the query is malformed, or something required is missing."""
    return ApiError(400, "invalid_request", message)


def unacceptable(field: str, message: str) -> ApiError:
    """422: well formed, but not allowed by a rule of the service. The message starts with the field's name."""
    return ApiError(422, "validation_error", f"{field}: {message}")


def refused(status: str, field: str, message: str) -> ApiError:
    """A refusal whose status is a gap option: 400 or 422."""
    return unacceptable(field, message) if status == "422" else invalid(f"{field}: {message}")


def bad_signature(message: str) -> ApiError:
    return ApiError(400, "invalid_signature", message)


def unauthorized(message: str) -> ApiError:
    return ApiError(401, "unauthorized", message, [(b"www-authenticate", b"Bearer")])


def forbidden(message: str) -> ApiError:
    return ApiError(403, "forbidden", message)


def missing(kind: str, ident: str) -> ApiError:
    shown = ident if len(ident) <= 80 else ident[:77] + "..."
    return ApiError(404, "not_found", f"No {kind} {shown!r}.")


def no_route(path: str) -> ApiError:
    shown = path if len(path) <= 80 else path[:77] + "..."
    more = " The endpoints are described in /openapi.json." if path == "/" else ""
    return ApiError(404, "not_found", f"No such path: {shown!r}.{more}")


def wrong_method(method: str, allowed: Sequence[str]) -> ApiError:
    names = ", ".join(allowed)
    shown = method if len(method) <= 20 else method[:17] + "..."
    return ApiError(
        405, "invalid_request", f"{shown} is not allowed here; use {names}.", [(b"allow", names.encode("ascii"))]
    )


def conflict(message: str) -> ApiError:
    return ApiError(409, "conflict", message)


def crashed(what: str) -> ApiError:
    """Log the exception that is being handled. Logging errors of the surrounding program change no response."""
    with suppress(Exception):
        logging.getLogger("tradesdk_mock").exception("%s crashed", what, stacklevel=2)
    return ApiError(500, "internal_error", "Something went wrong in the server.")


def overloaded() -> ApiError:
    return ApiError(503, "service_unavailable", "The state is busy; try again.", [(b"retry-after", b"1")])


def unusable(path: str | None, error: ApiError) -> MockServerError:
    """For callers in this process: another process has the state file, or the file cannot be used."""
    if path is None:
        return MockServerError(error.message[:1].lower() + error.message[1:].rstrip("."))
    if dict(error.headers).get(b"retry-after"):
        return StateFileError(path, f"is in use: {error.message}")
    return StateFileError(path, error.message.removeprefix(f"The state file {path} ").rstrip("."))


@contextmanager
def mock_errors() -> Iterator[None]:
    """For callers in Python: an error response of the service becomes a MockServerError, which keeps it."""
    try:
        yield
    except ApiError as error:
        raise MockServerError(error.message, error) from None


def closed() -> ApiError:
    return ApiError(503, "service_unavailable", "The mock is closed.")
