"""A wallet without money: one purchase asks for all, always with its nonce, and all go on once there is some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncChainWitness,
    AsyncMarketClient,
    Budget,
    Ledger,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    TradeError,
)
from tradesdk.fleet import create_tables
from tradesdk.payments import WalletDetails

from .._clock import VirtualClock, http_date
from .._paidservice import CountingSigner
from .._postgres import Postgres, new_schema
from .._rows import each_of
from .._seller import BASE, settled
from ..unit._offers import decoded, encoded, offer_2, prices, requirement_2
from ._market import market_of

pytestmark = pytest.mark.twin

PRICE = 30_000
HOUR, DAY = 3600, 86_400
NO_MONEY = "insufficient_funds"


@dataclass
class Bank:
    """A service that takes the wallet's money, and is honest; and the chain, with a node at `/rpc`.

    Attributes:
        balance: what the wallet has.
        reason: what it says when that is too little.
        says: what happens to the next payments instead, in this order.
        nonces: those that were handed over, with the number of times.
        sold: the nonces of payments that it took.
        node: what the node answers to `balanceOf`; None: the balance.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    balance: int = 0
    reason: str = NO_MONEY
    says: list[Callable[[], httpx.Response]] = field(default_factory=list)
    nonces: dict[str, int] = field(default_factory=dict)
    sold: list[str] = field(default_factory=list)
    requests: int = 0
    asked: int = 0
    node: Callable[[], Any] | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/rpc":
            return self._answer_of_node(json.loads(request.content))
        self.requests += 1
        header = request.headers.get("PAYMENT-SIGNATURE")
        tokens = [one["identifier"] for one in json.loads(request.content)["tokens"]]
        if header is None:
            return self.offer(len(tokens))
        signed = decoded(header)["payload"]["authorization"]
        nonce, amount = signed["nonce"], int(signed["value"])
        self.nonces[nonce] = self.nonces.get(nonce, 0) + 1
        if self.says:
            return self.says.pop(0)()
        if int(signed["validBefore"]) < self.clock.now() + 6:
            return self.offer(len(tokens), "invalid_exact_evm_payload_authorization_valid_before")
        if nonce in self.sold:
            return self.offer(len(tokens), "invalid_exact_evm_nonce_already_used")
        if self.balance < amount:
            return self.offer(len(tokens), self.reason)
        self.balance -= amount
        self.sold.append(nonce)
        told = encoded(settled(amount=str(amount)))
        return httpx.Response(200, json=prices(*tokens), headers={"PAYMENT-RESPONSE": told, **self._date()})

    def offer(self, tokens: int = 1, error: str = "Payment required") -> httpx.Response:
        offer = offer_2(requirement_2(amount=str(PRICE * tokens), maxTimeoutSeconds=60), error=error)
        return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": encoded(offer), **self._date()})

    def _date(self) -> dict[str, str]:
        return {"Date": http_date(self.clock.now())}

    def _answer_of_node(self, calls: Any) -> httpx.Response:
        assert [one["method"] for one in calls] == ["eth_chainId", "eth_call"]
        call, block = calls[1]["params"]
        assert (call["data"][34:], block) == (CountingSigner().address[2:].lower(), "latest")
        self.asked += 1
        found = f"0x{self.balance:064x}" if self.node is None else self.node()
        results = zip(calls, ("0x2105", found), strict=True)
        return httpx.Response(200, json=[{"jsonrpc": "2.0", "id": one["id"], "result": said} for one, said in results])

    def client(self, ledger: Ledger, **options: Any) -> AsyncMarketClient:
        settings = {"budget": Budget.unlimited(), "ledger": ledger, "clock": self.clock}
        return market_of(self, **{**settings, **options})

    def witness(self, path: str = "/rpc") -> AsyncChainWitness:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return AsyncChainWitness(f"{BASE}{path}", http_client=http, clock=self.clock)


async def said(client: AsyncMarketClient, symbol: str = "ETH", **options: Any) -> str:
    """What a call gives: `sold`, or the class and code of its error."""
    try:
        await client.token_prices([symbol], **options)
    except TradeError as error:
        return f"{type(error).__name__} {error.code}"
    return "sold"


ASKS, REFUSED = f"{PaymentRejectedError.__name__} {NO_MONEY}", f"{PaymentRefusedError.__name__} {NO_MONEY}"


# Where the clients of one wallet keep what they know: one client, ten processes, ten machines.
PLACES = [
    "one client",
    pytest.param("ten files", marks=pytest.mark.long),
    pytest.param("ten machines", marks=pytest.mark.long),
]


