"""A witness on the chain: what it says through the mock's node, what it makes of payments, and what it never shows."""

from __future__ import annotations

import logging
import math
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncChainWitness,
    AsyncMarketClient,
    ConfigError,
    InvalidArgumentError,
    Ledger,
    LocalSigner,
    Payment,
    PaymentError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
    TradeError,
)
from tradesdk.payments import ChainVerdict
from tradesdk.payments.ledger.changes import LedgerChange, LedgerRow, Mark
from tradesdk_mock import MockClock, MockService

from .._clock import START
from .._hostile import answer, hostile
from .._payments import how
from .._rows import each_of
from ..unit._offers import encoded, offer_2
from ._market import buyer_of

pytestmark = pytest.mark.twin

FINALITY = 1_200
KEY = "a-marked-node-key-0123456789"


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as service:
        yield service


def witness_of(mock: MockService, *more: str, **options: Any) -> AsyncChainWitness:
    """A witness with a node of the mock, and with others of its chain."""
    http = httpx.AsyncClient(transport=mock.transport())
    urls = [mock.rpc_url, *(f"{mock.rpc_url}/{name}" for name in more)]
    return AsyncChainWitness(*urls, http_client=http, clock=mock.clock, **options)


class Doubted:
    """A buyer whose payment has an unknown outcome: taken, or lost before the service has it."""

    def __init__(self, mock: MockService, *, taken: bool, witness: AsyncChainWitness | None = None) -> None:
        self.mock, self.taken = mock, taken
        self.ledger = Ledger.memory()
        self.signer = LocalSigner.from_key("0x" + "01" * 32)
        self.client = self.another(witness or witness_of(mock))

    def another(self, witness: AsyncChainWitness | None) -> AsyncMarketClient:
        return buyer_of(self.mock, witness=witness, ledger=self.ledger, signer=self.signer, continue_for=86_400)

    async def buy(self) -> Payment:
        self.mock.add_fault("status", paid="only", status=503, executed=self.taken)
        with pytest.raises(PaymentOutcomeUnknownError) as caught:
            await self.client.token_prices(["BRETT"])
        self.mock.clear_faults()
        payment = caught.value.payment
        assert payment is not None
        return payment

    def asked(self) -> int:
        return len([entry for entry in self.mock.journal() if entry.path.startswith("/rpc")])


async def test_calls_that_go_well_ask_a_node_for_the_balance_once(mock: MockService) -> None:
    client = buyer_of(mock, witness=witness_of(mock))
    assert (await client.token_prices(["BRETT"])).charged is True
    assert (await client.with_options(timeout=3).token_prices(["ETH"])).charged is True
    mock.clock.advance(FINALITY)
    found = await client.payments.reconcile()
    assert (found.unresolved, found.witnessed) == ((), ())
    assert len([entry for entry in mock.journal() if entry.path.startswith("/rpc")]) == 1


async def test_the_balance_is_the_most_that_a_node_says(mock: MockService, caplog: pytest.LogCaptureFixture) -> None:
    address = LocalSigner.from_key("0x" + "01" * 32).address
    mock.payments.set_balance(address, 1_234_567)
    caplog.set_level(logging.DEBUG, "tradesdk")
    async with witness_of(mock, f"v2/{KEY}"[3:]) as witness:
        assert await witness.balance(address) == 1_234_567
        mock.add_fault("chain_id", route="/rpc", count=1)
        assert await witness.balance(address.lower()) == 1_234_567
        mock.add_fault("chain_id")
        assert await witness.balance(address) is None
        told = [one for one in caplog.records if getattr(one, "event", "") == "wallet_unknown"]
        assert len(told) == 3
        assert KEY not in caplog.text
        for wrong in ("", "0x12", address[:-1], 5):
            with pytest.raises(InvalidArgumentError, match="40 hexadecimal digits"):
                await witness.balance(wrong)  # type: ignore[arg-type]


async def test_reconciling_frees_what_the_chain_has_not_seen(mock: MockService) -> None:
    doubted = Doubted(mock, taken=False)
    payment = await doubted.buy()
    mock.clock.advance(120)
    early = await doubted.client.payments.reconcile()
    assert [one.id for one in early.unresolved] == [payment.id]
    ((same, verdict),) = early.witnessed
    assert (same, verdict.outcome) == (early.unresolved[0], "undecided")
    assert "ask again in 20 minutes" in verdict.reason
    mock.clock.advance(FINALITY)
    asked = doubted.asked()
    found = await doubted.client.payments.reconcile()
    assert doubted.asked() == asked + 2
    ((settled, verdict),) = found.witnessed
    assert verdict.outcome == "unpaid"
    assert (how(settled), settled.charged) == ("sent, unknown, unpaid by chain", False)
    assert settled.reason == f"chain: {verdict.reason}"
    assert (found.unresolved, found.live) == ((), ())
    assert (await doubted.client.payments.spending()).total.counted == 0
    assert (await doubted.client.payments.get(payment.id)) == settled
    assert (await doubted.client.token_prices(["BRETT"])).charged is True
    mock.payments.assert_charged(times=1)


