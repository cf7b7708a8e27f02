"""No secret is shown: not printed, logged, pickled, or found in an error or its traceback, whatever goes wrong.

Every scenario works with a marked API key and a marked wallet key, and hands what it meets to ``seen``. A new part adds
itself with one function under ``@scenario``.
"""

import asyncio
import base64
import copy
import json
import logging
import operator
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tradesdk import APIError, AsyncTradeClient, LocalSigner, TradeClient
from tradesdk_mock import MockServer

from . import _secrets_market  # noqa: F401 # its scenarios
from ._rows import each_of
from ._secrets import (
    LONGEST,
    SCENARIOS,
    TLS,
    WALLET_KEY,
    NowhereToConnect,
    Place,
    Scenario,
    Seen,
    Silent,
    answers,
    scenario,
)
from ._stock import stocked
from .cli._terminal import Terminal

FORMATS = ("table", "json")  # what the others show is made of the same rows


@scenario
def clients(seen: Seen, place: Place) -> None:
    blocking, waiting = TradeClient(**place.settings()), AsyncTradeClient(**place.settings())
    for client in (blocking, waiting, blocking.with_options(timeout=3), waiting.with_options(max_retries=1)):
        seen(client)
        for name in ("account", "agents", "wallets", "trades", "positions", "signals"):
            seen(getattr(client, name))
        seen(client.trades.list())
        seen.raises(client.agents.list, limit=0)
        for value in vars(client).values():
            seen(value)
        for duplicate in (copy.copy, copy.deepcopy):
            seen.either(duplicate, client)
    blocking.close()
    seen.raises(blocking.account.get)
    asyncio.run(waiting.aclose())
    with TradeClient(**place.settings() | {"base_url": "http://127.0.0.1:1", "max_retries": 0}) as nowhere:
        seen.raises(nowhere.account.get)
        for value in vars(nowhere._session.sender).values():  # its connections know the headers now
            seen(repr(value))


@scenario
def settings_from_the_environment(seen: Seen, place: Place) -> None:
    place.monkeypatch.setenv("TRADE_API_KEY", place.key)
    seen.raises(TradeClient)
    for url in (
        "http://service.example",
        "ftp://service.example",
        "https://service.example/v2",
        "service",
        "https://a b",
    ):
        place.monkeypatch.setenv("TRADE_BASE_URL", url)
        seen.raises(TradeClient)
    place.monkeypatch.setenv("TRADE_BASE_URL", f"https://user:{place.key}@service.example")
    seen.raises(TradeClient)


@scenario
def keys_that_are_refused(seen: Seen, place: Place) -> None:
    good = place.key
    for key in (f"{good}\r\nX-Evil: 1", f"{good}é", f"\x00{good}", f"{good} x", f"{good}\n{good}", good * 50):
        seen.raises(TradeClient, **place.settings(api_key=key))
        seen.raises(AsyncTradeClient, **place.settings(api_key=key))
        with TradeClient(**place.settings(api_key=Given(key))) as client:
            seen.raises(client.account.get)
    seen.raises(TradeClient, **place.settings(api_key=good.encode()))


class Given:
    """A function that gives a key, and shows nothing of it itself."""

    def __init__(self, key: str) -> None:
        self.__key = key

    def __call__(self) -> str:
        return self.__key

    def __reduce__(self) -> Any:
        raise TypeError


@scenario
def signer(seen: Seen, place: Place) -> None:
    one = seen(LocalSigner.from_key(WALLET_KEY))
    seen(LocalSigner.from_key(bytes.fromhex(WALLET_KEY[2:])))
    seen(one.address)
    seen(one.sign_digest(bytes(32)))
    seen.raises(one.sign_digest, b"short")
    for duplicate in (copy.copy, copy.deepcopy):
        seen.either(duplicate, one)


@scenario
def wallet_keys_that_are_refused(seen: Seen, place: Place) -> None:
    too_large = "0x" + "f" * 8 + WALLET_KEY[10:]
    for key in (
        WALLET_KEY + "0",
        WALLET_KEY[:-1] + "g",
        WALLET_KEY * 2,
        WALLET_KEY.encode(),
        [WALLET_KEY],
        "0x" + "f" * 64,
    ):
        seen.raises(LocalSigner.from_key, key)
    seen(LocalSigner.from_key(too_large))


@scenario
def every_bad_answer(seen: Seen, place: Place) -> None:
    for number, answer in enumerate(answers()):
        with httpx.Client(transport=httpx.MockTransport(lambda request, answer=answer: answer)) as http:
            client = TradeClient(**place.settings(http_client=http, deadline=900))
            seen.raises(client.account.get)
            if number % 3 == 0:  # what an answer means is decided in one place, for all calls
                seen.raises(client.agents.create, name="a", wallet_id="w", chain_id=8453)
                seen.raises(client.wallets.connect_with, LocalSigner.from_key(WALLET_KEY), label="l")


