"""Budgets: what may be spent per call, hour, day and month, and in total."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from .._values.money import MICRO, show_usd, shown_usd, usd
from .._values.text import printable, without_keys
from ..errors import ConfigError, InvalidArgumentError

Usd = str | Decimal
"""US dollars: `"0.10"`, `"5"`, `Decimal("0.03")`.

Not a float, which cannot represent 0.1 exactly, and not an int, as those are micro-dollars elsewhere.
"""

_AMOUNT = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")
_ABOVE = 10**18  # micro-dollars

LimitName = Literal["per_call", "per_hour", "per_day", "per_month", "total"]
LIMITS = ("per_call", "per_hour", "per_day", "per_month", "total")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """Spending limits in micro-dollars, or None. Of several budgets, the lowest limits apply.

    What was sent counts until it is proven that it was not taken, in every hour, day and month in which it may be
    taken. A payment that is signed again counts once, with the largest amount that was signed.

    Attributes:
        per_call: for one call.
        per_hour: for the last 60 whole minutes and the one that has begun.
        per_day: for a day, UTC.
        per_month: for a calendar month, UTC.
        total: for all payments in the ledger.
        is_unlimited: it comes from `Budget.unlimited()`, which allows spending without a limit.
    """

    per_call: int | None
    per_hour: int | None
    per_day: int | None
    per_month: int | None
    total: int | None
    is_unlimited: bool

    def __init__(
        self,
        *,
        per_call: Usd | None = None,
        per_hour: Usd | None = None,
        per_day: Usd | None = None,
        per_month: Usd | None = None,
        total: Usd | None = None,
    ) -> None:
        """Dollars, as strings or `Decimal`: `Budget(per_call="0.25", per_day="5")`.

        Raises:
            InvalidArgumentError: an amount is not valid.
        """
        for name, value in zip(LIMITS, (per_call, per_hour, per_day, per_month, total), strict=True):
            object.__setattr__(self, name, None if value is None else micro_usd(name, value))
        object.__setattr__(self, "is_unlimited", False)

    @classmethod
    def unlimited(cls) -> Budget:
        """A budget without limits: any published price is paid."""
        return cls.from_micro({}, is_unlimited=True)

    @classmethod
    def from_micro(cls, limits: Mapping[str, int | None], *, is_unlimited: bool = False) -> Budget:
        """A budget from limits in micro-dollars, by name."""
        budget = cls()
        for name in LIMITS:
            object.__setattr__(budget, name, limits.get(name))
        object.__setattr__(budget, "is_unlimited", is_unlimited)
        return budget

    @classmethod
    def from_environment(cls) -> Budget:
        """The limits of `TRADE_BUDGET_PER_CALL`, `_PER_HOUR`, `_PER_DAY`, `_PER_MONTH` and `_TOTAL`.

        Raises:
            ConfigError: one of them is not valid; the error names it.
        """
        limits: dict[str, int | None] = {}
        for name in LIMITS:
            if text := os.environ.get(variable := f"TRADE_BUDGET_{name.upper()}"):
                try:
                    limits[name] = micro_usd(variable, text.strip())
                except InvalidArgumentError as error:
                    raise ConfigError(error.message, code="invalid_budget") from None
        return cls.from_micro(limits)

    def to_json(self) -> str:
        """The budget as text, for a ledger's own."""
        limits = {name: getattr(self, name) for name in LIMITS}
        return json.dumps({**limits, "unlimited": self.is_unlimited})

    @classmethod
    def from_json(cls, text: str | None) -> Budget:
        """The budget that `to_json` wrote; without a text, one without limits.

        Raises:
            InvalidArgumentError: it is another text.
        """
        if text is None:
            return cls()
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            found = json.loads(text)
            limits = [found[name] for name in LIMITS]
            are_limits = all(limit is None or (type(limit) is int and 0 <= limit < _ABOVE) for limit in limits)
            if are_limits and isinstance(found["unlimited"], bool):
                return cls.from_micro(found, is_unlimited=found["unlimited"])
        raise InvalidArgumentError("the text is not one of Budget.to_json", hint="pass what budget.to_json() returned")

    @property
    def is_set(self) -> bool:
        """Whether it has a limit or is unlimited on purpose."""
        return self.is_unlimited or any(getattr(self, name) is not None for name in LIMITS)

    def dollars(self) -> dict[str, Decimal | None]:
        """The limits in dollars, by name."""
        return {name: None if (micro := getattr(self, name)) is None else usd(micro) for name in LIMITS}

    def strictest(self, other: Budget) -> Budget:
        """The lower of each limit.

        Unlimited only if neither has a limit and at least one is unlimited on purpose.
        """
        if self.is_set and not other.is_set:
            return self
        lower: dict[str, int | None] = {}
        for name in LIMITS:
            given = [micro for micro in (getattr(self, name), getattr(other, name)) if micro is not None]
            lower[name] = min(given, default=None)
        return self.from_micro(lower, is_unlimited=self.is_unlimited or other.is_unlimited)

    def __repr__(self) -> str:
        given = {name: shown_usd(micro) for name in LIMITS if (micro := getattr(self, name)) is not None}
        limits = [(name, amount.removeprefix("$").removesuffix(".00")) for name, amount in given.items()]
        shown = ", ".join(f"{name}={amount!r}" for name, amount in limits)
        if not self.is_unlimited:
            return f"Budget({shown})"
        return f"Budget.unlimited().strictest(Budget({shown}))" if shown else "Budget.unlimited()"


