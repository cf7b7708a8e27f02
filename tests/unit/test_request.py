"""What callers hand over: what is refused here, unsent, and how the rest is sent."""

import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import (
    APIConnectionError,
    InvalidArgumentError,
    NotFoundError,
    RetryPolicy,
    Risk,
    Timeout,
    TokenQuery,
    TradeClient,
    _market,
)

from .._answers import BASE, KEY, Service, failed, ok
from .._rows import each_of
from .._texts import texts
from ._client import client_of

LOST = httpx.ReadError("the connection was lost")
DIGITS = 10**5000  # more than Python turns into text
Act = Callable[[TradeClient, Any], object]


def sent(act: Act, value: Any) -> httpx.Request:
    """The request of a call with this argument."""
    service = Service(failed(404))
    with pytest.raises(NotFoundError):
        act(client_of(service), value)
    return service.requests[0]


def refused(act: Act, value: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        act(client_of(Service()), value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert isinstance(caught.value, ValueError)


def raw(method: Any, path: Any, **more: Any) -> httpx.Request:
    """What `client.request` sends."""
    service = Service(ok({}))
    client_of(service).request(method, path, **more)
    return service.requests[0]


# Arguments of the typed methods

GET_AGENT: Act = lambda c, bad: c.agents.get(bad)  # noqa: E731 - a table of calls reads best as lambdas
HISTORY: Act = lambda c, bad: c.signals.history(chain=56, since=bad).first()  # noqa: E731
UPDATE_RISK: Act = lambda c, bad: c.agents.update("a1", risk=bad)  # noqa: E731
LATEST: Act = lambda c, bad: c.signals.latest(chain=56, min_confidence=bad)  # noqa: E731

REFUSED: list[tuple[str, Act, list[Any]]] = [
    (
        "agent_id",
        GET_AGENT,
        [
            *("", ".", "..", "a/b", "/", "../x", "a\\b", "\\", "x" * 257, "x" * 10_240),
            *(
                "a\nb",
                "a\r",
                "\t",
                "\x00",
                "\x1b[2J",
                "\x7f",
                "a\x85",
                "\u2028",
                "\u202e",
                "\u200b",
                "\ufeff",
                "\ud800",
            ),
            *(None, 5, 5.0, b"agent", ["a"], True),
        ],
    ),
    *(
        (name, act, ["", "..", "a/b", None])
        for name, act in (
            ("agent_id", lambda c, bad: c.agents.update(bad, name="n")),
            ("agent_id", lambda c, bad: c.agents.delete(bad)),
            ("trade_id", lambda c, bad: c.trades.get(bad)),
            ("wallet_id", lambda c, bad: c.wallets.balance(bad)),
            ("wallet_id", lambda c, bad: c.agents.create(name="n", wallet_id=bad, chain_id=56)),
        )
    ),
    ("agent_id", lambda c, bad: c.trades.list(agent_id=bad), ["", ".."]),
    ("status", lambda c, bad: c.agents.list(status=bad), ["", 5]),
    ("cursor", lambda c, bad: c.agents.list(cursor=bad), ["", 5]),
    ("address", lambda c, bad: c.wallets.connect(address=bad, chain_id=56, label="l", signature="0x"), ["", None]),
    ("label", lambda c, bad: c.wallets.connect(address="0x", chain_id=56, label=bad, signature="0x"), ["", None]),
    ("signature", lambda c, bad: c.wallets.connect(address="0x", chain_id=56, label="l", signature=bad), ["", None]),
    ("signer", lambda c, bad: c.wallets.connect_with(bad, label="l"), ["0x" + "2b" * 32, None, 5]),
    ("token_address", lambda c, bad: c.signals.history(chain=56, token_address=bad), ["", "a/b"]),
    ("chain_id", lambda c, bad: c.agents.create(name="n", wallet_id="w", chain_id=bad), [1, 8454, None]),
    ("chain_id", lambda c, bad: c.wallets.list(chain_id=bad), [1, 0]),
    ("limit", lambda c, bad: c.signals.latest(chain=56, limit=bad), [0, 101]),
    ("min_confidence", lambda c, bad: c.agents.update("a1", min_confidence=bad), [-0.1, 1.1, math.nan, True]),
    (
        "stop_loss_pct should be a finite number",
        lambda c, bad: c.agents.update("a1", risk=Risk.model_construct(stop_loss_pct=bad)),
        [math.nan],
    ),
    ("name", lambda c, bad: c.agents.update("a1", name=bad), ["", "\ud800", "a\udfff", 5, b"x", True]),
    ("name", lambda c, bad: c.agents.create(name=bad, wallet_id="w", chain_id=56), [None]),
    (
        "chain must be 8453",
        lambda c, bad: c.signals.latest(chain=bad),
        [1, 0, -1, 8452, 57, "8453", "56", True, None, 56.5, math.nan, math.inf, [], DIGITS],
    ),
    (
        "limit must be a whole number from 1 to 100",
        lambda c, bad: c.trades.list(limit=bad),
        [0, 101, -1, 1.0, 50.5, "20", True, False, math.nan, DIGITS, -DIGITS, [20]],
    ),
    ("max_items", lambda c, bad: c.trades.list(max_items=bad), [-1, 1.0, "5", True, math.nan, -DIGITS]),
    (
        "min_confidence must be",
        LATEST,
        [-0.1, 1.1, 2, -1, math.nan, math.inf, -math.inf, 1 + 1e-12, -1e-12, "0.5", True, DIGITS, -DIGITS, [0.5]],
    ),
    (
        "max_positions must be a whole number",
        lambda c, bad: c.agents.update("a1", max_positions=bad),
        [1.0, "5", True, math.nan, [5]],
    ),
    (
        "since",
        HISTORY,
        [
            *(datetime.min, math.nan, math.inf, -math.inf, -1, -0.5, 253402300800, 10**400, DIGITS, 1e300),
            *("2024-01-01", "1700000000", True, [1], timedelta(days=1)),
        ],
    ),
    (r"set since to datetime\.now\(UTC\), or call astimezone\(\)", HISTORY, [datetime(2024, 1, 2, 3, 4)]),
    ("until is a date without a time", lambda c, bad: c.signals.history(chain=56, until=bad), [date(2024, 1, 1)]),
    ("risk must be a Risk or a dict, not", UPDATE_RISK, [5, "risk", [], Risk]),
    ("stop_loss_pct must be a number", UPDATE_RISK, [{"stop_loss_pct": "5%"}, {"stop_loss_pct": "5"}]),
    ("no field 5", UPDATE_RISK, [{5: 5}]),
    (r"field \\n;", UPDATE_RISK, [{"\n": 5}]),
    (
        r"no field stop_los_pct; it has position_size_pct, stop_loss_pct",
        UPDATE_RISK,
        [{"stop_los_pct": 5, "stop_loss_pct": 5}, Risk.model_validate({"stop_los_pct": 5})],  # as an answer may have it
    ),
    ("no field stop_los_pct", lambda c, bad: Risk(**bad), [{"stop_los_pct": 5}]),
]


def shown(value: object) -> str:
    return "many digits" if isinstance(value, int) and abs(value) > 10**20 else ascii(value)[:20]


@pytest.mark.rule("chain.others", "limit.page.max", "agent.min_confidence.range", "signals.latest.min_confidence.range")
@each_of(
    ("match", "act", "bad"),
    [(match, act, bad) for match, act, values in REFUSED for bad in values],
    ids=lambda value: shown(value) if not callable(value) else "",
)
def test_what_is_refused_unsent(match: str, act: Act, bad: Any) -> None:
    refused(act, bad, match)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    whole, real, few = numpy.int64, numpy.float32, numpy.uint8
    calls: list[tuple[Callable[[TradeClient], object], str]] = [
        (
            lambda c: c.signals.latest(chain=whole(56), limit=few(3), min_confidence=real(0.5)),
            "chain=56&limit=3&min_confidence=0.5",
        ),
        (
            lambda c: c.signals.history(chain=whole(56), since=whole(1), until=real(2.5), limit=few(7)).first(),
            "chain=56&from=1&to=2&limit=1",
        ),
        (lambda c: list(c.trades.list(limit=few(7), max_items=whole(3))), "limit=3"),
    ]
    for call, query in calls:
        assert sent(lambda c, act: act(c), call).url.query.decode() == query
    rules: Any = {"stop_loss_pct": real(2.5), "take_profit_pct": whole(4)}
    request = sent(lambda c, n: c.agents.update("a1", risk=rules, max_positions=n, min_confidence=whole(1)), whole(3))
    body = {"risk": {"stop_loss_pct": 2.5, "take_profit_pct": 4.0}, "max_positions": 3, "min_confidence": 1.0}
    assert json.loads(request.content) == body
    asked = _market.token_signals([TokenQuery("ETH", whole(2))], whole(3)).request.body
    assert asked == _market.token_signals([TokenQuery("ETH", 2)], 3).request.body
    assert _market.history_filter(whole(1), real(2.5), None) == _market.history_filter(1, 2.5, None)
    policy, timeout = RetryPolicy(max_retries=few(3), base=real(0.5)), Timeout(connect=real(2.5), read=whole(3))
    assert (policy, timeout) == (RetryPolicy(max_retries=3, base=0.5), Timeout(connect=2.5, read=3))
    assert [type(kept) for kept in (policy.max_retries, policy.base, timeout.connect)] == [int, float, float]
    with TradeClient(api_key=KEY, base_url=BASE, timeout=whole(3), deadline=real(9.5), max_retries=few(1)) as client:
        client.with_options(timeout=real(2.5), deadline=whole(3), max_retries=whole(0))
    for fraction in (numpy.float64(8453), 8453.0, Decimal(8453)):
        refused(lambda c, bad: c.signals.latest(chain=bad), fraction, "chain must be 8453")
        refused(
            lambda c, bad: c.agents.create(name="n", wallet_id="w", chain_id=bad), fraction, "chain_id must be 8453"
        )
    for true in (True, numpy.bool_(True)):
        refused(lambda c, bad: c.trades.list(limit=bad), true, "limit must be a whole number")
        refused(LATEST, true, "min_confidence must be")
    refused(lambda c, bad: c.trades.list(limit=bad), whole(101), r"1 to 100, not (np\.int64\()?101")


def test_nat_is_no_time() -> None:
    nat = pytest.importorskip("pandas").NaT
    refused(HISTORY, nat, r"since is NaT \(not a time\)")
    refused(lambda c, bad: c.signals.stream(chain=56, since=bad), nat, "since is NaT")
    with pytest.raises(InvalidArgumentError, match="until is NaT"):
        _market.history_filter(None, nat, None)


class Nowhere(tzinfo):
    def utcoffset(self, dt: datetime | None, /) -> timedelta | None:
        return None

    def dst(self, dt: datetime | None, /) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None, /) -> str | None:
        return None


def test_a_zone_that_knows_no_offset_is_as_naive() -> None:
    refused(HISTORY, datetime(2024, 1, 1, tzinfo=Nowhere()), "has no time zone")


def test_a_period_has_its_start_first() -> None:
    day = datetime(2024, 1, 2, tzinfo=UTC)
    act: Act = lambda c, span: c.signals.history(chain=56, since=span[0], until=span[1]).first()  # noqa: E731
    for start, end in ((day, 1704153599), (1, 0), (day, day - timedelta(seconds=1))):
        refused(act, (start, end), "since is later than until")
    for span, query in (((None, None), ""), ((1, None), "&from=1"), ((day, day), "&from=1704153600&to=1704153600")):
        assert sent(act, span).url.query.decode() == f"chain=56{query}&limit=1"


@each_of(
    "good",
    ["agt_1", "...", ".a", "a.", "%2e%2e", "%2F", "a b", "a?b", "a#b", "a;b", "a:b@c", "é", "😀", "x" * 256, "~"],
)
def test_any_other_id_is_taken_as_it_is(good: str) -> None:
    target = sent(GET_AGENT, good).url.raw_path.decode()
    assert unquote(target.removeprefix("/v1/agents/")) == good
    assert target.count("/") == 3


@given(texts(min_size=1, max_size=30))
def test_an_id_is_one_segment_of_the_path(text: str) -> None:
    try:
        url = sent(GET_AGENT, text).url
    except InvalidArgumentError:
        return
    assert [unquote(part) for part in url.raw_path.decode().split("/")] == ["", "v1", "agents", text]
    assert (url.host, url.query, url.fragment) == (BASE.removeprefix("https://"), b"", "")


NAME: Act = lambda c, name: c.agents.update("a1", name=name)  # noqa: E731
POSITIONS: Act = lambda c, value: c.agents.update("a1", max_positions=value)  # noqa: E731
LIMIT: Act = lambda c, limit: c.trades.list(limit=limit, max_items=None if limit is None else 10**9).page()  # noqa: E731


@pytest.mark.rule(
    *("limit.page.max", "agent.min_confidence.range", "transport.unix-seconds", "agents.update.partial"),
    *("agents.update.risk", "signals.history.from", "signals.history.to"),
)
def test_what_is_sent() -> None:
    """At the bounds too. Bounds that the service does not state are its own business."""
    for text in (" ", "\n", "😀", "x" * 10_000, "a/b"):
        assert json.loads(sent(NAME, text).content) == {"name": text}
    for number in (0, -5, 10**6):
        assert sent(POSITIONS, number).content == b'{"max_positions":%d}' % number
    for limit in (1, 20, 100):
        assert sent(LIMIT, limit).url.query == b"limit=%d" % limit
    for confidence, text in ((0, "0.0"), (1, "1.0"), (0.0, "0.0"), (0.75, "0.75")):
        assert sent(LATEST, confidence).url.params["min_confidence"] == text
    for rules, body in (
        (Risk(stop_loss_pct=5), {"stop_loss_pct": 5.0}),
        (Risk(stop_loss_pct=0), {"stop_loss_pct": 0.0}),
        ({"stop_loss_pct": None, "take_profit_pct": Decimal("2.5")}, {"take_profit_pct": 2.5}),
    ):
        assert json.loads(sent(UPDATE_RISK, rules).content) == {"risk": body}
    tokyo = timezone(timedelta(hours=9))
    for moment, seconds in (
        (0, 0),
        (1700000000.9, 1700000000),
        (datetime(2023, 11, 14, 22, 13, 20, 999_999, tzinfo=UTC), 1700000000),
        (datetime(2023, 11, 15, 7, 13, 20, tzinfo=tokyo), 1700000000),
        (datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), -1),
        (datetime.max.replace(tzinfo=UTC), 253402300799),
        (253402300799, 253402300799),
    ):
        assert sent(HISTORY, moment).url.params["from"] == str(seconds)


