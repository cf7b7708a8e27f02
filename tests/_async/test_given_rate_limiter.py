"""`rate_limiter=`: what a limiter that clients share is asked and told, and what is refused in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from tradesdk import (
    AsyncMarketClient,
    ConfigError,
    Ledger,
    NotFoundError,
    PaymentOutcomeUnknownError,
    RateLimit,
    RateLimitError,
    TradeError,
)
from tradesdk.types import RateClaim

from .._answers import ACCOUNT, KEY, Service, failed, ok
from .._clock import VirtualClock
from .._eventful import Stop
from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import PRICE, TWO, Seller
from .._streamscript import StreamScript, fields, live
from .._streamservice_plan import BACKEND
from ..unit._offers import prices
from ._client import client_of
from ._following import followed
from ._market import market_of


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


class Recorder:
    """Lets everything through but every third claim, and writes down what it is asked and told."""

    def __init__(self, wait: float = 0.5) -> None:
        self.wait = wait
        self.calls: list[tuple[Any, ...]] = []

    @property
    def rate_limit(self) -> RateLimit | None:
        return None

    async def claim(self, name: str, /) -> RateClaim:
        number = len([call for call in self.calls if call[0] == "claim"])
        self.calls.append(("claim", name))
        return RateClaim(wait=self.wait) if number % 3 == 2 else RateClaim(id=f"claim {number}")

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        self.calls.append(("answered", claim.id, status, headers.get("x-answer")))

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        self.calls.append(("failed", claim.id, sent))

    @property
    def names(self) -> list[str]:
        return [call[1] for call in self.calls if call[0] == "claim"]


async def test_what_a_limiter_is_asked_and_told() -> None:
    service = Service(
        ok(ACCOUNT, x_answer="one"),
        httpx.ReadError("lost"),
        failed(404, x_answer="two"),
        httpx.ConnectError("refused"),
        ok(ACCOUNT, x_answer="three"),
    )
    recorder, clock = Recorder(), VirtualClock()
    client = client_of(service, clock, rate_limiter=recorder)
    await client.account.get()
    with pytest.raises(NotFoundError):
        await client.account.get()
    await client.with_options(max_retries=1).account.get()
    (name,) = set(recorder.names)
    claim = ("claim", name)
    assert recorder.calls == [
        *(claim, ("answered", "claim 0", 200, "one")),
        *(claim, ("failed", "claim 1", True)),
        *(claim, claim, ("answered", "claim 3", 404, "two")),
        *(claim, ("failed", "claim 4", False)),
        *(claim, claim, ("answered", "claim 6", 200, "three")),
    ]
    assert clock.waits.count(0.5) == 2
    hasty = client_of(Service(ok(ACCOUNT, x_answer="four")), clock, rate_limiter=recorder, throttle=False)
    await hasty.account.get()
    assert recorder.calls[-2][0] == "answered", "without a claim"
    assert recorder.calls[-1] == ("answered", "", 200, "four")


async def test_a_limit_is_named_after_its_key_which_it_does_not_show() -> None:
    """Programs with the same key share a limit, also where the key comes from a function."""
    recorder = Recorder()
    keys: list[Any] = [
        KEY,
        lambda: KEY,
        "another-key-of-32-characters-0001",
        lambda: "another-key-of-32-characters-0001",
    ]
    for key in keys:
        await client_of(Service(ok(ACCOUNT), ok(ACCOUNT)), rate_limiter=recorder, api_key=key).account.get()
    first, *rest = dict.fromkeys(recorder.names)
    assert len(rest) == 1
    for name in (first, *rest):
        assert len(name) == 16
        assert not any(name in key for key in (KEY, "another-key-of-32-characters-0001"))


async def test_a_wait_past_the_deadline_is_raised_unsent() -> None:
    recorder = Recorder(wait=60)
    client = client_of(Service(ok(ACCOUNT), ok(ACCOUNT)), rate_limiter=recorder, deadline=10)
    for _ in range(2):
        await client.account.get()
    with pytest.raises(RateLimitError) as caught:
        await client.account.get()
    assert (caught.value.response, caught.value.retry_after) == (None, 60)


async def test_the_history_of_a_stream_asks_as_well_and_the_stream_does_not() -> None:
    recorder = Recorder()
    script = StreamScript([5.0, live("a", 5), 5.0], [1.0, live("end", 40)], listed=[fields("a", 5), fields("b", 7)])
    found = await followed(script, rate_limiter=recorder)
    assert found.ids == ["a", "b"]
    told = [call for call in recorder.calls if call[0] == "answered"]
    assert len(recorder.names) >= len(told) >= 1
    assert {call[1] for call in told} <= {f"claim {number}" for number in range(len(recorder.names))}


async def test_what_is_no_rate_limiter_is_refused() -> None:
    class Other:
        rate_limit = None

        def claim(self, name: str) -> None: ...
        def answered(self, claim: object, status: int, headers: object) -> None: ...
        def failed(self, claim: object, *, sent: bool) -> None: ...

    for wrong in (object(), Recorder):
        with pytest.raises(ConfigError, match="rate_limiter"):
            client_of(Service(), rate_limiter=wrong)
    with pytest.raises(ConfigError, match="other flavor"):  # async only
        client_of(Service(), rate_limiter=Other())  # async only
    with pytest.raises(ConfigError, match="send_api_key=True"):
        AsyncMarketClient(base_url="https://service.example", rate_limiter=Recorder())


class Failing(Recorder):
    """Its server is away whenever it is told what became of a request."""

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        raise TradeError("the limiter's server is away")

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        raise OSError("the limiter's server is away")


async def test_a_limiter_that_fails_hides_nothing_that_became_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    seller = Seller(sold=lambda request: httpx.Response(200, json=prices(*TWO)))
    client = market_of(seller, rate_limiter=Failing(), send_api_key=True, api_key=KEY, max_retries=0)
    bought = await client.token_prices(TWO)
    assert (bought.charged, len(seller.paid)) == ("unknown", 1)

    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("lost")

    seller.sold = lost
    with pytest.raises(PaymentOutcomeUnknownError):
        await client.token_prices(["AERO", "B3"])
    assert (await client.payments.spending()).total.counted == 2 * PRICE
    assert {record.event for record in caplog.records} >= {"rate_limiter_failed"}  # type: ignore[attr-defined]


class Open(Recorder):
    """Lets everything through after `before`, and knows the claims that nothing became of."""

    def __init__(self, before: Callable[[int], Any]) -> None:
        super().__init__()
        self.before = before
        self.open: list[str] = []

    async def claim(self, name: str, /) -> RateClaim:
        self.calls.append(("claim", name))
        await self.before(len(self.names))
        self.open.append(f"claim {len(self.names)}")
        return RateClaim(id=self.open[-1])

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        self.open.remove(claim.id)

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        assert not sent
        self.open.remove(claim.id)


class EndingSigner(CountingSigner):
    def sign_digest(self, digest: bytes, /) -> bytes:
        raise Stop


@each_of("end", ["the signer is interrupted", "another call is faster", "the key cannot be read", "it is closed"])
async def test_a_claim_with_which_nothing_is_sent_is_returned(end: str) -> None:
    """The first claim is for the offer, the second one for the payment."""
    seller, ledger = Seller(), Ledger.memory()
    keys = [KEY]
    other = market_of(seller, ledger=ledger)

    async def before(number: int) -> None:
        if number == 2 and end == "another call is faster":
            await other.token_prices(TWO, purchase="one")
        if number == 2 and end == "the key cannot be read":
            keys[0] = ""
        if number == 2 and end == "it is closed":
            await http.aclose()

    limiter, http = Open(before), httpx.AsyncClient(transport=httpx.MockTransport(seller))
    client = market_of(
        seller,
        ledger=ledger,
        rate_limiter=limiter,
        send_api_key=True,
        api_key=lambda: keys[0],
        http_client=http,
        signer=EndingSigner() if end == "the signer is interrupted" else CountingSigner(),
    )
    if end == "another call is faster":
        assert (await client.token_prices(TWO, purchase="one")).again
    else:
        with pytest.raises((Stop, TradeError)):
            await client.token_prices(TWO, purchase="one")
    assert len(limiter.names) == 2, "an offer and a payment"
    assert limiter.open == []
