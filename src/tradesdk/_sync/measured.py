# Generated from src/tradesdk/_async/measured.py by scripts/unasync.py: change that file instead.
"""Methods that are run inside something that measures them (`tradesdk.otel`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass
class MeasuredCall:
    """A method's arguments, and after it its result."""

    args: tuple[Any, ...]
    result: Any = None


def measured(method: Any, around: Callable[..., AbstractContextManager[Any]]) -> Any:
    """`method`, run inside `around`, which gets its arguments and yields a call with those to use."""

    @wraps(method)
    def inside(this: Any, *args: Any, **options: Any) -> Any:
        with around(this, *args, **options) as call:
            call.result = method(this, *call.args, **options)
        return call.result

    return inside