async def test_reconciling_proves_what_the_chain_has_taken_and_buys_nothing_again(mock: MockService) -> None:
    doubted = Doubted(mock, taken=True)
    payment = await doubted.buy()
    mock.clock.advance(120 + FINALITY)
    found = await doubted.client.payments.reconcile()
    ((settled, verdict),) = found.witnessed
    said = verdict.reason
    assert re.fullmatch(r"used at block \d+", said)
    assert verdict == ChainVerdict(outcome="paid", reason=said)
    assert settled.spent == payment.amount
    assert (how(settled), settled.charged) == ("taken, unknown, paid by chain", True)
    assert settled.reason == f"chain: {said}"
    assert found.unresolved == (settled,)
    with pytest.raises(PaymentRefusedError) as caught:
        await doubted.client.token_prices(["BRETT"])
    assert caught.value.code == "unresolved_payment"
    mock.payments.assert_charged(times=1)
    again = await doubted.client.payments.reconcile()
    assert (again.witnessed, again.unresolved) == ((), (settled,))  # it is not asked again
    marked = await doubted.client.payments.mark(payment.id, paid=True)
    assert (how(marked), marked.reason) == ("taken, unknown, paid by person", settled.reason)
    assert (await doubted.client.payments.reconcile()).witnessed == ()


@pytest.mark.parametrize("taken", [True, False])
async def test_what_was_delivered_without_a_receipt_is_settled_by_the_chain(mock: MockService, taken: bool) -> None:
    doubted = Doubted(mock, taken=True)
    client = doubted.client
    proven = (await client.token_prices(["ETH"])).payment
    mock.add_fault("receipt", missing=True)
    bought = await client.token_prices(["BRETT"], purchase="today")
    payment = bought.payment
    assert payment is not None
    early = await client.payments.reconcile()
    assert ([one.id for one in early.unresolved], early.unresolved[0].charged) == ([payment.id], "unknown")
    assert [verdict.outcome for _, verdict in early.witnessed] == ["undecided"]
    mock.clock.advance(120 + FINALITY)
    if not taken:
        mock.add_fault("node_lie")  # the service would have delivered what it did not take
    ((settled, verdict),) = (found := await client.payments.reconcile()).witnessed
    assert (verdict.paid, found.unresolved, found.live) == (taken, (), ())
    said = "answered, paid by chain" if taken else "answered, unpaid by chain"
    assert (settled.id, how(settled), settled.charged) == (payment.id, said, taken)
    assert settled.reason == f"chain: {verdict.reason}"
    spending = await client.payments.spending()
    assert (spending.spent, spending.held) == (30_000 + 30_000 * taken, 0)
    assert (await client.payments.reconcile()).witnessed == ()  # it is not asked again
    again = await client.token_prices(["BRETT"], purchase="today")
    assert (again.again, again.data) == (True, bought.data)
    assert await client.payments.list(limit=2) == [settled, proven]
    mock.payments.assert_charged(times=2)


@pytest.mark.parametrize("taken", [True, False])
async def test_resuming_settles_by_the_chain(mock: MockService, taken: bool) -> None:
    doubted = Doubted(mock, taken=taken)
    payment = await doubted.buy()
    mock.clock.advance(120)
    asked = doubted.asked()
    with pytest.raises(PaymentError) as early:
        await doubted.client.payments.resume(payment.id)
    assert doubted.asked() == asked + 2
    assert early.value.payment is not None
    assert how(early.value.payment) == "sent, unknown"
    mock.clock.advance(FINALITY)
    with pytest.raises(PaymentRefusedError) as caught:
        await doubted.client.payments.resume(payment.id)
    settled = caught.value.payment
    assert settled is not None
    assert settled.reason.startswith("chain: used at block " if taken else "chain: not used at block ")
    assert (caught.value.code, caught.value.charged) == ("unresolved_payment" if taken else "not_live", taken)


