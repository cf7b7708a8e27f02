"""Who works on a payment: names of callers, and whether one of them can still be alive."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import socket

LONGEST_CLAIM = 300
"""Seconds that a claim on a payment lasts at most."""
_SLACK = 30
_ended: set[str] = set()


def owner_name() -> str:
    """A new name for a caller in this process: `host:pid:random`."""
    return f"{_host()}:{os.getpid()}:{secrets.token_hex(6)}"


def holds(owner: str, until: float, *, now: float) -> bool:
    """Whether the claim of an owner counts: its time has not passed, and the owner may still work on it.

    One that ends later than any claim may was made before the clock was put back, and could last for days.
    """
    return now < until <= now + LONGEST_CLAIM + _SLACK and owner not in _ended and not is_dead(owner)


def ended(owner: str) -> None:
    """An owner in this process is done, and its claim could not be given back: from now on it does not count here."""
    _ended.add(owner)


def is_dead(owner: str) -> bool:
    """Whether an owner is known to be gone: a process of this machine that does not run any more.

    False for owners elsewhere, and for names that are not of the form that `owner_name` gives.
    """
    host, _, rest = owner.partition(":")
    pid = rest.partition(":")[0]
    if host != _host() or not (pid.isascii() and pid.isdigit()) or not 0 < int(pid) < 2**31:
        return False
    return not _runs(int(pid))


def _runs(pid: int) -> bool:
    if os.name == "nt":  # there, signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's, so there is one
        return True
    return True


@functools.cache
def _host() -> str:
    # A host name alone is not enough: the same one comes back after a reboot, and two containers may share one
    # although neither sees the processes of the other.
    name = socket.gethostname()
    marks = "\0".join([name, _boot(), _process_space()])
    return f"{re.sub('[^A-Za-z0-9._-]', '_', name)[:60]}-{hashlib.sha256(marks.encode()).hexdigest()[:12]}"


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _process_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
