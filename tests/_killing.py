"""Children that are killed at a step. For scripts in a process of their own, whose children import nothing again."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any, NoReturn


def die() -> NoReturn:
    """No `finally` runs, and nothing is written any more."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


def child(work: Callable[[Callable[[bytes], object]], object]) -> tuple[bytes, int]:
    """What a child told, and its status: 0 at the end of `work`, SIGKILL, or 256 after an error."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work(lambda told: os.write(write, told))
            code = 0
        except Exception as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    return told, os.waitpid(pid, 0)[1]


class Deadly:
    """A module, but the process dies at its call number `at` of these functions, before or `after` it."""

    def __init__(self, module: Any, names: tuple[str, ...], at: int, after: bool = False) -> None:
        self._module, self._names, self._left, self._after = module, names, at, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return self._deadly(found) if name in self._names else found

    def _deadly(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                die()
            result = call(*given, **named)
            if self._left == 0:
                die()
            return result

        return called


def dies_at_statement(at: int) -> None:
    """Before the statement number `at` of all databases, whichever that is: also those that make a file."""
    connect, left = sqlite3.connect, at

    def statement(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            die()

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*given, **options)
        db.set_trace_callback(statement)
        return db

    sqlite3.connect = traced  # type: ignore[assignment]
