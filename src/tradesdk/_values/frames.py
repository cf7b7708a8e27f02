"""Hides secrets from tracebacks that print the locals of frames, as those of rich and pytest do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Secret(str):
    """A secret text, whose `repr` hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"


def hides_locals(call: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that takes secrets: after an error, its frames hold no locals. Line numbers stay."""

    @wraps(call)
    def hiding(*given: P.args, **named: P.kwargs) -> T:
        handled = sys.exception()  # an exception that the caller is handling stays
        try:
            return call(*given, **named)
        except BaseException as error:
            from traceback import clear_frames  # imported only after a failure

            linked: BaseException | None = error
            while linked is not None and linked is not handled:
                clear_frames(linked.__traceback__)
                linked = linked.__cause__ or linked.__context__
            self = given[0] if call.__name__ == "__init__" else None  # noqa: F841  # error handlers show it
            del given, named
            raise

    cast("Any", hiding).__kwdefaults__ = getattr(call, "__kwdefaults__", None)  # for code that reads the defaults
    return hiding
