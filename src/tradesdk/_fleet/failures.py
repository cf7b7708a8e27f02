"""What failed between us and the fleet's server, in our words."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from .._values.text import printable
from ..errors import ErrorCode
from .address import ServerAddress

# Redis 6.2 puts the error of a command in a script behind the place of that command.
_IN_SCRIPT = re.compile(r"Error running script .*?@user_script: ?\d+: -?(?=[A-Z]+ )")
# Newer servers put it after the error.
_AFTER_SCRIPT = re.compile(r" script: [^ ]*,? ?on @user_script:\d+\.?$")
_DURING_START = "wait until the server has started"
_LARGER = "give the server more memory (maxmemory), or remove old data of other programs"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of the server or of the connection.

    Attributes:
        code: the code of the error.
        message: what failed.
        hint: what to do.
        may_have_run: whether the command may have been carried out although no reply came.
    """

    code: ErrorCode
    message: str
    hint: str = ""
    may_have_run: bool = False


def failure_of(error: Exception, address: ServerAddress) -> Failure | None:
    """The failure behind an exception of redis-py, by the names of its classes; None: it is another exception.

    redis-py is an optional package, so its classes cannot be imported here.
    """
    names = {cls.__name__ for cls in type(error).__mro__ if cls.__module__.partition(".")[0] == "redis"}
    if not names and not isinstance(error, OSError | EOFError):
        return None
    told = _AFTER_SCRIPT.sub("", _IN_SCRIPT.sub("", address.hidden_in(str(error))))
    text = printable(told.removesuffix("."), 300)
    where = f"the fleet's server at {address}"
    for known, code, message, hint in _KNOWN:
        if known in names or text.startswith(known):
            return Failure(code, f"{where} {message} ({text})", hint)
    if "TimeoutError" in names or isinstance(error, TimeoutError):
        return Failure("server_unreachable", f"{where} did not answer in time", _UNREACHABLE, may_have_run=True)
    if "ConnectionError" in names or isinstance(error, OSError | EOFError):
        refused = _errno(error) == errno.ECONNREFUSED
        if refused:
            return Failure("server_unreachable", f"nothing listens at {address}", _UNREACHABLE)
        return Failure(
            "server_unreachable", f"the connection to {where} failed: {text}", _UNREACHABLE, may_have_run=True
        )
    return Failure("server_failed", f"{where} answered with an error: {text}")


_UNREACHABLE = "check that the server runs, and the URL (TRADE_FLEET)"
_KNOWN: tuple[tuple[str, ErrorCode, str, str], ...] = (
    ("AuthenticationError", "server_refused", "refuses the user or password", "check user and password in the URL"),
    ("AuthenticationWrongNumberOfArgsError", "server_refused", "takes no user", "leave the user out of the URL"),
    ("NoPermissionError", "server_refused", "does not allow this user a command or key", "extend the user's ACL"),
    ("NOAUTH", "server_refused", "wants a password", "put the password into the URL"),
    ("NOPERM", "server_refused", "does not allow this user a command or key", "extend the user's ACL"),
    ("ReadOnlyError", "server_read_only", "is a read-only replica", "use the address of the primary"),
    ("READONLY", "server_read_only", "is a read-only replica", "use the address of the primary"),
    ("OutOfMemoryError", "server_full", "is full", _LARGER),
    ("OOM", "server_full", "is full", _LARGER),
    ("MISCONF", "server_failed", "cannot write to its disk", "check that disk and its free space"),
    ("BusyLoadingError", "server_unreachable", "is still loading its data", _DURING_START),
    ("LOADING", "server_unreachable", "is still loading its data", _DURING_START),
    ("MASTERDOWN", "server_unreachable", "is a replica without its primary", "use the address of the primary"),
    ("ClusterDownError", "server_unreachable", "is in a cluster that is down", "check the nodes of the cluster"),
    ("CLUSTERDOWN", "server_unreachable", "is in a cluster that is down", "check the nodes of the cluster"),
    (
        "MovedError",
        "server_unsupported",
        "is one node of a cluster, and the keys are on another",
        "use the node that has the slot",
    ),
    (
        "AskError",
        "server_unsupported",
        "is one node of a cluster, and the keys are on another",
        "use the node that has the slot",
    ),
    (
        "CROSSSLOT",
        "server_unsupported",
        "is one node of a cluster, and the keys are on another",
        "use the node that has the slot",
    ),
    (
        "MOVED",
        "server_unsupported",
        "is one node of a cluster, and the keys are on another",
        "use the node that has the slot",
    ),
    ("WRONGTYPE", "server_failed", "has a key of another program under our prefix", "use another database or prefix"),
)


def _errno(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__ or error.__context__
    return None
