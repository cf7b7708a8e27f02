"""Budgets: what may be spent per call, per hour, per day and in total."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from .._values.money import shown_usd, usd
from ..errors import ConfigError, InvalidArgumentError
from .money import Usd, micro_usd

LIMITS = ("per_call", "per_hour", "per_day", "total")
_VARIABLES = {
    "per_call": "TRADE_BUDGET_PER_CALL",
    "per_hour": "TRADE_BUDGET_PER_HOUR",
    "per_day": "TRADE_BUDGET_PER_DAY",
    "total": "TRADE_BUDGET_TOTAL",
}


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """Spending limits in micro-dollars, or None. Live payments count. Of several budgets, the lowest limits apply.

    Attributes:
        per_call: for one call.
        per_hour: for the last 60 minutes.
        per_day: for a day, UTC.
        total: for all payments in the ledger.
        is_unlimited: it comes from `Budget.unlimited()`, which allows spending without a limit.
    """

    per_call: int | None
    per_hour: int | None
    per_day: int | None
    total: int | None
    is_unlimited: bool

    def __init__(
        self,
        *,
        per_call: Usd | None = None,
        per_hour: Usd | None = None,
        per_day: Usd | None = None,
        total: Usd | None = None,
    ) -> None:
        """Dollars, as strings or `Decimal`: `Budget(per_call="0.25", per_day="5")`.

        Raises:
            InvalidArgumentError: an amount is not valid.
        """
        for name, value in zip(LIMITS, (per_call, per_hour, per_day, total), strict=True):
            object.__setattr__(self, name, None if value is None else micro_usd(name, value))
        object.__setattr__(self, "is_unlimited", False)

    @classmethod
    def unlimited(cls) -> Budget:
        """A budget without limits: any published price is paid."""
        budget = cls()
        object.__setattr__(budget, "is_unlimited", True)
        return budget

    @classmethod
    def from_micro(cls, limits: Mapping[str, int | None]) -> Budget:
        """A budget from limits in micro-dollars, by name."""
        budget = cls()
        for name in LIMITS:
            object.__setattr__(budget, name, limits.get(name))
        return budget

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Budget:
        """The limits of `TRADE_BUDGET_PER_CALL`, `_PER_HOUR`, `_PER_DAY` and `TRADE_BUDGET_TOTAL`.

        Raises:
            ConfigError: one of them is not valid; the error names it.
        """
        environ = os.environ if environ is None else environ
        given = {name: environ[variable].strip() for name, variable in _VARIABLES.items() if environ.get(variable)}
        for name, text in given.items():
            try:
                micro_usd(_VARIABLES[name], text)
            except InvalidArgumentError as error:
                raise ConfigError(error.message, code="invalid_budget") from None
        return cls(**given)

    @property
    def is_set(self) -> bool:
        """Whether it has a limit or is unlimited on purpose."""
        return self.is_unlimited or any(getattr(self, name) is not None for name in LIMITS)

    def dollars(self) -> dict[str, Decimal | None]:
        """The limits in dollars, by name."""
        return {name: None if (micro := getattr(self, name)) is None else usd(micro) for name in LIMITS}

    def strictest(self, other: Budget) -> Budget:
        """The lower of each limit. Unlimited only if neither has a limit and at least one is unlimited on purpose."""
        lower: dict[str, int | None] = {}
        for name in LIMITS:
            given = [micro for micro in (getattr(self, name), getattr(other, name)) if micro is not None]
            lower[name] = min(given, default=None)
        budget = self.from_micro(lower)
        object.__setattr__(budget, "is_unlimited", self.is_unlimited or other.is_unlimited)
        return budget

    def __repr__(self) -> str:
        limits = [(name, getattr(self, name)) for name in LIMITS]
        shown = ", ".join(f"{name}={_dollars(micro)!r}" for name, micro in limits if micro is not None)
        if not self.is_unlimited:
            return f"Budget({shown})"
        return f"Budget.unlimited().strictest(Budget({shown}))" if shown else "Budget.unlimited()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent or reserved, in micro-dollars, and what the budgets leave.

    Attributes:
        last_hour: in the last 60 minutes.
        today: since midnight UTC.
        total: by all payments in the ledger.
        reserved: the part of `total` that is live: it may still be taken.
        budget: the limits that apply, the lowest of all budgets.
    """

    last_hour: int
    today: int
    total: int
    reserved: int
    budget: Budget

    @property
    def last_hour_usd(self) -> Decimal:
        """`last_hour` in dollars."""
        return usd(self.last_hour)

    @property
    def today_usd(self) -> Decimal:
        """`today` in dollars."""
        return usd(self.today)

    @property
    def total_usd(self) -> Decimal:
        """`total` in dollars."""
        return usd(self.total)

    @property
    def reserved_usd(self) -> Decimal:
        """`reserved` in dollars."""
        return usd(self.reserved)

    @property
    def left_usd(self) -> Decimal | None:
        """`left` in dollars; None without a limit."""
        return None if self.left is None else usd(self.left)

    @property
    def left(self) -> int | None:
        """What one more call may cost, in micro-dollars; None without a limit."""
        rooms = [
            limit - spent
            for limit, spent in (
                (self.budget.per_call, 0),
                (self.budget.per_hour, self.last_hour),
                (self.budget.per_day, self.today),
                (self.budget.total, self.total),
            )
            if limit is not None
        ]
        return max(0, min(rooms)) if rooms else None


def _dollars(micro: int) -> str:
    return shown_usd(micro).removeprefix("$").removesuffix(".00")
