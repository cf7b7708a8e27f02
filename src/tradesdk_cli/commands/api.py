"""`trade api`: any request, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import Yes
from tradesdk_cli.session import session

app = single("Send any request, with the same key and retries.")

Words = Annotated[list[str], typer.Argument(metavar="[METHOD] PATH", help="GET, POST, PUT, PATCH, DELETE; /v1/….")]
Texts = Annotated[
    list[str] | None,
    typer.Option("--field", "-f", metavar="NAME=VALUE", help="A text field of the body, or of a GET's query."),
]
Typed = Annotated[
    list[str] | None,
    typer.Option("--typed", "-F", metavar="NAME=VALUE", help="The same as a number, true, false, null or JSON."),
]
Data = Annotated[
    str | None, typer.Option("--data", "-d", metavar="JSON|@FILE|-", help="The whole body; - is standard input.")
]


@app.verb("api", "trade --mock api GET /v1/agents -f status=active", "trade --mock api /v1/supported-tokens -F limit=3")
def api(
    ctx: typer.Context,
    words: Words,
    field: Texts = None,
    typed: Typed = None,
    data: Data = None,
    include: Annotated[bool, typer.Option("--include", "-i", help="Status and headers too, on stderr.")] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the request; send nothing that writes.")] = False,
) -> None:
    """Send any request, with the same key and retries. Print the answer as JSON.

    The method is GET by default, or POST with a body. -f sends text; -F sends numbers, true, false, null or JSON. Dots
    make nested fields, [] adds to a list: -F risk.stop_loss_pct=4, -f tags[]=calm. In a GET, -f is the query. Other
    methods show the request and ask first, or need --yes. Nothing is paid: market data is bought with trade market.
    """
    from tradesdk_cli.raw_request import read_request, refuse_elsewhere, send

    asked = read_request(words, field or (), typed or (), data)
    with session(ctx) as run:
        refuse_elsewhere(run, words[-1], market=asked.market_verb is not None)
        send(run, asked, include=include, yes=yes, dry_run=dry_run)
