"""The same seed, calls and clock give the same bytes: courses of calls, played without a socket and behind one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk_mock import GapOptions, MockClock, MockServer, MockService

from ._http import FULL, OTHER, READ, START, client, connection, in_process

pytestmark = pytest.mark.long

BRETT = {"tokens": [{"identifier": "BRETT"}]}
# Money is asked for under the name of the host, and that is another one for every server.
HOST = {"Host": "localhost"}


@dataclass
class Player:
    """Plays steps and notes what comes back, byte by byte."""

    mock: MockService
    http: httpx.Client
    seen: list[Any] = field(default_factory=list, repr=False)

    def call(self, method: str, path: str, body: object = None, *, key: str | None = FULL, **headers: str) -> Any:
        sent = {**HOST, **headers} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        try:
            with self.http.stream(method, path, json=body, headers=sent) as answer:
                content = b"".join(answer.iter_raw())
        except httpx.TransportError as error:
            # How much of a torn answer arrives is up to the network.
            self.seen.append((method, path, type(error).__name__))
            return None
        self.seen.append((method, path, answer.status_code, _headers(answer), content))
        try:
            return json.loads(content)
        except ValueError:
            return None

    def listen(self, rounds: int, chain: int = 8453, step: float = 20.0, **headers: str) -> None:
        """Open a stream and move the clock on, each time by enough for a heartbeat after whatever else there is.

        A key that is revoked ends it, so that all of it is read.
        """
        received, opened, failed = bytearray(), None, None
        key = self.mock.create_key(tenant="main")
        sent = {**HOST, "Authorization": f"Bearer {key.value}", **headers}
        try:
            with self.http.stream("GET", f"/v1/signals/stream?chain={chain}", headers=sent) as answer:
                opened = (answer.status_code, _headers(answer))
                pieces = answer.iter_raw()
                for _ in range(rounds):
                    self.mock.clock.advance(step)
                    beat = b'"heartbeat","timestamp":%d' % self.mock.world.second()
                    while beat not in received and (piece := next(pieces, None)) is not None:
                        received += piece
                self.mock.revoke_key(key.id)
                received += b"".join(pieces)
        except httpx.TransportError as error:
            failed = type(error).__name__
        self.seen.append(("stream", opened, failed, bytes(received)))

    def digest(self) -> str:
        return sha256(repr(self.seen).encode()).hexdigest()


def _headers(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """In the order in which they came. How their names are spelled is the server's."""
    return [(name.lower(), value) for name, value in answer.headers.raw]


Script = Callable[[Player], None]


def play_in_process(script: Script, *, seed: int = 7) -> Player:
    with MockService(seed=seed, clock=MockClock(START)) as mock, in_process(mock, None) as http:
        script(player := Player(mock, http))
        return player


def play_over_sockets(script: Script) -> Player:
    with MockServer(clock=MockClock(START)) as server, client(server, None) as http:
        script(player := Player(server, http))
        return player


def everything(player: Player) -> None:
    """Requests of every kind: both interfaces, streams, control, faults, gaps, emitted signals, resets, the clock."""
    account(player)
    market(player)
    streams(player)
    faults(player)
    for looked_at in ("journal", "keys", "clock", "gaps", "faults/kinds"):
        player.call("GET", f"/_mock/{looked_at}", key=None)
    player.call("POST", "/_mock/reset", {"seed": 8, "populate": ["main"]}, key=None)
    account(player)
    market(player)


def account(player: Player) -> None:
    call = player.call
    call("POST", "/_mock/tenants/main/populate", {"trades": 120})
    wallet = call("POST", "/v1/wallets", connection())["id"]
    made = call("POST", "/v1/agents", {"name": "ä", "wallet_id": wallet, "chain_id": 8453, "min_confidence": 0.9})["id"]
    player.mock.clock.advance(61.25)
    call("PATCH", f"/v1/agents/{made}", {"risk": {"stop_loss_pct": 2}})
    cursor = call("GET", "/v1/trades?limit=100")["next_cursor"]
    trades = call("GET", f"/v1/trades?limit=100&cursor={cursor}")["data"]
    for path in (
        *("/v1/account", "/v1/account/usage", "/v1/agents?limit=2", "/v1/positions", "/v1/wallets?chain_id=56"),
        *("/v1/signals?chain=8453&limit=100", "/v1/signals/history?chain=56", f"/v1/wallets/{wallet}/balance"),
        *(f"/v1/trades/{trades[0]['id']}", f"/v1/agents/{made}", "/v1/agents/unknown", "/v1/nothing", "/elsewhere"),
    ):
        call("GET", path)
        call("GET", path, key=READ)
    call("GET", "/v1/account", key=None)
    call("GET", "/v1/account", key="mock_full_free_newcomer")
    call("POST", "/v1/agents", {"name": 5})
    call("PUT", "/v1/agents", {})
    call("POST", f"/_mock/agents/{made}/start")
    call("DELETE", f"/v1/agents/{made}")
    call("POST", f"/_mock/agents/{made}/stop")
    call("DELETE", f"/v1/agents/{made}")
    key = call("POST", "/_mock/keys", {"tenant": "main", "scope": "read-only"})
    call("GET", "/v1/account", key=key["value"])
    call("POST", f"/_mock/keys/{key['id']}/rotate")
    call("GET", "/v1/account", key=key["value"])


