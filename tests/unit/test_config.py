"""Settings: which one counts, what is refused, and that nothing secret is ever said back."""

import math
import re
import traceback
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import (
    AsyncMarketClient,
    AsyncTradeClient,
    ConfigError,
    Ledger,
    LocalSigner,
    MarketClient,
    NotFoundError,
    RetryPolicy,
    ServiceUnavailableError,
    Timeout,
    TradeClient,
    TradeError,
)

from .._answers import Scripted, Service, failed, ok
from .._clock import VirtualClock
from .._rows import each_of
from .._spellings import SAME
from .._texts import texts

SECRET = "sk_live_do_not_show_me"
URL = "https://api.example.com"


def client(*answers: Scripted, environ: Mapping[str, str] | None = None, of_client: str = "", **options: Any) -> Any:
    """A client of a service that answers like this, made where nothing else of ours is set; and the service."""
    service = Service(*answers)
    http = httpx.Client(transport=httpx.MockTransport(service), base_url=of_client)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRADE_API_KEY", "TRADE_BASE_URL"):
            patch.delenv(name, raising=False)
        for name, value in (environ or {}).items():
            patch.setenv(name, value)
        settings: dict[str, Any] = {"http_client": http, "clock": VirtualClock()}
        return TradeClient(**settings | options), service


def keyed(api_key: Any = None, environ: Mapping[str, str] | None = None, requests: int = 1) -> list[bytes]:
    """What each request has as its authorization."""
    made, service = client(*[ok({})] * requests, environ=environ, api_key=api_key, base_url=URL)
    for _ in range(requests):
        made.request("GET", "/v1/x")
    return [dict(request.headers.raw)[b"Authorization"] for request in service.requests]


def base_url(given: Any = None, **options: Any) -> str:
    """Where a request goes, as an error says it."""
    made, _ = client(failed(404), api_key="k", base_url=given, **options)
    with pytest.raises(NotFoundError) as caught:
        made.request("GET", "/v1/x")
    url: str = caught.value.url
    return url.removesuffix("/v1/x")


def refused(call: Any, *args: Any, **kwargs: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    error = caught.value
    for shown in (str(error), repr(error), "".join(traceback.format_exception(error))):
        assert SECRET not in shown
        assert SECRET[3:] not in shown
    assert str(error).isprintable()
    assert error.__cause__ is None
    return error


HALF_MADE: list[tuple[type, dict[str, Any]]] = [
    *((client, {"api_key": "sk_1", "deadline": -1}) for client in (TradeClient, AsyncTradeClient)),
    *((client, {"api_key": "a b"}) for client in (TradeClient, AsyncTradeClient)),
    *((client, {"base_url": "nowhere"}) for client in (MarketClient, AsyncMarketClient)),
    *((client, {"pay_to": ["nobody"]}) for client in (MarketClient, AsyncMarketClient)),
    *((client, {"base_url": URL, "max_validity": 0}) for client in (MarketClient, AsyncMarketClient)),
    (Ledger, {"path": ""}),
    (Ledger, {"path": "ledger", "timeout": -1}),
    (LocalSigner, {"key": b"too short"}),
]


@each_of(("make", "settings"), HALF_MADE)
def test_what_could_not_be_made_can_be_shown(make: type, settings: dict[str, Any]) -> None:
    """A debugger or an error handler prints `self` as well."""
    with pytest.raises(TradeError) as caught:
        make(**settings)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    halves = [frame.f_locals["self"] for frame in frames if isinstance(frame.f_locals.get("self"), make)]
    assert halves
    assert all(type(half).__name__ in repr(half) for half in halves)


# Keys


@each_of(
    "bad",
    [
        *(f"{SECRET}\r\nX: y", f"a {SECRET}", f"Bearer {SECRET}"),
        *(f"{SECRET}\x00", f"{SECRET}\x7f", f"{SECRET}\u00e9", f"{SECRET}\u200b"),
        *(f"\u201c{SECRET}", f"{SECRET}\ud800", "", " "),
        *(5, None, SECRET.encode(), [SECRET], {"key": SECRET}),
    ],
    ids=lambda value: ascii(value)[-20:],
)
def test_a_key_that_cannot_be_a_header_is_refused_without_being_shown(bad: Any) -> None:
    refused(keyed, lambda: bad)
    if bad is not None:
        refused(keyed, bad, {"TRADE_API_KEY": "good"})
    if isinstance(bad, str) and not {"\x00", "\ud800"} & set(bad):  # those can't be in an environment
        refused(keyed, None, {"TRADE_API_KEY": bad})


def test_a_key_has_at_most_512_characters() -> None:
    assert keyed("k" * 512) == [b"Bearer " + b"k" * 512]
    for key in (SECRET * 100, lambda: SECRET * 100):
        assert f"has {100 * len(SECRET)} characters; at most 512" in str(refused(keyed, key))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1) | texts())
