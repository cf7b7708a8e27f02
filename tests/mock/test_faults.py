"""Every kind of fault in one table: the rule, the request that it meets, and what comes.

Each row is shown to blocking and async clients, over sockets and in process. Faults of payments have a table of their
own in `test_fault_payments`, and which requests a rule applies to is in `test_fault_rules`.
"""

from __future__ import annotations

import base64
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockServer, MockService

from .._rows import each_of
from ._http import CARRIERS, FULL, START, add_wallet, client, ok, silent
from ._scripted import Outcome, fetch
from ._streams import BASE_CHAIN, STREAM, Reader, data_of, emit, ids, listen, signal_id

ACCOUNT = "/v1/account"
BOM = b"\xef\xbb\xbf"
CLOSED, RESET, LATE = "RemoteProtocolError", "ReadError", "ReadTimeout"
BYTES = bytes(range(256))
PACKED = gzip.compress(b'{"a":1}', mtime=0)
OWN = b"\xff\x00: anything\r\n\r\n"

Rule = tuple[str, dict[str, Any]]


def rule(kind: str, **parameters: Any) -> Rule:
    return kind, parameters


def row(*rules: Rule, at: str = "account", token: str | None = None, ends: int | None = None, **comes: Any) -> Any:
    """Rules, and what a client sees: attributes of `Seen`, or headers. A function tells whether a value is right.

    Args:
        at: the request: account, agents (creates one), prices (market data) or stream.
        token: of the signals on the stream.
        ends: the stream ends after so many events, by one more rule.
    """
    if ends is not None:
        rules = (*rules, rule("drop", after=ends, how="clean"))
    return pytest.param(
        rules, at, token, {"status": 200, "end": "end", **comes}, id="-".join(kind for kind, _ in rules)
    )


stream = partial(row, at="stream")


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@cache
def account() -> bytes:
    """The body of the account, without faults."""
    with silent("in process") as mock, client(mock) as http:
        return http.get(ACCOUNT).content


def first(count: int) -> Callable[[bytes], bool]:
    """The first bytes of the account's body, and no more."""
    return lambda body: body == account()[:count]


def spaced(length: int) -> Callable[[bytes], bool]:
    """The account's body after white space, so many bytes in all."""
    return lambda body: len(body) == length and body.lstrip(b" ") == account()


def ended(cr: int, lf: int, crlf: int) -> Callable[[bytes], bool]:
    """Whether lines end this way, so often."""

    def right(body: bytes) -> bool:
        others = body.replace(b"\r\n", b"")
        return (others.count(b"\r"), others.count(b"\n"), body.count(b"\r\n")) == (cr, lf, crlf)

    return right


class Seen:
    """What a client sees of one request, and what the mock remembers of it."""

    def __init__(self, outcome: Outcome, mock: MockService, emitted: list[str], late: float) -> None:
        self.headers = httpx.Headers(outcome.headers)
        self.status = outcome.status or 0
        self.body = outcome.body
        self.pieces = outcome.pieces
        self.end = "end" if outcome.error is None else outcome.error.__name__
        self.late = late
        self.faults = mock.journal()[-1].faults
        self.error = mock.journal()[-1].error
        self.logged = mock.journal()[-1].status
        self.emitted = emitted
        self._mock = mock

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name) if hasattr(self, name) else self.headers.get(name.replace("_", "-"))

    @property
    def code(self) -> str:
        """The code of an error of the service; the body must have exactly its form."""
        assert self.headers["content-type"] == "application/json"
        (found,) = json.loads(self.body).values()
        assert set(found) == {"code", "message"}
        return str(found["code"])

    @property
    def message(self) -> str:
        """The message, with the id of the only rule left out."""
        return str(json.loads(self.body)["error"]["message"]).replace(self._mock.faults()[0].id, "ID")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def agents(self) -> int:
        """How many agents there are now."""
        self._mock.clear_faults()
        with client(self._mock) as http:
            return len(ok(http.get("/v1/agents"))["data"])

    @property
    def signals(self) -> str:
        """Events of the stream: signals by their number, h for a heartbeat, ? for any other."""
        names = {ident: str(number) for number, ident in enumerate(self.emitted)}
        return "".join(
            names.get(signal_id(data) or "", "h" if "heartbeat" in data else "?") for data in data_of(self.body)
        )

    @property
    def begun(self) -> str:
        """The number of the signal in which the stream was cut."""
        tail = self.body.rpartition(b"\n\n")[2].decode("utf-8", "replace")
        assert "\n" not in tail
        return "".join(str(number) for number, ident in enumerate(self.emitted) if f'"id":"{ident}"' in tail)

    @property
    def last(self) -> bytes:
        return self.body[-1:]

    @property
    def utf8(self) -> bool:
        return self.body.decode("utf-8", "replace").encode() == self.body


