"""All that both interfaces say of a world at one moment, read over HTTP, and what its agents were told to do when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, Self

import httpx

from tradesdk_mock import GapOptions, MockClock, MockService
from tradesdk_mock.market.tokens import Token, find, lively, tokens

from ._http import BASE, BNB, START, in_process, ok, walk

BACKGROUND_TENANT = "house"
OPEN = GapOptions().changed(paywall="open", enterprise_limit=10**9)
Record = dict[str, Any]
_timestamp = itemgetter("timestamp")


def service(seed: int, **options: Any) -> MockService:
    """A world of frozen time in which nobody has to pay or to wait."""
    return MockService(seed=seed, clock=MockClock(START), gaps=OPEN, **options)


@dataclass
class Terms:
    """What held for an agent from a moment on."""

    since: float
    status: str
    risk: dict[str, float]
    min_confidence: float
    max_positions: int

    @property
    def guards(self) -> bool:
        return self.status in ("active", "paused")

    def percent(self, name: str) -> float:
        usual = {"position_size_pct": 5, "stop_loss_pct": 3, "trailing_stop_pct": 2, "take_profit_pct": 10}
        return self.risk.get(name, usual[name])


@dataclass
class Life:
    """An agent from its creation on; one that was deleted ends with the status `deleted`."""

    tenant: str
    chain_id: int
    created_at: int
    terms: list[Terms]

    def at(self, moment: float) -> Terms:
        """What held before anything that happened at this moment."""
        return self.terms[max(0, bisect_left(self.terms, moment, key=lambda each: each.since) - 1)]


@dataclass
class Account:
    """What a tenant sees."""

    agents: dict[str, Record]
    wallets: dict[str, Record]
    balances: dict[str, Record]
    trades: list[Record]
    positions: list[Record]
    usage: Record


@dataclass
class Market:
    """What market data says; by address where it is about a token."""

    prices: dict[str, Record]
    win_rates: dict[str, Record]
    averages: dict[str, Record]
    top: dict[str, list[Record]]
    metrics: Record
    supported: list[Record]


@dataclass
class Look:
    """Everything at one second."""

    now: int
    accounts: dict[str, Account]
    market: Market
    # Not on the wire: (units, wallet) of each trade. What the wire says of them is checked against it.
    amounts: dict[str, tuple[float, str]]


@dataclass
class Observer:
    """Reads a world as clients do, and remembers what its agents were told to do.

    `past` is when a tenant was populated: what it did before follows the rules of the past.
    """

    mock: MockService
    tenants: Sequence[str]
    past: dict[str, int] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    # (second, units of the native asset) of a wallet when it was first looked at.
    begun: dict[str, tuple[int, float]] = field(default_factory=dict)
    chains: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._heard = (0, -1)
        self._by_token: dict[str, list[Record]] = {}
        self._stack = ExitStack()
        self.market = self._stack.enter_context(in_process(self.mock, None))
        self.http: dict[str, httpx.Client] = {}
        for tenant in self.tenants:
            self.http[tenant] = self._stack.enter_context(in_process(self.mock, f"mock_full_enterprise_{tenant}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def now(self) -> int:
        return int(self.mock.clock.now())

    # What was said to agents

    def note(self, *tenants: str) -> None:
        """To be called when agents have been made, changed, moved or deleted; by default those of any tenant."""
        for tenant in tenants or self.http:
            http = self.http[tenant]
            there = {each["id"] for each in walk(http, "/v1/agents", limit=100)}
            for agent_id in sorted(there):
                self._note_agent(tenant, ok(http.get(f"/v1/agents/{agent_id}")))
            for agent_id, life in self.lives.items():
                last = life.terms[-1]
                if life.tenant == tenant and agent_id not in there and last.status != "deleted":
                    gone = Terms(self.mock.clock.now(), "deleted", last.risk, last.min_confidence, last.max_positions)
                    life.terms.append(gone)
            for wallet in walk(http, "/v1/wallets", limit=100):
                self._note_wallet(http, wallet)

    def _note_agent(self, tenant: str, agent: Record) -> None:
        # What an agent is when it is seen for the first time, it has been from the beginning.
        known = self.lives.get(agent["id"])
        since = float(agent["created_at"]) if known is None else self.mock.clock.now()
        told = Terms(since, agent["status"], agent["risk"], agent["min_confidence"], agent["max_positions"])
        if known is None:
            self.lives[agent["id"]] = Life(tenant, agent["chain_id"], agent["created_at"], [told])
            return
        last = known.terms[-1]
        before = (last.status, last.risk, last.min_confidence, last.max_positions)
        if before != (told.status, told.risk, told.min_confidence, told.max_positions):
            known.terms.append(told)

    def _note_wallet(self, http: httpx.Client, wallet: Record) -> None:
        if wallet["id"] not in self.begun:
            balance = ok(http.get(f"/v1/wallets/{wallet['id']}/balance"))
            native = balance["native_balance_usd"] / self.native_usd(wallet["chain_id"], balance["updated_at"])
            self.begun[wallet["id"]] = (self.now, native)
            self.chains[wallet["id"]] = wallet["chain_id"]

    # The market

    def find(self, chain_id: int, address: str) -> Token | None:
        return find(self.mock.world.seed, chain_id, address)

    def tokens(self, chain_id: int) -> Sequence[Token]:
        return tokens(self.mock.world.seed, chain_id)

    def token(self, chain_id: int, address: str) -> Token:
        found = self.find(chain_id, address)
        assert found is not None, f"{address} is not a token of {chain_id}"
        return found

    def usd(self, chain_id: int, address: str, at: int) -> float:
        return self.mock.world.prices.usd(self.token(chain_id, address), at)

    def native_usd(self, chain_id: int, at: int) -> float:
        return self.mock.world.prices.native_usd(chain_id, at)

    def buy(self, path: str, **body: object) -> Record:
        answer = ok(self.market.post(f"/v1/{path}", json=body))
        assert answer["success"] is True
        assert answer["error"] is None
        found: Record = answer["data"]
        return found

    def results(self, path: str, addresses: Sequence[str], **fields: object) -> dict[str, Record]:
        """Results of a batch endpoint by address."""
        found: dict[str, Record] = {}
        for place in range(0, len(addresses), 5):
            wanted = [{"identifier": address} for address in addresses[place : place + 5]]
            results = self.buy(path, tokens=wanted, **fields)["results"]
            assert [each["tokenAddress"] for each in results] == list(addresses[place : place + 5])
            found.update((each["tokenAddress"], each) for each in results)
        return found

    def history(self, chain_id: int, since: int, upto: int, token: str | None = None) -> list[Record]:
        """Signals with since <= timestamp <= upto, oldest first."""
        if token is not None and self._heard[0] <= since and upto <= self._heard[1]:
            some = self._by_token.get(token, [])
            first = bisect_left(some, since, key=_timestamp)
            return some[first : bisect_right(some, upto, key=_timestamp)]
        query = {} if token is None else {"token_address": token}
        asked = {"chain": chain_id, "from": since, "to": upto, "limit": 100, **query}
        return walk(next(iter(self.http.values())), "/v1/signals/history", **asked)[::-1]

    def hear(self, since: int, upto: int) -> list[Record]:
        """All signals of both chains of a time; nothing of it is asked for again."""
        found = [signal for chain_id in (BASE, BNB) for signal in self.history(chain_id, since, upto)]
        self._heard, self._by_token = (since, upto), {}
        for signal in found:
            self._by_token.setdefault(signal["token_address"], []).append(signal)
        return found

    # Everything

    def answers(self) -> dict[str, bytes]:
        """What every endpoint answers, byte for byte, by request. How many requests were made is left out."""
        found: dict[str, bytes] = {}
        for tenant, http in self.http.items():
            paths = ["/v1/account", "/v1/signals?chain=8453", "/v1/signals?chain=56&min_confidence=0.9"]
            for name in ("agents", "wallets", "trades", "positions"):
                records = walk(http, f"/v1/{name}", limit=100)
                found[f"{tenant} {name}"] = repr(records).encode()
                ids = [record["id"] for record in records]
                paths.append(f"/v1/{name}?limit=7")
                if name == "agents":
                    paths += [f"/v1/agents/{each}" for each in ids]
                elif name == "wallets":
                    paths += [f"/v1/wallets/{each}/balance" for each in ids]
                elif name == "trades":
                    paths += [f"/v1/trades/{each}" for each in ids[:5]]
            for chain_id in (BASE, BNB):
                paths += [f"/v1/signals/history?chain={chain_id}&limit=100"]
            for path in paths:
                found[f"{tenant} {path}"] = http.get(path).raise_for_status().content
            usage = ok(http.get("/v1/account/usage"))
            found[f"{tenant} usage"] = repr((usage["agents"], usage["reset_at"], usage["requests"]["limit"])).encode()
        some = [{"identifier": each.symbol} for each in lively(self.mock.world.seed, BASE)[:5]]
        bodies: dict[str, Record] = {"supported-tokens": {"limit": 500}, "aggregate-metrics": {}}
        bodies["top-performers"] = {"sortBy": "ROI"}
        for path in ("token-signals", "signal-history", "token-prices", "token-win-rate", "token-avg-prices"):
            bodies[path] = {"tokens": some}
        for path, body in bodies.items():
            found[path] = self.market.post(f"/v1/{path}", json=body).raise_for_status().content
        return found

    def look(self, *, tokens: Iterable[str] = ()) -> Look:
        """Read it all; of the tokens of the tail only these. The clock must stand still."""
        now = self.mock.clock.now()
        addresses = [each.address for each in lively(self.mock.world.seed, BASE)]
        addresses += [each for each in tokens if each not in addresses]
        market = self._market(addresses)
        accounts = {tenant: self._account(http) for tenant, http in self.http.items()}
        rows = self.mock.world.store.all("SELECT id, amount, wallet_id FROM trades")
        assert self.mock.clock.now() == now
        return Look(int(now), accounts, market, {trade: (amount, wallet) for trade, amount, wallet in rows})

    def _account(self, http: httpx.Client) -> Account:
        summaries = walk(http, "/v1/agents", limit=100)
        agents = {each["id"]: ok(http.get(f"/v1/agents/{each['id']}")) for each in summaries}
        for each in summaries:
            assert each.items() <= agents[each["id"]].items()
        wallets = {each["id"]: each for each in walk(http, "/v1/wallets", limit=100)}
        return Account(
            agents,
            wallets,
            {name: ok(http.get(f"/v1/wallets/{name}/balance")) for name in wallets},
            walk(http, "/v1/trades", limit=100),
            walk(http, "/v1/positions", limit=100),
            ok(http.get("/v1/account/usage")),
        )

    def _market(self, addresses: Sequence[str]) -> Market:
        return Market(
            self.results("token-prices", [*addresses, ether(self.mock.world.seed)]),
            self.results("token-win-rate", addresses),
            self.results("token-avg-prices", addresses),
            {by: self.buy("top-performers", sortBy=by)["tokens"] for by in ("winRate", "ROI")},
            self.buy("aggregate-metrics"),
            self.buy("supported-tokens", limit=500)["tokens"],
        )


@cache
def ether(seed: int) -> str:
    found = find(seed, BASE, "ETH")
    assert found is not None
    return found.address
