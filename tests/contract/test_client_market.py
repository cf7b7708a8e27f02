"""Client and mock together: every paid call, every form of an offer, attacks, what is read of the answers."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from pydantic import BaseModel

from tradesdk import (
    AggregateMetrics,
    APIStatusError,
    AsyncMarketClient,
    Budget,
    Ledger,
    LocalSigner,
    MarketClient,
    MarketResult,
    PaymentRefusedError,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenQuery,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformers,
    TradeError,
)
from tradesdk_mock import GapOptions, MockClock, MockServer, MockService

from .._clock import START
from .._paidservice import CountingSigner
from .._rows import each_of
from .._stock import stocked

ATTACKER = "0x6666666666666666666666666666666666666666"


@pytest.fixture(scope="module")
def market() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted", clock=MockClock(START)) as server:
        stocked(server, START)
        yield server


@pytest.fixture
def clean(market: MockServer) -> Iterator[MockServer]:
    """Without faults, and with what the mock does by itself afterwards."""
    yield market
    market.clear_faults()
    usual = GapOptions()
    market.set_gaps(**{name: getattr(usual, name) for name in ("offers", "payment_identifier", "paywall")})


def settings(server: MockServer, **more: Any) -> dict[str, Any]:
    return {
        "base_url": server.url,
        "signer": LocalSigner.from_key("0x" + "01" * 32),
        "budget": Budget(total="5.00"),
        "ledger": Ledger.memory(),
        "clock": server.clock,
    } | more


Act = Callable[[Any], Any]
PAID: list[tuple[Act, type, int]] = [
    (lambda one: one.token_signals(["BRETT", TokenQuery("ETH", 2)], limit=5), TokenResults[TokenSignals], 100_000),
    (lambda one: one.signal_history(["BRETT"], since=0, signal_type="BUY"), TokenResults[TokenSignals], 50_000),
    (lambda one: one.token_prices(["BRETT", "ETH", "TOSHI"]), TokenResults[TokenPrice], 90_000),
    (lambda one: one.token_win_rate(["BRETT", "ETH"]), TokenResults[TokenWinRate], 60_000),
    (lambda one: one.token_avg_prices(["BRETT", "ETH"]), TokenResults[TokenAvgPrices], 40_000),
    (lambda one: one.top_performers("ROI", limit=3), TopPerformers, 60_000),
    (lambda one: one.aggregate_metrics(), AggregateMetrics, 60_000),
    (lambda one: one.supported_tokens(limit=3), SupportedTokens, 0),
]


@pytest.mark.long
@each_of("flavour", ["blocking", "async"])
def test_every_call_is_paid_as_published(clean: MockServer, flavour: str) -> None:
    before = len(clean.payments.settlements())
    if flavour == "blocking":
        with MarketClient(**settings(clean)) as client:
            results = [act(client) for act, _, _ in PAID]
            kept = client.payments.list()
    else:

        async def buy() -> tuple[list[Any], list[Any]]:
            async with AsyncMarketClient(**settings(clean)) as client:
                return [await act(client) for act, _, _ in PAID], await client.payments.list()

        results, kept = asyncio.run(buy())
    for result, (_, kind, amount) in zip(results, PAID, strict=True):
        assert isinstance(result, MarketResult)
        assert type(result.data) is kind
        assert (result.quote.amount, result.warnings) == (amount, ())
        assert result.charged is (amount > 0)
        assert (result.receipt is None) == (result.payment is None) == (amount == 0)
    taken = clean.payments.settlements()[before:]
    assert [one.amount for one in taken] == [amount for _, _, amount in PAID if amount]
    receipts = [result.receipt for result in results if result.receipt is not None]
    assert [one.transaction for one in taken] == [one.transaction for one in receipts]
    assert [(one.nonce, one.amount) for one in taken] == [(one.nonce, one.amount) for one in kept][::-1]
    assert {one.submitted for one in taken} == {1}


def test_no_attack_gets_a_signature(clean: MockServer) -> None:
    """The service would take each of these payments: only we stand in between. More: unit/test_payment_guards."""
    signer = CountingSigner()
    arrived = len(clean.payments.submissions())
    attacks: list[tuple[str, dict[str, Any]]] = [
        ("unsupported_network", {"fields": {"network": "eip155:84532"}}),
        ("unsupported_domain", {"fields": {"extra": {"name": "Evil Coin", "version": "2"}}}),
        (
            "unsupported_domain",
            {"fields": {"extra": {"name": "USD Coin", "version": "2", "verifyingContract": ATTACKER}}},
        ),
        ("bad_amount", {"fields": {"maxAmountRequired": "29999"}}),
        ("foreign_resource", {"fields": {"resource": "https://elsewhere.example/v1/token-prices"}}),
        ("over_price", {"fields": {"amount": "30001"}}),
        ("recipient_changed", {"fields": {"payTo": ATTACKER}}),
        ("malformed_offer", {"header": "@@@", "body": "<html>"}),
        ("unsupported_payment", {"header": "", "body": '{"x402Version": 1, "accepts": []}'}),
        ("offer_too_large", {"top": {"padding": "x" * 70_000}}),
    ]
    with MarketClient(**settings(clean, signer=signer, pay_to=[clean.payments.pay_to])) as client:
        for code, changes in attacks:
            rule = clean.add_fault("offer", **changes)
            with pytest.raises(PaymentRefusedError) as caught:
                client.token_prices(["ETH"])
            clean.remove_fault(rule.id)
            assert (caught.value.code, bool(caught.value.hint)) == (code, True)
        assert client.payments.list() == []
        assert client.payments.spending().total.counted == 0
    assert signer.digests == []
    assert len(clean.payments.submissions()) == arrived


def test_the_plain_one_of_several_offers_is_taken(clean: MockServer) -> None:
    """It stands behind one of twice the price, another scheme, and a network of toy money."""
    clean.set_gaps(offers="several")
    with MarketClient(**settings(clean)) as client:
        result = client.token_prices(["ETH"], max_price="0.06")
    assert result.payment is not None
    assert result.payment.amount == 30_000
    assert clean.payments.settlements()[-1].amount == 30_000


@pytest.mark.parametrize("identifier", ["optional", "required"])
def test_identifiers_are_what_the_service_takes(clean: MockServer, identifier: str) -> None:
    clean.set_gaps(payment_identifier=identifier)
    with MarketClient(**settings(clean)) as client:
        for _ in range(2):
            payment = client.token_prices(["ETH"]).payment
            assert payment is not None
            assert payment.identified


def test_what_the_handler_refuses_is_not_charged(clean: MockServer) -> None:
    before = clean.payments.spent()
    with MarketClient(**settings(clean)) as client, pytest.raises(APIStatusError) as caught:
        client.token_prices(["NO-SUCH-TOKEN"])
    assert caught.value.status == 404
    assert caught.value.payment is not None
    assert caught.value.payment.charged == "unknown"  # until it has expired
    assert clean.payments.spent() == before


def test_an_open_market_is_not_paid(clean: MockServer) -> None:
    clean.set_gaps(paywall="open")
    arrived = len(clean.payments.submissions())
    for signer in (None, CountingSigner()):
        with MarketClient(**settings(clean, signer=signer, budget=None)) as client:
            assert client.token_prices(["ETH"]).charged is False
            assert client.dry_run.token_prices(["ETH"]).authorization is None
    assert len(clean.payments.submissions()) == arrived


# What is read of the mock's answers

FIVE = ["BRETT", "toshi", "degen-base", "ICYSEA", "0x4200000000000000000000000000000000000006"]
READ: list[tuple[Act, str]] = [
    (lambda one: one.token_signals(["BRETT", TokenQuery("toshi", 100), *FIVE[2:]], limit=3), "results"),
    (lambda one: one.signal_history(FIVE), "results"),
    (lambda one: one.signal_history(["BRETT"], signal_type="WAITING FOR SIGNAL"), "results"),
    (lambda one: one.token_prices(FIVE), "results"),
    (lambda one: one.token_win_rate(FIVE), "results"),
    (lambda one: one.token_avg_prices(FIVE), "results"),
    (lambda one: one.top_performers("winRate"), "tokens"),
    (lambda one: one.top_performers("ROI", limit=1), "tokens"),
    (lambda one: one.aggregate_metrics(), ""),
    (lambda one: one.supported_tokens(limit=500), "tokens"),
]


@pytest.fixture(scope="module", params=["off", "on"], ids=["as specified", "with what comes later"])
def reader(request: pytest.FixtureRequest) -> Iterator[tuple[MarketClient, list[Any]]]:
    """A client that doesn't pay, 200 signals of one token, and the data of each answer as it is sent."""
    gaps = GapOptions(paywall="open", unknown_values=request.param)
    wire: list[Any] = []

    def note(answer: httpx.Response) -> None:
        answer.read()
        wire.append(answer.json()["data"])

    with MockService(seed=7, gaps=gaps, signals="scripted", clock=MockClock(START)) as mock:
        stocked(mock, START)
        for number in range(200):
            mock.emit_signal(token="BRETT", direction="SELL" if number % 2 else "BUY")
        with (
            httpx.Client(transport=mock.transport(), event_hooks={"response": [note]}) as http,
            MarketClient(base_url=mock.url, http_client=http, clock=mock.clock, check_tokens=False) as client,
        ):
            yield client, wire


