"""`max_total=` of a run of batches holds against a service that cheats, and whatever is settled outside of the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Budget, Ledger, TradeError

from .._paidservice import BASE, CountingSigner, JumpingClock
from ..unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

pytestmark = pytest.mark.twin

TOTAL = 160_000
Answer = Callable[["Service", httpx.Request, dict[str, str]], httpx.Response | None]


class Service:
    """It remembers what it could cash: the chain takes a nonce once, with the first amount that is cashed."""

    def __init__(self, answer: Answer) -> None:
        self.clock = JumpingClock()
        self.answer = answer
        self.cashed: dict[str, int] = {}
        self.cheap: set[bytes] = set()

    @property
    def taken(self) -> int:
        return sum(self.cashed.values())

    def offer(self, request: httpx.Request, **more: Any) -> httpx.Response:
        tokens = len(json.loads(request.content).get("tokens", [""]))
        amount = "1" if request.content in self.cheap else str(30_000 * tokens)
        offered = encoded(offer_2(requirement_2(amount=amount, maxTimeoutSeconds=60), **more))
        return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": offered})

    def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/supported-tokens":  # asked for the service's time
            return httpx.Response(200, json={"success": True, "data": {"total": 0, "tokens": []}, "error": None})
        sent = request.headers.get("PAYMENT-SIGNATURE")
        if sent is None:
            return self.offer(request)
        authorization = decoded(sent)["payload"]["authorization"]
        self.cashed.setdefault(authorization["nonce"], int(authorization["value"]))
        special = self.answer(self, request, authorization)
        if special is not None:
            return special
        names = [one["identifier"] for one in json.loads(request.content)["tokens"]]
        return httpx.Response(200, json=prices(*names), headers={"PAYMENT-RESPONSE": encoded(receipt())})

    def client(self) -> AsyncMarketClient:
        return AsyncMarketClient(
            base_url=BASE,
            signer=CountingSigner(),
            budget=Budget.unlimited(),
            ledger=Ledger.memory(),
            clock=self.clock,
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self.handle)),
            max_retries=0,
            check_tokens=False,
        )


async def play(
    service: Service, tokens: int, after: Callable[[AsyncMarketClient, TradeError], Any] | None = None
) -> None:
    """One run, tried again after each error, until it is done or has no more room."""
    client = service.client()
    run = client.batches.token_prices([f"T{number}" for number in range(tokens)], max_total="0.16")
    for _ in range(40):
        try:
            await anext(run)
        except StopAsyncIteration:
            break
        except TradeError as error:
            service.clock.advance(70)
            if after is not None and error.code != "over_total":
                try:
                    await after(client, error)
                except TradeError:
                    continue
    assert 0 < service.taken <= TOTAL


async def test_a_dear_signature_that_is_called_refused_counts_though_the_nonce_is_sold_cheaply_later() -> None:
    seen: set[str] = set()

    def answer(service: Service, request: httpx.Request, authorization: dict[str, str]) -> httpx.Response | None:
        if authorization["nonce"] in seen:
            return None
        seen.add(authorization["nonce"])
        service.cheap.add(request.content)
        return service.offer(request, error="insufficient_funds")

    await play(Service(answer), 50)


async def reconciled(client: AsyncMarketClient, error: TradeError) -> None:
    await client.payments.reconcile()


async def resumed(client: AsyncMarketClient, error: TradeError) -> None:
    await client.payments.resume(error.payment.id)  # type: ignore[attr-defined]


async def marked(client: AsyncMarketClient, error: TradeError) -> None:
    client._paying.session.clock.advance(200)  # type: ignore[attr-defined]
    await client.payments.mark(error.payment.id, paid=True)  # type: ignore[attr-defined]


async def much_later(client: AsyncMarketClient, error: TradeError) -> None:
    client._paying.session.clock.advance(601)  # type: ignore[attr-defined]


@pytest.mark.parametrize("after", [None, reconciled, resumed, marked, much_later])
async def test_whatever_is_settled_outside_of_the_run_counts(after: Any) -> None:
    """The service is honest, and loses the first answer of each batch."""
    lost: set[bytes] = set()

    def answer(service: Service, request: httpx.Request, authorization: dict[str, str]) -> httpx.Response | None:
        if request.content in lost:
            return None
        lost.add(request.content)
        return httpx.Response(500, json={})

    await play(Service(answer), 10, after)


async def test_a_total_that_is_used_up_asks_for_no_offer() -> None:
    requests: list[str] = []
    service = Service(lambda *_: None)
    handle = service.handle

    def counting(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.path)
        return handle(request)

    service.handle = counting  # type: ignore[method-assign]
    run = service.client().batches.token_prices(["A", "B"], size=1, max_total="0.03")
    assert (await anext(run)).spent == run.spent == 30_000
    before = len(requests)
    with pytest.raises(TradeError, match=r"over_total: .*\$0\.03 leaves \$0\.00"):
        await anext(run)
    assert len(requests) == before


async def test_a_nonce_that_another_run_signs_again_stays_in_the_sum_of_the_first() -> None:
    """Either signature may be taken. The first run has room for one batch more, and not for two."""
    lost: list[str] = []

    def answer(service: Service, request: httpx.Request, authorization: dict[str, str]) -> httpx.Response | None:
        lost.append(authorization["nonce"])
        return httpx.Response(500, json={}) if len(lost) == 1 else None

    service = Service(answer)
    client = service.client()
    first = client.batches.token_prices(["A", "B"], size=1, max_total="0.06")
    with pytest.raises(TradeError, match="outcome_unknown"):
        await anext(first)
    service.clock.advance(100)
    other = client.batches.token_prices(["A"], max_total="0.03")
    await anext(other)
    assert lost[1] == lost[0]
    await anext(first)
    with pytest.raises(TradeError, match="over_total"):
        await anext(first)
    assert len(service.cashed) == 2
    with pytest.raises(TradeError, match="over_total"):
        await anext(client.batches.token_prices(["B"], max_total="0.02", max_price="0.03"))