@pytest.fixture(params=PLACES)
def ledgers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Ledger]]:
    with ExitStack() as opened:
        match request.param:
            case "one client":
                found = [Ledger.memory()]
            case "ten files":
                found = [Ledger(tmp_path / "ledger.sqlite3", sync=False) for _ in range(10)]
            case _:
                postgres: Postgres = request.getfixturevalue("postgres")
                create_tables(postgres.url(), schema=(schema := new_schema()))
                found = [Ledger.postgres(postgres.url(), schema=schema) for _ in range(10)]
        for ledger in found:
            opened.enter_context(ledger)
        yield found


@pytest.mark.parametrize(
    ("apart", "count"),
    [(1, 5), (HOUR, 3), *(pytest.param(apart, 25, marks=pytest.mark.long) for apart in (1, HOUR))],
)
async def test_different_calls_hold_one_price_an_hour(ledgers: list[Ledger], apart: int, count: int) -> None:
    """Named and not. After that the wallet is funded: the one that asks is delivered, and all go on."""
    bank = Bank()
    clients = [bank.client(ledger) for ledger in ledgers]
    calls = [(clients[number % len(clients)], f"T{number}", number % 3 == 0) for number in range(count)]

    async def outcome(client: AsyncMarketClient, symbol: str, is_named: bool) -> str:
        return await said(client, symbol, purchase=symbol if is_named else None)

    outcomes = []
    for call in calls:
        outcomes.append(await outcome(*call))
        bank.clock.advance(apart)
    assert outcomes == [ASKS, *[REFUSED if apart < HOUR else ASKS] * (count - 1)]
    held = 1 if apart < HOUR else count
    assert len(bank.nonces) == held
    assert bank.requests == 2 * held, "the others asked for nothing"
    assert (await clients[0].payments.spending()).held == held * PRICE
    bank.balance = 10_000_000
    if apart < HOUR:
        assert await outcome(*calls[1]) == REFUSED
        assert await outcome(*calls[0]) == "sold"
    assert [await outcome(*call) for call in calls] == ["sold"] * count
    ledgers[0].check()


async def test_what_a_refusal_says() -> None:
    bank = Bank()
    client = bank.client(Ledger.memory())
    began = bank.clock.now()
    with pytest.raises(PaymentRejectedError) as first:
        await client.token_prices(["ETH"])
    asks = first.value.payment
    bank.clock.advance(70)
    assert await said(client, "ETH") == ASKS
    with pytest.raises(PaymentRefusedError) as caught:
        await client.token_prices(["BRETT", "TOSHI"])
    error = caught.value
    assert (error.code, error.payment, error.charged) == (NO_MONEY, None, False)
    details = error.details
    assert isinstance(details, WalletDetails)
    assert details == WalletDetails(
        address=asks.payer,
        service=BASE,
        cost=Decimal("0.06"),
        since=datetime.fromtimestamp(began, UTC),
        tried_by=asks.id,
        open_at=datetime.fromtimestamp(began + 70 + HOUR, UTC),
    )
    assert "$0.06" in error.message
    for text in (asks.payer, asks.id):
        assert text in error.message
        assert text in error.hint
    assert "2025-10-09 08:53:20 UTC" in error.message
    plan = await client.dry_run.token_prices(["BRETT"])
    assert plan.refusal is not None
    assert plan.refusal.code == NO_MONEY


@each_of("reason", [NO_MONEY, "Insufficient_Funds", "invalid_exact_evm_insufficient_balance"])
async def test_the_words_for_it(reason: str) -> None:
    bank = Bank()
    bank.reason = reason
    client = bank.client(Ledger.memory())
    assert PaymentRejectedError.__name__ in await said(client)
    assert await said(client, "BRETT") == REFUSED


def lost() -> httpx.Response:
    raise httpx.ReadError("lost")


async def test_a_resend_by_hand_that_is_paid_ends_it() -> None:
    bank = Bank()
    client = bank.client(Ledger.memory(), max_retries=0)
    assert await said(client) == ASKS
    assert await said(client, "BRETT") == REFUSED
    bank.balance = 10 * PRICE
    (payment,) = await client.payments.list()
    await bank.client(client._paying.buyer.ledger, signer=None).payments.resume(payment.id)
    assert await said(client, "BRETT") == "sold"


async def test_what_is_signed_already_is_resent() -> None:
    """It holds its price anyway, and may bring an answer that is paid for."""
    bank = Bank()
    client = bank.client(Ledger.memory(), max_retries=0)
    bank.says.append(lost)
    assert await said(client, "BRETT") == f"{PaymentOutcomeUnknownError.__name__} outcome_unknown"
    assert await said(client) == ASKS
    bank.balance = PRICE
    assert await said(client, "BRETT") == "sold"
    assert await said(client, "BRETT") == REFUSED, "the wallet is empty again, and another call asks"


