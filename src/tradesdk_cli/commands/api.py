"""`trade api`: any request, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import Yes
from tradesdk_cli.session import session

app = single("Send any request, with the same key, retries and budgets.")

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


@app.verb(
    "api",
    "trade --mock api /v1/agents -f status=active --paginate",
    "trade --mock api /v1/token-prices -f 'tokens[].identifier=ETH' --pay --max-price 0.03",
)
def api(
    ctx: typer.Context,
    words: Words,
    field: Texts = None,
    typed: Typed = None,
    data: Data = None,
    paginate: Annotated[bool, typer.Option("--paginate", help="Follow the cursors; print all as one list.")] = False,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="With --paginate: continue an earlier one.")
    ] = None,
    include: Annotated[bool, typer.Option("--include", "-i", help="Status and headers too, on stderr.")] = False,
    pay: Annotated[bool, typer.Option("--pay", help="Pay for market data that costs something.")] = False,
    max_price: Annotated[
        str | None,
        typer.Option("--max-price", metavar="USD", help="With --pay: the maximum price in US dollars, such as 0.10."),
    ] = None,
    purchase: Annotated[
        str | None, typer.Option("--purchase", metavar="NAME", help="With --pay: pay for this name once.")
    ] = None,
    wallet: Annotated[
        Path | None, typer.Option("--wallet", metavar="FILE", help="With --pay: the keystore that pays.")
    ] = None,
    send_api_key: Annotated[
        bool, typer.Option("--send-api-key", help="For market data: send the API key too, if the service requires it.")
    ] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the request; send nothing that writes.")] = False,
) -> None:
    """Send any request, with the same key, retries and budgets.

    The method is GET by default, or POST with a body. -f sends text; -F sends numbers, true, false, null or JSON. Dots
    make nested fields, [] adds to a list: -F risk.stop_loss_pct=4, -f tokens[].identifier=ETH. In a GET, -f is the
    query. Other methods show the request and ask first, or need --yes.
    """
    from tradesdk_cli import raw_request
    from tradesdk_cli.raw_request import read_request

    if not pay:
        with_pay = {
            "--max-price": max_price,
            "--purchase": purchase,
            "--wallet": wallet,
        }
        for option, given in with_pay.items():
            if given is not None:
                raise UsageProblem(f"{option} belongs to --pay", f"trade api … --pay {option} …")
    usually = "POST" if pay else "GET" if paginate else None
    asked = read_request(words, field or (), typed or (), data, usually=usually)
    if cursor is not None:
        if not paginate:
            raise UsageProblem("--cursor belongs to --paginate", "one page of a list: -f cursor=CURSOR")
        asked.query["cursor"] = cursor
    if paginate and not asked.reads:
        raise UsageProblem("--paginate is for lists, which a GET reads", "trade api GET /v1/trades --paginate")
    if pay and not asked.is_sold:
        raise UsageProblem(
            f"{asked.method} {asked.path} is not sold: only market data has a published price, and is a POST",
            "leave --pay out; trade market --help lists what is sold",
        )
    if send_api_key and not asked.is_sold:
        raise UsageProblem("--send-api-key is for market data", "everything else is sent with the key anyway")
    with session(ctx) as run:
        if asked.is_sold:
            raw_request.refuse_elsewhere(run, words[-1], market=True)
            if pay:
                from tradesdk_cli.purchase.checkout import Terms

                terms = Terms(max_price, dry_run, purchase, wallet, send_api_key=send_api_key)
                raw_request.buy(run, asked, terms, include=include)
            else:
                raw_request.ask_price(run, asked, include=include, dry_run=dry_run, send_api_key=send_api_key)
            return
        raw_request.refuse_elsewhere(run, words[-1])
        if paginate and not dry_run:
            raw_request.paginate(run, asked, include=include)
        else:
            raw_request.send(run, asked, include=include, yes=yes, dry_run=dry_run)