# fmt: off
ANSWERS = [
    row(rule("latency", seconds=0.06), body=first(125), late=0.06),
    row(rule("latency", seconds=0.01), rule("latency", seconds=0.05), late=0.06),
    row(rule("latency", seconds=0.02, jitter=0.05), late=0.052267789),
    row(rule("latency", seconds=60), status=0, end=LATE, logged=200),
    # another status
    *(row(rule("status", status=status), status=status, code=code, error=code, logged=status, x_ratelimit_limit="300")
      for status, code in [
          (400, "invalid_request"), (401, "unauthorized"), (402, "payment_required"), (403, "forbidden"),
          (404, "not_found"), (405, "invalid_request"), (409, "conflict"), (418, "im_a_teapot"),
          (422, "validation_error"), (429, "rate_limited"), (500, "internal_error"), (503, "service_unavailable"),
          (504, "gateway_timeout"), (599, "status_599"), (302, "found"),
      ]),
    row(rule("status", status=204), status=204, body=b"", error="no_content"),
    row(rule("status", status=304), status=304, body=b""),
    row(rule("status", status=401), status=401, www_authenticate="Bearer"),
    row(rule("status"), status=500, message="Injected by fault ID: status 500.", www_authenticate=None),
    row(rule("status", code=7, message='"a"\nb'), status=500, json={"error": {"code": "7", "message": '"a"\nb'}}),
    row(rule("status", headers={"X-Trace": 7, "Content-Type": "text/plain", "Date": "today"}),
        status=500, x_trace="7", content_type="text/plain", date="today"),
    row(rule("status", headers={"x-ratelimit-reset": ""}), status=500, x_ratelimit_reset=""),
    row(rule("status", status=429), status=429, retry_after="1", x_ratelimit_reset=str(START + 1)),
    row(rule("status", status=429, retry_after=30), status=429, retry_after="30", x_ratelimit_reset=str(START + 30)),
    row(rule("status", status=429, retry_after=""), status=429, retry_after=None, x_ratelimit_reset=str(START + 60)),
    row(rule("status", status=503), status=503, retry_after=None, x_ratelimit_reset=str(START + 60)),
    row(rule("status", status=503, retry_after=0), status=503, retry_after="0", x_ratelimit_reset=str(START)),
    row(rule("status", status=503, retry_after=300), status=503, retry_after="300", x_ratelimit_reset=str(START + 60)),
    row(rule("status", retry_after="Fri, 15 Jan 2027 08:00:09 GMT"), status=500,
        retry_after="Fri, 15 Jan 2027 08:00:09 GMT", x_ratelimit_reset=str(START + 60)),
    # before the request is carried out, or after it
    row(rule("status"), at="agents", status=500, agents=0, x_ratelimit_remaining="299"),
    row(rule("status", status=503, executed=True, retry_after=2), at="agents", status=503, agents=1, retry_after="2",
        code="service_unavailable", x_ratelimit_remaining="298", x_ratelimit_limit="300",
        date="Fri, 15 Jan 2027 08:00:00 GMT", content_length=str.isdigit),
    row(rule("status", status=204, executed=True), at="agents", status=204, body=b"", agents=1),
    row(rule("reset"), at="agents", status=0, end=RESET, agents=0),
    row(rule("reset", executed=True), at="agents", status=0, end=RESET, agents=1),
    row(rule("reset", after=0), at="agents", status=201, body=b"", end=RESET, agents=1),
    # market data
    *(row(rule("status", status=status, message="no", executed=executed), at="prices", status=status,
          json={"success": False, "data": None, "error": "no"}, x_ratelimit_limit=None,
          error="payment_required" if executed else None)
      for status in (400, 404, 502) for executed in (False, True)),
    *(row(rule("status", status=status, executed=executed), at="prices", status=status, code=code,
          x_ratelimit_limit=None)
      for status, code in [(429, "rate_limited"), (500, "internal_error")] for executed in (False, True)),
    # the connection
    row(rule("reset"), status=0, end=RESET, logged=0, body=b""),
    row(rule("reset", after=5), end=RESET, logged=200, body=first(5)),
    row(rule("reset", after=9_999), end=RESET, body=first(124)),
    row(rule("reset"), rule("latency", seconds=0.06), status=0, end=RESET, late=0.06, faults=("reset", "latency")),
    *(row(rule("truncate", after=after), end=CLOSED, content_length="125", body=first(come))
      for after, come in [(0, 0), (7, 7), (None, 62), (124, 124), (125, 124), (9_999, 124)]),
    *(row(rule("bad_chunk", after=after), end=CLOSED, content_length=None, transfer_encoding="chunked",
          body=first(come))
      for after, come in [(0, 0), (7, 7), (None, 62), (125, 125), (9_999, 125)]),
    # another body
    *(row(rule("body", text=text), body=text.encode(), content_length=str(len(text.encode())),
          content_type="application/json", x_ratelimit_limit="300")
      for text in ("", "[]", '{"price_usd":NaN}', "zwölf\r\n", "a" * 300_000)),
    row(rule("body", base64=b64(BYTES), content_type="image/png"), body=BYTES, content_type="image/png"),
    row(rule("body", base64=b64(PACKED), headers={"Content-Encoding": "gzip"}), body=PACKED, content_encoding="gzip"),
    *(row(rule("status", status=502, headers={"Server": "proxy"}, executed=executed),
          rule("body", text="<b>", content_type="text/html"),
          status=502, body=b"<b>", server="proxy", content_type="text/html", faults=("status", "body"))
      for executed in (False, True)),
    row(rule("malformed_json"), body=lambda body: body == account()[:-1] + b",", content_length="125"),
    row(rule("malformed_json"), rule("body", text="{}"), body=b"{,"),
    row(rule("content_type"), content_type="text/html", body=first(125)),
    row(rule("content_type", value=""), content_type="", body=first(125)),
    *(row(rule("huge_body", mib=mib), body=spaced(length), content_length=str(length))
      for mib, length in [(0.001, 1_048), (1, 2**20), (2.5, 5 * 2**19)]),
    row(rule("huge_body"), content_length=str(5 * 2**20)),
    row(rule("huge_body", mib=0.001), rule("body", text="a" * 2_000), body=b"a" * 2_000, content_length="2000"),
    row(rule("drip", piece=50, seconds=0.001), body=first(125), late=0.002),
    row(rule("drip", seconds=0.01), body=first(125), late=0.07),
    row(rule("drip", seconds=60), end=LATE, body=first(16)),
    # several at once: applied in an order of their own
    row(rule("truncate", after=2**20 - 3), rule("huge_body", mib=1), rule("content_type", value="text/plain"),
        rule("status", message="x"), status=500, end=CLOSED, content_type="text/plain",
        content_length=str(2**20), faults=("status", "huge_body", "content_type", "truncate"),
        body=lambda body: body.strip() == b'{"error":{"code":"internal_error","message":"x'),
]
"""Faults of any answer, and what comes of them."""