@show_usd(spent="spent_usd", held="held_usd", limit="limit_usd")
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpending:
    """What is spent and held in an hour, a day, a month or in total, in micro-dollars, and what its limit leaves.

    Attributes:
        spent: what was taken, by a receipt, the chain or a person's mark.
        held: what was sent, and may have been taken or not. It counts like what is spent.
        limit: the limit that applies, the lowest of all budgets; None without one.
    """

    spent: int
    held: int
    limit: int | None

    @property
    def counted(self) -> int:
        """`spent` and `held`."""
        return self.spent + self.held

    @property
    def left(self) -> int | None:
        """What the limit leaves, 0 or more; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.counted)

    @property
    def spent_usd(self) -> Decimal:
        """`spent` in dollars."""
        return usd(self.spent)

    @property
    def held_usd(self) -> Decimal:
        """`held` in dollars."""
        return usd(self.held)

    @property
    def limit_usd(self) -> Decimal | None:
        """`limit` in dollars; None without one."""
        return None if self.limit is None else usd(self.limit)

    @property
    def counted_usd(self) -> Decimal:
        """`counted` in dollars."""
        return usd(self.counted)

    @property
    def left_usd(self) -> Decimal | None:
        """`left` in dollars; None without a limit."""
        return None if self.left is None else usd(self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent and held, and what the budgets leave.

    Attributes:
        last_hour: what may have been taken in the last 60 whole minutes and the one that has begun.
        today: since midnight UTC.
        this_month: since the month began, UTC.
        total: by all payments in the ledger.
        budget: the limits that apply, the lowest of all budgets.
    """

    last_hour: WindowSpending
    today: WindowSpending
    this_month: WindowSpending
    total: WindowSpending
    budget: Budget

    def by_limit(self) -> dict[str, WindowSpending]:
        """What counts against each limit, by the limit's name. Nothing counts against `per_call`."""
        of_call = WindowSpending(spent=0, held=0, limit=self.budget.per_call)
        return dict(zip(LIMITS, (of_call, self.last_hour, self.today, self.this_month, self.total), strict=True))

    @property
    def spent(self) -> int:
        """`total.spent`, in micro-dollars."""
        return self.total.spent

    @property
    def held(self) -> int:
        """`total.held`, in micro-dollars."""
        return self.total.held

    @property
    def left(self) -> int | None:
        """What one more call may cost, in micro-dollars; None without a limit."""
        return min((left for one in self.by_limit().values() if (left := one.left) is not None), default=None)

    @property
    def spent_usd(self) -> Decimal:
        """`spent` in dollars."""
        return usd(self.spent)

    @property
    def held_usd(self) -> Decimal:
        """`held` in dollars."""
        return usd(self.held)

    @property
    def left_usd(self) -> Decimal | None:
        """`left` in dollars; None without a limit."""
        return None if self.left is None else usd(self.left)


def micro_usd(name: str, value: Usd) -> int:
    hint = f'write {name}="{value if isinstance(value, float) else "0.10"}", in quotes'
    if isinstance(value, float):
        raise InvalidArgumentError(
            f'{name} must not be a float, which is not exact: write "{value}" in quotes', hint=hint
        )
    if isinstance(value, int) and not isinstance(value, bool):
        raise InvalidArgumentError(
            f'{name} must not be an int: write dollars in quotes ("5", or Decimal("5")); '
            "for an amount of the SDK pass its property in dollars, such as .amount_usd or .price",
            hint=hint,
        )
    if not isinstance(value, str | Decimal):
        message = f"{name} must be dollars as a string or a Decimal, not {type(value).__name__}"
        raise InvalidArgumentError(message, hint=hint)
    text = format(value, "f") if isinstance(value, Decimal) and abs(value.adjusted()) < 20 else str(value)
    match = _AMOUNT.fullmatch(text)
    if match is None:
        text = without_keys(text)
        raise InvalidArgumentError(
            f'{name} must be dollars like "0.10", with at most six decimals, no sign and no exponent, '
            f"not {printable(text, 40) if text.strip() else repr(text[:40])}",
            hint=hint,
        )
    return int(match[1]) * MICRO + int((match[2] or "").ljust(6, "0"))