@each_of("off", [-HOUR - 1, HOUR + 1, 10 * DAY])
async def test_a_clock_that_was_wrong_stops_nobody_for_more_than_an_hour(off: int) -> None:
    bank = Bank()
    client = bank.client(Ledger.memory())
    bank.clock.advance(off)
    assert await said(client) == ASKS
    bank.clock.advance(-off)
    assert await said(client, "BRETT") == ASKS


async def test_a_job_goes_on_with_the_batch_that_asks() -> None:
    bank = Bank()
    client = bank.client(Ledger.memory(), budget=Budget(per_day="0.20"))
    for _ in range(3):
        with pytest.raises(PaymentRejectedError):
            await anext(client.batches.token_prices(["A", "B", "C"], size=1, job="night"))
        bank.clock.advance(HOUR + 1)
    assert len(bank.nonces) == 1
    bank.balance = 3 * PRICE
    run = client.batches.token_prices(["A", "B", "C"], size=1, job="night")
    assert [batch.tokens async for batch in run] == [("A",), ("B",), ("C",)]


# With a node


async def test_with_a_node_nothing_is_signed_while_there_is_too_little() -> None:
    """Nor is anything requested, before the first signature."""
    bank = Bank()
    ledger = Ledger.memory()
    client = bank.client(ledger, witness=bank.witness())
    bank.balance = PRICE - 1
    for token in ("ETH", "BRETT", "ETH"):
        with pytest.raises(PaymentRefusedError) as caught:
            await client.token_prices([token])
        details = caught.value.details
        assert isinstance(details, WalletDetails)
        assert (details.balance, details.cost, details.since) == (Decimal("0.029999"), Decimal("0.03"), None)
        assert details.address in caught.value.hint
    assert (bank.requests, bank.asked, ledger.history()) == (0, 3, [])
    assert await said(client, "ETH", max_price="0.02") != REFUSED, "a lower offer would have been paid"
    bank.balance = 3 * PRICE
    assert [await said(client, token) for token in ("ETH", "BRETT", "TOSHI")] == ["sold"] * 3
    assert bank.asked == 4, "once it had enough"
    assert await said(client, "ETH") == ASKS
    bank.clock.advance(70)
    asked, requests = bank.asked, bank.requests
    assert [await said(client, token) for token in ("BRETT", "ETH")] == [REFUSED] * 2
    assert (bank.asked, bank.requests) == (asked + 2, requests), "also the one that asks"
    bank.balance = 10 * PRICE
    assert [await said(client, token) for token in ("BRETT", "TOSHI", "ETH")] == ["sold"] * 3


async def test_with_a_node_that_says_enough_all_go_on() -> None:
    """The one without a node still waits: until any of them is delivered."""
    bank = Bank()
    ledger = Ledger.memory()
    with_node, without = bank.client(ledger, witness=bank.witness()), bank.client(ledger)
    bank.node = lambda: f"0x{PRICE:064x}"
    assert [await said(with_node, token) for token in ("ETH", "BRETT", "TOSHI")] == [ASKS] * 3
    assert await said(without, "AERO") == REFUSED
    bank.balance = 10 * PRICE
    assert [await said(with_node, "DEGEN"), await said(without, "AERO")] == ["sold"] * 2


@each_of("node", [lambda: "0x", lambda: None, lambda: 1 / 0])
async def test_a_node_that_fails_decides_nothing(node: Callable[[], Any]) -> None:
    bank = Bank()
    bank.node = node

    def handle(request: httpx.Request) -> httpx.Response:
        try:
            return bank(request)
        except ZeroDivisionError:
            raise httpx.ConnectError("away", request=request) from None

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    witness = AsyncChainWitness(f"{BASE}/rpc", http_client=http, clock=bank.clock)
    client = bank.client(Ledger.memory(), witness=witness)
    assert [await said(client, token) for token in ("ETH", "BRETT")] == [ASKS, REFUSED]
    bank.balance = 10 * PRICE
    assert [await said(client, token) for token in ("ETH", "BRETT")] == ["sold"] * 2
    asked = bank.asked
    assert await said(client, "TOSHI") == "sold"
    assert bank.asked == asked, "it is not asked before each call"


async def test_a_witness_that_is_closed_decides_nothing() -> None:
    bank = Bank()
    witness = AsyncChainWitness(BASE)  # with connections of its own
    await witness.aclose()
    assert await said(bank.client(Ledger.memory(), witness=witness)) == ASKS
