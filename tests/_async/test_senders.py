"""What sends is nobody's business: our own connections, an httpx client and an httpx2 client answer alike.

respx's default mocker intercepts the first two, as it does in the tests of bots.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
import respx

from tradesdk import (
    APIConnectionError,
    APIResponseError,
    APITimeoutError,
    AsyncMarketClient,
    AsyncTradeClient,
    Budget,
    ConfigError,
    Ledger,
    NotFoundError,
    RateLimitError,
    StreamEndedError,
    TradeError,
)

from .._answers import ACCOUNT, BASE, KEY, created, page
from .._clock import VirtualClock
from .._hostile import Visit, always, answer, hostile
from .._paidservice import CountingSigner
from .._ports import free_port
from .._rows import each_of
from .._seller import TWO, Seller, settled
from .._streamscript import CHAIN, live
from ._client import connected

PLAIN = json.dumps(ACCOUNT).encode()
ERROR = b'{"error": {"code": "not_found", "message": "no such account"}}'
ANSWERS: dict[str, tuple[dict[str, Any], type[Exception] | None]] = {
    "success": ({"content": PLAIN}, None),
    "gzip": ({"content": gzip.compress(PLAIN), "headers": {"content-encoding": "gzip"}}, None),
    "not found": ({"status_code": 404, "content": ERROR}, NotFoundError),
    "rate limit": ({"status_code": 429, "headers": {"retry-after": "3"}}, RateLimitError),
    "not JSON": ({"content": b"<html>"}, APIResponseError),
    "cut short": ({"content": gzip.compress(PLAIN)[:20], "headers": {"content-encoding": "gzip"}}, APIConnectionError),
    "no connection": ({"side_effect": httpx.ConnectError}, APIConnectionError),
    "late": ({"side_effect": httpx.ReadTimeout}, APITimeoutError),
}
# Nothing here speaks TLS; a bare context saves every client from loading the certificate store.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CLIENTS: dict[str, Callable[[], Any]] = {
    "own connections": lambda: None,
    "httpx": lambda: httpx.AsyncClient(verify=TLS),
    "httpx2": lambda: httpx2.AsyncClient(verify=TLS),
}
INTERCEPTED = ("own connections", "httpx")


@pytest.fixture
def mocked() -> Iterator[respx.MockRouter]:
    with respx.mock(base_url=BASE) as router:
        yield router


async def outcome(given: Any, url: str = BASE) -> tuple[object, ...]:
    """What a caller sees of one call."""
    client = AsyncTradeClient(
        api_key=KEY, base_url=url, clock=VirtualClock(), max_retries=0, throttle=False, http_client=given
    )
    async with client:
        try:
            account = await client.account.get()
        except TradeError as error:
            return type(error), error.code, str(error), KEY in repr((error, error.__cause__, vars(error)))
        finally:
            if given is not None:
                await given.aclose()
    return account.id, account.plan


@pytest.mark.parametrize("name", ANSWERS)
async def test_respx_intercepts_our_connections_and_httpx(mocked: respx.MockRouter, name: str) -> None:
    said, error = ANSWERS[name]
    route = mocked.get("/v1/account")
    if "side_effect" in said:
        route.mock(side_effect=said["side_effect"])
    else:
        status, headers = said.get("status_code", 200), said.get("headers")
        route.mock(return_value=httpx.Response(status, headers=headers, content=said.get("content")))
    seen = []
    for kind in INTERCEPTED:
        seen.append(await outcome(CLIENTS[kind]()))
        sent = route.calls.last.request
        assert (sent.method, str(sent.url)) == ("GET", f"{BASE}/v1/account")
        assert (sent.headers["authorization"], sent.headers["host"]) == (f"Bearer {KEY}", "service.example")
    assert seen[0] == seen[1]
    assert seen[0][-1] is not True, "the key shows"
    assert seen[0][0] == ("acc_1" if error is None else error)


@each_of("kind", INTERCEPTED)
async def test_respx_intercepts_a_create(mocked: respx.MockRouter, kind: str) -> None:
    route = mocked.post("/v1/agents").respond(201, json=created("a1"))
    given = CLIENTS[kind]()
    async with AsyncTradeClient(api_key=KEY, base_url=BASE, clock=VirtualClock(), http_client=given) as client:
        assert (await client.agents.create(name="mine", wallet_id="w1", chain_id=8453)).id == "a1"
    assert json.loads(route.calls.last.request.content) == {"name": "mine", "wallet_id": "w1", "chain_id": 8453}


@each_of("kind", INTERCEPTED)
async def test_respx_intercepts_a_paid_call(mocked: respx.MockRouter, kind: str) -> None:
    """The first request gets the offer, the second carries the payment and the same body."""
    seller, payer = Seller(receipt=settled()), CountingSigner()
    mocked.post("/v1/token-prices").mock(side_effect=seller)
    async with AsyncMarketClient(
        base_url=BASE,
        signer=payer,
        budget=Budget(total="5.00"),
        ledger=Ledger.memory(),
        clock=VirtualClock(),
        check_tokens=False,
        http_client=CLIENTS[kind](),
    ) as market:
        assert (await market.token_prices(TWO)).charged is True
    asked, paid = seller.requests
    assert seller.paid == [paid]
    assert seller.payments[0]["payload"]["authorization"]["from"] == payer.address
    assert asked.content == paid.content


@each_of("kind", INTERCEPTED)
async def test_respx_intercepts_a_stream(mocked: respx.MockRouter, kind: str) -> None:
    """It reconnects after the end of an answer, and ends for good with a 204."""
    mocked.get("/v1/signals/history").respond(json=page([]))
    kind_of = {"content-type": "text/event-stream"}
    events = [live("a", 5), live("a", 5) + live("b", 6)]
    answers = [httpx.Response(200, headers=kind_of, content=content) for content in events]
    route = mocked.get("/v1/signals/stream").mock(side_effect=[*answers, httpx.Response(204)])
    given, got = CLIENTS[kind](), []
    async with (
        AsyncTradeClient(api_key=KEY, base_url=BASE, clock=VirtualClock(), http_client=given) as client,
        client.signals.stream(chain=CHAIN) as stream,
    ):
        with contextlib.suppress(StreamEndedError):
            async for signal in stream:
                got.append(signal.id)
    assert got == ["a", "b"]
    assert stream.stats.connects == 2
    assert route.calls.last.request.headers["accept"] == "text/event-stream"


@each_of("kind", CLIENTS)
@each_of("name", [name for name, (said, _) in ANSWERS.items() if "side_effect" not in said])
async def test_the_same_on_the_wire(kind: str, name: str) -> None:
    """Of httpx and httpx2 alike, also where a gzip coding is cut short."""
    said, error = ANSWERS[name]
    headers = {key.replace("-", "_"): value for key, value in said.get("headers", {}).items()}

    def answering(visit: Visit) -> None:
        visit.send(answer(said.get("content", b""), status=f"{said.get('status_code', 200)} X", **headers))

    with hostile(answering) as server:
        found = await outcome(CLIENTS[kind](), server.url)
    assert found[0] == ("acc_1" if error is None else error)


@each_of("kind", CLIENTS)
@each_of("busy_with", [KeyError("the caller's own secret"), ssl.SSLCertVerificationError("old")])
async def test_nobody_there(kind: str, busy_with: Exception) -> None:
    """The pool of httpx hides the system's error; what the caller was busy with is not taken for it."""
    given = CLIENTS[kind]()
    async with connected(f"http://127.0.0.1:{free_port()}", http_client=given) as client:
        try:
            raise busy_with
        except Exception:
            with pytest.raises(APIConnectionError, match=r"connection refused; check that .*after 1 retry\)") as caught:
                await client.account.get()
    assert (caught.value.code, caught.value.sent, caught.value.temporary) == ("connection_refused", False, True)
    assert type(caught.value.__cause__) is ConnectionRefusedError
    if given is not None:
        await given.aclose()


@each_of("kind", ["httpx", "httpx2"])
async def test_parameters_and_headers_of_a_given_client(kind: str) -> None:
    """Its headers are added; its default parameters would replace ours, and do not."""
    library = {"httpx": httpx, "httpx2": httpx2}[kind]
    with hostile(always(answer(PLAIN))) as server:
        given = library.AsyncClient(verify=TLS, params={"evil": "1"}, headers={"X-Bot": "mine"})
        assert (await outcome(given, server.url))[0] == "acc_1"
    (visit,) = server.visits
    assert visit.head.startswith(b"GET /v1/account HTTP/1.1")
    assert b"x-bot: mine" in visit.head.lower()
    assert f"Bearer {KEY}".encode() in visit.head


@each_of("given", [object(), "x", httpx.AsyncHTTPTransport()])
def test_what_is_no_client_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="http_client must be an httpx"):
        AsyncTradeClient(api_key=KEY, base_url=BASE, http_client=given)
