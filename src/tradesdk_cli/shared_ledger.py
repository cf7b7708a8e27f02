"""The ledger of the terminal client where several machines share one. Loaded only then."""

from __future__ import annotations

from tradesdk.fleet import RedisLedger


class KeepingRedisLedger(RedisLedger):
    """Keeps each answer, as `KeepingLedger` does."""

    unprinted: dict[str, str] | None = None

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        if self.unprinted is None:
            super().collect(payment_id, owner=owner, keep=True)
        else:
            self.unprinted[payment_id] = owner

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        (self.unprinted or {}).pop(payment_id, None)
        super().reopen(payment_id, owner=owner, reply=reply)
