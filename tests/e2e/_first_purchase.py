"""The first hour at a service that nobody knows: `doctor --service`, connect a wallet, a quote, a purchase of $0.02.

`python -m tests.e2e._first_purchase` prints a table: under each value of each gap option, and with each kind of wallet,
what a program that knows nothing has to set. It sets only what the error before has named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
from eth_account import Account

from tradesdk import (
    Budget,
    ChainWitness,
    Clock,
    Ledger,
    LocalSigner,
    MarketClient,
    SystemClock,
    TradeClient,
    TradeError,
)
from tradesdk_cli.probe.ask import Probe
from tradesdk_cli.probe.points import rows
from tradesdk_mock import GapOptions, MockClock, MockService

from .._clock import START
from .._stock import stocked

KEY = "0x" + "5a" * 32
OWNER = Account.from_key(KEY)
TENANT = "newcomer"
PRICE = 20_000
AT_MOST = 4
"""Settings that one program may have to be told of."""


class Contract:
    """A signer of a smart contract wallet. That it is one has to be said."""

    def __init__(self, address: str, change: Callable[[bytes], bytes]) -> None:
        self.address, self._change = address, change

    def sign_digest(self, digest: bytes, /) -> bytes:
        return self._change(bytes(OWNER.unsafe_sign_hash(digest).signature))


class Hosted:
    """A signer of typed data for the account of a key."""

    address = OWNER.address

    def sign_typed_data(self, domain: Any, types: Any, message: Any, /) -> str:
        return "0x" + bytes(OWNER.sign_typed_data(domain, types, message).signature).hex()


class Corrected(SystemClock):
    """A machine's clock that was set by the service's."""

    def __init__(self, mock: MockService) -> None:
        self._mock = mock

    def now(self) -> float:
        return self._mock.world.now()

    def monotonic(self) -> float:
        return self._mock.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._mock.clock.sleep(seconds)


@dataclass
class Case:
    """One service, one wallet."""

    name: str
    gaps: dict[str, Any] = field(default_factory=dict)
    wallet: str = "key"
    node: bool = False


@dataclass
class Outcome:
    """What came of it. `told`: the sentences that the program followed, one after the other."""

    name: str
    doctor: str
    told: list[str] = field(default_factory=list)
    ends: str = ""

    @property
    def is_dead_end(self) -> bool:
        return not self.ends

    def __str__(self) -> str:
        sentences = " | ".join(self.told) or "-"
        return f"| {self.name} | {self.doctor} | {sentences} | {self.ends or 'DEAD END'} |"


def cases() -> Iterator[Case]:
    yield Case("defaults")
    for gap in GapOptions.describe():
        for other in gap.others:
            wallet = "delegated" if gap.name == "delegated_payers" else "key"
            yield Case(f"{gap.name}={other}", {gap.name: other}, wallet, node=wallet != "key")
    yield Case("an offer in the body, paid upfront", {"offer_in": "body", "reason_in": "body", "flow": "upfront"})
    for node in (False, True):
        for wallet in ("empty", "contract", "contract to be deployed", "delegated", "typed data"):
            yield Case(f"wallet: {wallet}{', with a node' if node else ''}", {}, wallet, node)


def signer_of(mock: MockService, wallet: str) -> Any:
    match wallet:
        case "contract":
            return Contract(mock.payments.deploy_wallet(OWNER.address).address, bytes)
        case "contract to be deployed":
            found = mock.payments.wallet(OWNER.address)
            return Contract(found.address, found.wrapped)
        case "typed data":
            return Hosted()
        case "delegated":
            mock.payments.delegate(OWNER.address)
        case "empty":
            mock.payments.set_balance(OWNER.address, 0)
    return LocalSigner.from_key(KEY)


class Program:
    """What a newcomer runs. Only `obey` changes its settings."""

    def __init__(self, mock: MockService, case: Case, http: httpx.Client) -> None:
        self.mock, self.case, self.http = mock, case, http
        self.signer = signer_of(mock, case.wallet)
        self.settings: dict[str, Any] = {}
        self.message: str | None = None
        self.market_url = mock.url
        self.ledger = Ledger.memory()
        self.stops = ""
        self.clock: Clock = mock.clock
        self.is_connected = False

    def trade(self) -> TradeClient:
        key = f"mock_full_{TENANT}"
        return TradeClient(api_key=key, base_url=self.mock.url, http_client=self.http, clock=self.clock)

    def market(self, **more: Any) -> MarketClient:
        witness = None
        if self.case.node:
            witness = ChainWitness(self.mock.rpc_url, http_client=self.http, clock=self.clock)
        return MarketClient(
            signer=self.signer,
            budget=Budget(per_day="1"),
            ledger=self.ledger,
            base_url=self.market_url,
            http_client=self.http,
            clock=self.clock,
            witness=witness,
            **{**self.settings, **more},
        )

    def doctor(self) -> str:
        """How many points differ from what the mock does by default."""
        key = f"mock_full_{TENANT}"
        probe = Probe(
            self.trade(),
            lambda send: self.market(send_api_key=send, api_key=key if send else None),
            self.mock.clock,
        )
        found = rows(probe.run())
        usual = GapOptions().as_dict()
        differs = [row["point"] for row in found if row["finding"] == "seen" and row["value"] != usual[row["point"]]]
        broken = [row["point"] for row in found if row["finding"] == "broken"]
        return ", ".join(differs + broken) or "like the mock"

    def run(self) -> str:
        """Connect, quote, buy: how it ends, if that is no error."""
        if isinstance(self.signer, LocalSigner) and not self.is_connected:  # others are connected by their own app
            self.trade().wallets.connect_with(self.signer, label="newcomer", message=self.message)
            self.is_connected = True
        market = self.market()
        assert market.quote.token_avg_prices(["ETH"]).amount == PRICE
        bought = market.token_avg_prices(["ETH"])
        if bought.charged is False:
            return "free"
        assert bought.payment is not None
        (taken,) = self.mock.payments.settlements()
        assert (taken.amount, taken.payer) == (PRICE, self.signer.address)
        assert bought.payment.paid is True
        return "proven"

    def obey(self, sentence: str) -> bool:
        """Set what a sentence names. False: it names nothing that can be set."""
        if "allow_upfront=True" in sentence:
            self.settings["allow_upfront"] = True
        elif "send_api_key=True" in sentence:
            self.settings |= {"send_api_key": True, "api_key": f"mock_full_{TENANT}"}
        elif "message=" in sentence:
            template = self.mock.gaps.wallet_message  # the service's documentation says it
            self.message = template.format(address=self.signer.address, chain_id=8453)
        elif found := re.search(r"add USDC on Base to (0x[0-9a-fA-F]{40})", sentence):
            self.mock.payments.set_balance(found[1], 1_000_000)
        elif "pay with another wallet" in sentence and self.case.wallet == "delegated":
            self.stops = "nothing helps: another wallet"
            self.signer = LocalSigner.from_key("0x" + "5b" * 32)
        elif "correct this machine's clock" in sentence:
            self.clock = Corrected(self.mock)
        elif "is_contract = True" in sentence:
            self.signer.is_contract = True
        elif "TRADE_MARKET_BASE_URL" in sentence:
            self.market_url = self.mock.market_url
        else:
            return False
        return True


def outcome(case: Case) -> Outcome:
    with ExitStack() as stack:
        mock = stack.enter_context(MockService(seed=7, clock=MockClock(START), signals="scripted"))
        stocked(mock, START, TENANT)
        mock.emit_signal(at=START + 1)
        mock.set_gaps(**case.gaps)
        http = stack.enter_context(httpx.Client(transport=mock.transport(), base_url=mock.url))
        program = Program(mock, case, http)
        found = Outcome(case.name, program.doctor())
        for _ in range(AT_MOST):
            try:
                found.ends = program.run()
            except TradeError as error:
                sentence = " ".join(f"{error}; {error.hint}".split())
                found.told.append(sentence)
                if not program.obey(sentence):
                    return found
                mock.clock.advance(61)
            else:
                found.ends = program.stops or found.ends
                return found
    return found


def table() -> list[Outcome]:
    return [outcome(case) for case in cases()]


if __name__ == "__main__":
    import sys
    import time

    began, found = time.perf_counter(), table()
    print("| service or wallet | doctor --service | what the errors said | end |\n|---|---|---|---|")
    print(*found, sep="\n")
    dead = sum(one.is_dead_end for one in found)
    print(f"{len(found)} cases, {dead} dead ends, {time.perf_counter() - began:.1f} s", file=sys.stderr)
