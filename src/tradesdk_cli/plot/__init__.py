"""Charts made of characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tradesdk_cli.cli.params import Since, Until, count, whole


@dataclass(frozen=True)
class Wanted:
    """The options of both plots: period, number of points, and height of a chart in lines."""

    since: Since = None
    until: Until = None
    limit: Annotated[int, count("At most N points, the newest.", 10000)] = 500
    height: Annotated[
        int | None, typer.Option(parser=whole(8, 200), metavar="N", help="Height in lines, 8 to 200.")
    ] = None
