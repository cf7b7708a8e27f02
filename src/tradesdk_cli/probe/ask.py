"""Sends the requests of the probe: each once, within the rate limit, until a deadline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from tradesdk import (
    APIResponseError,
    APITimeoutError,
    Clock,
    Disconnected,
    Heartbeat,
    MarketClient,
    SignalStream,
    StreamSignal,
    TradeClient,
    TradeError,
)
from tradesdk.types import StreamItem
from tradesdk_cli.errors import CliError
from tradesdk_cli.health import LastAnswer
from tradesdk_cli.probe.answers import NONE, Answer, Answers
from tradesdk_cli.probe.rules import CHANGE, CONFIDENCE, MARKET
from tradesdk_cli.retries import log_handler

LONGEST = 35.0  # two heartbeats of the usual interval
_ONE = 5.0  # seconds for one answer
_ENDLESS = 1.0  # seconds after which an answer that does not end is a stream
_LOOKS = 5
_MARGIN = 60  # seconds before a signal at which its history request begins: bounds may be exclusive
_AT_ONCE = 0.05  # seconds within which an event that arrived before is read
_LONG_ENOUGH = 5.0  # seconds of heartbeats, for an interval in whole seconds
_TWO = 0.04  # dollars: average prices of two tokens
NOWHERE = "0x000000000000000000000000000000000000dEaD"
"""An unknown token."""

WRITES = ("create", "patch", "empty_patch", "unknown_field", "bounds", "unknown_wallet", "other_chain", "delete_paused")


ClientT = TypeVar("ClientT", TradeClient, MarketClient)


class _LastRequest(LastAnswer):
    """The last request of the SDK's log, with its answer. `paid`: whether a payment was sent."""

    answer: Answer | None = None
    paid = False

    def handle(self, record: logging.LogRecord) -> None:
        wire = vars(record).get("wire", {})
        if not urlsplit(wire.get("url", "")).path:
            return  # a node of the chain, which is logged without a path
        super().handle(record)
        match wire.get("event"):
            case "request":
                self.paid = "payment-signature" in wire["headers"]
                self.answer = None
            case "answer":
                self.answer = Answer(wire["method"], wire["url"], wire["status"], wire["headers"], wire["body"] or "")
            case "failure":
                self.answer = Answer(wire["method"], wire["url"], problem=wire["problem"])


