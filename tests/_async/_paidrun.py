"""Plays a scenario of a payment on a mock, and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from tradesdk import AsyncMarketClient, Budget, Ledger, LocalSigner, Payment, TradeError
from tradesdk_mock import GapOptions, MockService

from .._paidscenarios import PRICE, JumpyClock, Scenario
from .._payments import how

numbers = count(1)
LIMIT = 4 * PRICE


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a scenario.

    Attributes:
        error: its class; empty when there was a result.
        code: its code.
        charged: what the result or the error says.
        state: what the ledger says.
        submissions: how often the payment was handed over.
        signatures: how many different ones the mock saw.
        settled: how often it took money.
        counted: micro-dollars that the ledger counted, before anything had expired.
        again: what the same call did once more.
        operations: how many there were with that.
        signatures_after: with that, and with all that followed.
        settled_after: likewise.
        ledger: micro-dollars that are spent by the ledger, in the end.
        mock: by the mock.
        warnings: of the result.
    """

    error: str
    code: str
    charged: Any
    state: str
    submissions: int
    signatures: int
    settled: int
    counted: int
    again: str
    operations: int
    signatures_after: int
    settled_after: int
    ledger: int
    mock: int
    warnings: tuple[str, ...]


class AsyncPlay:
    """One scenario, with a payer of its own."""

    def __init__(self, mock: MockService, scenario: Scenario) -> None:
        self.mock = mock
        self.scenario = scenario
        self.signer = LocalSigner.from_key(f"0x{0xABC000 + next(numbers):064x}")
        self.payer = self.signer.address
        self.ledger = Ledger.memory()
        self.clock = JumpyClock(mock.clock, scenario.jump)
        self.highest = 0

    async def run(self) -> Outcome:
        """Play it to the end of all authorizations."""
        mock, scenario, payer = self.mock, self.scenario, self.payer
        mock.clear_faults()
        mock.set_gaps(**{name: getattr(GapOptions(), name) for name in ("clock_skew", "payment_identifier")})
        mock.set_gaps(**scenario.gaps)
        if scenario.balance is not None:
            mock.payments.set_balance(payer, scenario.balance)
        for kind, parameters in scenario.faults:
            mock.add_fault(kind, **parameters)
        async with AsyncMarketClient(
            base_url=mock.url,
            http_client=httpx.AsyncClient(transport=mock.transport()),
            signer=self.signer,
            budget=Budget.from_micro({"total": LIMIT}),
            ledger=self.ledger,
            clock=self.clock,
            check_tokens=False,  # the list shows what agents did: a market of 50 minutes for each scenario
            **scenario.options,
        ) as client:
            result, error = await self._call(client)
            for _ in range(scenario.by_hand - 1):
                result, error = await self._call(client)
            payment = self._latest()
            first = (mock.payments.signatures(payer), len(mock.payments.settlements(payer)))
            counted = self.highest
            mock.clear_faults()
            mock.payments.set_balance(payer, 10_000_000)
            again, problem = await self._call(client)
            anew = again is not None and again.payment.id != payment.id
            self.clock.right()
            mock.clock.advance(3000)
            await self._reconcile(client)
            return Outcome(
                error=_named(error),
                code=getattr(error, "code", None) or "",
                charged=result.charged if error is None else getattr(error, "charged", payment.charged),
                state=how(payment),
                submissions=payment.submissions,
                signatures=first[0],
                settled=first[1],
                counted=counted,
                again="bought again" if anew else getattr(problem, "code", None) or _named(problem) or "delivered",
                operations=1 + anew,
                signatures_after=mock.payments.signatures(payer),
                settled_after=len(mock.payments.settlements(payer)),
                ledger=(await client.payments.spending()).total.counted,
                mock=mock.payments.spent(payer),
                warnings=() if error is not None else result.warnings,
            )

    async def _call(self, client: AsyncMarketClient) -> tuple[Any, TradeError | None]:
        found: tuple[Any, TradeError | None]
        try:
            found = await client.token_prices(["ETH"]), None
        except TradeError as error:
            found = None, error
        spending = await client.payments.spending()
        self.highest = max(self.highest, spending.total.counted)
        assert self.mock.payments.spent(self.payer) <= spending.total.counted <= LIMIT, "the ledger counts too little"
        return found

    def _latest(self) -> Payment:
        return self.ledger.history(limit=1)[0]

    async def _reconcile(self, client: AsyncMarketClient) -> None:
        """What a person does in the end: look at the wallet."""
        found = await client.payments.reconcile()
        assert found.live == ()
        nonces = {settlement.nonce for settlement in self.mock.payments.settlements(self.payer)}
        for payment in found.unresolved:
            await client.payments.mark(payment.id, paid=payment.nonce in nonces)


def _named(error: TradeError | None) -> str:
    return "" if error is None else type(error).__name__
