"""`trade fleet`: what several machines share."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import AnyChain, Chain, parse_span, whole
from tradesdk_cli.session import session

app = noun("fleet", "Several machines with one key: relay, status.")


@app.verb("relay", "trade fleet relay --chain base", "trade fleet relay --chain bnb --keep 50000")
def relay(
    ctx: typer.Context,
    *,
    chain: Chain,
    keep: Annotated[
        int,
        typer.Option("--keep", parser=whole(1, 10_000_000), metavar="N", help="Signals that the server keeps."),
    ] = 10_000,
    nautilus: Annotated[
        bool,
        typer.Option("--nautilus", help="Also write messages for NautilusTrader: a LiveNode reads them from Redis."),
    ] = False,
    duration: Annotated[
        float | None,
        typer.Option("--duration", parser=parse_span, metavar="SPAN", help="Stop after this time, such as 10m."),
    ] = None,
) -> None:
    """Relay a chain's live signals to the other machines, until Ctrl-C.

    TRADE_FLEET or --fleet names the server that they share. Start it on as many machines as you like: one of them has
    the lease and reads the service's stream, and when it ends another one takes over. Members read with
    trade signals stream --group. It prints nothing on stdout.
    """
    from tradesdk_cli.fleet import relay as relay_signals

    with session(ctx) as run:
        relay_signals(run, chain, keep=keep, nautilus=nautilus, duration=duration)


@app.verb("status", "trade fleet status", "trade fleet status --chain base -o json")
def status(ctx: typer.Context, chain: AnyChain = None) -> None:
    """Show what the machines share: server, rate limit, money, relays, groups.

    TRADE_FLEET or --fleet names the server. lag is how many signals no member of a group has got yet, pending how many
    a member has and is not done with. A member that died is listed for a day. Nothing is sent to the service.
    """
    from tradesdk_cli.choices import CHAINS
    from tradesdk_cli.fleet import draw_status
    from tradesdk_cli.fleet import status as status_of

    with session(ctx) as run:
        record = status_of(run, [chain] if chain is not None else sorted(set(CHAINS.values()), reverse=True))
        out = run.out
        if out.format_for(many=False) == "table" and not (out.settings.fields or out.settings.query):
            out.draw(lambda console: draw_status(console, record, out.width))
        else:
            out.one(record)
