"""Every error the SDK raises, in one tree.

```
TradeError
├── ConfigError                       a setting is missing or unusable; nothing was sent
├── InvalidArgumentError (ValueError) an argument was refused here; nothing was sent
├── CheckpointError                   a stream's checkpoint cannot be read or written
├── PaymentError                      something about a payment (these are in `payments/errors.py`)
│   ├── PaymentRefusedError           a guard or a budget of yours said no; nothing was signed
│   ├── PaymentRejectedError          the service said no; the authorization stays reserved until it expires
│   ├── PaymentOutcomeUnknownError    it may have been paid: do not pay again blindly
│   ├── PaymentUndeliveredError       it was paid, and no usable answer came
│   └── LedgerError                   the ledger cannot be read or written; nothing was sent
└── APIError                          something went wrong with a request
    ├── APIConnectionError            no complete answer arrived
    │   └── APITimeoutError           … because time ran out
    ├── APIStatusError                the service answered with an error status
    │   ├── InvalidRequestError       400
    │   │   └── InvalidSignatureError 400 with code invalid_signature
    │   ├── AuthenticationError       401
    │   ├── PermissionDeniedError     403
    │   ├── NotFoundError             404
    │   ├── ConflictError             409
    │   ├── UnprocessableEntityError  422
    │   ├── RateLimitError            429, or held back here because the limit is used up
    │   ├── InternalServerError       500
    │   ├── BadGatewayError           502
    │   └── ServiceUnavailableError   503
    ├── APIResponseError              an answer that is not what the service promises; its bytes are kept
    ├── StreamError                   what was opened is no stream of events, or cannot be read as one
    │   └── StreamEndedError          the service ended the stream for good (204)
    └── AmbiguousOutcomeError         a create may or may not have happened, and looking did not tell
```

`str(error)` is always one printable line and never contains a secret. All of them can be pickled.
"""

from __future__ import annotations

import math

from ._values.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any, Literal

    from ._values.http import RateLimit, RawResponse
    from ._values.payment import Charged, Payment

    Outcome = Literal["none", "unknown"]


def _rebuild(cls: type[TradeError], message: str, state: dict[str, Any]) -> TradeError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class TradeError(Exception):
    """The root of the tree: catch this to catch everything the SDK raises on purpose.

    Attributes:
        hint: what to do next; may be empty.
    """

    hint: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: str = message

    def __str__(self) -> str:
        return printable(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.__dict__)


class ConfigError(TradeError):
    """A setting is missing or cannot be used. Nothing was sent."""


class InvalidArgumentError(TradeError, ValueError):
    """An argument was refused before anything was sent."""


class CheckpointError(TradeError):
    """A stream's checkpoint, `path`, cannot be read or written. Signals that were not acknowledged come again."""

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.hint = hint


class APIError(TradeError):
    """Something went wrong with a request.

    Attributes:
        method: the HTTP method.
        url: the full URL.
        outcome: `"unknown"` when a write may have been carried out although it failed here; otherwise `"none"`.
        retries: how many times the request was sent again before this was raised.
        payment: the payment that was handed over with the request; None when there was none.
    """

    payment: Payment | None = None

    def __init__(self, message: str, *, method: str, url: str, outcome: Outcome = "none", retries: int = 0) -> None:
        super().__init__(message)
        self.method = method
        self.url = url
        self.outcome: Outcome = outcome
        self.retries = retries

    @property
    def charged(self) -> Charged:
        """Whether money was taken for the request: True, False or "unknown"."""
        return False if self.payment is None else self.payment.charged

    def __str__(self) -> str:
        notes = [f"{self.method} {self.url}"]
        notes += self._notes()
        if self.payment is not None:
            notes.append(self.payment.told())
        if self.retries:
            notes.append(f"after {self.retries} {'retry' if self.retries == 1 else 'retries'}")
        if self.outcome == "unknown":
            notes.append("it may have been carried out: check before sending it again")
        return printable(f"{self._headline()} ({'; '.join(notes)})", 1200)

    def _notes(self) -> list[str]:
        return []

    def _headline(self) -> str:
        return self.message


class APIConnectionError(APIError):
    """No complete answer arrived: refused, reset, cut short, TLS, name resolution.

    Attributes:
        sent: False when it is certain that the request never reached the service.
        temporary: False when trying again cannot help (certificate refused, unknown host, unusable URL or header).
    """

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        sent: bool,
        temporary: bool = True,
        outcome: Outcome = "none",
        retries: int = 0,
    ) -> None:
        super().__init__(message, method=method, url=url, outcome=outcome, retries=retries)
        self.sent = sent
        self.temporary = temporary


