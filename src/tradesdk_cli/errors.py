"""From an exception to what a person reads, what a program reads, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from tradesdk_cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OTHER, USAGE, CONFIG, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND = 1, 2, 3, 4, 5, 6
CONFLICT, INVALID, RATE_LIMITED, SERVER, NETWORK, INTERRUPTED = 7, 8, 9, 10, 11, 130


class CliError(Exception):
    """Something this program itself refuses or cannot do."""

    exit_code = OTHER
    code = "error"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(CliError):
    """The command line cannot be meant like this."""

    exit_code = USAGE
    code = "usage"


class ConfigProblem(CliError):
    """A setting is missing or cannot be used."""

    exit_code = CONFIG
    code = "configuration"


class Declined(CliError):
    """The person said no."""

    code = "declined"


class ClosedPipe(Exception):
    """Whoever read our output has gone. Not an OSError: Typer would turn that into exit code 1."""


@dataclass(frozen=True)
class Problem:
    """What went wrong, ready to be printed."""

    exit_code: int
    code: str
    message: str
    hint: str | None = None
    status: int | None = None
    retryable: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The object that machine formats print on stderr."""
        return {
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }

    @property
    def headline(self) -> str:
        """One line for a person."""
        return f"{self.message} ({self.status} {self.code})" if self.status is not None else self.message


def problem_of(error: BaseException, program: str = "trade") -> Problem:
    """What `error` means; hints begin with `program`, which is `trade --mock` for the embedded mock."""
    if isinstance(error, CliError):
        return Problem(error.exit_code, error.code, one_line(error.message), error.hint)

    from tradesdk import APIError, APIStatusError, ConfigError, InvalidArgumentError, TradeError

    if isinstance(error, APIStatusError):
        return _status_problem(error, program)
    if isinstance(error, APIError):
        return _request_problem(error, program)
    if isinstance(error, ConfigError):
        hint = "try it without an account or a network: trade --mock account show"
        return Problem(CONFIG, "configuration", one_line(str(error)), hint)
    if isinstance(error, InvalidArgumentError):
        return Problem(USAGE, "usage", one_line(str(error)), "nothing was sent; --help shows what is accepted")
    if isinstance(error, TradeError):
        return Problem(OTHER, "error", one_line(str(error)))
    if isinstance(error, OSError):
        return Problem(OTHER, "system", one_line(f"{error.strerror or type(error).__name__}: {error.filename or ''}"))
    message = f"this is a bug in trade: {type(error).__name__}: {error}"
    return Problem(OTHER, "internal", one_line(message), "run it again with -v to see where")


def _request_problem(error: Any, program: str) -> Problem:
    from tradesdk import AmbiguousOutcomeError, APIConnectionError, APIResponseError, APITimeoutError

    message = one_line(str(error))
    if isinstance(error, AmbiguousOutcomeError):
        return Problem(
            OTHER, "outcome_unknown", message, f"look before you send it again: {_lister(error.url, program)}"
        )
    if error.outcome == "unknown":
        hint = f"it may have been carried out; look before you send it again: {_lister(error.url, program)}"
    elif isinstance(error, APIConnectionError):
        hint = "check the network and the base URL (TRADE_BASE_URL or --base-url)"
    else:
        hint = "does the base URL point at the service? (TRADE_BASE_URL or --base-url)"
    if isinstance(error, APITimeoutError):
        return Problem(NETWORK, "timeout", message, hint, retryable=error.outcome != "unknown")
    if isinstance(error, APIConnectionError):
        retryable = error.temporary and error.outcome != "unknown"
        return Problem(NETWORK, "network", message, hint, retryable=retryable)
    if isinstance(error, APIResponseError):
        return Problem(SERVER, "bad_response", message, hint)
    return Problem(OTHER, "error", message, hint)


_STATUS_EXIT = {
    401: UNAUTHENTICATED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    409: CONFLICT,
    429: RATE_LIMITED,
}


def _status_problem(error: Any, program: str) -> Problem:
    status: int = error.status
    exit_code = _STATUS_EXIT.get(status, INVALID if 400 <= status < 500 else SERVER)
    code = one_line(error.code, 80) if error.code else f"http_{status}"
    message = one_line(error.message or f"the service answered {status}")
    retryable = status in (429, 503)
    return Problem(exit_code, code, message, _status_hint(error, program), status, retryable)


def _status_hint(error: Any, program: str) -> str:
    status: int = error.status
    if error.outcome == "unknown":
        return f"it may have been carried out; look before you send it again: {_lister(error.url, program)}"
    if status == 401:
        if program != "trade":
            return "the mock takes keys like mock_full_NAME and mock_read_NAME; unset TRADE_API_KEY to use its own"
        return "check TRADE_API_KEY: keys are made in the dashboard under Settings, API Keys"
    if status == 403:
        return f"this needs a key with the scope full-access, or another plan; see the plan: {program} account show"
    if status == 404:
        return f"see what there is: {_lister(error.url, program)}"
    if status == 409:
        return f"look at its present state: {_lister(error.url, program)}"
    if status == 429:
        wait = error.retry_after
        when = f"wait {wait:.0f} s and run it again" if wait is not None else "wait a minute and run it again"
        return f"{when}; see the limits: {program} account usage"
    if 400 <= status < 500:
        return "nothing was changed; correct the value and run it again (--help shows what is accepted)"
    return "the service has a problem; run it again in a while"


def _lister(url: str, program: str) -> str:
    """The command that shows the things a URL is about."""
    for noun in ("agents", "wallets", "trades", "positions"):
        if f"/v1/{noun}" in url:
            return f"{program} {noun} list"
    return f"{program} account show"