def market(player: Player) -> None:
    call = player.call
    sold: list[tuple[str, object]] = [
        *(("token-signals", BRETT), ("token-prices", BRETT), ("signal-history", BRETT), ("token-win-rate", BRETT)),
        *(("token-avg-prices", BRETT), ("top-performers", {"sortBy": "ROI"}), ("aggregate-metrics", {})),
        *(("supported-tokens", {"limit": 500}), ("token-prices", {}), ("token-prices", {"tokens": [{}]})),
    ]
    for paywall in ("closed", "open"):
        call("PUT", "/_mock/gaps", {"paywall": paywall, "b_rate": "60"})
        for path, body in sold:
            call("POST", f"/v1/{path}", body, key=None)
    call("PUT", "/_mock/gaps", {"paywall": "closed", "b_rate": "none", "unknown_values": "on", "order": "oldest"})
    for path in ("/v1/trades", "/v1/agents", "/v1/signals?chain=56", "/v1/nothing"):
        call("GET", path)
    call("PUT", "/_mock/gaps", {"unknown_values": "off", "order": "newest", "clock_skew": 90})


def streams(player: Player) -> None:
    call = player.call
    player.listen(3)
    call("POST", "/_mock/signals", {"at": player.mock.clock.now() + 100, "chain_id": 56})
    player.listen(2, 56, 90.0)
    call("PUT", "/_mock/gaps", {"resume": "ids", "unknown_values": "on"})
    last = call("GET", "/v1/signals?chain=8453&limit=30")["data"][-1]["id"]
    player.listen(1, **{"Last-Event-ID": last})
    call("PUT", "/_mock/gaps", {"resume": "none", "unknown_values": "off"})
    call("POST", "/_mock/signals", {"token": "a new one", "direction": "SELL", "confidence": 1})
    call("POST", "/_mock/signals")
    call("GET", "/v1/signals/history?chain=8453&limit=5")
    call("GET", "/v1/signals/stream?chain=1")
    call("GET", "/v1/signals/stream?chain=8453", key="wrong")


def faults(player: Player) -> None:
    call = player.call
    rules: list[dict[str, object]] = [
        {"kind": "status", "route": "/v1/agents", "probability": 0.5, "status": 503},
        {"kind": "malformed_json", "route": "/v1/trades", "probability": 0.5},
        {"kind": "reset", "route": "/v1/positions", "every": 3},
        {"kind": "truncate", "route": "/v1/wallets", "probability": 0.4, "after": 20},
        {"kind": "bad_chunk", "route": "/v1/account", "nth": 2, "after": 10},
        {"kind": "content_type", "route": "/v1/token-prices", "count": 1},
        {"kind": "garbage", "share": 0.4},
        {"kind": "duplicate", "share": 0.4},
        {"kind": "split_utf8", "probability": 0.5},
        {"kind": "line_endings", "style": "mixed"},
        # Longer than anybody listens: the clock is moved while a server's thread looks whether they have waited enough.
        {"kind": "reorder", "window": 3, "seconds": 600},
    ]
    for rule in rules:
        call("POST", "/_mock/faults", rule)
    for _ in range(10):
        for path in ("agents", "trades?limit=3", "positions", "wallets", "account"):
            call("GET", f"/v1/{path}")
        call("POST", "/v1/token-prices", BRETT)
    player.listen(2)
    player.listen(2, 56, 40.0)
    call("GET", "/_mock/faults")
    call("DELETE", "/_mock/faults")


# The same again


def same(first: Player, second: Player) -> None:
    """Step by step, so that a difference is seen where it begins."""
    for one, other in zip(first.seen, second.seen, strict=True):
        assert one == other


@pytest.fixture(scope="module")
def played() -> Player:
    """Requests of every kind, answered without a socket."""
    return play_in_process(everything)


def test_the_course_has_everything_in_it(played: Player) -> None:
    statuses = {step[2] for step in played.seen if isinstance(step, tuple) and step[0] != "stream"}
    assert statuses >= {200, 201, 204, 400, 401, 402, 404, 405, 409, 422, 503, "ReadError", "RemoteProtocolError"}
    streams = b"".join(step[3] for step in played.seen if isinstance(step, tuple) and step[0] == "stream")
    for what in (b'"signal"', b'"heartbeat"', b'"notice"', b"id: ", b"\r", b"\n: "):
        assert what in streams


