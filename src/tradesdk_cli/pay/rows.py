"""Payments and budgets as shown. Never the signed payment itself: it could be cashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tradesdk_cli.text import dollars, maybe_dollars, plain_dollars, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import Console

    from tradesdk import Budget, Ledger, Payment, Spending


LIMITS = ("per_call", "per_hour", "per_day", "per_month", "total")
_WINDOWS = {"last_hour": "this hour", "today": "today", "this_month": "this month", "total": "in total"}
"""The windows of all limits but the first, by name in `Spending`."""


def brief(payment: Payment, now: float) -> dict[str, Any]:
    """A payment in a list."""
    receipt = payment.receipt
    return {
        "id": payment.id,
        "status": payment.status(now),
        "charged": payment.charged,
        "amount_usd": plain_dollars(payment.amount_usd),
        "endpoint": _endpoint(payment),
        "created_at": int(payment.created),
        "submissions": payment.submissions,
        "reason": payment.reason,
        "transaction": receipt.transaction if receipt is not None and receipt.transaction else None,
        "payer": payment.payer,
        "purchase": payment.purchase,
        "stage": payment.stage.value,
        "proof": payment.proof.value,
    }


def _endpoint(payment: Payment) -> str:
    return urlsplit(payment.url).path.rpartition("/")[2]


def whole(payment: Payment, now: float) -> dict[str, Any]:
    """Everything about a payment without its signature."""
    return {
        **brief(payment, now),
        "updated_at": int(payment.updated),
        "url": payment.url,
        "body": _read(payment.body),
        "pay_to": payment.pay_to,
        "network": payment.network,
        "asset": payment.asset,
        "nonce": payment.nonce,
        "valid_before": payment.valid_before,
        "live": payment.is_live(now),
        "run": payment.run,
        "signatures": payment.signatures,
        "counted_usd": maybe_dollars(payment.counted),
        "receipt": None
        if (receipt := payment.receipt) is None
        else {
            "success": receipt.success,
            "transaction": receipt.transaction,
            "network": receipt.network,
            "payer": receipt.payer,
            "amount_usd": maybe_dollars(receipt.amount),
            "error_reason": receipt.error_reason,
        },
        "reply": None if payment.reply is None else _read(payment.reply),
    }


def payments_of(
    ledger: Ledger, since: float | None, until: float | None, *, page: int = 500, **chosen: Any
) -> Iterator[Payment]:
    """Payments first signed in a period, newest first. `chosen`: arguments of `Ledger.history`."""
    before = None
    while found := ledger.history(limit=page, before=before, **chosen):
        before = found[-1].id
        for payment in found:
            if (since is None or since <= payment.created) and (until is None or payment.created <= until):
                yield payment


GROUPS: Mapping[str, Callable[[Payment], str | None]] = {
    "day": lambda payment: f"{payment.created_at:%Y-%m-%d}",
    "month": lambda payment: f"{payment.created_at:%Y-%m}",
    "endpoint": lambda payment: _endpoint(payment),
    "purchase": lambda payment: payment.purchase,
}
"""The groups of `trade pay report`."""


def sums_of(payments: Iterable[Payment], by: str) -> list[dict[str, Any]]:
    """Exact sums spent and held, and the number of payments, without those that do not count."""
    sums: dict[str | None, list[int]] = {}
    for payment in payments:
        if payment.spent or payment.held:
            total = sums.setdefault(GROUPS[by](payment), [0, 0, 0])
            for at, amount in enumerate((payment.spent, payment.held, 1)):
                total[at] += amount
    return [
        {by: group, "spent_usd": maybe_dollars(spent), "held_usd": maybe_dollars(held), "count": count}
        for group, (spent, held, count) in sorted(sums.items(), key=lambda one: (one[0] is None, one[0]))
    ]


def limits_of(budget: Budget) -> dict[str, Any]:
    """The limits of a budget, in dollars."""
    return {f"{name}_usd": maybe_dollars(getattr(budget, name)) for name in LIMITS}


def spending_fields(spending: Spending) -> dict[str, Any]:
    """Limits, and the amounts spent, held and left, each counted once.

    Held was sent without proof that it was taken or not; it counts against the budgets like spent.
    """
    return {
        **limits_of(spending.budget),
        **{
            f"{part}_{name}_usd": maybe_dollars(getattr(getattr(spending, name), part))
            for part in ("spent", "held", "left")
            for name in _WINDOWS
        },
        "next_call_usd": maybe_dollars(spending.left),
    }


def render_spending(console: Console, spending: Spending) -> None:
    """Prints `spending_fields` for people: one line per budget, then the maximum price of the next call."""
    from tradesdk_cli.output.columns import BUDGETS
    from tradesdk_cli.output.table import render_list, render_one

    fields = spending_fields(spending)
    rows = [
        {
            "budget": limit.replace("_", " "),
            "limit": fields[f"{limit}_usd"] or "none",
            "spent": fields.get(f"spent_{name}_usd"),
            "held": fields.get(f"held_{name}_usd"),
            "left": fields.get(f"left_{name}_usd", fields["per_call_usd"]),
        }
        for limit, name in zip(LIMITS, ("call", *_WINDOWS), strict=True)
    ]
    render_list(console, BUDGETS, rows, None)
    console.print()
    most = "no limit" if spending.budget.is_set else "needs --max-price"
    if spending.left is not None:
        most = dollars(usd(spending.left))
    render_one(console, {"the next call may cost": most})


def room(spending: Spending) -> dict[str, Any]:
    """The amount left in the tightest window, and the maximum price of one more call, which may be less."""
    return {
        "left_usd": maybe_dollars(min((left for left, _ in _rooms(spending)), default=None)),
        "next_call_usd": maybe_dollars(spending.left),
    }


def left_over(spending: Spending) -> str:
    """The amount left in words: `$4.94 left today`; empty without such a budget."""
    left, period = min(_rooms(spending), key=lambda one: one[0], default=(0, ""))
    return f"{dollars(usd(left))} left {period}" if period else ""


def _rooms(spending: Spending) -> list[tuple[int, str]]:
    rooms = [(getattr(spending, name).left, period) for name, period in _WINDOWS.items()]
    return [(left, period) for left, period in rooms if left is not None]


def _read(content: bytes) -> Any:
    """JSON, or else text."""
    from tradesdk import RawResponse

    try:
        return RawResponse(200, {}, content).json()
    except ValueError:
        return content.decode("utf-8", "backslashreplace")
