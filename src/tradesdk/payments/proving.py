"""Which payments a call asks the chain about before a budget refuses it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .buyer import Buyer, PurchaseIntent, Terms, look
from .ledger.rules import exceeded, since, to_count

if TYPE_CHECKING:
    from .._values.payment import Payment

FINALITY = 20 * 60
"""Seconds after the end of a validity. Before that, the finalized blocks are too old to prove anything."""
MOST = 64
AGAIN = 300.0
"""Seconds before the same payment is asked about again in this process."""
LONGEST = 10.0
"""Seconds that a call waits for the witness, at most."""

_asked: dict[str, float] = {}


def in_the_way(buyer: Buyer, intent: PurchaseIntent, terms: Terms) -> list[Payment] | None:
    """Payments to ask about: if some of them were not taken, there may be room. None: there is room now. It blocks."""
    moment = buyer.time.moment(buyer.clock)
    seen = look(buyer, intent, moment, math.inf)
    earlier, amount, now = seen.payment, int(terms.requirement.amount), buyer.clock.monotonic()
    counts, sums = to_count(earlier, amount), seen.sums.without(earlier)
    over = exceeded(amount, counts, sums, seen.limits)
    if not over:
        return None
    for payment_id, at in list(_asked.items()):
        if not 0 <= now - at < AGAIN:  # below 0: the clock was set back
            _asked.pop(payment_id, None)
    known = {*_asked, None if earlier is None else earlier.id}
    for begin in sorted((since(name, sums.now) for name in over), reverse=True):
        held = buyer.ledger.held(since=begin, until=sums.now - FINALITY, limit=MOST + len(known))
        found = [one for one in held if one.id not in known][:MOST]
        left = sums
        for one in found:
            left = left.without(one)
        if not exceeded(amount, counts, left, seen.limits):
            _asked.update(dict.fromkeys((one.id for one in found), now))
            return found
    return []