def test_same_seed_same_bytes(played: Player) -> None:
    same(played, play_in_process(everything))


@pytest.mark.long
def test_a_socket_adds_nothing(played: Player) -> None:
    same(played, play_over_sockets(everything))


def test_another_process_in_another_time_zone_says_the_same(played: Player) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"}
    code = "from tests.mock.test_determinism import *; print(play_in_process(everything).digest())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (played.digest(), "")


NOISE: list[tuple[str, str, object]] = [
    ("GET", "/v1/account", None),
    ("GET", "/v1/trades", None),
    ("GET", "/v1/nothing", None),
    ("GET", "/v1/signals?chain=8453", None),
    ("POST", "/v1/wallets", connection(owner=OTHER)),
    ("POST", "/v1/agents", {"name": "x", "wallet_id": "none", "chain_id": 8453}),
    ("POST", "/v1/agents", {}),
    ("POST", "/v1/supported-tokens", {}),
    ("POST", "/v1/aggregate-metrics", {}),
    ("POST", "/_mock/keys", {"tenant": "noise"}),
    ("POST", "/_mock/keys", {}),
    ("POST", "/_mock/tenants/noise/populate", None),
    ("POST", "/_mock/tenants/noise/plan", {"plan": "free"}),
    ("POST", "/_mock/signals", {"confidence": 2}),
    ("POST", "/_mock/faults", {"kind": "no such thing"}),
    ("POST", "/_mock/clock", {"set": 0}),
    ("PUT", "/_mock/gaps", {"mood": "bad"}),
    ("POST", "/_mock/reset", {"populate": ["no name"]}),
    ("GET", "/_mock/status", None),
]


class NoisyPlayer(Player):
    """Somebody else is busy before every call."""

    noise: Iterator[tuple[str, str, object]]

    def call(self, method: str, path: str, body: object = None, *, key: str | None = FULL, **headers: str) -> Any:
        for busy in islice(self.noise, 2):
            self.http.request(busy[0], busy[1], json=busy[2], headers={"Authorization": "Bearer mock_full_noise"})
        return super().call(method, path, body, key=key, **headers)


def course(player: Player) -> None:
    account(player)
    streams(player)


@pytest.fixture(scope="module")
def alone() -> Player:
    return play_in_process(course)


@settings(max_examples=5, deadline=None)
@given(noise=st.lists(st.sampled_from(NOISE), min_size=1, max_size=8, unique_by=lambda each: repr(each)))
@example(noise=NOISE)
def test_what_others_do_shifts_nothing(alone: Player, noise: list[tuple[str, str, object]]) -> None:
    with MockService(clock=MockClock(START)) as mock, in_process(mock, None) as http:
        player = NoisyPlayer(mock, http)
        player.noise = cycle(noise)
        course(player)
    for one, other in zip(alone.seen, player.seen, strict=True):
        assert without_cursor(one) == without_cursor(other)


def without_cursor(step: tuple[Any, ...]) -> tuple[Any, ...]:
    """A cursor names a place among the records of all: opaque, and the one thing that others may change."""
    if step[0] == "stream":
        return step
    method, path, status, headers, content = step
    kept = [header for header in headers if header[0] != b"content-length"]
    return method, path.partition("&cursor=")[0], status, kept, re.sub(rb',"next_cursor":"[^"]+"', b"", content)


@pytest.mark.long
def test_another_seed_another_world(alone: Player) -> None:
    other = play_in_process(course, seed=1)
    kinds = ("acc", "agt", "wal", "trd", "pos", "sig")
    for kind in kinds:
        ids = [set(re.findall(kind + r"_[0-9a-f]{24}", repr(player.seen))) for player in (alone, other)]
        assert len(ids[0]) >= 2, kind
        assert not ids[0] & ids[1], kind


def test_a_reset_starts_the_same_world_again(server: MockService, alone: Player) -> None:
    with client(server, None) as http:
        for _ in range(2):
            player = Player(server, http)
            course(player)
            same(alone, player)
            # A world begins when it is made: its market's past is that of this moment.
            server.clock.set(START, allow_backwards=True)
            server.reset()


# Courses that nobody has thought of