@scenario
def every_bad_answer_async(seen: Seen, place: Place) -> None:
    async def ask(answer: httpx.Response) -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda request: answer)) as http:
            await AsyncTradeClient(**place.settings(http_client=http, deadline=900)).account.get()

    for answer in answers()[::3]:
        seen.raises(lambda answer=answer: asyncio.run(ask(answer)))


@scenario
def a_service_that_repeats_the_key(seen: Seen, place: Place) -> None:
    """In the body and the headers of its answers: as it is, in JSON, in a URL and inside base64."""
    key = f"{place.key}/a+b"
    seen.secrets += [key, quote(key, safe=""), base64.b64encode(f"Bearer {key}".encode()).decode()]
    kinds = ("application/json", "text/event-stream")
    for status, kind, body in product((200, 204, 401, 500), kinds, ("json", "garbage")):

        def repeat(request: httpx.Request, status: int = status, kind: str = kind, body: str = body) -> httpx.Response:
            got = request.headers["Authorization"]
            inside = base64.b64encode(got.encode()).decode()
            headers = {"Content-Type": kind, "X-Got": got, "X-Inside": inside, "X-Url": quote(got, safe="")}
            said = {"error": {"code": got, "message": f"{got} {quote(got, safe='')}"}}
            text = {"json": json.dumps(said).replace("/", "\\/"), "garbage": f"\0{got}"}[body]
            return httpx.Response(status, headers=headers, content=b"" if status == 204 else text.encode())

        with httpx.Client(transport=httpx.MockTransport(repeat)) as http:
            client = TradeClient(**place.settings(api_key=key, http_client=http, deadline=1, max_retries=0))
            asks: list[Callable[[], object]] = [client.account.get]
            if status in (204, 401):  # after others, a stream connects again
                asks.append(partial(next, iter(client.signals.stream(chain=8453))))
            for ask in asks:
                with pytest.raises(APIError) as caught:
                    ask()
                seen.error(caught.value)
                response = caught.value.response
                seen.text += [] if response is None else [response.text, *response.headers.values()]


@scenario
def lost_connections(seen: Seen, place: Place) -> None:
    async def ask(url: str) -> None:
        async with AsyncTradeClient(**place.settings(base_url=url, timeout=0.01, max_retries=1)) as client:
            await client.account.get()

    with closing(NowhereToConnect()) as nowhere, closing(Silent()) as silent:
        for url in (nowhere.url, silent.url, silent.url.replace("http:", "https:")):
            with TradeClient(**place.settings(base_url=url, timeout=0.01, max_retries=1)) as client:
                seen.raises(client.account.get)
                seen.raises(client.agents.create, name="a", wallet_id="w", chain_id=8453)
            seen.raises(lambda url=url: asyncio.run(ask(url)))


@scenario
def a_working_day(seen: Seen, place: Place) -> None:
    with TradeClient(api_key=place.key, base_url=place.server.url) as client:
        seen(client.account.get())
        seen(client.trades.list().first())
        seen(client.signals.latest(chain=8453))
        seen(client.wallets.connect_with(LocalSigner.from_key(WALLET_KEY), label="l"))
        seen(client.request("GET", "/v1/account"))
        seen(client.rate_limit)
        seen.raises(client.trades.get, "nobody")


@scenario
def what_the_mock_keeps(seen: Seen, place: Place) -> None:
    httpx.get(f"{place.server.url}/v1/account", headers={"Authorization": f"Bearer {place.key}"}, verify=TLS)
    assert place.server.journal()
    for entry in place.server.journal():
        seen(entry)
    for path in ("status", "journal", "keys"):
        seen(httpx.get(f"{place.server.url}/_mock/{path}", verify=TLS).text)
    state = place.trade.home / "state.sqlite3"
    with MockServer(seed=7, db=state) as other:
        httpx.get(f"{other.url}/v1/account", headers={"Authorization": "Bearer mock_full_kept_by_nobody"}, verify=TLS)
        kept = state.read_bytes() + state.with_name("state.sqlite3-wal").read_bytes()
    assert b"kept_by_nobody" in kept  # the tenant's name
    assert b"mock_full_kept_by_nobody" not in kept


