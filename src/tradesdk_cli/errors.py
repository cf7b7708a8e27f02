"""Exit codes, errors of this program, and a problem ready to be printed."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OTHER, USAGE, CONFIG, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND = 1, 2, 3, 4, 5, 6
CONFLICT, INVALID, RATE_LIMITED, SERVER, NETWORK, INTERRUPTED = 7, 8, 9, 10, 11, 130
STREAM_ENDED, HUNG_UP, TERMINATED = 15, 129, 143
REFUSED, REJECTED, OUTCOME_UNKNOWN = 12, 13, 14
"""Of payments: by my own budget or guard; by the service; its outcome is not known."""


TRADE, LOGIN = "{trade}", "{login}"
"""In a hint: commands that continue where this one was, such as after `trade --mock` or `trade --profile work`."""


def placed(hint: str | None, program: str) -> str | None:
    """`hint` with what stands for `TRADE` and `LOGIN`; a mock's account needs no login."""
    if hint is None:
        return None
    login = program.partition(" --mock")[0].partition(" --world")[0]
    return hint.replace(LOGIN, f"{login} login").replace(TRADE, program)


class CliError(Exception):
    """Something this program itself refuses or cannot do."""

    exit_code = OTHER
    code = "error"
    status: int | None = None
    """What the service answered, where it was that."""
    about: Mapping[str, Any] | None = None
    """More for programs."""

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


class Unwritable(CliError):
    """Standard output does not take what was to be printed: a full disk, for example."""

    code = "system"


class ClosedPipe(Exception):
    """Whoever read our output has gone. Not an OSError: Typer would turn that into exit code 1."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM ended what would not end by itself, and whatever there is to say has been said."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


class RefusedByMock(CliError):
    """The mock's control interface said no; its status decides the exit code, as the service's would."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.status = self.answered = status
        self.code = code


@dataclass(frozen=True)
class Problem:
    """What went wrong, ready to be printed."""

    exit_code: int
    code: str
    message: str
    hint: str | None = None
    status: int | None = None
    retryable: bool = False
    about: dict[str, Any] = field(default_factory=dict)
    """More for programs: what became of the money."""

    def as_dict(self) -> dict[str, Any]:
        """The object that machine formats print on stderr."""
        return {
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
            **self.about,
        }

    @property
    def headline(self) -> str:
        """One line for a person."""
        return f"{self.message} ({self.status} {self.code})" if self.status is not None else self.message