def left_over(model: BaseModel) -> set[str]:
    found = set(model.model_extra or ())
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else ():
            found |= left_over(item)
    return found


@each_of(("act", "where"), READ)
def test_what_the_mock_answers_is_read_whole(reader: tuple[MarketClient, list[Any]], act: Act, where: str) -> None:
    client, wire = reader
    result = act(client)
    assert json.loads(result.data.model_dump_json(exclude_unset=True)) == wire[-1]
    items = getattr(result.data, where) if where else [result.data]
    assert items
    assert result.quote.tokens in (None, len(items))
    assert left_over(result.data) == ({"introduced_later"} if "introduced_later" in wire[-1] else set())


def test_signals_between_two_of_them(reader: tuple[MarketClient, list[Any]]) -> None:
    """Both ends are the very moments of signals, to the microsecond, and count. Limits are the tokens' own."""
    client, _ = reader
    every = client.signal_history(["BRETT"]).data.results[0].signals
    assert len(every) == 100
    assert [one.created_at for one in every] == sorted((one.created_at for one in every), reverse=True)
    newest, oldest = every[10].created_at, every[30].created_at
    found = client.signal_history(["BRETT"], since=oldest, until=newest).data.results[0].signals
    assert [one for one in every if oldest <= one.created_at <= newest] == found
    assert found
    later = newest + timedelta(days=400)
    assert client.signal_history(["BRETT"], since=later).data.results[0].signals == []
    brett, toshi = client.token_signals(["BRETT", TokenQuery("TOSHI", 1)], limit=100).data.results
    assert (brett.signal_count, len(brett.signals)) == (100, 100)
    assert (toshi.signal_count, len(toshi.signals)) == (1, 1)


