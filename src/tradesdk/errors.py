"""All errors of the SDK, in one tree.

```
TradeError
├── ConfigError                       a setting or an optional package is missing or unusable; nothing was sent
├── InvalidArgumentError (ValueError) an argument was refused; nothing was sent
├── FleetError                        the PostgreSQL server of a fleet cannot be used
├── CheckpointError                   a stream's checkpoint cannot be read or written
├── PaymentError                      a payment for market data failed
│   ├── PaymentRefusedError           your guards or budgets refused it; nothing was signed
│   ├── PaymentRejectedError          the service refused it; its amount stays held
│   ├── PaymentOutcomeUnknownError    it may have been paid; the same call continues it
│   ├── PaymentUndeliveredError       it was paid, but no usable answer came
│   └── LedgerError                   the ledger cannot be read or written; nothing was sent
└── APIError                          a request failed
    ├── APIConnectionError            no complete response arrived
    │   └── APITimeoutError           … because of a timeout
    ├── APIStatusError                the service responded with an error status
    │   ├── InvalidRequestError       400
    │   │   └── InvalidSignatureError 400 with the service's code invalid_signature
    │   ├── AuthenticationError       401
    │   ├── PermissionDeniedError     403
    │   ├── NotFoundError             404
    │   ├── ConflictError             409
    │   ├── UnprocessableEntityError  422
    │   ├── RateLimitError            429, or not sent because the limit is used up
    │   ├── InternalServerError       500
    │   ├── BadGatewayError           502
    │   └── ServiceUnavailableError   503
    ├── APIResponseError              the response is not as documented; its bytes are kept
    ├── StreamError                   the response is not a stream of events, or the stream could not be resumed
    │   └── StreamEndedError          the service ended the stream for good (204)
    └── AmbiguousOutcomeError         a create may have happened, and a listing did not show whether it did
```

`error.code` is one of `ErrorCode`: for programs, and stable. `str(error)` is for people: one printable line without
secrets; its text may change. All errors can be pickled.
"""

from __future__ import annotations

import math
from typing import Literal

from ._values.hints import HINTS, MEANINGS, UNKNOWN_OUTCOME
from ._values.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from ._values.details import PaymentDetails
    from ._values.http import RateLimit, RawResponse
    from ._values.payment import Charged, Payment

    Outcome = Literal["none", "unknown"]

ErrorCode = Literal[
    # how the SDK is used
    "invalid_state",
    "invalid_argument",
    # settings
    "invalid_setting",
    "missing_package",
    "invalid_base_url",
    "invalid_api_key",
    "invalid_profile",
    "invalid_budget",
    "invalid_fleet_url",
    "invalid_private_key",
    "invalid_signer",
    "invalid_keystore",
    "keystore_exists",
    "keystore_exposed",
    "keystore_damaged",
    "keystore_without_address",
    "wrong_password",
    # requests
    "connection_failed",
    "connection_refused",
    "unknown_host",
    "certificate_refused",
    "proxy_failed",
    "too_many_files",
    "timeout",
    "invalid_request",
    "invalid_signature",
    "unauthorized",
    "forbidden",
    "not_found",
    "conflict",
    "validation_error",
    "rate_limited",
    "internal_error",
    "bad_gateway",
    "service_unavailable",
    "unexpected_status",
    "invalid_response",
    "pagination_loop",
    "ambiguous_outcome",
    # streams
    "not_a_stream",
    "stream_lost",
    "stream_ended",
    "checkpoint_in_use",
    "checkpoint_damaged",
    "checkpoint_mismatch",
    "checkpoint_failed",
    # payments refused by budgets
    "no_budget",
    "over_budget",
    "over_total",
    # payments refused because of the offer
    "malformed_offer",
    "offer_too_large",
    "unsupported_payment",
    "no_offer",
    "unsupported_scheme",
    "unsupported_network",
    "unsupported_asset",
    "unsupported_domain",
    "unsupported_method",
    "unsupported_flow",
    "upfront_flow",
    "foreign_resource",
    "bad_amount",
    "over_price",
    "bad_recipient",
    "recipient_is_payer",
    "recipient_changed",
    "bad_validity",
    "short_validity",
    "insecure_url",
    "clock_difference",
    "unknown_token",
    # payments refused because of the signer
    "no_signer",
    "signer_failed",
    "signer_too_slow",
    "no_purchase_secret",
    "purchase_secret_changed",
    # payments refused because of this or an earlier payment
    "in_progress",
    "unresolved_payment",
    "purchase_changed",
    "already_delivered",
    "not_live",
    "no_such_payment",
    "not_unresolved",
    # payments refused by the service
    "insufficient_funds",
    "signature_rejected",
    "validity_rejected",
    "payment_rejected",
    # payments that were sent
    "outcome_unknown",
    "suspect_paid",
    "time_is_up",
    "paid_undelivered",
    "taken_elsewhere",
    # the ledger
    "ledger_locked",
    "ledger_read_only",
    "ledger_damaged",
    "ledger_lost",
    "ledger_version",
    "ledger_exposed",
    "ledger_failed",
    "ledger_unreachable",
    "ledger_denied",
    "ledger_not_durable",
    # a fleet
    "fleet_unreachable",
    "fleet_denied",
    "fleet_lost",
    "fleet_unusable",
    "fleet_failed",
]
"""Every code that an error of the SDK can have. A release may add codes; it never renames one."""