PATHS = [
    *(
        "account",
        "account/usage",
        "agents",
        "agents?status=idle",
        "agents?limit=0",
        "wallets",
        "trades?limit=7",
        "trades",
    ),
    *("positions", "signals?chain=8453", "signals?chain=56&min_confidence=0.7", "signals/history?chain=56&limit=5"),
    *("agents/AGENT", "wallets/WALLET/balance", "token-prices", "nothing"),
]
OPTIONS = [
    (option.name, value)
    for option in GapOptions.describe()
    for value in (option.default, *option.others)
    if option.name != "heartbeat"  # the player waits for them
]
KEYS = [FULL, FULL, FULL, READ, "mock_full_free_small", "mock_full_enterprise_large", "nonsense", None]
RULES: list[dict[str, Any]] = [
    *({"kind": "status", "status": 503}, {"kind": "status", "status": 429, "executed": True}, {"kind": "reset"}),
    *({"kind": "reset", "executed": True}, {"kind": "truncate", "after": 5}, {"kind": "huge_body", "mib": 0.01}),
    *({"kind": kind} for kind in ("bad_chunk", "malformed_json", "content_type", "bom", "split_utf8", "line_endings")),
    *(
        {"kind": "garbage", "share": 0.5},
        {"kind": "duplicate", "share": 0.5},
        {"kind": "reorder"},
        {"kind": "half_event"},
    ),
    *({"kind": "drop", "how": how} for how in ("clean", "close", "reset")),
]
seconds = st.sampled_from([0, 0.25, 1, 59.75, 61, 3_600.5, 86_400 * 3])
agents = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "é", ""]), "wallet_id": st.just("WALLET"), "chain_id": st.just(8453)},
    optional={"max_positions": st.sampled_from([1, 0]), "risk": st.just({"stop_loss_pct": 1.5})},
)
emitted = st.fixed_dictionaries(
    {},
    optional={
        "chain_id": st.sampled_from([8453, 56, 1]),
        "token": st.sampled_from(["BRETT", "a new one"]),
        "after": st.sampled_from([0, 10]),
    },
)
rules = st.builds(
    lambda rule, chance: {**rule, "probability": chance}, st.sampled_from(RULES), st.sampled_from([0.3, 1.0])
)


def step(method: str, path: Any, body: Any = None, key: Any = None) -> st.SearchStrategy[Any]:
    """A call; what isn't a strategy is always the same."""
    return st.tuples(
        *(each if isinstance(each, st.SearchStrategy) else st.just(each) for each in (method, path, body, key))
    )


steps = st.one_of(
    step("GET", st.sampled_from(PATHS).map("/v1/{}".format), None, st.sampled_from(KEYS)),
    step("POST", "/v1/agents", agents, st.sampled_from(KEYS)),
    step("POST", "/v1/wallets", st.sampled_from([8453, 56]).map(connection), st.sampled_from(KEYS)),
    step("PATCH", "/v1/agents/AGENT", st.sampled_from([{"name": "b"}, {}]), FULL),
    step("DELETE", "/v1/agents/AGENT", None, FULL),
    step(
        "POST",
        st.sampled_from(["token-prices", "token-signals", "signal-history", "token-win-rate"]).map("/v1/{}".format),
        st.sampled_from([BRETT, {"tokens": [{"identifier": "nobody"}]}, {}]),
    ),
    step("POST", "/_mock/clock", seconds.map(lambda by: {"advance": by})),
    step("PUT", "/_mock/gaps", st.sampled_from(OPTIONS).map(lambda option: dict([option]))),
    step("POST", "/_mock/signals", emitted),
    step("POST", "/_mock/faults", rules),
    step("DELETE", "/_mock/faults"),
    step("POST", "/_mock/reset", st.sampled_from([{}, {"seed": 5}])),
    step("POST", "/_mock/tenants/main/populate", {"trades": 30}),
    step("LISTEN", st.sampled_from(["8453", "56"])),
)


def random_course(chosen: list[tuple[str, str, Any, str | None]]) -> Callable[[Player], None]:
    def script(player: Player) -> None:
        known = {"AGENT": "agt_unknown", "WALLET": "wal_unknown"}
        for method, path, body, key in chosen:
            if method == "LISTEN":
                player.listen(1, int(path), 90.0)
                continue
            for name, ident in known.items():
                path = path.replace(name, ident)
            if body and body.get("wallet_id"):
                body = {**body, "wallet_id": known["WALLET"]}
            made = player.call(method, path, body, key=key)
            if method == "POST" and isinstance(made, dict) and "id" in made and path.startswith("/v1/"):
                known["AGENT" if path == "/v1/agents" else "WALLET"] = made["id"]

    return script


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(chosen=st.lists(steps, min_size=3, max_size=14))
def test_any_course_is_the_same_bytes_again(chosen: list[tuple[str, str, Any, str | None]]) -> None:
    script = random_course(chosen)
    first = play_in_process(script)
    same(first, play_in_process(script))
    same(first, play_over_sockets(script))