@pytest.mark.parametrize("hostile", [False, True])
async def test_what_another_machine_is_said_to_have_bought_is_spent_here(mock: MockService, hostile: bool) -> None:
    """The chain cannot tell it from a service that takes this ledger's signature and says that it was another's."""
    doubted = Doubted(mock, taken=False)
    if not hostile:
        await buyer_of(mock, signer=doubted.signer).token_prices(["BRETT"], purchase="today")
    inside, used = mock.transport(), offer_2(error="invalid_exact_evm_nonce_already_used")

    async def lies(request: httpx.Request) -> httpx.Response:
        response = await inside.handle_async_request(request)
        if "payment-signature" not in request.headers or not hostile:
            return response
        return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": encoded(used)})

    http = httpx.AsyncClient(transport=httpx.MockTransport(lies))
    client = buyer_of(
        mock, witness=witness_of(mock), ledger=doubted.ledger, signer=doubted.signer, http_client=http, max_retries=0
    )
    with pytest.raises(PaymentUndeliveredError, match="taken_elsewhere"):
        await client.token_prices(["BRETT"], purchase="today")
    assert (await client.payments.spending()).held == 30_000
    mock.clock.advance(120 + FINALITY)
    ((settled, verdict),) = (found := await client.payments.reconcile()).witnessed
    said = "taken, taken_elsewhere, paid by chain"
    assert (verdict.outcome, how(settled), settled.charged) == ("paid", said, True)
    assert found.unresolved == (settled,)
    spending = await client.payments.spending()
    assert (spending.spent, spending.held) == (30_000, 0)
    mock.payments.assert_charged(times=1)


async def test_a_service_that_says_used_and_did_not_take_it(mock: MockService) -> None:
    doubted = Doubted(mock, taken=False)
    mock.add_fault("status", paid="only", status=503, count=1)
    mock.add_fault("verification", reason="invalid_exact_evm_nonce_already_used")
    with pytest.raises(PaymentError) as caught:
        await doubted.client.token_prices(["BRETT"])
    assert caught.value.payment is not None
    assert how(caught.value.payment) == "taken, undelivered"
    mock.clock.advance(120 + FINALITY)
    ((settled, _),) = (await doubted.client.payments.reconcile()).witnessed
    assert (how(settled), settled.charged) == ("sent, undelivered, unpaid by chain", False)


# Nodes that decide nothing: the rules of the mock, where they are, and what is said of it. `b` is a second node.
FAULTS: dict[str, tuple[list[tuple[str, dict[str, Any]]], str]] = {
    "unreachable": ([("reset", {"route": "/rpc"})], "localhost: the connection was lost"),
    "slow": ([("latency", {"route": "/rpc", "seconds": 60})], "localhost: no answer in time"),
    "slower and slower": ([("drip", {"route": "/rpc", "piece": 1, "seconds": 9})], "localhost: no answer in time"),
    "an error": ([("status", {"route": "/rpc", "status": 500})], "localhost: it responded with status 500"),
    "a redirect": (
        [("status", {"route": "/rpc", "status": 307, "headers": {"location": "/rpc/b"}})],
        "localhost: it responded with status 307",
    ),
    "accepted": ([("status", {"route": "/rpc", "status": 202})], "localhost: it responded with status 202"),
    "cut short": ([("truncate", {"route": "/rpc"})], "localhost: the connection was closed early"),
    "40 MiB": ([("huge_body", {"route": "/rpc", "mib": 40})], "larger than 4 MiB"),
    "behind": ([("node_lag", {"seconds": 3_600})], "ask again in 20 minutes"),
    "behind one address": ([("node_lag", {"every": 2, "seconds": 3_600})], "header not found"),
    "another chain at the second": ([("chain_id", {"route": "/rpc/b"})], "chain 1"),
    "no state": ([("rpc_error", {"call": "eth_call", "code": -32000})], "eth_call failed with error -32000"),
    "a split": ([("node_lie", {"route": "/rpc/b"})], "the nodes disagree"),
}


