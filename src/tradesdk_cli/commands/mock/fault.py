"""`trade mock fault`: things that go wrong, on demand."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Annotated, Any

import typer

from tradesdk_cli.commands.mock.control import OPTIONAL_NUMBER, OPTIONAL_TEXT, Shape, ask, given, pairs, rows, word
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import noun
from tradesdk_cli.framework.params import A_TIME, number, unix_or_date, whole
from tradesdk_cli.session import session

app = noun("fault", "Faults on demand: add, list, kinds, remove, clear.")

KINDS = "mock fault kinds"
RULE: Shape = {
    **dict.fromkeys(("id", "kind"), str),
    **dict.fromkeys(("route", "method", "tenant", "key", "paid"), OPTIONAL_TEXT),
    **dict.fromkeys(("since", "until", "nth", "every", "probability", "count"), OPTIONAL_NUMBER),
    "query": (dict, type(None)),
    **dict.fromkeys(("seen", "fired"), int),
    "parameters": dict,
}
_MATCHING = (
    "kind", "route", "method", "tenant", "key", "query", "paid", "since", "until", "nth", "every", "probability",
    "count",
)  # fmt: skip
_AS_THEY_ARE = ("text", "base64", "raw", "header", "body")


class Paid(StrEnum):
    """Which requests for paid data a fault is for."""

    only = "only"
    never = "never"


def _complete_kind(incomplete: str) -> list[str]:
    from tradesdk_mock import fault_kinds

    return [kind.name for kind in fault_kinds() if kind.name.startswith(incomplete)]


@app.verb(
    "add",
    "trade --mock mock fault add status --route /v1/trades --count 2 status=503 retry_after=3",
    "trade --mock mock fault add drop --query chain=8453 --every 2 after=5 how=reset",
)
def add(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", autocompletion=_complete_kind, help="The kind; trade mock fault kinds lists them."
        ),
    ],
    parameters: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Parameters of the kind.")
    ] = None,
    route: Annotated[
        str | None,
        typer.Option(
            "--route", metavar="ROUTE", help="Only this path: /v1/trades, /v1/agents/{agent_id}, /v1/agents/*."
        ),
    ] = None,
    method: Annotated[str | None, typer.Option("--method", metavar="METHOD", help="Only GET, POST and so on.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only requests with a key of this tenant.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY_ID", help="Only requests with this key.")] = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", metavar="NAME=VALUE", help="Only with this in the query; may be repeated."),
    ] = None,
    paid: Annotated[
        Paid | None, typer.Option("--paid", help="only: requests with a payment; never: those without.")
    ] = None,
    since: Annotated[
        float | None,
        typer.Option(
            "--since", parser=unix_or_date(0), metavar="TIME", help=f"From this time of the mock's clock on: {A_TIME}."
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option("--until", parser=unix_or_date(0), metavar="TIME", help="Before this time, in the same forms."),
    ] = None,
    nth: Annotated[
        int | None, typer.Option("--nth", parser=whole(1), metavar="N", help="Only the N-th such request.")
    ] = None,
    every: Annotated[
        int | None, typer.Option("--every", parser=whole(1), metavar="N", help="Every N-th such request.")
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option("--probability", parser=number(0, 1), metavar="X", help="How likely, 0 to 1; the seed decides."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", parser=whole(1), metavar="N", help="At most N times.")] = None,
) -> None:
    """Inject a fault.

    Values of parameters are read as JSON where they are numbers, true, false, objects or quoted texts, for example
    headers={"X-A":"b"}, and as plain text otherwise; text=, base64=, raw=, header= and body= are taken as they are.
    """
    from tradesdk_cli.commands.mock.show import show_rules

    values = {
        name: text if name in _AS_THEY_ARE else value_of(text)
        for name, text in pairs(parameters or [], f"trade {KINDS}").items()
    }
    for name in _MATCHING:
        if name in values:
            option = "the first argument" if name == "kind" else f"an option: --{name}"
            raise UsageProblem(f"{name} is {option}", "trade mock fault add --help")
    body = given(
        kind=kind,
        route=route,
        method=method.upper() if method else None,
        tenant=tenant,
        key=key,
        query=pairs(query, "trade mock fault add --help") if query else None,
        paid=paid.value if paid else None,
        since=since,
        until=until,
        nth=nth,
        every=every,
        probability=probability,
        count=count,
    )
    with session(ctx) as run:
        rule = ask(run, "POST", "faults", {**body, **values}, gives=RULE, look=KINDS)
        show_rules(run.out, [rule], one=True)


@app.verb("list", "trade --mock mock fault list", "trade mock fault list -o json")
def list_faults(ctx: typer.Context) -> None:
    """List the faults, oldest first, with how many requests they matched and changed."""
    from tradesdk_cli.commands.mock.show import show_rules

    with session(ctx) as run:
        show_rules(run.out, rows(run, "GET", "faults", each=RULE))


@app.verb("kinds", "trade mock fault kinds", "trade mock fault kinds -o json")
def kinds(ctx: typer.Context) -> None:
    """List the kinds of faults and their parameters. Needs no running mock."""
    from dataclasses import asdict

    from tradesdk_cli.commands.mock.show import show_kinds
    from tradesdk_mock import fault_kinds

    with session(ctx) as run:
        show_kinds(run.out, [asdict(kind) for kind in fault_kinds()])


@app.verb("remove", "trade --mock mock fault remove FAULT_ID", "trade --mock mock fault remove FAULT_ID -o json")
def remove(ctx: typer.Context, fault_id: Annotated[str, typer.Argument(metavar="FAULT_ID")]) -> None:
    """Remove a fault."""
    with session(ctx) as run:
        left = rows(run, "DELETE", f"faults/{word(fault_id)}", each=RULE, look="mock fault list")
        run.out.one({"id": fault_id, "removed": True, "faults": len(left)})


@app.verb("clear", "trade --mock mock fault clear", "trade --mock mock fault clear -o json")
def clear(ctx: typer.Context) -> None:
    """Remove all faults."""
    with session(ctx) as run:
        ask(run, "DELETE", "faults")
        run.out.one({"faults": 0})


_MOST_NESTED = 100


def value_of(text: str) -> Any:
    """What `text` stands for: JSON where it is a number, true, false, null, an object, an array or a quoted text."""
    try:
        # No value here is deep, and a deep one can be more than the parser's stack holds.
        if text.count("[") + text.count("{") > _MOST_NESTED:
            raise ValueError("too deep")
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        if text[:1] in ("{", "[", '"'):
            raise UsageProblem(
                f"{text!r} starts like JSON and is not valid JSON", 'for example: headers={"X-A":"b"}'
            ) from None
        return text
    # 1e999 is a number to JSON, and infinite.
    return text if isinstance(value, float) and not math.isfinite(value) else value


def _no_constant(name: str) -> Any:
    raise ValueError(name)
