"""`trade mock logs`: the requests that the mock receives."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from tradesdk_cli.cli.group import single
from tradesdk_cli.cli.params import whole
from tradesdk_cli.commands.lists import refuse_query
from tradesdk_cli.commands.mock.control import ask, no_mock
from tradesdk_cli.errors import ClosedPipe, UsageProblem
from tradesdk_cli.output.columns import LOG
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session

app = single("Print the requests that the mock receives, a line each.")

_USUAL = 20
_EVERY = 0.5
_PIECE = 1_000
_EMBEDDED = (
    "no requests: the embedded mock lives for one command only and logs none; one that trade mock serve serves does, "
    "and -v shows what a command sends"
)


@app.verb("logs", "trade mock logs --limit 5", "trade mock logs --follow --tenant me")
def logs(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", parser=whole(1), metavar="N", help=f"The latest N ({_USUAL} by default)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All of them: the mock keeps 10,000.")] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only requests with a key of this tenant.")
    ] = None,
) -> None:
    """Print the requests that the mock receives, a line each.

    The status is 0 where a fault broke the connection. -o json has bodies. Requests to the control API are left out.
    """
    if limit is not None and everything:
        raise UsageProblem("--limit and --all exclude each other", "leave one of them out")
    with session(ctx) as run:
        out = run.out.readable()
        if follow:
            out.expect_lines()
            out.begin_lines(LOG)
            run.closing(out.close)
        if run.settings.mock:
            out.many((), [[]], empty=_EMBEDDED)
            return
        pages = _pages(run, tenant, None if everything else limit or _USUAL, follow=follow, first=limit is None)
        if not follow:
            out.many(LOG, pages, empty="no requests yet")
            return
        for number, page in enumerate(pages):
            if not number and not page:
                out.note("no requests yet")
            for entry in page:
                out.line(entry)


def _pages(
    run: Session, tenant: str | None, count: int | None, *, follow: bool, first: bool
) -> Iterator[list[dict[str, Any]]]:
    """The latest `count` entries, or all, oldest first; then, while it is followed, those that come."""
    found: list[dict[str, Any]] = []
    last = 0
    for answer in _answers(run, tenant):
        found += answer["data"]
        last = answer["last"]
    shown = found[-count:] if count else found
    if not follow and len(shown) < len(found):
        if first:
            refuse_query(run.out, "--all, or --limit N")
        run.out.note(f"the latest {len(shown)}; there are more: --all, or --limit N")
    yield shown
    while follow:
        _pause(run.out)
        seen = last
        for answer in _answers(run, tenant, seen):
            # A smaller number: another one is served there now, which counts from 0.
            last = answer["last"] if answer["last"] >= seen else 0
            yield answer["data"]


def _answers(run: Session, tenant: str | None, after: int = 0) -> Iterator[dict[str, Any]]:
    """What was logged after the number `after`, piece by piece: `data`, and the number of the `last` request."""
    while True:
        query = {"after": after, "limit": _PIECE} | ({} if tenant is None else {"tenant": tenant})
        answer = ask(run, "GET", f"journal?{urlencode(query)}")
        if not isinstance(answer.get("data"), list) or not isinstance(answer.get("last"), int):
            raise no_mock(run)
        yield answer
        if not answer["data"] or answer["data"][-1]["n"] >= answer["last"]:
            return
        after = answer["data"][-1]["n"]


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