# What the flavours do not share.


BUYER = """
import json, os, signal, sys
from tradesdk import Budget, Ledger, LocalSigner, MarketClient
from tradesdk_mock import MockClock

url, path, after, tokens, now = json.loads(sys.argv[1])
wallet = {"signer": LocalSigner.from_key("0x" + "01" * 32), "budget": Budget(total="0.36"), "ledger": Ledger(path)}
client = MarketClient(base_url=url, clock=MockClock(now), **wallet)
run = client.batches.token_prices(tokens, job=f"prices {after}")
for _ in range(after):
    next(run)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@pytest.mark.parametrize("after", [1, 2])
def test_a_job_goes_on_after_its_process_was_killed(clean: MockServer, tmp_path: Path, after: int) -> None:
    before = len(clean.payments.settlements())
    with MarketClient(**settings(clean)) as client:
        tokens = [one.symbol for one in client.supported_tokens(limit=12).data.tokens]
    path = tmp_path / "ledger.sqlite3"
    given = json.dumps([clean.url, str(path), after, tokens, clean.clock.now()])
    ended = subprocess.run([sys.executable, "-c", BUYER, given], timeout=300)
    assert ended.returncode == -signal.SIGKILL
    assert len(clean.payments.settlements()) - before == after
    more = settings(clean, ledger=Ledger(path), budget=Budget(total="0.36"))
    with more["ledger"], MarketClient(**more) as client:
        batches = list(client.batches.token_prices(tokens, job=f"prices {after}"))
        assert client.payments.spending().total.counted == 360_000
    assert [batch.again for batch in batches] == [number < after for number in range(3)]
    assert [one.symbol for batch in batches for one in batch.data.results] == tokens
    taken = clean.payments.settlements()[before:]
    assert [one.amount for one in taken] == [150_000, 150_000, 60_000]
    assert len({one.nonce for one in taken}) == 3


def test_a_second_event_loop_is_refused_before_anything_is_sent(clean: MockServer) -> None:
    arrived = len(clean.journal())
    client = AsyncMarketClient(**settings(clean))

    async def prices() -> Any:
        return (await client.token_prices(["ETH"])).charged

    async def quote() -> int:
        return (await client.quote.token_prices(["ETH"])).amount

    with asyncio.Runner() as first:
        assert first.run(prices()) is True
        for _ in range(2):
            with pytest.raises(TradeError, match="another event loop"):
                asyncio.run(prices())
            with pytest.raises(TradeError, match="another event loop"):
                trio.run(prices)
        assert asyncio.run(quote()) == trio.run(quote) == 30_000  # nothing is sent for that
        assert first.run(prices()) is True
        first.run(client.aclose())
    assert len(clean.journal()) - arrived == 5  # two purchases, and the list of tokens


def test_one_ledger_may_serve_both_flavours(clean: MockServer) -> None:
    """In the same process, with clients that know nothing of each other: the money is counted once."""
    shared = settings(clean, budget=Budget(total="0.06"))

    async def buy() -> Any:
        async with AsyncMarketClient(**shared) as client:
            return (await client.token_prices(["ETH"])).charged

    assert asyncio.run(buy()) is True
    with MarketClient(**shared) as client:
        assert client.token_prices(["ETH"]).charged is True
        with pytest.raises(PaymentRefusedError, match="over_budget"):
            client.token_prices(["ETH"])