def _rebuild(cls: type[TradeError], message: str, state: dict[str, Any]) -> TradeError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class TradeError(Exception):
    """The base class of all errors of the SDK.

    Attributes:
        code: what went wrong, for programs: one of `ErrorCode`.
        message: what went wrong, for people.
        hint: what to do next. Tracebacks show it where it says more than the code's usual one.
    """

    code: ErrorCode = "invalid_state"
    _hint: str = ""

    def __init__(self, message: str, *, code: ErrorCode | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message: str = message
        if code is not None:
            self.code = code
        if hint:
            self._set_hint(hint)

    def _set_hint(self, hint: str) -> None:
        self._hint = hint
        self.add_note(printable(f"hint: {hint}", 1200))

    @property
    def hint(self) -> str:
        """What to do next."""
        return self._hint or HINTS.get(self.code, "")

    @property
    def meaning(self) -> str:
        """What `code` means. Unlike the message, it has no text from the service."""
        return MEANINGS.get(self.code, "")

    def __str__(self) -> str:
        return printable(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.__dict__)


class ConfigError(TradeError):
    """A setting or an optional package is missing or cannot be used. Nothing was sent."""

    code: ErrorCode = "invalid_setting"


class InvalidArgumentError(TradeError, ValueError):
    """An argument was refused before anything was sent."""

    code: ErrorCode = "invalid_argument"


class FleetError(TradeError):
    """The PostgreSQL server of a fleet cannot be used. Errors of a ledger are `LedgerError`."""

    code: ErrorCode = "fleet_failed"


class CheckpointError(TradeError):
    """A stream's checkpoint cannot be read or written. Signals that were not acknowledged come again.

    Attributes:
        path: the checkpoint file.
    """

    code: ErrorCode = "checkpoint_failed"

    def __init__(self, message: str, *, path: str, code: ErrorCode | None = None, hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.path = path


class PaymentError(TradeError):
    """A payment for market data failed.

    Attributes:
        reason: the service's reason, such as `insufficient_funds` or free text; the SDK's if the service gave none.
            Empty when there is none.
        details: amounts, limits or addresses for some codes; None for the others.
        payment: the payment as recorded in the ledger; None when there is none.
        response: the response behind the error, with its bytes; None when there was none.
    """

    payment: Payment | None

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode,
        hint: str = "",
        reason: str = "",
        details: PaymentDetails | None = None,
        payment: Payment | None = None,
        response: RawResponse | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.reason = reason
        self.details = details
        self.payment = payment
        self.response = response

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown"."""
        return False if self.payment is None else self.payment.charged

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        return printable(f"{text} ({self.payment.summary()})" if self.payment is not None else text, 1200)


class PaymentRefusedError(PaymentError):
    """Your guards or budgets refused the payment. Nothing was sent for this call.

    One exception, `signer_failed`: by a node, a contract wallet does not accept its signature. The node has that
    signature, so `payment` is held.
    """


class PaymentRejectedError(PaymentError):
    """The service says that it refused the payment and took nothing; `reason` is the service's.

    Nothing proves that, so its amount stays held. The same call continues the same payment.
    """

    payment: Payment  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class PaymentOutcomeUnknownError(PaymentError):
    """A payment was sent, and it is unknown whether it was taken.

    The same call continues: it resends the same payment, or signs the same nonce again, which is taken only once.
    """

    payment: Payment  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class PaymentUndeliveredError(PaymentError):
    """The payment was taken, but no usable answer arrived. `response` is the last response, if any."""

    payment: Payment  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class LedgerError(PaymentError):
    """The ledger cannot be read or written: no space, locked, read-only, damaged, another version.

    Nothing is paid without a ledger. If a payment was sent before the failure, it is `payment`.
    """


class APIError(TradeError):
    """A request failed.

    Attributes:
        method: the HTTP method.
        url: the full URL.
        response: the response behind the error, with its bytes, as far as it was read; None when there was none.
        outcome: `"unknown"` when a write may have been carried out; otherwise `"none"`.
        retries: number of retries before this was raised.
        payment: the payment that was sent with the request; None when there was none.
    """

    code: ErrorCode = "connection_failed"
    outcome: Outcome = "none"
    retries: int = 0
    payment: Payment | None = None

    def __init__(
        self, message: str, *, method: str, url: str, response: RawResponse | None = None, code: ErrorCode | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.method = method
        self.url = url
        self.response = response

    @property
    def hint(self) -> str:
        """What to do next. For a request that may have been carried out: do not simply repeat it."""
        in_doubt = self.outcome == "unknown" and self.code != "ambiguous_outcome"
        return UNKNOWN_OUTCOME if in_doubt else super().hint

    @property
    def charged(self) -> Charged:
        """Whether money was taken for the request: True, False or "unknown"."""
        return False if self.payment is None else self.payment.charged

    def __str__(self) -> str:
        notes = [f"{self.method} {self.url}"]
        notes += self._notes()
        if self.payment is not None:
            notes.append(self.payment.summary())
        if self.retries:
            notes.append(f"after {self.retries} {'retry' if self.retries == 1 else 'retries'}")
        if self.outcome == "unknown":
            notes.append("it may have been carried out; check before sending it again")
        return printable(f"{self.headline} ({'; '.join(notes)})", 1200)

    def _notes(self) -> list[str]:
        return []

    @property
    def headline(self) -> str:
        """The message with status and service code, if any, but without the request."""
        return self.message


class APIConnectionError(APIError):
    """No complete response arrived: connection refused or reset, response cut short, TLS, name resolution.

    Attributes:
        sent: False when the request certainly never reached the service.
        temporary: False when a retry cannot help (certificate refused, unknown host, unusable URL or header).
    """

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        sent: bool,
        temporary: bool = True,
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(message, method=method, url=url, code=code)
        self.sent = sent
        self.temporary = temporary


class APITimeoutError(APIConnectionError):
    """Timeout while connecting, sending, waiting or reading."""

    code: ErrorCode = "timeout"


class APIStatusError(APIError):
    """The service responded with an error status.

    Attributes:
        status: the HTTP status.
        service_code: the service's error code, any string; None when the body has none.
        message: the service's message, else the meaning of the status.
        headers: the response headers, case-insensitive.
        body: the response body, as bytes.
        response: the whole response; None only in a `RateLimitError` of a request that was not sent.
        retry_after: seconds to wait that the service named, by its own clock; None when it named none.
        retry_at: when that wait ends (aware, UTC), by the local clock.
        rate_limit: the rate limit in the response, if any.
    """

    code: ErrorCode = "unexpected_status"

    def __init__(
        self,
        message: str,
        *,
        method: str,
        url: str,
        status: int,
        service_code: str | None = None,
        response: RawResponse | None = None,
        retry_after: float | None = None,
        retry_at: datetime | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        super().__init__(message, method=method, url=url, response=response)
        self.status = status
        self.service_code = service_code
        self.headers: Mapping[str, str] = {} if response is None else response.headers
        self.body = b"" if response is None else response.content
        self.retry_after = retry_after
        self.retry_at = retry_at
        self.rate_limit = rate_limit

    def _notes(self) -> list[str]:
        return [] if self.retry_after is None else [f"try again in {math.ceil(self.retry_after)} s"]

    @property
    def headline(self) -> str:
        head = f"{self.status} {self.service_code}" if self.service_code else str(self.status)
        return f"{head}: {self.message}" if self.message else head


class InvalidRequestError(APIStatusError):
    """400: the body or query was malformed or incomplete."""

    code: ErrorCode = "invalid_request"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class InvalidSignatureError(InvalidRequestError):
    """400 `invalid_signature`: the wallet's signature is invalid, of another text, or made by another address.

    Attributes:
        signed: the text that `wallets.connect_with` signed; None when the signature was made elsewhere.
        is_default_text: whether that was `wallet_message(address, chain_id)`, as no `message=` was passed.
    """

    code: ErrorCode = "invalid_signature"
    signed: str | None = None
    is_default_text: bool = False

    def _set_signed(self, text: str, *, is_default: bool) -> None:
        self.signed, self.is_default_text = text, is_default
        if is_default:
            next_step = "the service documents none; pass the one that the dashboard shows as message="
        else:
            next_step = (
                "compare it with the dashboard's, line breaks too, and check that it is for this address and chain"
            )
        self._set_hint(f'the text that was signed is "{printable(text, 400)}": {next_step}')


class AuthenticationError(APIStatusError):
    """401: the key is missing, wrong, expired or revoked."""

    code: ErrorCode = "unauthorized"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class PermissionDeniedError(APIStatusError):
    """403: the key's scope or plan does not allow this."""

    code: ErrorCode = "forbidden"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class NotFoundError(APIStatusError):
    """404: it does not exist, or belongs to another account."""

    code: ErrorCode = "not_found"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class ConflictError(APIStatusError):
    """409: the current state does not allow it, for example deleting an active agent."""

    code: ErrorCode = "conflict"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class UnprocessableEntityError(APIStatusError):
    """422: a value is invalid; the message names the field."""

    code: ErrorCode = "validation_error"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class RateLimitError(APIStatusError):
    """429: too many requests. If `response` is None, nothing was sent: the wait would have exceeded the deadline."""

    code: ErrorCode = "rate_limited"


class InternalServerError(APIStatusError):
    """500: an unexpected error of the service."""

    code: ErrorCode = "internal_error"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class BadGatewayError(APIStatusError):
    """502: something behind the service failed."""

    code: ErrorCode = "bad_gateway"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class ServiceUnavailableError(APIStatusError):
    """503: maintenance or high load."""

    code: ErrorCode = "service_unavailable"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class APIResponseError(APIError):
    """A response that is not as documented: not JSON, another shape, too large, or a list that never ends."""

    code: ErrorCode = "invalid_response"


class StreamError(APIError):
    """The response is not a stream of events (other content type or encoding), or the stream could not be resumed."""

    code: ErrorCode = "not_a_stream"


class StreamEndedError(StreamError):
    """The service ended the stream for good (204); reconnecting cannot help."""

    code: ErrorCode = "stream_ended"
    response: RawResponse  # pyright: ignore[reportIncompatibleVariableOverride] # always there


class AmbiguousOutcomeError(APIError):
    """A create may have happened. Check the `candidates` before sending it again.

    Attributes:
        candidates: ids of objects that may be the created one; empty when they could not be listed.
    """

    code: ErrorCode = "ambiguous_outcome"
    outcome: Outcome = "unknown"

    def __init__(self, message: str, *, method: str, url: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message, method=method, url=url)
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


def status_error_class(status: int, service_code: str | None) -> type[APIStatusError]:
    """The error class for a status and the service's code."""
    if status == 400 and service_code == "invalid_signature":
        return InvalidSignatureError
    return _BY_STATUS.get(status, APIStatusError)
