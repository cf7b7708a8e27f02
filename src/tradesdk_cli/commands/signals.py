"""`trade signals`: what the market analysis says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.options import Chain, Confidence, pages, parse_moment, whole
from tradesdk_cli.plumbing import TradeCommand, examples, gathered, noun, session

if TYPE_CHECKING:
    from tradesdk_cli.paging import Walk

app = noun("signals", "BUY and SELL signals: latest, history.")


@app.command(
    "latest",
    cls=TradeCommand,
    epilog=examples(
        "trade signals latest --chain base", "trade signals latest --chain bnb --min-confidence 0.8 -o json"
    ),
)
def latest(
    ctx: typer.Context,
    chain: Chain,
    min_confidence: Confidence = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", parser=whole(1, 100), metavar="N", help="How many, 1 to 100.")
    ] = None,
) -> None:
    """Show the latest signals of a chain, at most 100."""
    from tradesdk_cli.context import wire
    from tradesdk_cli.views import SIGNALS

    with session(ctx) as run:
        found = run.client.signals.latest(chain=chain, limit=limit, min_confidence=min_confidence)
        run.out.many(SIGNALS, [[wire(signal) for signal in found]], empty="no signals like this")


@app.command(
    "history",
    cls=TradeCommand,
    epilog=examples(
        "trade signals history --chain base --from 24h --limit 50",
        "trade signals history --chain base --from 2026-01-01 --to 2026-01-01T12:00Z --all -o ndjson",
    ),
)
@gathered(walk=pages)
def history(
    ctx: typer.Context,
    *,
    chain: Chain,
    token_address: Annotated[
        str | None, typer.Option("--token-address", metavar="ADDRESS", help="Only this token.")
    ] = None,
    start: Annotated[
        float | None,
        typer.Option("--from", parser=parse_moment, metavar="TIME", help="Unix seconds, date, time, or an age: 90m."),
    ] = None,
    end: Annotated[
        float | None, typer.Option("--to", parser=parse_moment, metavar="TIME", help="The same for the end.")
    ] = None,
    walk: Walk,
) -> None:
    """List past signals of a chain, newest first; the first 20 when nothing else is said."""
    from tradesdk_cli.views import SIGNALS

    with session(ctx) as run:
        signals = run.client.signals
        found = signals.history(chain=chain, token_address=token_address, start=start, end=end, **walk.asked)
        run.show_list(SIGNALS, walk, found, empty="no signals like this")
