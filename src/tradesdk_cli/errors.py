"""Exit codes, errors of this program, and a problem to print."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OTHER, USAGE, CONFIG, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND = 1, 2, 3, 4, 5, 6
CONFLICT, INVALID, RATE_LIMITED, SERVER, NETWORK, INTERRUPTED = 7, 8, 9, 10, 11, 130
STREAM_ENDED, HUNG_UP, TERMINATED = 15, 129, 143
_OF_STATUS = {401: UNAUTHENTICATED, 403: FORBIDDEN, 404: NOT_FOUND, 409: CONFLICT, 429: RATE_LIMITED}
REFUSED, REJECTED, OUTCOME_UNKNOWN = 12, 13, 14
"""For payments: refused by the budget or a guard; refused by the service; outcome unknown."""


def exit_code_for(status: int) -> int:
    """The exit code for the status of a response."""
    return _OF_STATUS.get(status, INVALID if 400 <= status < 500 else SERVER)


TRADE, LOGIN = "{trade}", "{login}"
"""A placeholder in hints for the beginning of a command, such as `trade --mock` or `trade --profile work`."""


def placed(hint: str | None, program: str) -> str | None:
    """`hint` with `TRADE` and `LOGIN` replaced; a mock needs no login."""
    if hint is None:
        return None
    login = program.partition(" --mock")[0].partition(" --world")[0]
    return hint.replace(LOGIN, f"{login} login").replace(TRADE, program)


class CliError(Exception):
    """An error of this program itself, which `app.run` prints.

    Any function may raise one; docstrings say so only where a caller handles it.
    """

    exit_code = OTHER
    code = "error"
    about: Mapping[str, Any] | None = None
    """More fields for programs."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        code: str | None = None,
        exit_code: int | None = None,
        status: int | None = None,
    ) -> None:
        """`status` is that of the service's response, if any."""
        super().__init__(message)
        self.message, self.hint, self.status = message, hint, status
        self.code = self.code if code is None else code
        self.exit_code = self.exit_code if exit_code is None else exit_code


class UsageProblem(CliError):
    """The command line is invalid."""

    exit_code = USAGE
    code = "usage"


class ConfigProblem(CliError):
    """A setting is missing or invalid."""

    exit_code = CONFIG
    code = "configuration"


class Declined(CliError):
    """A person answered no."""

    code = "declined"


class Unwritable(CliError):
    """Standard output cannot be written: a full disk, for example."""

    code = "system"


class ClosedPipe(Exception):
    """The reader of the output has gone. Not an OSError, which Typer would turn into exit code 1."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM ended the command, and its messages are printed."""

    def __init__(self, interrupt: BaseException | None = None) -> None:
        """The exit code is as in shells: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        super().__init__()
        self.exit_code: int = 128 + getattr(interrupt, "number", 2)


class RefusedByMock(CliError):
    """The mock's control interface refused."""


@dataclass(frozen=True)
class Problem:
    """A problem to print."""

    exit_code: int
    code: str
    message: str
    hint: str | None = None
    status: int | None = None
    retryable: bool = False
    about: dict[str, Any] = field(default_factory=dict)
    """More fields for programs: the payment."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON object for stderr."""
        names = ("code", "status", "message", "hint", "retryable")
        return {name: getattr(self, name) for name in names} | self.about

    @property
    def headline(self) -> str:
        """One line for a person."""
        return f"{self.message} ({self.status} {self.code})" if self.status is not None else self.message