READS = (
    "account show",
    "account usage",
    "agents list --limit 3",
    "wallets list",
    "trades list --limit 3",
    "positions list --limit 3",
    "signals latest --chain 8453 --limit 3",
    "signals history --chain 8453 --limit 3",
    "wallets connect --label l --chain 56 --dry-run",
)
FAILING = (
    "agents get nobody",
    "trades get ..",
    "agents delete nobody --yes",
    "agents list --limit x",
    "nothing",
    "account nope",
)


@scenario
def commands_in_every_format(seen: Seen, place: Place) -> None:
    place.trade.env |= {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": place.key, "TRADE_WALLET_KEY": WALLET_KEY}
    for form in FORMATS:
        for line in READS:
            ended = place.trade(*line.split(), "-o", form, columns=400, tty=form == "table")
            assert ended.code == 0, (line, ended.err)
            seen(ended)


@scenario
def failing_commands_in_every_format(seen: Seen, place: Place) -> None:
    place.trade.env |= {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": place.key}
    for form in FORMATS:
        for line in FAILING:
            ended = place.trade(*line.split(), "-o", form, columns=400, tty=form == "table")
            assert ended.code != 0, line
            seen(ended)


@scenario
def commands_with_bad_settings(seen: Seen, place: Place) -> None:
    key = place.key
    with closing(NowhereToConnect()) as nowhere:
        for env in (
            {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": f"{key}x"},
            {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": f" {key}\n{key}"},
            {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": f"{key}é"},
            {"TRADE_BASE_URL": f"https://u:{key}@service.example", "TRADE_API_KEY": key},
            {"TRADE_BASE_URL": "http://service.example", "TRADE_API_KEY": key},
            {"TRADE_BASE_URL": nowhere.url, "TRADE_API_KEY": key},
            {"TRADE_API_KEY": key},
        ):
            ended = place.trade("account", "show", env=env | {"TRADE_MAX_RETRIES": "0"}, columns=400)
            assert ended.code != 0
            seen(ended)
    known = {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": key}
    for wallet_key in (WALLET_KEY + "0", WALLET_KEY[:-1] + "g", WALLET_KEY * 2):
        line = ("wallets", "connect", "--label", "l", "--chain", "8453", "--yes")
        ended = place.trade(*line, env=known | {"TRADE_WALLET_KEY": wallet_key}, columns=400)
        assert ended.code != 0
        seen(ended)


@scenario
def commands_that_tell_more(seen: Seen, place: Place) -> None:
    place.trade.env |= {"TRADE_BASE_URL": place.server.url, "TRADE_API_KEY": place.key}
    for line in ("-v account show", "-v agents get nobody"):
        seen(place.trade(*line.split(), columns=400))


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as server:
        stocked(server)
        server.populate("marked", trades=60)
        yield server


@pytest.fixture
def place(server: MockServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Place:
    monkeypatch.setattr("tradesdk._http.response.MAX_BODY", LONGEST)
    for name in ("TRADE_API_KEY", "TRADE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    key = server.create_key(name="marked", tenant="marked", plan="enterprise").value
    return Place(key, server, monkeypatch, Terminal(monkeypatch, tmp_path))


@pytest.mark.rule("auth.secret")
@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: run.__name__)
def test_no_secret_is_shown(
    run: Scenario, place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = Seen(place.key)
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "tradesdk.wire"):
        run(seen, place)
    for record in caplog.records:
        seen(record.getMessage())
        seen(vars(record))
    seen.text += [caplog.text, *capfd.readouterr()]
    assert len(seen.text) > 4
    found = seen.found()
    assert not found, found[0]


def test_scenarios_have_names_of_their_own() -> None:
    assert len({one.__name__ for one in SCENARIOS}) == len(SCENARIOS)


class Careless:
    """Shows what it holds in every way that there is."""

    def __init__(self, secret: str) -> None:
        self.secret = secret


MARKED = "marked-Zq7vN2xR9wLk4TbY8mHd"
RAW = bytes.fromhex(WALLET_KEY[2:])


@each_of("secret", [MARKED, MARKED.encode(), f"Bearer {MARKED}", WALLET_KEY, RAW, int(WALLET_KEY, 16), list(RAW)])
def test_the_search_finds_secrets(secret: Any) -> None:
    """In a value, inside one, in an error, and in the locals of a frame that is not a test's."""
    ways: list[Callable[[Seen], None]] = [
        lambda seen: seen(secret),
        lambda seen: seen(Careless(secret)),
        lambda seen: seen({"deep": [secret]}),
        lambda seen: seen.raises(operator.getitem, {}, f"{secret}"),
        lambda seen: seen.raises(Fraction, "no number", secret),
    ]
    for take_in in ways:
        seen = Seen(MARKED)
        take_in(seen)
        assert seen.found()