STREAMS = [
    stream(rule("status", status=503, retry_after=2), status=503, code="service_unavailable", retry_after="2",
           x_ratelimit_limit=None),
    stream(rule("status", executed=True), status=500, code="internal_error", content_length=str.isdigit),
    stream(rule("reset"), status=0, end=RESET),
    stream(rule("reset", executed=True), status=0, end=RESET),
    stream(rule("content_type"), ends=6, signals="012345", content_type="text/html"),
    stream(rule("body", text='data: {"type":"heartbeat"}\n\n'), signals="h", content_type="text/event-stream"),
    *(stream(rule(kind, after=30), end=end, signals="", body=lambda body: len(body) == 30)
      for kind, end in [("truncate", CLOSED), ("bad_chunk", CLOSED), ("reset", RESET)]),
    stream(rule("reset", after=500), end=RESET, signals="01", body=lambda body: len(body) == 500),
    *(stream(rule(kind), end=CLOSED, signals="", begun="0") for kind in ("truncate", "bad_chunk")),
    stream(rule("drip", piece=40, seconds=0.001), ends=2, signals="01"),
    # it ends
    *(stream(rule("drop", after=after, how=how), end=end, signals="012"[:after], utf8=True)
      for how, end in [("clean", "end"), ("close", CLOSED), ("reset", RESET)] for after in (0, 1, 3)),
    stream(rule("drop"), end=CLOSED, signals="0"),
    stream(rule("half_event", after=2), end=CLOSED, signals="01", begun="2", utf8=True),
    stream(rule("half_event", how="reset"), end=RESET, signals="0", begun="1"),
    stream(rule("half_event", at="character"), end=CLOSED, signals="0", begun="1", utf8=False, last=b"\xe2"),
    stream(rule("half_event", at="character", how="reset"), token="é", end=RESET, signals="0", last=b"\xc3"),
    stream(rule("half_event", at="character"), token="📈", end=CLOSED, signals="0", last=b"\xf0"),
    stream(rule("silence", after=3), end=LATE, signals="012"),
    stream(rule("silence", after=3, seconds=0), ends=6, signals="012345"),
    # other events
    stream(rule("skip", after=1, each=2), ends=4, signals="0135"),
    stream(rule("skip", each=3), ends=4, signals="0134"),
    stream(rule("skip", after=4), ends=4, signals="0123"),
    stream(rule("skip", share=0.5), end=LATE, signals="01"),
    stream(rule("duplicate"), ends=12, signals="001122334455"),
    stream(rule("duplicate", each=2), ends=9, signals="011233455"),
    stream(rule("duplicate", after=3), ends=9, signals="012334455"),
    stream(rule("duplicate", after=1, each=2), ends=8, signals="01223445"),
    stream(rule("duplicate", after=9), ends=6, signals="012345"),
    stream(rule("duplicate", share=0.5), ends=8, signals="01223344"),
    stream(rule("reorder"), ends=6, signals="103254"),
    stream(rule("reorder", window=3), ends=6, signals="120354"),
    stream(rule("reorder", window=6), ends=6, signals="041235"),
    # other bytes
    stream(rule("garbage"), ends=6, signals="01?2?3?4?5", utf8=False, body=lambda body: body.startswith(b"weight: ")),
    stream(rule("garbage", after=1, each=2), ends=6, signals="012345", body=lambda body: body.count(b"\n") == 16),
    stream(rule("garbage", share=0.5), ends=6, signals="0123?4?5"),
    *(stream(rule("inject", after=after, text="data: x\n\n"), ends=3, signals=signals)
      for after, signals in [(0, "?012"), (1, "0?12"), (2, "01?2"), (3, "012")]),
    stream(rule("inject", base64=b64(OWN)), ends=6, signals="012345", body=lambda body: body.startswith(OWN)),
    stream(rule("inject", text="data: " + "x" * 2**20), ends=1, signals="?"),
    stream(rule("bom"), ends=6, signals="012345", body=lambda body: body.rindex(BOM) == 0),
    stream(rule("line_endings", style="cr"), ends=6, signals="012345", body=ended(cr=12, lf=0, crlf=0)),
    stream(rule("line_endings", style="lf"), ends=6, signals="012345", body=ended(cr=0, lf=12, crlf=0)),
    stream(rule("line_endings"), ends=6, signals="012345", body=ended(cr=0, lf=0, crlf=12)),
    stream(rule("line_endings", style="mixed"), ends=6, signals="012345", body=ended(cr=1, lf=5, crlf=6)),
    stream(rule("split_utf8"), ends=6, signals="012345", body=lambda body: body.startswith(b": \xe2\x80\x94")),
    stream(rule("split_utf8"), token="Übermünze", ends=6, signals="012345", body=lambda body: b": \xe2" not in body),
    # several at once: applied in an order of their own, and bytes of one's own stay as they are
    stream(rule("drip", piece=33, seconds=0), rule("bom"), rule("line_endings", style="mixed"), rule("split_utf8"),
           rule("drop", after=12, how="clean"), rule("silence", after=9, seconds=0), rule("duplicate"),
           rule("reorder", window=3), rule("garbage"), signals="22?1?1?0?0?5?533?4?4",
           faults=("reorder", "duplicate", "silence", "drop", "garbage", "split_utf8", "line_endings", "bom", "drip")),
    stream(rule("garbage"), rule("split_utf8"), rule("bom"), rule("line_endings", style="cr"),
           rule("inject", after=1, text="data: é\ndata: é\n\n"), ends=2,
           body=lambda body: body.count("data: é\ndata: é\n\n".encode()) == 1 and body.count(b"\n") == 3),
]
"""What comes of faults on the stream: six signals are published after it was opened."""
# fmt: on

