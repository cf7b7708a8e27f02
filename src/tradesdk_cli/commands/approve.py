"""`trade approve`: a person's yes or no to what an AI client wants to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.errors import Declined, UsageProblem
from tradesdk_cli.session import session
from tradesdk_cli.text import plain_dollars, to_json, usd

if TYPE_CHECKING:
    from tradesdk_cli.mcp.approvals import Action
    from tradesdk_cli.session import Session

app = Verbs()


@app.verb("approve", "trade approve", "trade --mock approve")
def approve(
    ctx: typer.Context,
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="The action to approve; without it, list them.")
    ] = None,
    refuse: Annotated[str | None, typer.Option("--refuse", metavar="CODE", help="Refuse this one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="List what was decided, too.")] = False,
) -> None:
    """Approve or refuse what an AI client wants to do.

    A client of trade mcp can only prepare purchases and changes. With a code, you see exactly what would be done and
    are asked. There is no option that answers for you. An action expires 10 minutes after it was prepared, and is
    carried out once.
    """
    from tradesdk_cli.mcp.approvals import Decisions, approvals_file

    if code is not None and refuse is not None:
        raise UsageProblem("a code and --refuse exclude each other", "trade approve --refuse CODE")
    if everything and (code is not None or refuse is not None):
        raise UsageProblem("--all is for the list: one action is decided at a time", "leave --all out")
    with session(ctx) as run:
        decisions = Decisions(approvals_file(run.ledger_file))
        now = time.time()
        if refuse is not None:
            action = decisions.decide(decisions.waiting(refuse, now), yes=False, now=now)
            run.out.one(record(action, now))
        elif code is not None:
            action = decisions.waiting(code, now)
            _ask(run, action, now)
            action = decisions.decide(action, yes=True, now=time.time())
            run.out.one(record(action, time.time()))
            run.out.note("approved: the client can carry it out when it repeats its call")
        else:
            _list(run, decisions.all(now), now, everything=everything)


def _list(run: Session, found: list[Action], now: float, *, everything: bool) -> None:
    from tradesdk_cli.output.columns import ACTIONS

    shown = [record(one, now) for one in found if everything or (one.state == "pending" and not one.expired(now))]
    run.out.many(ACTIONS, [shown], empty="nothing was prepared yet" if everything else "nothing waits for you")
    if shown and not everything:
        run.out.note(f"look at one and decide: {run.settings.program} approve CODE, or --refuse CODE")


def record(action: Action, now: float) -> dict[str, Any]:
    """An action, without its content."""

    return {
        "code": action.code,
        "state": "expired" if action.expired(now) else action.state,
        "what": action.summary,
        "price_usd": plain_dollars(usd(action.price)) if action.kind == "purchase" else None,
        "where": action.content.get("where"),
        "expires_at": int(action.expires),
        "by": action.by,
    }


def _ask(run: Session, action: Action, now: float) -> None:
    """Shows all of it, and asks."""
    from tradesdk_cli.confirm import ask, can_ask, say
    from tradesdk_cli.text import dollars, span, visible

    if not can_ask():
        raise UsageProblem(
            "a person approves at a terminal, and there is none",
            f"{run.settings.program} approve --refuse {action.code}",
        )
    content, out = action.content, run.out
    say(out, visible(str(content.get("where"))))
    rows = [("what", action.summary)]
    if action.kind == "purchase":
        rows += [("price", dollars(usd(action.price))), ("purchase", _shown(content["purchase"]))]
        rows += [("payer", str(content["payer"] or "no wallet"))]
    rows += _changes(content)
    rows.append(("expires", f"in {span(action.expires - now)}"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        say(out, f"  {visible(name, 60).ljust(width)}  {visible(text)}")
    said = "Pay when the agent asks for it?" if action.kind == "purchase" else "Let the agent do this?"
    if not ask(said):
        raise Declined("nothing was approved", f"{run.settings.program} approve --refuse {action.code}")


def _changes(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Every field of the request, with what it is now where something changes."""
    from tradesdk_cli.output.formats import flatten

    before = content.get("before") or {}
    body = flatten(content.get("body") or {})
    rows = [(name, _shown(value)) for name, value in before.items() if name not in body]
    for name, value in body.items():
        rows.append((name, f"{_shown(before[name])} → {_shown(value)}" if name in before else _shown(value)))
    return rows


def _shown(value: Any) -> str:
    """All of a value, text in quotes: white space and arrows in it are seen as its own."""
    return "not set" if value is None else to_json(value)
