"""`trade mock payments`: what the mock was paid in play money."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from tradesdk_cli.commands.mock.control import NUMBER, OPTIONAL_TEXT, Shape, ask, given, rows, word
from tradesdk_cli.errors import CliError, UsageProblem
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import whole
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.output.columns import Column

app = noun("payments", "What the mock was paid in play money: list, balance, check.")

MICRO = 1_000_000
SETTLED: Shape = {
    **dict.fromkeys(("payer", "nonce", "pay_to", "method", "path", "fingerprint", "transaction", "header"), str),
    **dict.fromkeys(("n", "amount", "delivered", "submitted"), int),
    "tenant": OPTIONAL_TEXT,
    "at": NUMBER,
    "pending": bool,
}
SUBMITTED: Shape = {
    **dict.fromkeys(("path", "fingerprint", "header", "verdict"), str),
    **dict.fromkeys(("payer", "nonce"), OPTIONAL_TEXT),
    **dict.fromkeys(("n", "status"), int),
    "at": NUMBER,
}
_DOLLARS = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?", re.ASCII)
Payer = Annotated[str | None, typer.Option("--payer", metavar="ADDRESS", help="Only of this payer.")]


@app.verb("list", "trade --mock mock payments list", "trade mock payments list --submitted -o json")
def list_payments(
    ctx: typer.Context,
    payer: Payer = None,
    path: Annotated[
        str | None, typer.Option("--path", metavar="ROUTE", help="Only for this path: /v1/token-prices, /v1/token-*.")
    ] = None,
    submitted: Annotated[
        bool, typer.Option("--submitted", help="All payment headers that arrived, with their results.")
    ] = False,
) -> None:
    """List the payments that were taken, oldest first.

    Tables have dollars; in all other formats amounts are millionths of one. Nonces and transactions are in -o json.
    """
    if submitted and path is not None:
        raise UsageProblem("--path is about payments that were taken", "leave it out with --submitted")
    query = urlencode(given(payer=payer, path=path))
    with session(ctx) as run:
        if submitted:
            found = rows(run, "GET", f"payments/submissions?{query}", each=SUBMITTED)
            run.out.many(_submitted(), [found], empty="no payment has arrived")
        else:
            found = rows(run, "GET", f"payments?{query}", each=SETTLED)
            run.out.many(_settled(), [found], empty="no payment was taken")


@app.verb("balance", "trade --mock mock payments balance", "trade mock payments balance ADDRESS --set 0.05")
def balance(
    ctx: typer.Context,
    payer: Annotated[str | None, typer.Argument(metavar="ADDRESS", help="The payer; all of them by default.")] = None,
    amount: Annotated[
        str | None, typer.Option("--set", metavar="USD", help="Give it this much play money: 12.50.")
    ] = None,
) -> None:
    """Show the play money that payers have left, or set it. Balances are in millionths of a US dollar."""
    if payer is None and amount is not None:
        raise UsageProblem("--set needs the address of a payer", "trade mock payments balance ADDRESS --set 12.50")
    micro = None if amount is None else _micro(amount)
    with session(ctx) as run:
        if payer is None:
            answer = ask(
                run,
                "GET",
                "payments/balances",
                gives={"data": list, "others": int},
                each={"payer": str, "balance": int},
            )
            dollars = f"{answer['others'] / MICRO:,.2f}"
            run.out.many(_balances(), [answer["data"]], empty="nobody has paid so far")
            run.out.note(f"every other payer has {dollars} USD")
            return
        where, gives = f"payments/balances/{word(payer)}", {"payer": str, "balance": int}
        if micro is None:
            run.out.one(ask(run, "GET", where, gives=gives))
        else:
            run.out.one(ask(run, "PUT", where, {"balance": micro}, gives=gives))


@app.verb("check", "trade --mock mock payments check", "trade mock payments check --within 120")
def check(
    ctx: typer.Context,
    payer: Payer = None,
    within: Annotated[
        int | None,
        typer.Option(
            "--within",
            parser=whole(0),
            metavar="SECONDS",
            help="Only payments at most this many seconds apart; by default 600.",
        ),
    ] = None,
) -> None:
    """Find purchases that were charged more than once; exit code 1 if there are any.

    That is an equal request of the same wallet, paid with another nonce before the first payment was answered.
    """
    query = urlencode(given(payer=payer, within=within))
    with session(ctx) as run:
        groups = ask(run, "GET", f"payments/twice?{query}", gives={"data": list})["data"]
        found: list[dict[str, Any]] = [each for group in groups for each in group]
        run.out.many(_settled(), [found], empty="nothing was charged twice")
        if groups:
            several = "purchase was" if len(groups) == 1 else "purchases were"
            raise CliError(f"{len(groups)} {several} charged more than once")


def _micro(amount: str) -> int:
    """US dollars as a whole number of millionths; nothing is rounded."""
    match = _DOLLARS.fullmatch(amount)
    if match is None:
        raise UsageProblem(f"{amount!r} is not an amount in US dollars such as 12.50", "at most six decimals")
    return int(match[1]) * MICRO + int((match[2] or "").ljust(6, "0"))


def _dollars(payment: Mapping[str, Any]) -> str:
    """What was paid, with all its digits and two decimals at least."""
    whole_dollars, micro = divmod(payment["amount"], MICRO)
    return f"{whole_dollars}.{f'{micro:06}'.rstrip('0').ljust(2, '0')}"


def _settled() -> tuple[Column, ...]:
    from tradesdk_cli.output.columns import Column

    return (
        Column("n", "number", optional=True),
        Column("at", "moment", optional=True, title="time"),
        Column("path", "id"),
        Column("amount", "usd", of=_dollars),
        Column("payer", "id"),
        Column("delivered", "number", optional=True),
        Column("submitted", "number", optional=True),
    )


def _submitted() -> tuple[Column, ...]:
    from tradesdk_cli.output.columns import Column

    return (
        Column("n", "number", optional=True),
        Column("at", "moment", optional=True, title="time"),
        Column("path", "id"),
        Column("verdict"),
        Column("status", "number"),
        Column("payer", "id", optional=True),
    )


def _balances() -> tuple[Column, ...]:
    from tradesdk_cli.output.columns import Column

    return Column("payer", "id"), Column("balance", "number")
