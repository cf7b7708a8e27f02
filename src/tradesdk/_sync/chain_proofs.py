# Generated from src/tradesdk/_async/chain_proofs.py by scripts/unasync.py: change that file instead.
"""Asks the chain witness about payments and records the verdicts; asks for the wallet's balance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._values.payment import Payment
from ..errors import LedgerError, PaymentRefusedError, TradeError
from ..payments.buyer import Buyer, PurchaseIntent, Terms
from ..payments.effects import Verified
from ..payments.ledger.changes import Mark
from ..payments.proving import LONGEST, in_the_way
from ..payments.results import ChainVerdict
from .concurrency import KeyedLock

if TYPE_CHECKING:
    from .chain_witness import ChainWitness


class ChainProofs:
    """The witness of a client, if it has one, and the client's ledger."""

    def __init__(self, buyer: Buyer, witness: ChainWitness | None) -> None:
        self._buyer = buyer
        self.witness = witness
        buyer.asks_balance = buyer.has_node = witness is not None and buyer.wallet is not None
        self._locks = KeyedLock()

    def balance(self, time_left: float) -> int | None:
        """How much USDC the wallet has now, in micro-dollars; None if no node answered."""
        if self.witness is None:
            return None
        try:
            return self.witness._balance(self._buyer.payer, min(LONGEST, time_left / 2))
        except TradeError:  # the witness is closed, for example
            return None

    def verified(self, payment: Payment, time_left: float) -> Verified:
        """Whether the contract wallet that pays accepts its signature."""
        if self.witness is None:
            return Verified(is_asked=False)
        try:
            return self.witness._verified(payment, min(LONGEST, time_left / 2))
        except TradeError:  # the witness is closed, perhaps just now
            return Verified(is_asked=True)

    def settle(self, payments: Sequence[Payment], seconds: float = math.inf) -> list[tuple[Payment, ChainVerdict]]:
        """Ask about payments without proof, for at most so many seconds, and mark them by the verdicts."""
        unproven = [payment for payment in payments if payment.paid is None]
        if self.witness is None or not unproven:
            return []
        verdicts = self.witness._check_all(unproven, seconds)
        return [(self._marked(payment, verdict), verdict) for payment, verdict in zip(unproven, verdicts, strict=True)]

    def _marked(self, payment: Payment, verdict: ChainVerdict) -> Payment:
        ledger, paid = self._buyer.ledger, verdict.paid
        if paid is None:
            return payment
        evidence, now = f"chain: {verdict.reason}", self._buyer.clock.now()
        mark = Mark(paid=paid, evidence=evidence, signatures=payment.signatures, now=now)
        try:
            return (ledger.update(payment.id, mark)).payment
        except PaymentRefusedError:  # another process marked it, or signed it again
            return ledger.get(payment.id) or payment

    def make_room(self, intent: PurchaseIntent, terms: Terms, time_left: float) -> bool:
        """Ask about the held payments that leave no room for a call. Returns whether to look into the ledger again."""
        if self.witness is None:
            return False
        seconds = min(LONGEST, time_left / 2)
        turn = self._locks.of("")  # after a wait for another call's proofs, nothing is requested again
        if not turn.acquire(seconds):
            return False
        try:
            found = in_the_way(self._buyer, intent, terms)
            if not found:
                return found is None
            return any(verdict.paid is not None for _, verdict in self.settle(found, seconds))
        except LedgerError:
            raise
        except TradeError:  # the witness is closed, for example
            return False
        finally:
            turn.release()
