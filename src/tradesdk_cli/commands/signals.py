"""`trade signals`: latest, past and live signals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import (
    FIRST,
    Chain,
    Confidence,
    Direction,
    Instant,
    Since,
    Token,
    Until,
    Walk,
    count,
    parse_span,
    parse_time,
)
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.run import Run, run_of, wire_all
from tradesdk_cli.stream.deliver import Actions

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tradesdk_cli.stream.bookmark import Stream

LAST = "last"

app = noun("signals", "BUY and SELL signals: latest, history, stream.", run_of)


@app.verb(
    "latest", "trade signals latest --chain base", "trade signals latest --chain bnb --min-confidence 0.8 -o json"
)
def latest(
    run: Run,
    chain: Chain,
    min_confidence: Confidence = None,
    direction: Direction = None,
    token: Token = None,
    limit: Annotated[int | None, count("How many, 1 to 100 (default 20).", 100)] = None,
) -> None:
    """Show the latest signals of a chain, at most 100."""
    from tradesdk_cli.commands.lists import keeping, refuse_query
    from tradesdk_cli.output.columns import SIGNALS

    if limit is None:
        refuse_query(run.out, "say how many of the latest: --limit N, at most 100")
    keep = keeping(token, direction=direction)
    size = limit if keep is None else 100  # filter all of them, then cut
    found = run.client.signals.latest(chain=chain, limit=size, min_confidence=min_confidence)
    kept = list(found) if keep is None else [one for one in found if keep(one)][: limit or FIRST]
    run.out.many(SIGNALS, [wire_all(kept)], empty="no signals like this")


@app.verb(
    "history",
    "trade signals history --chain base --since 24h --limit 50",
    "trade signals history --chain base --since 2026-01-01 --until 2026-01-01T12:00Z --all -o ndjson",
)
def history(
    run: Run,
    *,
    chain: Chain,
    since: Since = None,
    until: Until = None,
    token: Token = None,
    direction: Direction = None,
    min_confidence: Confidence = None,
    walk: Walk,
) -> None:
    """List past signals of a chain, newest first; the first 20 by default."""
    from tradesdk_cli.commands.lists import Source, keeping, show_list
    from tradesdk_cli.output.columns import SIGNALS

    address = token if token is not None and token[:2].lower() == "0x" else None
    keep = keeping(None if address else token, direction=direction, min_confidence=min_confidence)
    start, end = run.period(since, until)
    filters = {"chain": chain, "token_address": address, "since": start, "until": end}
    found = Source("signals", run.client.signals.history, filters, keep)
    show_list(run, SIGNALS, walk, found, empty="no signals like this")


@app.verb(
    "stream",
    "trade signals stream --chain base --since 24h --count 5",
    "trade signals stream --chain base --since 24h --count 1 --exec 'echo {direction} {token_symbol}'",
)
def stream(
    run: Run,
    *,
    chain: Chain,
    since: Annotated[
        Any,
        typer.Option(
            parser=lambda text: LAST if text.strip().lower() == LAST else parse_time(text),
            metavar="last|TIME",
            help="Where the last run ended, or a time.",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Share signals with other machines: trade fleet --help.")
    ] = None,
    min_confidence: Confidence = None,
    direction: Direction = None,
    token: Token = None,
    wanted: Actions,
    duration: Annotated[
        float | None, typer.Option(parser=parse_span, metavar="SPAN", help="Stop after this time, such as 10m.")
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(parser=parse_span, metavar="SPAN", help="Stop when no signal came for this long, such as 30s."),
    ] = None,
) -> None:
    """Print signals as they come, each once, until Ctrl-C.

    Reconnects by itself and reads missed signals from the history; stderr says when. --since last continues
    the last run with --since last and the same key, chain, filters and --out. The first time, it continues the last run
    without it.

    A signal is done when it is printed and its command has ended. An unfinished one (after a crash, or Ctrl-C while its
    command ran) is delivered again. A command that still runs when --duration is over may finish.

    With --group, each signal goes to one of all runs with the same group, filters and TRADE_FLEET. An unfinished one
    goes to another run, marked redelivered. The group keeps its own position; --since applies to a new group only.
    """
    from tradesdk_cli.commands.lists import keeping
    from tradesdk_cli.stream.bookmark import Bookmark, bookmark_of_run, last_bookmark
    from tradesdk_cli.stream.deliver import Delivery
    from tradesdk_cli.stream.follow import SETTLE, Following

    filters: dict[str, Any] = {"min_confidence": min_confidence, "direction": direction, "token": token}
    last, begin = since == LAST, since.at(run.now()) if isinstance(since, Instant) else None
    open_stream: Callable[..., AbstractContextManager[Stream]]
    if group is None:
        if last:
            bookmark, begin = last_bookmark(run, chain, filters)
        else:
            bookmark = bookmark_of_run(run, chain, filters)
        delivery = Delivery(run, wanted, resumes=last)
        open_stream = partial(
            run.client.signals.stream, chain=chain, since=begin, **filters, reports=True, settle=SETTLE
        )
    elif last:
        raise UsageProblem("a group keeps its own position", "leave --since last out")
    else:
        from tradesdk_cli.commands.fleet import url_of
        from tradesdk_cli.stream.fleet import GroupStream

        bookmark = Bookmark(None, needed=True)
        delivery = Delivery(run, wanted, resumes=True, marks=("replayed", "late", "redelivered"))
        keep = keeping(token, direction=direction, min_confidence=min_confidence) or (lambda _: True)
        lease = 60 + sum(command.timeout for command in wanted.commands or ())
        open_stream = partial(
            GroupStream, keep, chain=chain, since=begin, group=group, client=run.client, url=url_of(run), lease=lease
        )
    is_back = since is not None and group is None
    Following(run.out, delivery, bookmark, open_stream, is_back, duration, until_idle).run()
