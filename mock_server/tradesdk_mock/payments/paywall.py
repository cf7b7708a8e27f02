"""The gate before paid market data: who judges payments, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..core.messages import Answer, Request
from . import settlements
from .requirements import Offer, make_offer, pay_to, payment_required

if TYPE_CHECKING:
    from ..state.world import World

__all__ = ["Offer", "Verifier", "check", "make_offer", "pay_to", "payment_required", "settle"]


class Verifier(Protocol):
    """Judges payments and takes the money. Called within the request's transaction."""

    def check(self, world: World, request: Request, offer: Offer) -> Answer | None:
        """None lets the request in; an answer is given instead, such as `payment_required` for a bad payment."""
        ...

    def settle(self, world: World, request: Request, offer: Offer, answer: Answer) -> Answer:
        """Take the money for an answer below 400. The answer with its receipt, or one that withholds it."""
        ...


def check(world: World, request: Request, offer: Offer) -> Answer | None:
    """None for a request that may be answered; else what it is told."""
    return _verifier(world).check(world, request, offer)


def settle(world: World, request: Request, offer: Offer, answer: Answer) -> Answer:
    """What leaves after the endpoint has answered. An answer of 400 or worse costs nothing."""
    if answer.status >= 400:
        if request.payment is not None:
            settlements.conclude(world, request.payment, "not charged", answer.status)
        return answer
    return _verifier(world).settle(world, request, offer, answer)


def _verifier(world: World) -> Verifier:
    if world.verifier is None:
        # Loaded here: most worlds are never asked for paid data.
        from .facilitator import PaymentVerifier

        world.verifier = PaymentVerifier()
    return world.verifier