def test_printable_ascii_is_a_key_and_nothing_else_gets_into_the_header(key: str) -> None:
    plain = key and all("!" <= letter <= "~" for letter in key)
    if plain and not {key[0], key[-1]} & {"'", '"'}:
        assert keyed(key) == [b"Bearer " + key.encode()]
        return
    try:
        (header,) = keyed(key)
    except ConfigError:
        return
    sent = header.removeprefix(b"Bearer ").decode("ascii")  # without the white space and quotes around it
    assert sent in key
    assert re.fullmatch("[!-~]+", sent)


def test_the_argument_counts_more_than_the_environment() -> None:
    environ = {"TRADE_API_KEY": "from_env"}
    assert keyed("given", environ) == [b"Bearer given"]
    assert keyed(None, environ) == [b"Bearer from_env"]
    assert keyed(lambda: "called", environ) == [b"Bearer called"]


def test_no_key_says_where_one_could_come_from() -> None:
    assert str(refused(keyed)) == "no API key: set TRADE_API_KEY or pass api_key="
    assert "TRADE_API_KEY" in str(refused(keyed, ""))


# Base URLs

GOOD = {
    **dict.fromkeys([URL, f"{URL}/", f"{URL}///", f"{URL}/v1", f"{URL}/v1/", f"{URL}//v1", f"  {URL}\n"], URL),
    **{f"{URL}{path}": URL + path for path in ("/trade", "/v1/trade", "/vault", ":8443")},
    f"{URL}/trade/v1": f"{URL}/trade",
    "http://127.0.0.1:8000/v1": "http://127.0.0.1:8000",
    **{
        url: url
        for url in (
            *("https://10.0.0.1", "http://localhost:8000", "http://127.8.9.1"),
            *("http://127.255.255.254", "http://[::1]:8000"),
        )
    },
    **{url: good for good, others in SAME.items() for url in (good, *others)},
}


@each_of("given_url", GOOD, ids=ascii)
def test_good_base_urls(given_url: str) -> None:
    assert base_url(given_url, environ={"TRADE_BASE_URL": "https://other"}) == GOOD[given_url]
    assert base_url(environ={"TRADE_BASE_URL": given_url}) == GOOD[given_url]


PLAIN = [
    *("http://api.example.com", "http://10.0.0.1", "http://0.0.0.0:8000", "http://[::2]", "http://192.168.1.5"),
    *("http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://localhost@evil", "http://128.0.0.1"),
    *("http://[::]", "http://localhost.example"),
]


@each_of(
    ("argument", "environ", "found"),
    [
        (None, {}, "https://client.example/api"),
        (None, {"TRADE_BASE_URL": " "}, "https://client.example/api"),
        (None, {"TRADE_BASE_URL": URL}, URL),
        ("https://argument.example", {"TRADE_BASE_URL": URL}, "https://argument.example"),
        ("https://argument.example", {}, "https://argument.example"),
    ],
)
def test_the_base_url_of_an_http_client_comes_last(argument: str | None, environ: dict[str, str], found: str) -> None:
    of_client = "https://client.example/api/v1/"
    assert base_url(argument, environ=environ, of_client=of_client) == found


def test_the_base_url_of_an_http_client_is_checked_like_any_other() -> None:
    assert "is not https" in str(refused(base_url, of_client="http://a.example"))
    assert "no base URL" in str(refused(base_url, "", of_client=URL))


@each_of("url", PLAIN)
def test_plain_http_to_elsewhere_is_refused(url: str) -> None:
    error = refused(base_url, url)
    assert "not https" in str(error) or "user name" in str(error)


def test_plain_http_can_be_allowed() -> None:
    assert base_url("http://10.0.0.1:80/v1", allow_insecure=True) == "http://10.0.0.1"


BAD_URLS: dict[str, list[Any]] = {
    "no base URL: set TRADE_BASE_URL or pass base_url=": ["", " \n", None],
    "must be a string, not int": [5],
    "must be a string, not bytes": [URL.encode()],
    "must look like https://": [
        *("api.example.com", "//api.example.com", "/v1", "https://", "https:///v1", "https://:443"),
        *("https:api.example.com", "ftp://api.example.com", "file:///etc/passwd", "wss://api.example.com"),
        "javascript:alert(1)",
    ],
    "cannot be read": [
        *("https://[::1", f"{URL}:99999", f"{URL}:x", "https://0[::]", "https://[::1]x", "https://[::1]x:80"),
        *("https://[::1]]", "https://[[::1]"),
    ],
    "port 0": [f"{URL}:0"],
    "must not contain ? or #": [f"{URL}?x=1", f"{URL}?", f"{URL}/#"],
    "space": [f"{URL}/a b"],
    "control character": ["https://api.example\n.com", f"{URL}/\x1b[2J", f"{URL}/\u202e"],
    "backslash": [f"{URL}\\@evil"],
    "invalid host": [
        *(
            "https://127.1",
            "https://2130706433",
            "https://.",
            "https://\u3002",
            "https://xn--ü.example",
            "https://[v1.x]",
        ),
        f"https://{'ü' * 70}.example",
    ],
    "segment": [f"{URL}/..", f"{URL}/a/../b", f"{URL}/%2e%2e/b"],
    "ends in /v2, but this client supports /v1 only": [f"{URL}/v2"],
    "ends in /v10": [f"{URL}/trade/v10/"],
}


