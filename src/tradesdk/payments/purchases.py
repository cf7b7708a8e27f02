"""Names of purchases."""

from __future__ import annotations

import json
from typing import Any

from .._http.arguments import comparable, required_text
from .._http.request import Request
from .._values.text import printable
from ..errors import InvalidArgumentError

_LONGEST_NAME = 500


def purchase_name(name: str, argument: str = "purchase") -> str:
    """A name from a caller, normalized: the same text gives the same nonce on every machine."""
    name, hint = comparable(required_text(argument, name)), f"give {argument} a short name, such as 2026-11-29/prices"
    if not name.isprintable() or not name:
        raise InvalidArgumentError(
            f"{argument} must not be blank or have control characters: {printable(name, 60)}", hint=hint
        )
    if len(name) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"{argument} is {len(name)} characters long; a name has at most {_LONGEST_NAME}", hint=hint
        )
    return name


def item_name(job: str, request: Request[Any]) -> str:
    """The name of the purchase of one item of a batch job: the job's name and the request."""
    return f"{comparable(job)}: {request.target} {canonical(request.body or b'')}"


def canonical(body: bytes) -> str:
    """A body as JSON with sorted keys."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.decode("latin-1")
