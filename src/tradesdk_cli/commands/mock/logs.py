"""`trade mock logs`: what the mock is asked, as it is asked."""

from __future__ import annotations

import select
import time
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.commands.mock.journal import EMBEDDED, USUAL, Tenant, answers, latest
from tradesdk_cli.errors import ClosedPipe
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

app = single("Print the requests that the mock receives, a line each.")

_EVERY = 0.5


@app.verb("logs", "trade mock logs --since-start", "trade mock logs --follow --tenant me")
def logs(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    since_start: Annotated[
        bool, typer.Option("--since-start", help=f"Start with all kept requests, not the latest {USUAL}.")
    ] = False,
    tenant: Tenant = None,
) -> None:
    """Print the requests that the mock receives, a line each.

    Time, tenant, method, path, status, error, faults; a dash for what is missing. The status is 0 where a fault broke
    the connection.
    """
    with session(ctx) as run:
        out = run.out.readable()
        if follow:
            out.refuse_an_end()
            run.closing(out.close)
        if run.settings.mock:
            out.many((), [[]], empty=EMBEDDED)
            return
        pages = _pages(run, tenant, whole=since_start, follow=follow)
        if out.draws(many=True):
            _print(out, pages)
        elif follow:
            for entry in chain.from_iterable(pages):
                out.line(entry)
        else:
            out.many((), pages, empty="no requests")


def _pages(run: Session, tenant: str | None, *, whole: bool, follow: bool) -> Iterator[list[dict[str, Any]]]:
    found, last = latest(run, tenant, None if whole else USUAL)
    yield found
    while follow:
        _pause(run.out)
        seen = last
        for answer in answers(run, tenant, seen):
            # A smaller number: another one is served there now, which counts from 0.
            last = answer["last"] if answer["last"] >= seen else 0
            yield answer["data"]


def _print(out: Output, pages: Iterator[list[dict[str, Any]]]) -> None:
    from rich.text import Text

    from tradesdk_cli.commands.mock.show import log_line
    from tradesdk_cli.output.table import print_line

    for number, page in enumerate(pages):
        lines = [Text(log_line(entry)) for entry in page]
        if lines:
            out.draw(lambda console, lines=lines: print_line(console, Text("\n").join(lines)))
        elif number == 0:
            out.note("no requests yet")


def _pause(out: Output) -> None:
    """Waits a little. Ends the program when nobody reads any more, which otherwise only the next line would notice."""
    try:
        reader = select.poll()
        reader.register(out.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # no such call here, or no real stream
        time.sleep(_EVERY)
        return
    if reader.poll(_EVERY * 1000):
        raise ClosedPipe
