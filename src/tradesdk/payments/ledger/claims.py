"""Claims on payments: names of owners, and whether an owner may still be running."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from ..._system.interrupts import failures

LONGEST_CLAIM = 300
"""The longest that a claim on a payment may last, in seconds."""
_SLACK = 30


@cache
def process_name(pid: int) -> str:
    """The name of a process on this machine, `host:pid`. The names of its owners begin with it and a `:`."""
    return f"{_host()}:{pid}"


def holds(owner: str, until: float, *, now: float) -> bool:
    """Whether a claim is in force: it has not expired, and its owner may still be running.

    A claim that ends later than the longest possible was made before the clock was set back. It is void, as it could
    last for days.
    """
    return now < until <= now + LONGEST_CLAIM + _SLACK and not is_dead(owner)


def is_dead(owner: str) -> bool:
    """Whether an owner was a process on this machine that has ended.

    False for owners on other machines, and for names of another form.
    """
    host, _, rest = owner.partition(":")
    pid = rest.partition(":")[0]
    if host != _host() or not (pid.isascii() and pid.isdigit()) or not 0 < int(pid) < 2**31:
        return False
    return not _is_running(int(pid))


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # on Windows, signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except failures(OSError):  # it runs as another user
        return True
    return True


@cache
def _host() -> str:
    # The host name alone is not enough: process ids start over after a reboot, and two containers that do not see
    # each other's processes may share a name.
    name = socket.gethostname()
    boot = _of_system(Path("/proc/sys/kernel/random/boot_id").read_text).strip()
    marks = "\0".join([name, boot, _of_system(partial(os.readlink, "/proc/self/ns/pid"))])
    return f"{re.sub('[^A-Za-z0-9._-]', '_', name)[:60]}-{hashlib.sha256(marks.encode()).hexdigest()[:12]}"


def _of_system(read: Callable[[], str]) -> str:
    try:
        return read()
    except failures(OSError, UnicodeDecodeError):  # other systems do not have it
        return ""