WAYS = [
    (carrier, client)
    for carrier in reversed(CARRIERS)
    for client in ("blocking", "asyncio", "trio")
    if (carrier, client) != ("sockets", "trio")
]


ON_SOCKETS = {"latency", "status", "reset", "truncate", "bad_chunk", "drip", "drop", "half_event", "silence"}
"""Kinds that the server does with its connection; the others only change the bytes that it is given."""


def cases(quick: bool) -> Iterator[Any]:
    """Each row in each way. The quick run has blocking clients, and over sockets the first row of some kinds."""
    seen = set[str]()
    for each in [*ANSWERS, *STREAMS]:
        first = each.id in ON_SOCKETS and each.id not in seen
        seen.add(each.id)
        for carrier, flavour in WAYS:
            if quick == (flavour == "blocking" and (first or carrier == "in process")):
                yield pytest.param(carrier, flavour, *each.values, id=f"{each.id}-{flavour}, {carrier}")


def see(mock: MockService, flavour: str, at: str, token: str | None, patience: float) -> Seen:
    """Send the request of a row, and read what comes to its end."""
    emitted: list[str] = []
    options: dict[str, Any] = {"headers": {"Authorization": f"Bearer {FULL}"}, "read": patience}
    method, path = "GET", ACCOUNT
    if at == "stream":
        path, options["params"] = STREAM, BASE_CHAIN
        options["opened"] = lambda: emitted.extend(emit(mock, 6, **({} if token is None else {"token": token})))
    if at == "agents":
        with client(mock) as http:
            body = {"name": "one", "wallet_id": add_wallet(http), "chain_id": 8453}
        method, path, options["json"] = "POST", "/v1/agents", body
    if at == "prices":
        method, path, options["json"] = "POST", "/v1/token-prices", {"tokens": [{"identifier": "BRETT"}]}
    now = time.monotonic if isinstance(mock, MockServer) else mock.clock.now
    before = now()
    outcome = fetch(flavour, mock, method, path, **options)
    return Seen(outcome, mock, emitted, now() - before)


