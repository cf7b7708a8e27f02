"""The Lua scripts that the server runs, each in a file of its own. A script is one atomic step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

OLDEST = (6, 2)
"""The oldest version of the server for which the scripts are written."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the digest by which the server knows it."""

    text: str
    sha: str

    @classmethod
    def of(cls, text: str) -> Script:
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def script(name: str) -> Script:
    """The script in `lua/NAME.lua`."""
    return Script.of(files("tradesdk._fleet").joinpath("lua", f"{name}.lua").read_text("utf-8"))