@each_of("reason", BAD_URLS)
def test_bad_base_urls(reason: str) -> None:
    for url in BAD_URLS[reason]:
        assert reason in str(refused(base_url, url, allow_insecure=True))


@each_of(
    "url",
    [
        f"https://user:{SECRET}@api.example.com",
        f"https://{SECRET}@api.example.com",
        f"https://user:{SECRET}@api.example.com:99999",
        f"https://user:{SECRET}@[::1",
        f"https://user:{SECRET} x@api.example.com",
        f"https://user:x?{SECRET}@api.example.com",
        f"https://user:x\n{SECRET}@api.example.com",
        f"https://user:x/{SECRET}@api.example.com:y",
        f"user:{SECRET}@api.example.com",
        f"ftp://user:{SECRET}@api.example.com",
        f"https://api.example.com?key={SECRET}",
        f"https://api.example.com/v1#{SECRET}",
        f"https://api.example.com/a b?key={SECRET}",
        f"https://api.example.com?key=a\n{SECRET}",
    ],
)
def test_a_secret_in_a_url_is_refused_without_being_shown(url: str) -> None:
    refused(base_url, url, allow_insecure=True)


@given(texts(max_size=30) | st.text(alphabet="htps:/[]@.?#v12% \\\n", max_size=30).map(lambda tail: "https://a" + tail))
def test_no_base_url_raises_anything_else(url: str) -> None:
    try:
        good = base_url(url)
    except ConfigError:
        return
    assert good.startswith(("https://", "http://"))
    assert not good.endswith("/")
    assert base_url(good) in (good, good.removesuffix("/v1"))


# Time


def test_timeouts() -> None:
    assert Timeout.of(None) == Timeout() == Timeout(connect=5, read=30, write=30, pool=10)
    assert Timeout.of(7) == Timeout(connect=7, read=7, write=7, pool=7)
    own = Timeout(read=None)
    assert Timeout.of(own) is own


BAD_SECONDS: list[Any] = [0, -1, math.nan, math.inf, -math.inf, "5", True, [5], 5j]


@each_of("bad", BAD_SECONDS)
def test_a_timeout_is_more_than_nothing_and_less_than_for_ever(bad: Any) -> None:
    refused(Timeout.of, bad)
    for part in ("connect", "read", "write", "pool"):
        assert part in str(refused(Timeout, **{part: bad}))


def test_each_part_has_its_seconds() -> None:
    assert Timeout().parts() == {"connect": 5, "read": 30, "write": 30, "pool": 10}


@given(st.none() | st.floats(min_value=1e-9, allow_infinity=False))
def test_sockets_take_every_timeout(part: float | None) -> None:
    for value in Timeout(connect=part, read=part, write=part, pool=part).parts().values():
        assert 0 < value <= 24 * 86400


@each_of("bad", [0, -1, -0.0, math.nan, -math.inf, "5", True, None, [5]])
def test_a_deadline_is_more_than_nothing(bad: Any) -> None:
    assert "deadline" in str(refused(client, api_key="k", base_url=URL, deadline=bad))


def test_deadlines() -> None:
    for seconds in (0.5, 180, math.inf, 10**400):
        made, _ = client(ok({}), api_key="k", base_url=URL, deadline=seconds)
        assert made.request("GET", "/v1/x").status == 200


# Retries


@each_of("bad", [-1, 6, 2.0, True, "3", math.nan, [1]])
def test_other_numbers_of_retries_are_refused(bad: Any) -> None:
    assert "0 to 5" in str(refused(client, api_key="k", base_url=URL, max_retries=bad))


def test_the_number_of_retries_alone_can_be_given() -> None:
    own = RetryPolicy(base=2, max_retries=4)
    for retries, tries in ((None, 5), (0, 1), (2, 3)):
        clock = VirtualClock()
        answers = [failed(503)] * tries
        made, service = client(*answers, api_key="k", base_url=URL, retry=own, max_retries=retries, clock=clock)
        with pytest.raises(ServiceUnavailableError):
            made.request("GET", "/v1/x")
        assert (service.left, len(clock.waits)) == (0, tries - 1)
    assert own.max_retries == 4
