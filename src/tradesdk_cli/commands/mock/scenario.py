"""The option that names the course of the mock's market."""

from __future__ import annotations

from typing import Annotated

import typer

# The mock's own list, in its order. It is written down again here so that help and completion load nothing of the mock.
NAMES = ("ordinary", "trending", "choppy", "crash", "quiet", "whipsaw")


def _complete(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


Scenario = Annotated[
    str | None,
    typer.Option(
        "--scenario",
        metavar="NAME",
        autocompletion=_complete,
        help=f"The course of the market: {', '.join(NAMES[:-1])} or {NAMES[-1]}.",
    ),
]