CASE = ("carrier", "flavour", "rules", "at", "token", "comes")


def check_fault(
    carrier: str, flavour: str, rules: tuple[Rule, ...], at: str, token: str | None, comes: dict[str, Any]
) -> None:
    """A client that is to lose patience has little of it, for speed; and more where a busy machine is slower."""
    for patience in (0.6, 6) if comes["end"] == LATE else ():
        with suppress(AssertionError, IndexError):
            _check_fault(carrier, flavour, rules, at, token, comes, patience)
            return
    _check_fault(carrier, flavour, rules, at, token, comes, 30)


def _check_fault(
    carrier: str,
    flavour: str,
    rules: tuple[Rule, ...],
    at: str,
    token: str | None,
    comes: dict[str, Any],
    patience: float,
) -> None:
    with silent(carrier) as mock:
        for kind, parameters in rules:
            mock.add_fault(kind, route="/v1/agents" if at == "agents" else None, **parameters)
        seen = see(mock, flavour, at, token, patience)
        assert set(seen.faults) == {kind for kind, _ in rules}
        if carrier == "in process":
            assert mock.status()["streams"] == 0
        for name, expected in comes.items():
            if name == "late":
                assert seen.late >= expected - 1e-6
                assert seen.late < expected + 1e-6 or carrier == "sockets"
            elif callable(expected):
                assert expected(seen[name]), (name, seen[name])
            else:
                assert seen[name] == expected, name


@each_of(CASE, cases(quick=True))
def test_fault(
    carrier: str, flavour: str, rules: tuple[Rule, ...], at: str, token: str | None, comes: dict[str, Any]
) -> None:
    check_fault(carrier, flavour, rules, at, token, comes)


@pytest.mark.long
@pytest.mark.parametrize(CASE, [*cases(quick=False)])
def test_fault_in_every_way(
    carrier: str, flavour: str, rules: tuple[Rule, ...], at: str, token: str | None, comes: dict[str, Any]
) -> None:
    check_fault(carrier, flavour, rules, at, token, comes)


def test_every_kind_is_in_the_table() -> None:
    shown = {kind for each in [*ANSWERS, *STREAMS] for kind, _ in each.values[0]}
    with silent("in process") as mock:
        assert shown == {kind.name for kind in mock.fault_kinds() if kind.on in ("response", "stream")}


# Chance