@dataclass(eq=False)
class Probe:
    """Probes one service.

    Attributes:
        trade: the account API.
        market: makes the client of market data, with or without the API key; None: there is no address.
        clock: the clock of `trade`.
        write: make an agent, change it, and delete it.
        pay: dollars that one purchase may cost; None: buy nothing.
        left_behind: ids of agents that could not be deleted.
    """

    trade: TradeClient
    market: Callable[[bool], MarketClient] | None
    clock: Clock
    write: bool = False
    pay: str | None = None
    answers: Answers = field(default_factory=Answers, init=False)
    left_behind: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._end = self.clock.monotonic() + LONGEST
        self._last = _LastRequest(self.clock.now)

    def run(self) -> Answers:
        """Send all requests. Raises an error if the service cannot be reached, or refused the key."""
        reasons = self.answers.reasons
        if not self.write:
            reasons |= dict.fromkeys(WRITES, "only with --write")
        if self.market is None:
            reasons |= dict.fromkeys((*MARKET, "market_here"), "no address of market data is set")
        reasons["pay"] = "only with --pay USD"
        trade = self.trade
        with log_handler(self._last.handle, log="tradesdk.wire", alone=True):
            error = self._ask("account", trade, lambda client: client.request("GET", "/v1/account"))
            if error is not None and self.answers.get("account", NONE).status in (0, 401, 429):
                raise error
            self.answers.ahead = self._last.difference
            stream = self._once(trade).signals.stream(
                chain=8453, heartbeats=True, unknown_events=True, reports=True, idle_timeout=LONGEST
            )
            try:
                self._ask("stream", trade, lambda _: stream.__enter__())
                opened = self.clock.monotonic()
                self._read()
                if self.market is not None:
                    self._shop(self.market)
                if self.write:
                    self._change()
                if self.answers.get("stream", NONE).ok:
                    self._listen(stream, opened)
            finally:
                stream.close()
        return self.answers

    @property
    def _left(self) -> float:
        return self._end - self.clock.monotonic()

    def _once(self, client: ClientT, seconds: float = _ONE) -> ClientT:
        return client.with_options(timeout=seconds, max_retries=0, deadline=seconds)

    def _ask(
        self, name: str, client: ClientT, send: Callable[[ClientT], object], *, at_most: float = _ONE
    ) -> TradeError | None:
        """Send one request if there is time left; store its answer under `name`."""
        seconds, found = min(at_most, self._left), None
        if seconds <= 0:
            return None
        self._last.answer = None
        try:
            send(self._once(client, seconds))
        except TradeError as error:
            found = error
            self.answers.reasons.setdefault(name, error.message)
        answer = self._last.answer
        if answer is not None and isinstance(found, APIResponseError) and not answer.text.strip():
            answer = Answer(answer.method, answer.url, problem=found.message)  # such as a body that is too large
        if answer is not None:
            self.answers[name] = answer
        return found

    def _get(self, name: str, path: str, *, at_most: float = _ONE, **query: Any) -> TradeError | None:
        return self._ask(name, self.trade, lambda client: client.request("GET", path, query=query), at_most=at_most)

    def _read(self) -> None:
        a = self.answers
        self._get("usage", "/v1/account/usage")
        for name in ("agents", "wallets", "positions"):
            self._get(name, f"/v1/{name}", limit=100)
        self._get("trades", "/v1/trades")
        self._get("latest", "/v1/signals", chain=8453, limit=100, min_confidence=CONFIDENCE)
        self._get("history", "/v1/signals/history", chain=8453)
        stamps = [one.get("timestamp") for one in a.get("history", NONE).items()]
        times = sorted({stamp for stamp in stamps if type(stamp) is int})
        if len(times) > 1:
            a.window = times[0], times[-1]
            self._get(
                "range", "/v1/signals/history", **{"chain": 8453, "from": times[0], "to": times[-1], "limit": 100}
            )
        else:
            a.reasons["range"] = "the history has no two signals of different times"
        self._get("no_agent", "/v1/agents/unknown")
        self._get("no_filter", "/v1/trades", agent_id="unknown")
        self._get("limit_0", "/v1/trades", limit=0)
        self._get("start", "/v1/agents/unknown/start")
        patience = _ENDLESS + 3 * self._last.seconds  # a slow refusal must not look like a stream
        error = self._get("stream_filter", "/v1/signals/stream", at_most=patience, chain=8453, min_confidence=2)
        a.endless = isinstance(error, APITimeoutError)

    def _shop(self, connect: Callable[[bool], MarketClient]) -> None:
        a = self.answers
        market = connect(False)
        self._ask("tokens_keyless", market, lambda client: client.supported_tokens(limit=1))
        if a.get("tokens_keyless", NONE).status == 401:
            try:
                market = connect(True)
            except (TradeError, CliError) as error:
                a.reasons |= dict.fromkeys((*MARKET, "market_here"), error.message)
                return
            self._ask("tokens", market, lambda client: client.supported_tokens(limit=2))
        elif "tokens_keyless" in a:
            a["tokens"] = a["tokens_keyless"]
        extra = {"limit": 1, "not_in_the_specification": True}
        bad = {"sortBy": "nothing"}
        self._ask("market_field", market, lambda client: client.request("/v1/supported-tokens", json=extra))
        self._ask("bad_sort", market, lambda client: client.dry_run.request("/v1/top-performers", json=bad))
        self._ask("offer", market, lambda client: client.dry_run.aggregate_metrics())
        here = {"limit": 3}
        self._ask("market_here", self.trade, lambda client: client.request("POST", "/v1/supported-tokens", json=here))
        if self.pay is not None:
            self._buy(market, self.pay)

    def _buy(self, market: MarketClient, most: str) -> None:
        """The cheapest purchase: average prices of a listed token and, if the limit allows, of an unknown one."""
        a = self.answers
        del a.reasons["pay"]
        listed = [one.get("tokenAddress") for one in a.get("tokens", NONE).items("data", "tokens")]
        tokens = [address for address in listed if isinstance(address, str)][:1]
        if not tokens:
            a.reasons["pay"] = "the list of tokens names none"
            return
        if float(most) >= _TWO:
            tokens.append(NOWHERE)
        else:
            a.reasons["unknown_token"] = f"it takes --pay {_TWO}: two tokens"
        self._ask("pay", market, lambda client: client.token_avg_prices(tokens, max_price=most), at_most=LONGEST)
        if not self._last.paid:
            a.pop("pay", None)  # refused here, before anything was signed

    def _change(self) -> None:
        """Create, change and always delete a temporary agent."""
        a, trade = self.answers, self.trade
        wallets = a.get("wallets", NONE).items()
        if not wallets:
            a.reasons |= dict.fromkeys(WRITES, "no wallet is connected to make an agent with")
            return
        wallet, name = wallets[0], f"trade doctor {token_hex(4)}, to be deleted"
        fields = {"name": name, "wallet_id": wallet.get("id"), "chain_id": wallet.get("chain_id")}
        other = fields | {"chain_id": 56 if wallet.get("chain_id") == 8453 else 8453}

        def send(question: str, method: str, path: str, body: object = None) -> None:
            self._ask(question, trade, lambda client: client.request(method, path, json=body))

        try:
            send("create", "POST", "/v1/agents", fields)
            send("other_chain", "POST", "/v1/agents", other)
            ident = a["create"].at("id") if a.get("create", NONE).ok else None
            if not isinstance(ident, str):
                a.reasons |= dict.fromkeys(WRITES, "no agent could be made")
                return
            path = f"/v1/agents/{quote(ident, safe='')}"
            send("patch", "PATCH", path, CHANGE)
            send("empty_patch", "PATCH", path, {})
            send("unknown_field", "PATCH", path, {"max_positions": 4, "not_in_the_specification": True})
            send("bounds", "PATCH", path, {"risk": {"position_size_pct": 250}})
            send("unknown_wallet", "PATCH", path, {"wallet_id": "unknown"})
            if a.get("start", NONE).status == 405:
                send("paused", "POST", f"{path}/pause")
                send("delete_paused", "DELETE", path)
                if a.get("delete_paused", NONE).status != 204:
                    send("stopped", "POST", f"{path}/stop")
            else:
                a.reasons["delete_paused"] = "there is no path that pauses an agent"
        finally:
            self._end = max(self._end, self.clock.monotonic() + _ONE)  # deleting has its own time
            self._delete(name)

    def _delete(self, name: str) -> None:
        """Delete agents of this name: one may exist although the answer to its creation was lost."""
        a = self.answers
        answers = [a.get(question, NONE) for question in ("create", "other_chain")]
        made = [answer.at("id") for answer in answers if answer.ok]
        if not all(0 < answer.status < 500 for answer in answers) or not all(isinstance(ident, str) for ident in made):
            with suppress(TradeError):
                made = [agent.id for agent in self._once(self.trade).agents.list() if agent.name == name]
        for ident in made:
            if a.get("delete_paused", NONE).status == 204 and ident == a["create"].at("id"):
                continue
            try:
                self._once(self.trade).agents.delete(ident)
            except TradeError:
                self.left_behind.append(str(ident))
            if self._last.answer is not None:
                a["delete"] = self._last.answer

    def _listen(self, stream: SignalStream[StreamItem], opened: float) -> None:
        """Read the stream until heartbeats and a signal have arrived, or the time is up."""
        a = self.answers
        timer = threading.Timer(max(self._left, 0.0), stream.close)
        timer.daemon = True
        timer.start()
        ready, beat = self.clock.monotonic(), None
        try:
            for item in stream:
                now = self.clock.monotonic()
                is_new = now - ready > _AT_ONCE  # else it may have waited in the buffer for any time
                a.events.append(item)
                a.event_id = stream.last_event_id or a.event_id
                if isinstance(item, Heartbeat):
                    a.intervals += [now - beat] if is_new and beat is not None else []
                    beat = now if is_new else None
                elif isinstance(item, StreamSignal) and is_new and not self._has_looked:
                    self._look(item, now)
                is_measured = sum(a.intervals) >= _LONG_ENOUGH and self._has_looked
                if isinstance(item, Disconnected) or self._left <= 0 or is_measured:
                    break
                ready = self.clock.monotonic()
        except TradeError as error:
            a.reasons["stream"] = error.message
        finally:
            timer.cancel()
            a.listened = self.clock.monotonic() - opened

    @property
    def _has_looked(self) -> bool:
        return self.answers.lag is not None or "lag" in self.answers.reasons

    def _look(self, signal: StreamSignal, arrived: float) -> None:
        """Request the history each second until it has a new signal."""
        a, since, missed = self.answers, int(signal.timestamp.timestamp()) - _MARGIN, -1.0
        for second in range(_LOOKS + 1):
            self.clock.sleep(max(0.0, arrived + second - self.clock.monotonic()))
            elapsed = self.clock.monotonic() - arrived
            self._get("lag", "/v1/signals/history", chain=8453, limit=100, **{"from": since})
            answer = a.get("lag", NONE)
            if any(one.get("id") == signal.id for one in answer.items()):
                a.lag = missed, self.clock.monotonic() - arrived
                return
            missed = elapsed if answer.ok else missed
            if self._left <= 1:
                break
        a.reasons["lag"] = f"a signal was not in the history after {max(missed, 0):.0f} s"
