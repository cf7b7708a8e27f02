"""`trade market`: market data about tokens on Base, paid per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import FIRST, Since, Until, count
from tradesdk_cli.pay.calls import Call, SendKey, Terms
from tradesdk_cli.run import Run, run_of

app = noun("market", "Paid market data: signals, prices, history, win-rate, avg-prices, top, metrics, tokens.", run_of)

Tokens = Annotated[
    list[str],
    typer.Argument(
        metavar="TOKEN...", help="Symbols, addresses on Base, or coin-registry ids, separated by spaces or commas."
    ),
]


def buy(run: Run, terms: Terms, verb: str, tokens: Sequence[str] = (), **arguments: Any) -> None:
    """Buys and prints."""
    from tradesdk_cli.pay.buy import purchase

    purchase(run, Call(verb, tokens, arguments), terms)


def _of_tokens(verb: str, first: str, second: str, says: str) -> None:
    """A verb that takes only tokens, with two examples."""

    def command(run: Run, tokens: Tokens, *, terms: Terms) -> None:
        buy(run, terms, verb, tokens)

    command.__doc__ = says
    app.verb(verb, first, second)(command)


@app.verb(
    "signals",
    "trade --mock market signals ETH BRETT:5 --max-price 0.10",
    "trade --mock market signals BRETT --limit 3 --max-price 0.05 -o json",
)
def signals(
    run: Run,
    tokens: Tokens,
    *,
    limit: Annotated[int | None, count("Signals per token (default 10).", 100)] = None,
    terms: Terms,
) -> None:
    """Buy the newest signals of tokens, newest first: $0.05 a token.

    BRETT:5 asks for five of that token.
    """
    buy(run, terms, "signals", tokens, limit=limit)


_of_tokens(
    "prices",
    "trade --mock market prices ETH BRETT --max-price 0.10",
    "trade --mock market prices ETH BRETT --dry-run",
    "Buy current prices of tokens, in USD and ETH: $0.03 a token.",
)


@app.verb(
    "history",
    "trade --mock market history BRETT --since 24h --signal BUY --max-price 0.05",
    "trade --mock market history ETH BRETT --since 2026-01-01 --until 2026-01-02 --max-price 0.10 -o ndjson",
)
def history(
    run: Run,
    tokens: Tokens,
    *,
    since: Since = None,
    until: Until = None,
    signal: Annotated[
        Literal["BUY", "SELL", "WAITING FOR SIGNAL", "ALL"] | None, typer.Option(help="Only signals of this kind.")
    ] = None,
    terms: Terms,
) -> None:
    """Buy past signals of tokens, at most 100 each: $0.05 a token."""
    # The same command a little later is the same request, and is not paid for twice.
    first, last = run.period(since, until, whole_minutes=True)
    buy(run, terms, "history", tokens, since=first, until=last, signal_type=signal)


_of_tokens(
    "win-rate",
    "trade --mock market win-rate ETH BRETT --max-price 0.06",
    "trade --mock market win-rate BRETT --max-price 0.03 -o json",
    "Buy win rates of tokens, in percent: $0.03 a token.",
)


_of_tokens(
    "avg-prices",
    "trade --mock market avg-prices ETH BRETT --max-price 0.04",
    "trade --mock market avg-prices BRETT --max-price 0.02 -o json",
    "Buy average buy and sell prices of tokens: $0.02 a token.",
)


@app.verb(
    "top",
    "trade --mock market top --sort winRate --max-price 0.06",
    "trade --mock market top --sort ROI --limit 5 --max-price 0.06 -o json",
)
def top(
    run: Run,
    *,
    sort: Annotated[Literal["winRate", "ROI"], typer.Option(help="Rank by win rate or by ROI.")],
    limit: Annotated[int | None, count("How many, 1 to 300 (default 300).", 300)] = None,
    terms: Terms,
) -> None:
    """Buy a ranking of tokens by win rate or ROI: $0.06."""
    buy(run, terms, "top", sort_by=sort, limit=limit)


@app.verb(
    "metrics",
    "trade --mock market metrics --max-price 0.06",
    "trade --mock market metrics --max-price 0.06 -o json",
)
def metrics(run: Run, *, terms: Terms) -> None:
    """Buy metrics of the whole platform: $0.06."""
    buy(run, terms, "metrics")


@app.verb("tokens", "trade --mock market tokens", "trade --mock market tokens --limit 500 -o ndjson")
def supported(
    run: Run,
    limit: Annotated[int | None, count("How many, 1 to 500 (default 20).", 500)] = None,
    send_api_key: SendKey = False,
) -> None:
    """List the tokens that have market data. It is free."""
    from tradesdk_cli.commands.lists import refuse_query
    from tradesdk_cli.output.columns import MARKET
    from tradesdk_cli.pay.buy import rows_of
    from tradesdk_cli.pay.checkout import market_client

    data = market_client(run, send_api_key=send_api_key).supported_tokens(limit=limit or FIRST).data
    rows, more = rows_of("tokens", data), []
    if len(rows) < data.total:
        if limit is None:
            refuse_query(run.out, "--limit N, at most 500")
        how = "--limit N, at most 500" if len(rows) < 500 else "the list cannot be continued"
        more = [f"the first {len(rows)} of {data.total}; there are more: {how}"]
    fields = {"total": data.total} if run.out.machine_notes else {}
    run.out.many(MARKET["tokens"], [rows], empty="nothing was found", foot=lambda: (more, fields))
