"""`trade mock gaps`: what the specification leaves open, and what the mock does there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.commands.mock.control import Shape, ask, pairs
from tradesdk_cli.framework.group import single
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.session import Session

app = single("List what the service's specification leaves open, and the mock's choices.")

LOOK = "mock gaps"
GIVES: Shape = {"options": dict}


@app.verb("gaps", "trade mock gaps", "trade --mock mock gaps --set order=oldest --set heartbeat=1")
def gaps(
    ctx: typer.Context,
    current: Annotated[
        bool, typer.Option("--current", help="Show the values of the running mock, or of the embedded one.")
    ] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a value there; may be repeated."),
    ] = None,
) -> None:
    """List what the service's specification leaves open, and the mock's choices.

    Every option has a default; trade mock serve --gap chooses another value from the start, --set while it runs.
    """
    from tradesdk_cli.output.columns import GAPS, GAPS_NOW

    with session(ctx) as run:
        if change:
            options = pairs(change, f"trade {LOOK}")
            now = ask(run, "PUT", "gaps", {**options}, gives=GIVES, look=LOOK)["options"]
            rows = [row for row in _described(now) if current or row["name"] in options]
            _show(run, GAPS_NOW, rows)
        elif current:
            _show(run, GAPS_NOW, _described(ask(run, "GET", "gaps", gives=GIVES)["options"]))
        else:
            _show(run, GAPS, _described())


def _described(now: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The options, with their values as they are `now` when that is given."""
    from tradesdk_mock import GapOptions

    rows = []
    for gap in GapOptions.describe():
        value = {} if now is None else {"value": str(now.get(gap.name, gap.default))}
        rows.append(
            {"name": gap.name, **value, "default": gap.default, "others": " ".join(gap.others), "text": gap.text}
        )
    return rows


def _show(run: Session, columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> None:
    width = run.out.width
    if width is None or not run.out.draws(many=True):
        run.out.many(columns, [rows], empty="no options")
        return
    from tradesdk_cli.output.table import render_choices

    chosen = [_chosen(row) if "value" in row else row for row in rows]
    run.out.draw(lambda console: render_choices(console, chosen, width))


def _chosen(row: dict[str, Any]) -> dict[str, Any]:
    """The value in the place of the default, and where it is another, the default in the place of the others."""
    if row["value"] == row["default"]:
        return row
    return {**row, "default": row["value"], "others": f"{row['default']}, the default"}
