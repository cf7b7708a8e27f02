"""`trade mock emit`: signals on demand."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import CLOCK, NUMBER, ask, given, rows
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import A_TIME, AnyChain, number, unix_or_date, whole
from tradesdk_cli.session import session

app = noun("emit", "Publish signals, now or later: signal.")


class Direction(StrEnum):
    """What a signal says to do."""

    buy = "BUY"
    sell = "SELL"


@app.verb(
    "signal",
    "trade --mock mock emit signal --chain base",
    "trade mock emit signal --token BRETT --direction buy --in 30",
)
def signal(
    ctx: typer.Context,
    chain: AnyChain = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="SYMBOL|ADDRESS", help="The token; any address is accepted.")
    ] = None,
    direction: Annotated[
        Direction | None,
        typer.Option("--direction", case_sensitive=False, metavar="buy|sell", help="The signal's direction."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", parser=number(0, 1), metavar="X", help="0 to 1.")
    ] = None,
    price: Annotated[
        float | None, typer.Option("--price", parser=number(0), metavar="USD", help="The token's price.")
    ] = None,
    timestamp: Annotated[
        int | None,
        typer.Option(
            "--timestamp", parser=whole(), metavar="UNIX", help="The signal's own time, in Unix seconds (default: now)."
        ),
    ] = None,
    after: Annotated[
        float | None,
        typer.Option(
            "--in", parser=number(0), metavar="SECONDS", help="Publish it this much later, by the mock's clock."
        ),
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(
            "--at",
            parser=unix_or_date(),
            metavar="TIME",
            help=f"Publish it at this time of the mock's clock: {A_TIME}.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", parser=whole(1, 10_000), metavar="N", help="How many, 1 by default.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", parser=number(0, 86_400), metavar="SECONDS", help="Time between the signals of --count."
        ),
    ] = None,
) -> None:
    """Publish signals: on the stream, among the latest, and in the history.

    What is left out follows from the mock's seed.
    """
    if after is not None and at is not None:
        raise UsageProblem("--in and --at exclude each other", "leave one of them out")
    if every is not None and count is None:
        raise UsageProblem("--every belongs to --count", "for example: --count 10 --every 60")
    from tradesdk_cli.output.columns import EMITTED

    with session(ctx) as run:
        later = after is not None or at is not None or every is not None
        clock = ask(run, "GET", "clock", gives=CLOCK) if later else None
        body = given(
            chain_id=chain,
            token=token,
            direction=direction.value if direction else None,
            confidence=confidence,
            price_usd=price,
            timestamp=timestamp,
            at=at,
            after=after,
            count=count,
            every=every,
        )
        found = rows(run, "POST", "signals", body, each={"published_at": NUMBER})
        run.out.many(EMITTED, [found], empty="no signals")
        waiting = [] if clock is None else [one for one in found if one["published_at"] > clock["service_now"]]
        if clock is not None and waiting:
            last = max(one["published_at"] for one in waiting) - clock["service_now"]
            moves = f"{run.settings.program} mock clock --advance moves it"
            still = f", which stands still: {moves}" if clock["frozen"] else ""
            run.out.note(f"{len(waiting)} to come, the last in {last:.0f} s on the mock's clock{still}")
