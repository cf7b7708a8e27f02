"""`trade mock journal`: what the mock was asked, for looking at afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from tradesdk_cli.commands.mock.control import NUMBER, OPTIONAL_TEXT, Shape, ask, given
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import whole
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk_cli.session import Session

app = single("List the requests that the mock received.")

USUAL = 20
EMBEDDED = (
    "no requests: the embedded mock lives for one command only and keeps no journal; one that trade mock serve serves"
    " does, and -v shows what a command sends"
)
ENTRY: Shape = {
    **dict.fromkeys(("method", "path"), str),
    **dict.fromkeys(("tenant", "error"), OPTIONAL_TEXT),
    **dict.fromkeys(("n", "status"), int),
    "at": NUMBER,
    "query": dict,
    "faults": list,
}
_PIECE = 1_000
_BEYOND = 2**53

Tenant = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Only requests with a key of this tenant.")
]


@app.verb("journal", "trade mock journal --limit 5", "trade mock journal --tenant me --all -o json")
def journal(
    ctx: typer.Context,
    tenant: Tenant = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", parser=whole(1), metavar="N", help=f"The latest N ({USUAL} by default)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All of them: the mock keeps 10,000.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Clear the journal.")] = False,
) -> None:
    """List the requests that the mock received.

    Oldest first; the latest 20 by default. -o json has queries and bodies. Requests to the control API are left out.
    """
    if clear and (tenant or limit or everything):
        raise UsageProblem("--clear forgets every request", "give it alone: trade mock journal --clear")
    if limit is not None and everything:
        raise UsageProblem("--limit and --all exclude each other", "leave one of them out")
    from tradesdk_cli.commands.mock.show import journal_rows
    from tradesdk_cli.output.columns import JOURNAL

    with session(ctx) as run:
        if run.settings.mock:
            run.out.many(JOURNAL, [[]], empty=EMBEDDED)
            return
        if clear:
            ask(run, "DELETE", "journal")
            run.out.one({"requests": 0})
            return
        count = None if everything else limit or USUAL
        # One more than is shown, to know whether there are more.
        found, _ = latest(run, tenant, None if count is None else count + 1)
        shown = found[-count:] if count else found
        empty = "no requests" + (f" of the tenant {tenant}" if tenant else "")
        run.out.many(JOURNAL, [journal_rows(run.out, shown)], empty=empty)
        if len(shown) < len(found):
            run.out.note(f"the latest {len(shown)}; there are more: --all, or --limit N")


def answers(run: Session, tenant: str | None, after: int = 0) -> Iterator[dict[str, Any]]:
    """What the journal has behind the number `after`, piece by piece: `data` and the number of the `last` request."""
    while True:
        query = urlencode(given(tenant=tenant, after=after, limit=_PIECE))
        answer = ask(run, "GET", f"journal?{query}", gives={"data": list, "last": int}, each=ENTRY)
        yield answer
        if not answer["data"] or answer["data"][-1]["n"] >= answer["last"]:
            return
        after = answer["data"][-1]["n"]


def latest(run: Session, tenant: str | None, count: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The latest `count` entries, or all, oldest first, and the number of the last request of anyone."""
    after = 0
    if count is not None and tenant is None:  # then it is known from the numbers where they begin
        after = max(0, next(answers(run, None, _BEYOND))["last"] - count)
    found: list[dict[str, Any]] = []
    last = 0
    for answer in answers(run, tenant, after):
        found += answer["data"]
        last = answer["last"]
    return found[-count:] if count else found, last