@pytest.mark.long
@each_of(
    ("given", "at", "name"),
    [
        (rule("latency", jitter=9), "account", "late"),
        (rule("skip", share=0.5), "stream", "signals"),
        (rule("duplicate", share=0.5), "stream", "signals"),
        (rule("garbage", share=0.5), "stream", "body"),
        (rule("reorder", window=6), "stream", "signals"),
        (rule("line_endings", style="mixed"), "stream", "body"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_chance_follows_from_the_seed(given: Rule, at: str, name: str) -> None:
    def play(seed: int) -> Any:
        with silent("in process", seed=seed) as mock:
            mock.add_fault(given[0], **given[1])
            return see(mock, "blocking", at, None, 20)[name]

    assert play(7) == play(7)
    assert len({play(seed) for seed in range(7, 9)}) > 1


def test_jitter_is_drawn_for_each_request_and_a_share_for_each_event() -> None:
    with silent("in process") as mock, client(mock) as http:
        mock.add_fault("latency", seconds=1, jitter=3, count=5)
        delays = []
        for _ in range(5):
            before = mock.clock.now()
            ok(http.get(ACCOUNT))
            delays.append(mock.clock.now() - before)
        assert len(set(delays)) == 5
        assert all(1 <= seconds < 4 for seconds in delays)
        mock.add_fault("duplicate", share=0.5)
        mock.add_fault("drop", after=45, how="clean")
        emitted, content, _ = listen(mock, http, 60)
        assert 5 < [ids(content).count(ident) for ident in emitted].count(2) < 25


# How the bytes arrive


@each_of(
    ("given", "target", "head", "body", "end"),
    [
        (rule("status", status=503), ACCOUNT, b"HTTP/1.1 503 Service Unavailable\r\n", b"}}", "eof"),
        (rule("status", status=599), ACCOUNT, b"HTTP/1.1 599 \r\n", b"}}", "eof"),
        (rule("reset"), ACCOUNT, b"", b"", "reset"),
        (rule("reset", after=0), ACCOUNT, b"HTTP/1.1 200 OK\r\n", b"", "reset"),
        (rule("reset", after=5), ACCOUNT, b"HTTP/1.1 200 OK\r\n", b'{"id"', "reset"),
        (rule("truncate", after=5), ACCOUNT, b"HTTP/1.1 200 OK\r\n", b'{"id"', "eof"),
        (rule("bad_chunk", after=5), ACCOUNT, b"HTTP/1.1 200 OK\r\n", b'5\r\n{"id"\r\nnot a length\r\n', "eof"),
        (rule("bad_chunk", after=0), ACCOUNT, b"HTTP/1.1 200 OK\r\n", b"not a length\r\n", "eof"),
        (rule("drop", how="clean"), f"{STREAM}?chain=8453", b"HTTP/1.1 200 OK\r\n", b"\n\n\r\n0\r\n\r\n", "eof"),
        (rule("drop", how="close"), f"{STREAM}?chain=8453", b"HTTP/1.1 200 OK\r\n", b"\n\n\r\n", "eof"),
        (rule("drop", how="reset"), f"{STREAM}?chain=8453", b"HTTP/1.1 200 OK\r\n", b"\n\n\r\n", "reset"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_bytes_on_the_socket(given: Rule, target: str, head: bytes, body: bytes, end: str) -> None:
    """The end of the body, and how the connection ends."""
    with silent("sockets") as mock:
        assert isinstance(mock, MockServer)
        mock.add_fault(given[0], **given[1])
        mock.set_gaps(heartbeat=1)
        mock.clock.move(freeze=False, speed=1_000)
        came, ended = bytearray(), "eof"
        with socket.create_connection(("127.0.0.1", mock.port), timeout=30) as connection:
            connection.sendall(
                f"GET {target} HTTP/1.1\r\nHost: a\r\n".encode()
                + f"Authorization: Bearer {FULL}\r\nConnection: close\r\n\r\n".encode()
            )
            try:
                while piece := connection.recv(65_536):
                    came += piece
            except ConnectionResetError:
                ended = "reset"
        assert ended == end
        assert came.startswith(head)
        content = came.partition(b"\r\n\r\n")[2]
        assert content.endswith(body)
        assert content == body or target != ACCOUNT or given[0] == "status"


def test_the_connection_is_kept_where_a_fault_does_not_end_it() -> None:
    with silent("sockets") as mock, client(mock) as http:
        peers = set()
        for kind in ("status", "malformed_json", "content_type", "huge_body", "drip"):
            parameters: dict[str, Any] = {"seconds": 0} if kind == "drip" else {}
            mock.add_fault(kind, count=1, **parameters)
            answer = http.get(ACCOUNT)
            assert mock.journal()[-1].faults == (kind,)
            peers.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(peers) == 1


@each_of(
    ("given", "at", "token", "right"),
    [
        (rule("drip", piece=50), "account", None, lambda pieces: pieces == [50, 50, 25]),
        (rule("huge_body", mib=1), "account", None, lambda pieces: len(pieces) == 16 and max(pieces) <= 2**16 + 125),
        (rule("split_utf8"), "stream", "📈", lambda pieces: len(pieces) == 8),
    ],
    ids=["drip", "huge_body", "split_utf8"],
)
def test_pieces(given: Rule, at: str, token: str | None, right: Callable[[list[int]], bool]) -> None:
    """A large body is never in memory as a whole."""
    with silent("in process") as mock:
        mock.add_fault(given[0], **given[1])
        mock.add_fault("drop", after=4, how="clean")
        seen = see(mock, "blocking", at, token, 10)
        assert right(seen.pieces), seen.pieces
        if at == "stream":  # every place inside a character is cut
            cuts = [
                len(seen.body[sum(seen.pieces[:n]) : sum(seen.pieces[: n + 1])].partition(b"\xf0")[2])
                for n in (0, 2, 4, 6)
            ]
            assert cuts == [0, 1, 2, 0]


# Streams in the course of time


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with silent(request.param) as made:
        yield made


@contextmanager
def reading(mock: MockService, timeout: float = 60) -> Iterator[Reader]:
    with client(mock, timeout=timeout) as http, http.stream("GET", STREAM, params=BASE_CHAIN) as answer:
        yield Reader(answer)


def pass_by(mock: MockService, seconds: float) -> None:
    """Over sockets somebody has to move the clock; in process it is moved by whoever reads."""
    if isinstance(mock, MockServer):
        mock.clock.advance(seconds)


def test_a_fault_of_one_stream_is_not_in_another(mock: MockService) -> None:
    """Which events it is about is counted on each connection; what is left out of one is in the history."""
    mock.add_fault("silence", after=1, nth=1)
    mock.add_fault("skip", each=2, nth=2)
    with reading(mock) as silent, reading(mock) as skipping, reading(mock) as whole, client(mock) as http:
        emitted = emit(mock, 3)
        assert silent.until(1) == emitted[:1]
        assert skipping.until(2) == emitted[::2]
        assert whole.until(3) == emitted
        listed = ok(http.get("/v1/signals/history", params={**BASE_CHAIN, "from": START}))["data"]
        assert [signal["id"] for signal in listed] == emitted[::-1]
        mock.reset()
        assert ids(silent.rest()) == emitted[:1]  # a silence ends with the world


def test_a_silence_ends_and_what_was_held_back_comes(mock: MockService) -> None:
    mock.add_fault("silence", after=1, seconds=40)
    with reading(mock) as stream:
        emitted = emit(mock, 3)
        assert stream.until(1) == emitted[:1]
        pass_by(mock, 39)
        emitted += emit(mock, 1)
        pass_by(mock, 1)
        assert stream.until(4) == emitted
    assert mock.clock.now() == START + 40


def test_comments_in_a_silence(mock: MockService) -> None:
    """After a jump of the clock past several of them there is one."""
    mock.add_fault("silence", after=1, seconds=55, comments=10)
    with reading(mock, 15) as stream:
        emitted = emit(mock, 3)
        stream.until(1)
        for count in (1, 2):
            pass_by(mock, 10)
            stream.until_text(b"\n:", count)
            assert mock.clock.now() == START + 10 * count
        mock.clock.advance(25)
        stream.until_text(b"\n:", 3)
        pass_by(mock, 10)
        assert stream.until(3) == emitted
    assert mock.clock.now() == START + 55
    assert stream.came.count(b"\n:") == 3


def test_a_silence_ends_when_the_clock_is_set_back() -> None:
    with silent("in process") as mock:
        mock.add_fault("silence", after=1, seconds=30)
        with reading(mock) as stream:
            emitted = emit(mock, 2)
            stream.until(1)
            mock.clock.set(START - 1, allow_backwards=True)
            assert stream.until(2) == emitted
            assert mock.clock.now() == START - 1


def test_heartbeats_are_silent_too_and_come_later_with_their_times() -> None:
    with silent("in process") as mock, client(mock, timeout=50) as http:
        mock.set_gaps(heartbeat=15)
        mock.add_fault("silence", after=0, seconds=40)
        mock.add_fault("drop", after=3, how="clean")
        _, content, _ = listen(mock, http, 0)
    assert [json.loads(data)["timestamp"] - START for data in data_of(content)] == [15, 30, 45]


def test_reorder_and_skip_leave_heartbeats_alone() -> None:
    with silent("in process") as mock:
        mock.set_gaps(heartbeat=15)
        mock.add_fault("reorder", window=10, seconds=20)
        mock.add_fault("skip", after=2)
        with reading(mock) as stream:
            emitted = emit(mock, 3)
            assert stream.until(2) == emitted[1::-1]
            stream.until_text(b"heartbeat", 2)
        assert stream.came.index(b"heartbeat") < stream.came.index(b'"signal"') < stream.came.rindex(b"heartbeat")


@each_of("closed", [False, True])
def test_a_reset_and_the_end_of_the_mock_end_a_stream_whatever_its_faults(closed: bool) -> None:
    """What is held back comes first."""
    with silent("in process") as mock:
        mock.set_gaps(heartbeat=15)
        rules = [rule("reorder", window=9, seconds=99), rule("bom")]
        for kind, parameters in [*rules, *(rule(kind, after=9) for kind in ("skip", "duplicate", "half_event"))]:
            mock.add_fault(kind, **parameters)
        with reading(mock) as stream:
            emitted = emit(mock, 2)
            stream.until_text(b"heartbeat")
            if closed:
                mock.close()
                with pytest.raises(httpx.RemoteProtocolError):
                    stream.rest()
            else:
                mock.reset()
                stream.rest()
            assert ids(bytes(stream.came)) == emitted[::-1]
            assert stream.came.startswith(BOM)


def test_reorder_lets_signals_go_that_have_waited_long_enough(mock: MockService) -> None:
    mock.add_fault("reorder", window=10, seconds=30)
    with reading(mock) as stream:
        emitted = emit(mock, 2)
        if isinstance(mock, MockServer):
            mock.clock.move(freeze=False, speed=1_000)
        assert stream.until(2) == emitted[::-1]
    assert mock.clock.now() >= START + 30
    assert isinstance(mock, MockServer) or mock.clock.now() == START + 30


@pytest.mark.long
@given(count=st.integers(1, 12), window=st.integers(2, 5), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=10)
def test_reorder_loses_nothing_and_moves_no_signal_out_of_its_window(count: int, window: int, seed: int) -> None:
    with silent("in process", seed=seed) as mock, client(mock) as http:
        mock.add_fault("reorder", window=window)
        mock.add_fault("drop", after=count, how="clean")
        emitted, content, _ = listen(mock, http, count)
    for start in range(0, count, window):
        before, after = emitted[start : start + window], ids(content)[start : start + window]
        assert sorted(before) == sorted(after)
        assert len(before) == 1 or before != after


FORMS = [
    *(rule("bom"), rule("split_utf8"), rule("drip", piece=7, seconds=0), rule("garbage"), rule("inject", text=": x\n")),
    *(rule("line_endings", style=style) for style in ("mixed", "cr", "crlf")),
]


@pytest.mark.long
@given(forms=st.lists(st.sampled_from(FORMS), unique_by=lambda form: form[0]), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=10)
def test_changes_of_form_change_no_signal(forms: list[Rule], seed: int) -> None:
    with silent("in process", seed=seed) as mock, client(mock) as http:
        for kind, parameters in [*forms, rule("drop", after=5, how="clean")]:
            mock.add_fault(kind, **parameters)
        emitted, content, _ = listen(mock, http, 5)
    assert ids(content) == emitted
    if not {"garbage", "inject", "split_utf8"} & {kind for kind, _ in forms}:  # they add lines
        assert content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") == 10


def test_a_reader_may_close_a_stream_with_faults_at_any_time(mock: MockService) -> None:
    mock.add_fault("duplicate")
    with client(mock) as http, http.stream("GET", STREAM, params=BASE_CHAIN) as answer:
        emit(mock, 1)
        next(answer.iter_raw())
        answer.close()
    if not isinstance(mock, MockServer):
        assert mock.status()["streams"] == 0
