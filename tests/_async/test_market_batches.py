"""Many tokens in batches, bought from the mock under one budget, interrupted and continued."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    Batch,
    Budget,
    Ledger,
    LocalSigner,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentUndeliveredError,
    TokenPrice,
    TokenResults,
)
from tradesdk_mock import MockService

from .._clock import START
from .._paidservice import CountingSigner
from .._payments import how
from .._seller import TWO, Seller
from ..unit._offers import offer_2, requirement_2
from ._client import collected
from ._market import buyer_of, market_of

pytestmark = pytest.mark.twin

TOKEN = 30_000
JOB = "prices of today"


async def symbols(client: AsyncMarketClient, count: int = 12) -> list[str]:
    return [one.symbol for one in (await client.supported_tokens(limit=count)).data.tokens]


def bought(batches: list[Batch[TokenResults[TokenPrice]]]) -> list[str]:
    return [one.symbol for batch in batches for one in batch.data.results]


async def test_twelve_tokens_in_three_batches(mock: MockService) -> None:
    client = buyer_of(mock, budget=Budget(total="0.36"))
    tokens = await symbols(client)
    run = client.batches.token_prices([*tokens, tokens[0].lower()])
    assert (run.count, run.price, run.tokens, run.job) == (3, Decimal("0.36"), tuple(tokens), None)
    assert repr(run) == f"<{type(run).__name__} of 12 tokens, 0 of 3 batches done>"
    mock.payments.assert_charged(times=0)
    batches = await collected(run)
    assert bought(batches) == tokens
    assert [(one.number, one.count, len(one.tokens), one.spent, one.again) for one in batches] == [
        (1, 3, 5, 5 * TOKEN, False),
        (2, 3, 5, 10 * TOKEN, False),
        (3, 3, 2, 12 * TOKEN, False),
    ]
    assert [one.amount for one in mock.payments.settlements()] == [150_000, 150_000, 60_000]
    assert mock.payments.signatures() == 3
    assert all(one.result.receipt is not None for one in batches)
    assert (await client.payments.spending()).left == 0
    assert run.spent == mock.payments.spent()


async def test_a_run_keeps_no_more_than_its_requests(mock: MockService) -> None:
    """Four times the tokens take four times the memory, not sixteen times."""
    client = buyer_of(mock, budget=Budget.unlimited())
    names = [f"TOKEN{number}" for number in range(1200)]
    kept: list[int] = []
    for count in (300, 300, 1200):  # the first one loads what every run uses
        tracemalloc.start()
        try:
            run = client.batches.token_prices(names[:count])
            kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert run.tokens == tuple(names[:count])
    assert kept[2] < 6 * kept[1]


async def test_a_symbol_that_nobody_knows_is_found_before_the_first_batch_is_bought(mock: MockService) -> None:
    client = buyer_of(mock, check_tokens=True)
    tokens = await symbols(client)
    run = client.batches.token_prices([*tokens, "BRTT"])
    for _ in range(2):
        with pytest.raises(PaymentRefusedError, match="'BRTT' is not among") as caught:
            await collected(run)
        assert (caught.value.code, run.spent) == ("unknown_token", 0)
    mock.payments.assert_charged(times=0)
    assert mock.payments.signatures() == 0


async def test_what_is_bought_already_is_not_looked_up_again(mock: MockService, tmp_path: Path) -> None:
    """A job goes on though the service has taken one of its first tokens off the list."""
    with Ledger(tmp_path / "ledger.sqlite3") as ledger:
        free = buyer_of(mock, ledger=ledger)
        tokens = ["ODDGOO", *await symbols(free)]  # the first is not listed
        run = free.batches.token_prices(tokens, job=JOB)
        await anext(run)
        checked = buyer_of(mock, ledger=ledger, check_tokens=True)
        assert len(bought(await collected(checked.batches.token_prices(tokens, job=JOB)))) == 13


async def test_a_run_has_a_limit_of_its_own(mock: MockService) -> None:
    """One that is used up asks for no offer."""
    client = buyer_of(mock, budget=None)
    tokens = await symbols(client)
    run = client.batches.token_prices(tokens, size=4, max_total="0.24")
    got = [await anext(run) for _ in range(2)]
    asked = len(mock.requests())
    for _ in range(2):
        with pytest.raises(PaymentRefusedError, match=r"over_total: .*\$0\.24 leaves \$0\.00"):
            await anext(run)
    assert len(mock.requests()) == asked
    assert bought(got) == tokens[:8]
    assert run.spent == mock.payments.spent() == 8 * TOKEN


@pytest.mark.parametrize("executed", [False, True], ids=["never arrived", "answer lost"])
async def test_an_error_in_the_middle(executed: bool, mock: MockService, tmp_path: Path) -> None:
    """It goes on in another client over the same file, and what was delivered is not paid for again."""
    mock.set_gaps(payment_identifier="optional")
    options: dict[str, Any] = {"budget": Budget(total="0.36")}
    with Ledger(tmp_path / "ledger.sqlite3", sync=False) as ledger:
        client = buyer_of(mock, ledger=ledger, max_retries=1, **options)
        tokens = await symbols(client)
        run = client.batches.token_prices(tokens, job=JOB)
        first = await anext(run)
        rule = mock.add_fault("reset", paid="only", executed=executed)
        with pytest.raises(PaymentOutcomeUnknownError):
            await anext(run)
        assert run.spent == 10 * TOKEN  # with what may have been taken
        mock.remove_fault(rule.id)

    with Ledger(tmp_path / "ledger.sqlite3", sync=False) as ledger:
        client = buyer_of(mock, ledger=ledger, **options)
        batches = await collected(client.batches.token_prices(tokens, job=JOB))
        assert bought(batches) == tokens
        assert [one.again for one in batches] == [True, False, False]
        assert batches[0].data == first.data
        assert batches[0].result.payment is not None
        assert first.result.payment is not None
        assert batches[0].result.payment.id == first.result.payment.id
        assert {how(one) for one in await client.payments.list()} == {"answered"}
        assert (await client.payments.spending()).total.counted == mock.payments.spent() == 12 * TOKEN
    assert mock.payments.signatures() == len(mock.payments.settlements()) == 3
    mock.payments.assert_not_charged_twice()


async def test_the_same_run_goes_on_after_an_error(mock: MockService) -> None:
    client = buyer_of(mock)
    tokens = await symbols(client)
    run = client.batches.token_prices(tokens)
    await anext(run)
    mock.add_fault("status", status=503, count=2, paid="only")
    got = [await anext(run)]  # handed over again by itself
    rule = mock.add_fault("status", status=404, paid="only")
    with pytest.raises(Exception, match="404"):
        await anext(run)
    mock.remove_fault(rule.id)
    got.append(await anext(run))
    with pytest.raises(StopAsyncIteration):
        await anext(run)
    assert bought(got) == tokens[5:]
    assert mock.payments.signatures() == len(mock.payments.settlements()) == 3
    assert run.spent == mock.payments.spent()


async def test_what_another_run_of_the_job_buys_meanwhile(mock: MockService) -> None:
    """It looks into the ledger before each batch; what comes there after that look is not paid by this run either."""
    ledger = Ledger.memory()
    other = buyer_of(mock, ledger=ledger)
    tokens = await symbols(other, 6)
    inside, looks = mock.transport(), [True]

    async def handle(request: httpx.Request) -> httpx.Response:
        if looks:  # the first request of this run, without a payment: the other one is faster
            looks.clear()
            await anext(other.batches.token_prices(tokens, job=JOB))
        return await inside.handle_async_request(request)

    client = buyer_of(
        mock, ledger=ledger, budget=None, http_client=httpx.AsyncClient(transport=httpx.MockTransport(handle))
    )
    run = client.batches.token_prices(tokens, job=JOB, max_total="0.15")
    batches = await collected(run)
    assert bought(batches) == tokens
    assert [(one.again, one.result.again, one.spent) for one in batches] == [(True, True, 0), (False, False, TOKEN)]
    assert run.spent == TOKEN
    mock.payments.assert_charged(times=2)


async def test_another_job_or_none_pays_for_itself(mock: MockService) -> None:
    client = buyer_of(mock)
    for job, again in ((JOB, False), (JOB, True), ("another", False), (None, False), (None, False)):
        (batch,) = await collected(client.batches.token_prices(["ETH", "BRETT"], job=job))
        assert batch.again is again
    mock.payments.assert_charged(times=4)
    other_payer = buyer_of(mock, signer=LocalSigner.from_key("0x" + "2" * 64))
    (batch,) = await collected(other_payer.batches.token_prices(["ETH", "BRETT"], job=JOB))
    assert not batch.again
    elsewhere = buyer_of(mock, ledger=Ledger.memory())
    run = elsewhere.batches.token_prices(["ETH", "BRETT"], job=JOB)
    with pytest.raises(PaymentUndeliveredError, match="taken_elsewhere"):  # it is lost now
        await collected(run)
    assert (await collected(run), run.passed_over) == ([], (("ETH", "BRETT"),))
    mock.payments.assert_charged(times=5)


@pytest.mark.parametrize("closed", ["marked", "too old"])
async def test_a_job_continues_past_a_batch_that_has_no_answer_any_more(closed: str, mock: MockService) -> None:
    """A person found out that it was paid; or its answer was kept for 30 days."""
    client = buyer_of(mock)
    tokens = ["ETH", "BRETT", "TOSHI"]
    run = client.batches.token_prices(tokens, size=1, job=JOB)
    await run.__anext__()
    if closed == "marked":
        mock.add_fault("status", paid="only", status=503, count=20)
        with pytest.raises(PaymentOutcomeUnknownError) as caught:
            await run.__anext__()
        mock.clear_faults()
        mock.clock.advance(1000)
        await client.payments.mark(caught.value.payment.id, paid=True)
    else:
        mock.clock.advance(31 * 86400)
    again = client.batches.token_prices(tokens, size=1, job=JOB)
    batches = await collected(again)
    assert again.passed_over == ((("BRETT",),) if closed == "marked" else (("ETH",),))
    assert [one.symbol for batch in batches for one in batch.data.results] == (
        ["ETH", "TOSHI"] if closed == "marked" else ["BRETT", "TOSHI"]
    )


def name(one: Any) -> str:
    found: str = one.symbol if isinstance(one, TokenPrice) else one.token_symbol
    return found


async def test_every_kind_of_batch(mock: MockService) -> None:
    client = buyer_of(mock)
    tokens = ["ETH", "BRETT", "TOSHI"]
    past: dict[str, Any] = {"since": START - 60, "until": START + 1, "signal_type": "ALL"}
    sent = {"startDate": "2025-10-09T08:52:20Z", "endDate": "2025-10-09T08:53:21Z", "signalType": "ALL"}
    runs: list[tuple[Any, int, dict[str, Any], dict[str, Any]]] = [  # what is in each token, and beside them
        (client.batches.token_signals(tokens, size=2, limit=1, job=JOB), 50_000, {"limit": 1}, {}),
        (client.batches.signal_history(tokens, size=2, **past, job=JOB), 50_000, {}, sent),
        (client.batches.token_prices(tokens, size=2, job=JOB), 30_000, {}, {}),
        (client.batches.token_win_rate(tokens, size=2, job=JOB), 30_000, {}, {}),
        (client.batches.token_avg_prices(tokens, size=2, job=JOB), 20_000, {}, {}),
    ]
    for run, each, inside, beside in runs:
        before = mock.payments.spent()
        batches = await collected(run)
        assert [name(one) for batch in batches for one in batch.data.results] == tokens
        assert run.spent == mock.payments.spent() - before == 3 * each
        bodies = [json.loads(one.body) for one in await client.payments.list(limit=2)]
        parts = (tokens[2:], tokens[:2])
        assert bodies == [{"tokens": [{"identifier": one, **inside} for one in part], **beside} for part in parts]
    assert len(mock.payments.settlements()) == 10
    assert await collected(client.batches.token_prices([])) == []


async def test_what_a_batch_may_cost_is_what_may_be_paid() -> None:
    """To the service that asks for more than its published price."""
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({}, "over_price"),
        ({"max_price": "0.09"}, None),
        ({"max_price": "0.08"}, "over_price"),
        ({"max_price": "0.09", "max_total": "0.08"}, "over_total"),
    ]
    for options, code in cases:
        signer = CountingSigner()
        client = market_of(Seller(offer=offer_2(requirement_2(amount="90000"))), signer=signer)
        run = client.batches.token_prices(TWO, **options)
        if code is None:
            assert (await anext(run)).spent == 90_000
        else:
            with pytest.raises(PaymentRefusedError, match=code):
                await anext(run)
            assert signer.digests == []


async def test_a_nonce_that_another_run_signs_again_stays_in_the_sum_of_the_first() -> None:
    """Either signature may be taken. The run has room for one batch more, and not for two."""
    seller = Seller(offer=offer_2(requirement_2(amount="30000")))
    seller.sold = lambda request: httpx.Response(500)
    client = market_of(seller, max_retries=0)
    first = client.batches.token_prices(["A", "B"], size=1, max_total="0.06")
    with pytest.raises(PaymentOutcomeUnknownError):
        await anext(first)
    seller.clock.advance(100)
    seller.sold = None
    await anext(client.batches.token_prices(["A"], max_total="0.03"))
    nonces = [one["payload"]["authorization"]["nonce"] for one in seller.payments]
    assert nonces[0] == nonces[1]
    await anext(first)
    with pytest.raises(PaymentRefusedError, match="over_total"):
        await anext(first)
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 2
    with pytest.raises(PaymentRefusedError, match="over_total"):
        await anext(client.batches.token_prices(["B"], max_total="0.02", max_price="0.03"))