# `client.request`


@each_of("path", ["/", "/v1", "/v1/account", "/v1/agents/a%20b", "/v1/a%2Fb", "/v2/x", "/v1/..."])
def test_any_other_path_is_taken_as_it_is(path: str) -> None:
    assert raw("GET", path).url.raw_path.decode() == path


@each_of(
    ("method", "target", "again"),
    [
        *(("get", "GET", True), ("Post", "POST", False), ("PUT", "PUT", True)),
        *(("patch", "PATCH", True), ("delete", "DELETE", True)),
    ],
)
def test_methods_in_any_case(method: str, target: str, again: bool) -> None:
    """After a lost answer all but a POST are sent again, and nothing is looked up."""
    service = Service(LOST, *([ok({})] if again else []))
    client = client_of(service)
    if again:
        client.request(method, "/v1/x")
    else:
        with pytest.raises(APIConnectionError):
            client.request(method, "/v1/x")
    assert service.sent == [f"{target} /v1/x"] * (1 + again)


def test_query_and_body() -> None:
    request = raw("POST", "/v1/x", query={"a": "1/2", "b": None, "c": True, "d": False}, json={"n": None})
    assert request.url.raw_path == b"/v1/x?a=1%2F2&c=true&d=false"
    assert request.content == b'{"n":null}'  # unlike the typed methods, every value is the caller's own
    assert raw("POST", "/v1/x", json=[]).content == b"[]"
    without = raw("POST", "/v1/x")
    assert without.content == b""
    assert "content-type" not in without.headers


