"""Checks of arguments. Limits that the service does not document are not checked here."""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from inspect import iscoroutinefunction
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from .._values.text import display, is_url, printable, real, wrong_number
from ..errors import ConfigError, InvalidArgumentError, TradeError

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])

MAX_PAGE = 100
CHAINS = (8453, 56)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND = 253402300799  # in the year 9999


def wrong_argument(name: str, expected: str, value: object) -> InvalidArgumentError:
    message, hint = wrong_number(name, expected, value)
    return InvalidArgumentError(message, hint=hint)


def wrong_setting(name: str, expected: str, value: object) -> ConfigError:
    message, hint = wrong_number(name, expected, value)
    return ConfigError(message, hint=hint)


def argument_called(right: str, *, not_: str) -> Callable[[F], F]:
    """Decorates a function: its TypeError for `not_` names `right`, as the service uses both names for a chain."""

    def named(function: F) -> F:
        def check(given: Mapping[str, object]) -> None:
            if not_ in given:
                raise TypeError(f"{function.__qualname__}() has no argument {not_}=; here it is called {right}=")

        @wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            check(given)
            return function(*args, **given)

        @wraps(function)
        async def awaited(*args: Any, **given: Any) -> Any:
            check(given)
            return await function(*args, **given)

        return cast(F, awaited if iscoroutinefunction(function) else called)

    return named


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer, of Python or numpy. It is kept as `int(value)`."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(name: str, value: int, least: int | None = None, most: int | None = None) -> int:
    if not (is_whole(value) and (least is None or least <= value) and (most is None or value <= most)):
        limits = "" if least is None else f", {least} or more" if most is None else f" from {least} to {most}"
        raise wrong_argument(name, f"a whole number{limits}", value)
    return int(value)


def optional_whole(name: str, value: int | None, least: int | None = None, most: int | None = None) -> int | None:
    return None if value is None else whole(name, value, least, most)


def flags(wrong: Callable[[str, str, object], TradeError] = wrong_argument, /, **given: object) -> None:
    """Refuse anything but True and False: a text such as "no" would count as True."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise wrong(name, "True or False", value)


def identifier(name: str, value: str) -> str:
    """An id that is safe as a path segment: HTTP libraries would resolve `..` to another path."""
    if not isinstance(value, str):
        problem = f"must be a string, not {type(value).__name__}"
    elif not value or value in (".", ".."):
        problem = "must not be empty, . or .."
    elif len(value) > 256:
        problem = f"is {len(value)} characters long; an id has at most 256"
    elif "/" in value or "\\" in value:
        problem = f"must not contain slashes: {printable(value, 60)}"
    elif not value.isprintable():
        problem = f"must not contain control characters: {printable(value, 60)}"
    else:
        return value
    raise InvalidArgumentError(f"{name} {problem}", hint=f"set {name} to an id as the list shows it")


def optional_identifier(name: str, value: str | None) -> str | None:
    return None if value is None else identifier(name, value)


def required_text(name: str, value: str) -> str:
    hint = f"set {name} to a text that is not empty"
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a string, not {type(value).__name__}", hint=hint)
    if not value:
        raise InvalidArgumentError(f"{name} must not be empty", hint=hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        hint = f"leave the lone surrogates out of {name}"
        raise InvalidArgumentError(f"{name} cannot be sent as UTF-8", hint=hint) from None
    return value


def optional_text(name: str, value: str | None) -> str | None:
    return None if value is None else required_text(name, value)


NO_FILE = "give a path; for a ledger in a database: Ledger.postgres(url)"


def file_path(name: str, path: str | os.PathLike[str]) -> Path:
    """The absolute path of a file: the process may change its working directory."""
    from pathlib import Path

    if is_url(str(path)):
        raise InvalidArgumentError(f"{name} must be the path of a file, not a URL", hint=NO_FILE)
    with suppress(TypeError, ValueError, OSError):
        given = os.fspath(path)
        if isinstance(given, str) and given and b"\0" not in os.fsencode(given):
            return Path(given).absolute()
    raise InvalidArgumentError(f"{name} must be the path of a file", hint=f"set {name} to a path, as text or Path")


def comparable(text: str) -> str:
    """A name in a form for comparing: the service may trim it or normalize its accents."""
    return unicodedata.normalize("NFC", text).strip()


def chain(name: str, value: int) -> int:
    if not is_whole(value) or value not in CHAINS:
        raise wrong_argument(name, "8453 (Base) or 56 (BNB Chain)", value)
    return int(value)


def confidence(value: float | None) -> float | None:
    if value is not None and not 0 <= real(value) <= 1:
        raise wrong_argument("min_confidence", "a number from 0.0 to 1.0", value)
    return None if value is None else real(value)


def seconds(name: str, value: float, *, least: float = 0.0, most: float = sys.float_info.max) -> float:
    if not least <= real(value) <= most:
        expected = f"{least:g} to {most:g}" if most < sys.float_info.max else "more than 0" if least else "0 or more"
        raise wrong_argument(name, f"{expected} seconds", value)
    return real(value)


def period(since: datetime | float | None, until: datetime | float | None) -> tuple[int | None, int | None]:
    first, last = moment("since", since), moment("until", until)
    if first is not None and last is not None and first > last:
        raise InvalidArgumentError(
            "since is later than until", hint="set since to the earlier time, and until to the later"
        )
    return first, last


def moment(name: str, value: datetime | float | None) -> int | None:
    """Whole Unix seconds. A naive datetime is refused: it could mean any time zone."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value != value:
            message = f"{name} is {display(value)} (not a time)"
            raise InvalidArgumentError(message, hint=f"leave {name} out, or pass None")
        if value.tzinfo is None or value.utcoffset() is None:
            hint = f"set {name} to datetime.now(UTC), or call astimezone() on it if it is local time"
            raise InvalidArgumentError(f"{name} has no time zone", hint=hint)
        return (value - _EPOCH) // timedelta(seconds=1)
    hint = f"set {name} to a time such as datetime(2026, 11, 1, tzinfo=UTC)"
    if isinstance(value, date):
        raise InvalidArgumentError(f"{name} is a date without a time", hint=hint)
    if not 0 <= real(value) <= _LAST_SECOND:
        message = f"{name} must be an aware datetime or Unix seconds (not milliseconds), not {display(value)}"
        raise InvalidArgumentError(message, hint=hint)
    return math.floor(real(value))
