"""What takes the place of a standard stream that is closed or does not take anything any more."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def open_closed_streams() -> None:
    """Gives descriptors 0 to 2 something to stand on where whoever started us had closed them.

    Otherwise the next file or socket that is opened gets such a number, and what is printed goes into it. Nothing can
    be read from a closed input, and what is said on a closed stderr is lost; but a closed stdout refuses to be written,
    because a command whose result nobody could get did not work.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            found = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


def forget(stream: TextIO) -> None:
    """Lets what is still to be written to `stream` go nowhere: Python tries once more at the end, and would fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is stream:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # lives until the process ends
