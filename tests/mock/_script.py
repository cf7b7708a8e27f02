"""Courses of calls that are played on a service without a socket and on one behind a socket, to compare the bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import httpx

from tradesdk_mock import MockClock, MockServer, MockService

from ._support import FULL, READ, START, client, connection, in_process

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
        player = Player(mock, http)
        script(player)
        return player


def play_over_sockets(script: Script, *, seed: int = 7) -> Player:
    with MockServer(seed=seed, clock=MockClock(START)) as server, client(server, None) as http:
        player = Player(server, http)
        script(player)
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
    call("POST", "/_mock/market", {"price_failure": True})
    call("POST", "/v1/token-prices", BRETT)
    call("PUT", "/_mock/gaps", {"paywall": "closed", "b_rate": "none", "unknown_values": "on", "order": "oldest"})
    for path in ("/v1/trades", "/v1/agents", "/v1/signals?chain=56", "/v1/nothing"):
        call("GET", path)
    call("PUT", "/_mock/gaps", {"unknown_values": "off", "order": "newest", "clock_skew": 90})


def streams(player: Player) -> None:
    call = player.call
    player.listen(3)
    call("POST", "/_mock/signals", {"count": 3, "every": 7, "at": player.mock.clock.now() + 100, "chain_id": 56})
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
