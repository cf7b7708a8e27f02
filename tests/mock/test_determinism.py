"""The same seed, calls and clock give the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tradesdk_mock import GapOptions, MockClock, MockServer, MockService

from ._script import BRETT, Player, account, everything, play_in_process, play_over_sockets, streams
from ._support import FULL, OTHER, READ, START, client, connection, in_process


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
    assert statuses >= {200, 201, 204, 400, 401, 402, 404, 405, 409, 422, 502, 503, "ReadError", "RemoteProtocolError"}
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
    code = "from tests.mock._script import *; print(play_in_process(everything).digest())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=False,
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


def test_a_reset_starts_the_same_world_again(server: MockServer, alone: Player) -> None:
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
RULES: list[dict[str, object]] = [
    {"kind": "status", "status": 503},
    {"kind": "status", "status": 429, "executed": True},
    {"kind": "reset"},
    {"kind": "reset", "executed": True},
    {"kind": "truncate", "after": 5},
    {"kind": "bad_chunk"},
    {"kind": "malformed_json"},
    {"kind": "content_type"},
    {"kind": "huge_body", "mib": 0.01},
    {"kind": "garbage", "share": 0.5},
    {"kind": "duplicate", "share": 0.5},
    {"kind": "bom"},
    {"kind": "split_utf8"},
    {"kind": "line_endings"},
    {"kind": "reorder"},
    {"kind": "half_event"},
    {"kind": "drop", "how": "clean"},
    {"kind": "drop", "how": "close"},
    {"kind": "drop", "how": "reset"},
]
seconds = st.sampled_from([0, 0.25, 1, 59.75, 61, 3_600.5, 86_400 * 3])
steps = st.one_of(
    st.tuples(st.just("GET"), st.sampled_from(PATHS).map("/v1/{}".format), st.none(), st.sampled_from(KEYS)),
    st.tuples(
        st.just("POST"),
        st.just("/v1/agents"),
        st.fixed_dictionaries(
            {"name": st.sampled_from(["a", "é", ""]), "wallet_id": st.just("WALLET"), "chain_id": st.just(8453)},
            optional={"max_positions": st.sampled_from([1, 0]), "risk": st.just({"stop_loss_pct": 1.5})},
        ),
        st.sampled_from(KEYS),
    ),
    st.tuples(
        st.just("POST"), st.just("/v1/wallets"), st.sampled_from([8453, 56]).map(connection), st.sampled_from(KEYS)
    ),
    st.tuples(st.just("PATCH"), st.just("/v1/agents/AGENT"), st.sampled_from([{"name": "b"}, {}]), st.just(FULL)),
    st.tuples(st.just("DELETE"), st.just("/v1/agents/AGENT"), st.none(), st.just(FULL)),
    st.tuples(
        st.just("POST"),
        st.sampled_from(["token-prices", "token-signals", "signal-history", "token-win-rate"]).map("/v1/{}".format),
        st.sampled_from([BRETT, {"tokens": [{"identifier": "nobody"}]}, {}]),
        st.none(),
    ),
    st.tuples(st.just("POST"), st.just("/_mock/clock"), seconds.map(lambda by: {"advance": by}), st.none()),
    st.tuples(st.just("PUT"), st.just("/_mock/gaps"), st.sampled_from(OPTIONS).map(lambda o: dict([o])), st.none()),
    st.tuples(
        st.just("POST"),
        st.just("/_mock/signals"),
        st.fixed_dictionaries(
            {},
            optional={
                "chain_id": st.sampled_from([8453, 56, 1]),
                "token": st.sampled_from(["BRETT", "a new one"]),
                "count": st.integers(1, 3),
                "every": st.sampled_from([0, 10]),
            },
        ),
        st.none(),
    ),
    st.tuples(
        st.just("POST"),
        st.just("/_mock/faults"),
        st.builds(
            lambda rule, chance: {**rule, "probability": chance}, st.sampled_from(RULES), st.sampled_from([0.3, 1.0])
        ),
        st.none(),
    ),
    st.tuples(st.just("DELETE"), st.just("/_mock/faults"), st.none(), st.none()),
    st.tuples(st.just("POST"), st.just("/_mock/reset"), st.sampled_from([{}, {"seed": 5}]), st.none()),
    st.tuples(st.just("POST"), st.just("/_mock/tenants/main/populate"), st.just({"trades": 30}), st.none()),
    st.tuples(st.just("LISTEN"), st.sampled_from(["8453", "56"]), st.none(), st.none()),
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