class APITimeoutError(APIConnectionError):
    """Time ran out while connecting, sending, waiting or reading."""


class APIStatusError(APIError):
    """The service answered with an error status.

    Attributes:
        status: the HTTP status.
        code: the service's error code, such as `not_found`; None when the body has none.
        message: the service's own message; otherwise what the status means.
        headers: the answer's headers, case-insensitive.
        body: the answer's bytes.
        response: the whole answer; None when the request was held back here.
        retry_after: seconds to wait that the service named, by its own clock; None when it named none.
        retry_at: the same as a moment (aware, UTC), by the local clock.
        rate_limit: the rate limit that came with the answer, if any.
    """

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        status: int,
        code: str | None = None,
        response: RawResponse | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after: float | None = None,
        retry_at: datetime | None = None,
        rate_limit: RateLimit | None = None,
        outcome: Outcome = "none",
        retries: int = 0,
    ) -> None:
        super().__init__(message, method=method, url=url, outcome=outcome, retries=retries)
        self.status = status
        self.code = code
        self.response = response
        self.headers: Mapping[str, str] = headers if headers is not None else {}
        self.body: bytes = response.content if response is not None else b""
        self.retry_after = retry_after
        self.retry_at = retry_at
        self.rate_limit = rate_limit

    def _notes(self) -> list[str]:
        return [] if self.retry_after is None else [f"try again in {math.ceil(self.retry_after)} s"]

    def _headline(self) -> str:
        head = f"{self.status} {self.code}" if self.code else str(self.status)
        return f"{head}: {self.message}" if self.message else head


class InvalidRequestError(APIStatusError):
    """400: the body or query was malformed or incomplete."""


class InvalidSignatureError(InvalidRequestError):
    """400 `invalid_signature`: the wallet's signature is bad or is not by its address."""


class AuthenticationError(APIStatusError):
    """401: the key is missing, wrong, expired or revoked."""


class PermissionDeniedError(APIStatusError):
    """403: the key's scope or plan does not allow this."""


class NotFoundError(APIStatusError):
    """404: it does not exist, or belongs to somebody else."""


class ConflictError(APIStatusError):
    """409: its state does not allow this, for example deleting an active agent."""


class UnprocessableEntityError(APIStatusError):
    """422: well-formed, but not acceptable; the message names the field."""


class RateLimitError(APIStatusError):
    """429: too many requests. With `response` None nothing was sent: waiting would have passed the deadline."""


class InternalServerError(APIStatusError):
    """500: an unexpected error of the service."""


class BadGatewayError(APIStatusError):
    """502: something behind the service failed."""


class ServiceUnavailableError(APIStatusError):
    """503: maintenance or high load."""


class APIResponseError(APIError):
    """An answer that is not what the service promises: no JSON, another shape, too large, a list that never ends.

    Attributes:
        response: the answer as far as it was read, its bytes included; None when there is none to show.
        code: `pagination_loop` when a list would never end: a cursor or the items repeat; otherwise None.
    """

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        response: RawResponse | None = None,
        code: str | None = None,
        outcome: Outcome = "none",
        retries: int = 0,
    ) -> None:
        super().__init__(message, method=method, url=url, outcome=outcome, retries=retries)
        self.response = response
        self.code = code


class StreamError(APIError):
    """What was opened is no stream of events, or cannot be read as one: another content type or coding.

    Attributes:
        response: the answer as far as it was read; None when there is none to show.
    """

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        response: RawResponse | None = None,
        outcome: Outcome = "none",
        retries: int = 0,
    ) -> None:
        super().__init__(message, method=method, url=url, outcome=outcome, retries=retries)
        self.response = response


class StreamEndedError(StreamError):
    """The service ended the stream for good (204): opening it again would be of no use."""


class AmbiguousOutcomeError(APIError):
    """A create may or may not have happened. Look at `candidates` (ids) before sending it again.

    Attributes:
        candidates: ids of things that could be the one asked for; empty when they could not be listed.
    """

    def __init__(
        self, message: str, *, method: str, url: str, candidates: Sequence[str] = (), retries: int = 0
    ) -> None:
        super().__init__(message, method=method, url=url, outcome="unknown", retries=retries)
        self.candidates = tuple(candidates)


_BY_STATUS: dict[int, type[APIStatusError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: UnprocessableEntityError,
    429: RateLimitError,
    500: InternalServerError,
    502: BadGatewayError,
    503: ServiceUnavailableError,
}


def status_error_class(status: int, code: str | None) -> type[APIStatusError]:
    """The class for a status and a code of the service."""
    if status == 400 and code == "invalid_signature":
        return InvalidSignatureError
    return _BY_STATUS.get(status, APIStatusError)
