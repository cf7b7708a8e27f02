"""The ledger of the terminal client where several machines share one. Loaded only then."""

from __future__ import annotations

from tradesdk.fleet import RedisLedger


class KeepingRedisLedger(RedisLedger):
    """Keeps each answer, as `KeepingLedger` does."""

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        super().collect(payment_id, owner=owner, keep=True)
