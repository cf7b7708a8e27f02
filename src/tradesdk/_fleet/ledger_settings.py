"""Settings of a shared ledger, its budget and its trusted recipients: their text, and which of two is the one to go by.

Servers and journals may have different ones after a server lost something.
"""

from __future__ import annotations

import json
from typing import Any

from ..payments.budget import LIMITS, Budget
from ..payments.ledger.schema import budget_row, to_budget

BUDGET = "budget"
_TRUSTED = "trusted:"
_ROW = len(LIMITS) + 2


def trusted_for(origin: str) -> str:
    """The name of the setting with the trusted recipients of an origin."""
    return f"{_TRUSTED}{origin}"


def origin_of(name: str) -> str | None:
    """The origin whose trusted recipients a setting has; None: it is the budget.

    Raises:
        ValueError: there is no such setting.
    """
    if name == BUDGET:
        return None
    if not name.startswith(_TRUSTED):
        raise ValueError("an unknown setting")
    return name.removeprefix(_TRUSTED)


def budget_of(text: str | bytes | None) -> Budget:
    """A stored budget; None: one without limits."""
    return Budget() if text is None else to_budget(_row(text))


def budget_text(budget: Budget, before: str | bytes | None, now: int) -> str:
    """A budget as it is stored: with the time of this change, which is always later than that of the one before.

    Args:
        budget: what is to be stored.
        before: what it replaces.
        now: the server's time in microseconds.
    """
    earlier = 0 if before is None else _changed(_row(before))
    return json.dumps([*budget_row(budget), max(now, earlier + 1)])


def recipients(text: str | bytes | None) -> list[tuple[str, float]]:
    """Addresses, and when they were added, oldest first."""
    if text is None:
        return []
    found = _list(text)
    if not all(isinstance(one, list) and [type(part) for part in one] in ([str, int], [str, float]) for one in found):
        raise ValueError("recipients cannot be read")
    return [(address, at) for address, at in found]


def recipients_text(known: list[tuple[str, float]]) -> str:
    """Recipients as they are stored."""
    return json.dumps(sorted(known, key=lambda one: one[1]))


def joined(name: str, own: str, found: str | None) -> str:
    """The newer one of two texts of a setting; if that cannot be told, the stricter one.

    Raises:
        ValueError: one of them cannot be read.
    """
    if origin_of(name) is None:
        return _joined_budget(own, found)
    return _joined_recipients(own, found)


def _joined_budget(own: str, found: str | None) -> str:
    row = _row(own)
    if found is None or found == own:
        return own
    other = _row(found)
    mine, theirs = _changed(row), _changed(other)
    if mine and theirs and mine != theirs:
        return own if mine > theirs else found
    return json.dumps([*budget_row(to_budget(row).strictest(to_budget(other))), max(mine, theirs)])


def _joined_recipients(own: str, found: str | None) -> str:
    """Recipients are only ever added, so the longer list is the newer one.

    If each has some that the other lacks, only those that are in both; if there are none, those that were known first:
    an empty list would accept anybody.
    """
    mine, theirs = recipients(own), recipients(found)
    if found is None:
        return own
    my_addresses, their_addresses = ({address.lower() for address, _ in known} for known in (mine, theirs))
    if my_addresses <= their_addresses:
        return found
    if their_addresses <= my_addresses:
        return own
    both = [one for one in theirs if one[0].lower() in my_addresses]
    return recipients_text(both or min(mine, theirs, key=lambda known: sorted((at, address) for address, at in known)))


def _row(text: str | bytes) -> list[Any]:
    """A budget's row; a seventh value is the time of its change."""
    found = _list(text)
    numbers = [*found[: len(LIMITS)], *found[_ROW:]]
    if not _ROW <= len(found) <= _ROW + 1 or any(type(one) is not int for one in numbers if one is not None):
        raise ValueError("a budget cannot be read")
    return found


def _changed(row: list[Any]) -> int:
    """When a budget was changed, in microseconds; 0: unknown."""
    return int(row[_ROW] or 0) if len(row) > _ROW else 0


def _list(text: str | bytes) -> list[Any]:
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("it is not a list")
    return found
