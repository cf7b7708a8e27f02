"""`trade pay budget`: what may be spent."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import DryRun
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk import Budget
    from tradesdk_cli.session import Session

app = single("Show what may be spent and what is left, or set it.")


class Action(StrEnum):
    """What to do."""

    show = "show"
    set = "set"


class Release(StrEnum):
    """When held money is released."""

    proof = "proof"
    service = "service"


def _limit(name: str, told: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name, metavar="USD", help=f"With set: {told}; none removes the limit."
    )
    return option


@app.verb("budget", "trade pay budget", "trade --mock pay budget set --per-day 5 --per-call 0.25 --total none")
def budget(
    ctx: typer.Context,
    action: Annotated[Action, typer.Argument(metavar="set", show_default=False, help="Set limits.")] = Action.show,
    per_call: Annotated[str | None, _limit("--per-call", "for one purchase")] = None,
    per_hour: Annotated[str | None, _limit("--per-hour", "in any 60 minutes")] = None,
    per_day: Annotated[str | None, _limit("--per-day", "in a day of UTC")] = None,
    total: Annotated[str | None, _limit("--total", "ever")] = None,
    release: Annotated[
        Release | None,
        typer.Option(
            "--release",
            help="With set: when held money is released: by proof only (the default), or service: what the service "
            "rejected is free once it has expired, and a dishonest service can take more than the budget.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the question of a terminal.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show what may be spent and what is left, or set it.

    Spent is what a receipt, the chain or your mark proves; held is what was sent without proof, and counts too. It is
    kept in the ledger. TRADE_BUDGET_PER_CALL, _PER_HOUR, _PER_DAY and TRADE_BUDGET_TOTAL count too; the
    strictest limit applies.
    """
    given = {"per_call": per_call, "per_hour": per_hour, "per_day": per_day, "total": total}
    changes = {name: text for name, text in given.items() if text is not None}
    hint = "for example: {trade} pay budget set --per-day 5"
    if (changes or release) and action is Action.show:
        raise UsageProblem("to change a limit, use budget set", hint)
    if action is Action.set and not (changes or release):
        raise UsageProblem("no limit was given", hint)
    with session(ctx) as run:
        if action is Action.show or _set(run, changes, release, yes=yes, dry_run=dry_run):
            _show(run)


def _set(run: Session, changes: dict[str, str], release: Release | None, *, yes: bool, dry_run: bool) -> bool:
    """True when it is set, or was set like that already."""
    from tradesdk import Budget
    from tradesdk_cli.confirm import LEDGER, Change, approve
    from tradesdk_cli.purchase.checkout import amount_of
    from tradesdk_cli.purchase.records import LIMITS
    from tradesdk_cli.text import plain_dollars

    limits = {
        name: None if text == "none" else amount_of(f"--{name.replace('_', '-')}", text)
        for name, text in changes.items()
    }
    kept = Budget.from_json(run.ledger.setting("budget"))
    given = Budget(**limits, release=kept.release if release is None else release.value)
    wanted = Budget.from_micro(
        {name: getattr(given if name in limits else kept, name) for name in LIMITS}, given.release
    )
    now, then = (
        {
            **{
                f"{name}_usd": None if amount is None else plain_dollars(amount)
                for name, amount in one.dollars().items()
            },
            "release": one.release,
        }
        for one in (kept, wanted)
    )
    body = {name: then[name] for name in (*(f"{name}_usd" for name in limits), *(["release"] if release else []))}
    change = Change("change the budget", LEDGER, "budget", body, now, needs_yes=False)
    if not change.differences() and not dry_run:
        run.out.note("the budget already has these values: nothing to change")
        return True
    if not approve(run, change, yes=yes, dry_run=dry_run):
        return False
    run.ledger.set_setting("budget", lambda before: wanted.to_json())
    return True


def _show(run: Session) -> None:
    from tradesdk import Budget
    from tradesdk_cli.purchase.records import LIMITS, render_spending, spending_record

    of_environment = Budget.from_environment()
    spending = run.ledger.spending(of_environment, now=run.now())
    record = spending_record(spending)
    if run.out.format_for(many=False) == "table" and not (run.settings.fields or run.settings.query):
        run.out.draw(lambda console: render_spending(console, record))
    else:
        run.out.one(record)
    own = Budget.from_json(run.ledger.setting("budget"))
    stricter = [name for name in LIMITS if _is_of(of_environment, spending.budget, own, name)]
    if stricter:
        names = ", ".join(f"TRADE_BUDGET_{name.upper()}" for name in stricter)
        run.out.note(f"stricter than the ledger's own: {names}")
    if spending.held:
        run.out.note(f"held was sent, and nothing proves whether it was taken: {run.settings.program} pay reconcile")
    if not spending.budget.is_set:
        run.out.note(f"no budget is set: {run.settings.program} pay budget set --per-day 5")


def _is_of(of_environment: Budget, holds: Budget, of_ledger: Budget, name: str) -> bool:
    limit = getattr(of_environment, name)
    return limit is not None and limit == getattr(holds, name) and limit != getattr(of_ledger, name)