@given(st.text(alphabet="/.%2eEfF5cC?#@:\\ ;abv1\n", max_size=20) | texts(max_size=20))
def test_no_path_leaves_the_service(path: str) -> None:
    try:
        request = raw("GET", path)
    except InvalidArgumentError:
        return
    assert f"{request.url.scheme}://{request.url.netloc.decode()}" == BASE
    assert request.url.userinfo == b""
    assert request.url.query == b""
    assert request.url.raw_path.count(b"/") == path.count("/")  # nothing was folded


printed = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(printed, printed))
def test_a_query_round_trips(query: dict[str, str]) -> None:
    encoded = raw("GET", "/v1/x", query=query).url.query.decode()
    assert parse_qsl(encoded, keep_blank_values=True) == list(query.items())
    assert encoded.isascii()
    assert not set(encoded) & set("#? \r\n/")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(plain.filter(lambda body: body is not None))
def test_a_body_round_trips_or_is_refused(body: Any) -> None:
    try:
        content = raw("POST", "/v1/x", json=body).content
    except InvalidArgumentError:
        assert "\\ud" in json.dumps(body)  # half a surrogate pair has no UTF-8
    else:
        assert json.loads(content) == body


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    return nest


def test_what_is_no_query_and_no_json_is_refused() -> None:
    for query in ({"a": "\ud800"}, {"\ud800": "a"}):
        refused(lambda c, query: c.request("GET", "/v1/x", query=query), query, "UTF-8")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # the usual one; libraries raise it
    try:
        for bad in (
            *(math.nan, math.inf, -math.inf, b"x", {1}, object(), "\ud800", {(1, 2): 3}, DIGITS),
            *(circular(), deep()),
        ):
            refused(lambda c, bad: c.request("POST", "/v1/x", json={"x": bad}), bad, "cannot be sent as JSON")
    finally:
        sys.setrecursionlimit(limit)
