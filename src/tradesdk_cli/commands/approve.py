"""`trade approve`: approve or refuse an action of an AI client."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.cli.group import Verbs
from tradesdk_cli.errors import Declined, UsageProblem
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import dollars, plain_dollars, span, unmistakable, visible

if TYPE_CHECKING:
    from tradesdk_cli.mcp.approvals import Action

app = Verbs(run_of)
_NAME = re.compile(r"[A-Za-z0-9_.]{1,40}")


@app.verb("approve", "trade approve", "trade --mock approve")
def approve(
    run: Run,
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="The action to approve; without it, list them.")
    ] = None,
    refuse: Annotated[str | None, typer.Option(metavar="CODE", help="Refuse this one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="List decided actions, too.")] = False,
) -> None:
    """Approve or refuse what an AI client wants to do.

    A client of trade mcp can only prepare purchases and changes. With a code, you see exactly what would be done and
    are asked. There is no option that answers for you. An action expires 10 minutes after it was prepared, and is
    carried out once.
    """
    from tradesdk_cli.mcp.approvals import Decisions, approvals_file
    from tradesdk_cli.output.columns import ACTIONS

    if code is not None and refuse is not None:
        raise UsageProblem("a code and --refuse exclude each other", "trade approve --refuse CODE")
    if everything and (code is not None or refuse is not None):
        raise UsageProblem("--all is for the list: one action is decided at a time", "leave --all out")
    decisions = Decisions(approvals_file(run.ledger_file))
    now = time.time()
    if refuse is not None:
        action = decisions.decide(decisions.waiting(refuse, now), yes=False, now=now)
        run.out.one(row_of(action, now))
    elif code is not None:
        action = decisions.waiting(code, now)
        _ask(run, action, now)
        action = decisions.decide(action, yes=True, now=time.time())
        run.out.one(row_of(action, time.time()))
        run.out.note("approved: the client can carry it out when it repeats its call")
    else:
        found = decisions.all(now)
        shown = [row_of(one, now) for one in found if everything or (one.state == "pending" and not one.expired(now))]
        decide = f"look at one and decide: {run.settings.program} approve CODE, or --refuse CODE"
        run.out.many(
            ACTIONS,
            [shown],
            empty="no actions yet" if everything else "no actions to approve",
            foot=lambda: ([decide] if shown and not everything else [], {}),
        )


def row_of(action: Action, now: float) -> dict[str, Any]:
    """An action without its content."""
    return {
        "code": action.code,
        "state": "expired" if action.expired(now) else action.state,
        "what": action.summary,
        "price_usd": None if action.price is None else plain_dollars(action.price),
        "where": action.content["where"],
        "expires_at": int(action.expires),
    }


def _ask(run: Run, action: Action, now: float) -> None:
    """Shows the whole action and asks."""
    from shutil import get_terminal_size

    from tradesdk_cli.confirm import ask, can_ask, say

    if not can_ask():
        raise UsageProblem(
            "approving needs a terminal, and there is none",
            f"run it in a terminal: {run.settings.program} approve {action.code}",
        )
    what = action.heading if action.price is None else f"{action.heading} for {dollars(action.price)}"
    rows = [("where", visible(str(action.content["where"])))]
    rows += [(name, text) for name, text in _values(action) if text != "null"]
    rows.append(("expires", f"in {span(action.expires - now)}"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        for line in folded(f"  {name.ljust(width)}  ", text, max(16, get_terminal_size().columns)):
            say(run.out, line)
    if not ask(f"Let the client {what}?"):
        raise Declined("nothing was approved", f"{run.settings.program} approve --refuse {action.code}")


def _values(action: Action) -> list[tuple[str, str]]:
    """All values of the request, for a change with the current ones. Changed values come first."""
    from tradesdk_cli.output.formats import flatten

    content = action.content
    if action.is_purchase:
        rows = [(name, unmistakable(content[name])) for name in ("purchase", "payer")]
        return rows + [(name, unmistakable(value)) for name, value in content["body"].items()]
    before, rows = content["before"], [("id", unmistakable(content["id"]))]
    body = flatten(content["body"])
    for name, value in body.items():
        now = f"{unmistakable(before.get(name))} → " if before else ""
        rows.append((name, now + _explained(name, value)))
    if body and before:
        rows.append(("unchanged", ""))
    rows += [(name, _explained(name, value)) for name, value in before.items() if name not in {"id", *body}]
    return [(name if _NAME.fullmatch(name) else unmistakable(name), text) for name, text in rows]


def _explained(name: str, value: Any) -> str:
    """A value as it is and, of a time or a chain, what it means."""
    from tradesdk_cli.choices import CHAIN_NAMES
    from tradesdk_cli.output.cells import moment

    text = unmistakable(value)
    if name == "chain_id" and value in CHAIN_NAMES:
        return f"{text} ({CHAIN_NAMES[value]})"
    return f"{text} ({moment(value)})" if name.endswith("_at") and isinstance(value, int) else text


def folded(name: str, text: str, columns: int) -> list[str]:
    """A name with its value in lines.

    Continued lines begin with a mark. The terminal never wraps: it would begin a line with a part of the value.
    Characters beyond ASCII count as two cells.
    """
    lines, line, room = [], "", columns - 1
    for char in name + text:
        cells = 1 if char.isascii() else 2
        if cells > room:
            lines.append(line)
            line, room = "  │ ", columns - 6
        line, room = line + char, room - cells
    return [*lines, line]
