"""Dry runs: what would be sent, what it costs, what would be signed, and what would be refused."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tradesdk_cli.purchase.calls import MOST
from tradesdk_cli.purchase.records import room
from tradesdk_cli.text import counted, dollars, plain_dollars, usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradesdk import Spending
    from tradesdk_cli.purchase.checkout import Checkout


def show_dry_run(checkout: Checkout) -> None:
    """Prints what would be sent, what it costs, and what would be signed. Only the wallet's address is needed."""
    call, terms = checkout.call, checkout.terms
    request: dict[str, Any] = {"method": "POST", "path": call.path}
    if terms.batches:
        shown = request | _of_batches(checkout)
    else:
        found = getattr(checkout.client.dry_run, call.method)(
            **call.given, max_price=terms.max_price, purchase=terms.purchase
        )
        asked = found.authorization
        shown = request | {
            "body": call.body(),
            "price_usd": plain_dollars(found.quote.price),
            "amount_usd": None if asked is None else plain_dollars(usd(int(asked["value"]))),
            **room(found.quote.spending),
            "authorization": asked,
            "refusal": None if found.refusal is None else _refused(found.refusal.code, found.refusal.message),
        }
        kept = found.existing if asked is None and found.refusal is None else None
        if kept is not None:
            answered = f"{kept.updated_at:%Y-%m-%d %H:%M:%S} UTC"
            note = f"the answer of {answered} is kept: without --dry-run it is returned again, and costs nothing"
            checkout.run.out.note(note, payment=kept.id)
    if checkout.run.out.format_for(many=False) == "table":
        shown = {name: value for name, value in shown.items() if value is not None}  # people need not read of those
    checkout.run.out.one(shown, whole=True)
    checkout.run.out.note("nothing was signed, reserved or paid (--dry-run)")


def _of_batches(checkout: Checkout) -> dict[str, Any]:
    """The same for batches: nothing is sent, so prices are the published ones."""
    batches = checkout.in_batches()
    left = left_to_buy(checkout, batches)
    spending = checkout.client.payments.spending()
    return {
        "tokens": len(batches.tokens),
        "batches": batches.count,
        "batches_had": None if checkout.terms.job is None else batches.count - len(left),
        "price_usd": plain_dollars(usd(sum(left))),
        **room(spending),
        "refusal": _refusal(checkout, left, spending),
    }


def left_to_buy(checkout: Checkout, batches: Any) -> list[int]:
    """What the batches cost in micro-dollars that the job does not have already."""
    count = len(batches.tokens)
    each = int(batches.price * 1_000_000) // count if count else 0
    return [each * min(MOST, count - at) for at in range(_had(checkout) * MOST, count, MOST)]


def over_total(most: Any, price: Any, batches: int) -> str:
    """Why not even the first batch is bought."""
    cost = "costs" if batches == 1 else "cost"
    return f"{counted(batches, 'batches')} {cost} {dollars(price)}, and --max-price is {dollars(most)}"


def _had(checkout: Checkout) -> int:
    """How many batches the job has already: those that come to a run that may spend nothing."""
    from tradesdk import PaymentRefusedError

    had = 0
    if checkout.terms.job is not None:
        try:
            for _ in checkout.in_batches("0"):
                had += 1
        except PaymentRefusedError:
            pass
    return had


def _refused(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _refusal(checkout: Checkout, amounts: Sequence[int], spending: Spending) -> dict[str, str] | None:
    """Why one of the remaining batches, with these amounts in micro-dollars, would not be paid; None if all would."""
    if amounts and checkout.wallet is None:
        return _refused("no_signer", "there is no wallet to pay with")
    cap = None if checkout.terms.max_price is None else int(Decimal(checkout.terms.max_price) * 1_000_000)
    if amounts and cap is None and not spending.budget.is_set:
        return _refused("no_budget", f"it costs {dollars(usd(sum(amounts)))}, and no budget is set")
    if cap is not None and sum(amounts) > cap:
        return _refused("over_total", over_total(usd(cap), usd(sum(amounts)), len(amounts)))
    spent = 0
    for number, amount in enumerate(amounts, 1):
        costs = f"a batch costs {dollars(usd(amount))}"
        after = f" after {counted(number - 1, 'batches')}" if number > 1 else ""
        left = replace(
            spending,
            last_hour=spending.last_hour + spent,
            today=spending.today + spent,
            total=spending.total + spent,
        ).left
        if left is not None and amount > left:
            return _refused("over_budget", f"{costs}, and {dollars(usd(left))} is left{after}")
        spent += amount
    return None