ALIKE = {"slow", "slower and slower", "a redirect", "cut short"}
"""Of the faults: these are decided as another one is."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in ALIKE else ()) for name in FAULTS]
)
async def test_a_node_that_fails_or_disagrees_decides_nothing(mock: MockService, name: str) -> None:
    rules, reason = FAULTS[name]
    doubted = Doubted(mock, taken=True, witness=witness_of(mock, "b"))
    payment = await doubted.buy()
    mock.clock.advance(120 + FINALITY)
    for kind, parameters in rules:
        mock.add_fault(kind, **parameters)
    found = await doubted.client.payments.reconcile()
    ((same, verdict),) = found.witnessed
    assert (verdict.outcome, verdict.paid) == ("undecided", None)
    assert reason in verdict.reason
    assert (same.id, how(same)) == (payment.id, "sent, unknown")
    assert found.unresolved == (same,)
    with pytest.raises(PaymentError) as caught:
        await doubted.client.payments.resume(payment.id)
    assert caught.value.payment is not None
    assert how(caught.value.payment) == "sent, unknown"
    assert {rule.fired > 0 for rule in mock.faults()} == {True}
    mock.clear_faults()
    ((settled, verdict),) = (await doubted.client.payments.reconcile()).witnessed
    assert (how(settled), verdict.outcome) == ("taken, unknown, paid by chain", "paid")


async def test_a_node_that_lies_costs_accuracy_of_the_budget_and_no_second_payment(mock: MockService) -> None:
    """It says that nothing was paid: the money is free in the budget, though it was taken."""
    doubted = Doubted(mock, taken=True)
    payment = await doubted.buy()
    mock.clock.advance(120 + FINALITY)
    mock.add_fault("node_lie")
    ((settled, _),) = (await doubted.client.payments.reconcile()).witnessed
    assert how(settled) == "sent, unknown, unpaid by chain"
    assert (await doubted.client.payments.spending()).total.counted == 0
    mock.payments.assert_charged(times=1, amount=payment.amount)
    mock.clear_faults()
    other = Doubted(mock, taken=False)
    lost = await other.buy()
    mock.add_fault("node_lie", used=True)
    mock.clock.advance(120 + FINALITY)
    ((settled, _),) = (await other.client.payments.reconcile()).witnessed
    assert (how(settled), settled.spent) == ("taken, unknown, paid by chain", lost.amount)
    assert (await other.client.payments.spending()).total.counted == lost.amount


async def test_requests_to_nodes_are_few(mock: MockService) -> None:
    """Eight payments in each, and none to a node that has failed: one that limits its callers is left alone."""
    doubted = Doubted(mock, taken=False, witness=witness_of(mock, "b"))
    mock.add_fault("status", paid="only", status=503)
    for number in range(10):
        with pytest.raises(PaymentOutcomeUnknownError):
            await doubted.client.with_options(max_retries=0).token_prices(["ETH"], purchase=f"purchase {number}")
    mock.clear_faults()
    mock.clock.advance(120 + FINALITY)
    rules: list[tuple[str, dict[str, Any], int]] = [
        ("reset", {"route": "/rpc"}, 1),
        ("status", {"route": "/rpc", "status": 429}, 1),
        ("rpc_error", {"route": "/rpc", "call": "*", "code": -32005}, 1),
        ("rpc_error", {"route": "/rpc", "call": "eth_call", "code": -32005}, 2),
    ]
    for kind, parameters, requests in rules:
        asked = doubted.asked()
        mock.add_fault(kind, **parameters)
        found = await doubted.client.payments.reconcile()
        assert [verdict.outcome for _, verdict in found.witnessed] == ["undecided"] * 10
        assert doubted.asked() == asked + requests, kind
        mock.clear_faults()
    asked = doubted.asked()
    found = await doubted.client.payments.reconcile()
    assert [verdict.outcome for _, verdict in found.witnessed] == ["unpaid"] * 10
    assert doubted.asked() == asked + 2 * (1 + 2)


async def test_somebody_else_marks_it_meanwhile(mock: MockService) -> None:
    doubted = Doubted(mock, taken=False)
    payment = await doubted.buy()
    mock.clock.advance(120 + FINALITY)
    ledger = doubted.ledger
    marked: list[LedgerRow] = []

    class Watching(Ledger):
        def update(self, payment_id: str, change: LedgerChange, row: LedgerRow | None = None) -> LedgerRow:
            if not marked and isinstance(change, Mark):
                marked.append(super().update(payment_id, Mark(paid=True, now=mock.clock.now())))
            return super().update(payment_id, change, row)

    ledger.__class__ = Watching
    ((same, _),) = (await doubted.client.payments.reconcile()).witnessed
    assert (same.id, how(same)) == (payment.id, "taken, unknown, paid by person")


# Settings


@each_of(
    "url",
    [
        "",
        " ",
        None,
        5,
        f"http://node.example/{KEY}",
        f"ftp://node.example/{KEY}",
        f"https:///{KEY}",
        KEY,
        f"https://user:{KEY}@node.example/",
        f"https://node.example/{KEY}#x",
        f"https://node.example/{KEY} x",
        f"https://node.example/{KEY}\n",
        f"https://node.example\\{KEY}",
        f"https://[node.example/{KEY}",
        f"https://node.example:0/{KEY}",
        f"https://node.example:x/{KEY}",
        f"https://1.2.3.256/{KEY}",
    ],
)
@each_of("more", [False, True])
def test_urls_that_are_refused_are_not_shown(url: Any, more: bool) -> None:
    if url == f"https://node.example/{KEY}\n":
        AsyncChainWitness(url)  # a line break at the end is left out
        return
    with pytest.raises(ConfigError) as caught:
        AsyncChainWitness(*(["https://node.example"] if more else []), url)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@each_of(
    "options",
    [
        *({"timeout": seconds} for seconds in (0, None, True, -1, "5", 10**400, -(10**400), math.inf, math.nan)),
        {"clock": 5},
    ],
)
def test_options_that_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AsyncChainWitness("https://node.example", **options)


async def test_the_witness_of_the_environment(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRADE_RPC_URL", " ")
    assert buyer_of(mock)._paying.proofs.witness is None
    monkeypatch.setenv("TRADE_RPC_URL", f"https://node.example/{KEY}  https://other.example/v2/x?key={KEY}")
    async with buyer_of(mock) as client:
        assert client.with_options(timeout=3)._paying.proofs.witness is client._paying.proofs.witness
        assert repr(client._paying.proofs.witness) == f"<{AsyncChainWitness.__name__} node.example, other.example>"
        given = witness_of(mock)
        assert buyer_of(mock, witness=given)._paying.proofs.witness is given
    monkeypatch.setenv("TRADE_RPC_URL", f"http://node.example/{KEY}")
    with pytest.raises(ConfigError, match="not https") as caught:
        buyer_of(mock)
    assert KEY not in str(caught.value)
    with pytest.raises(ConfigError, match="witness must be"):
        buyer_of(mock, witness="https://node.example")


# On the wire


async def checked(url: str, payment: Payment, **options: Any) -> ChainVerdict:
    async with AsyncChainWitness(url, **options) as witness:
        return await witness.check(payment)


@pytest.fixture
async def payment(mock: MockService) -> Payment:
    return await Doubted(mock, taken=False).buy()


async def test_path_and_query_are_sent_and_not_followed_elsewhere(payment: Payment) -> None:
    moved = answer(status="307 Temporary Redirect", location="/elsewhere")
    with hostile(lambda visit: None if visit.send(moved) else visit.close()) as server:
        verdict = await checked(f"{server.url}/v2/{KEY}?a=b&c={KEY}", payment)
    (visit,) = server.visits
    head = visit.head.decode().lower()
    assert head.startswith(f"post /v2/{KEY}?a=b&c={KEY} http/1.1")
    assert "content-type: application/json" in head
    assert "authorization" not in head
    assert verdict.reason.endswith("it responded with status 307")


async def test_a_url_without_a_path(payment: Payment) -> None:
    with hostile(lambda visit: None if visit.send(answer(b"[]")) else visit.close()) as server:
        verdict = await checked(server.url, payment)
    assert server.visits[0].head.startswith(b"POST / HTTP/1.1")
    assert verdict.reason == f"{server.url[7:]}: its answer is not a list of 2"


async def test_a_closed_witness(mock: MockService, payment: Payment) -> None:
    witness = AsyncChainWitness("https://node.example")
    await witness.aclose()
    with pytest.raises(TradeError, match="closed"):
        await witness.check(payment)
    assert (await witness_of(mock).check(payment)).outcome == "undecided"


def echoes(request: httpx.Request) -> httpx.Response:
    error = {"code": -32000, "message": f"the key {KEY} of {request.url.path} is not valid"}
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": None, "error": error})


def fails(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there", request=request)


@pytest.mark.parametrize("service", [echoes, fails])
async def test_a_key_in_a_url_is_never_shown(
    payment: Payment, service: Callable[[httpx.Request], httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    http = httpx.AsyncClient(transport=httpx.MockTransport(service))
    for url in (f"https://node.example/v2/{KEY}", f"https://node.example?key={KEY}"):
        witness = AsyncChainWitness(url, http_client=http)
        verdict = await witness.check(payment)
        assert verdict.outcome == "undecided"
        shown = [repr(witness), str(verdict), caplog.text, *map(repr, vars(witness).values())]
        shown += [repr(node) for node in witness._nodes]
        with pytest.raises(TypeError) as refused:
            pickle.dumps(witness)
        assert KEY not in "".join([*shown, str(refused.value)])
        assert "node.example" in caplog.text


async def test_a_key_in_a_url_is_not_logged_by_the_sdks_connections(
    payment: Payment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(1, "tradesdk.wire")
    with hostile(lambda visit: None if visit.send(answer(b"[]")) else visit.close()) as server:
        await checked(f"{server.url}/{KEY}", payment)
    assert server.url in caplog.text
    assert KEY not in caplog.text
