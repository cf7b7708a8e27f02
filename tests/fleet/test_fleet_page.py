"""docs/fleet.md: its terminals are typed into, side by side, and each role works with the rights that it lists."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Budget, FleetError, LocalSigner, MarketClient, TradeClient
from tradesdk.fleet import FleetConnection, RedisLedger, RedisRateLimiter
from tradesdk_cli.mcp.approvals import Approvals, Decisions
from tradesdk_cli.mcp.shared_approvals import SharedApprovals
from tradesdk_mock import MockServer

from .._pages import ROOT, blocks
from .._ports import free_port
from .._redis_server import RedisServer, executable
from .._terminals import Shell
from ._hand import soon

PAGE = ROOT / "docs" / "fleet.md"

# Terminals

_TYPED = re.compile(r"(1|2|3|all)\$ (.+)")
_SEEN = re.compile(r"(1|2|3): (.+)")
_CHANGES = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\bsig_[0-9a-f]+…"), "SIGNAL"),
    (re.compile(r"\bpay_[0-9a-f]+"), "PAYMENT"),
    (re.compile(r"[\w.-]+:\d+:[0-9a-f]{8}\b"), "MEMBER"),
    (re.compile(r"(?<=\d\.\d00 )\$[\d,.]+"), "PRICE"),
    (re.compile(r"\d+ (s|min) ago$|now$|not for \d+ (s|min)$"), "AGO"),
    (re.compile(r"(?<=rate limit ).*"), "LEFT"),
    (re.compile(r"(?<=signals in )[\d.]+ (s|min)"), "SECONDS"),
    (re.compile(r"valkey [\d.]+"), "VALKEY"),
]


def plain(line: str) -> str:
    """A line without what changes each time, and with single spaces: columns are as wide as what is in them."""
    line = " ".join(line.split())
    for pattern, word in _CHANGES:
        line = pattern.sub(word, line)
    return line


def fits(shown: list[str], seen: list[str]) -> bool:
    """Whether what is shown is what was seen; `…` stands for any number of lines."""
    parts = ["(?:.*\n)*" if line == "…" else re.escape(plain(line)) + "\n" for line in shown]
    return re.fullmatch("".join(parts), "".join(plain(line) + "\n" for line in seen)) is not None


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[dict[str, Shell]]:
    programs = tmp_path / "programs"
    programs.mkdir()
    program = executable("valkey")
    assert program is not None
    (programs / "valkey-server").symlink_to(program)
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {"PATH": os.pathsep.join(path), "TERM": "dumb", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path)}
    found: dict[str, Shell] = {}
    try:
        for name in "123":
            found[name] = Shell(env, tmp_path)
        yield found
    finally:
        for shell in found.values():
            shell.close()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Player:
    """Types what a page shows, and waits until that is seen which it shows below."""

    def __init__(self, shells: dict[str, Shell]) -> None:
        self.shells = shells
        self.ports = {"6379": free_port(), "8787": free_port()}

    def play(self, lines: list[str]) -> None:
        number = 0
        while number < len(lines):
            typed, seen = _TYPED.fullmatch(lines[number]), _SEEN.fullmatch(lines[number])
            number += 1
            if seen is not None:
                wanted = plain(seen[2])
                self.wait(seen[1], lambda wanted=wanted, name=seen[1]: wanted in map(plain, self.seen(name)), wanted)  # type: ignore[misc]
                continue
            assert typed is not None, f"neither typed nor seen in a terminal: {lines[number - 1]}"
            first = number
            while number < len(lines) and not (_TYPED.fullmatch(lines[number]) or _SEEN.fullmatch(lines[number])):
                number += 1
            for name in "123" if typed[1] == "all" else typed[1]:
                self.type(name, typed[2], lines[first:number])

    def type(self, name: str, command: str, shown: list[str]) -> None:
        shell = self.shells[name]
        if command == "^C":
            before = self.seen(name)
            shell.press_ctrl_c()
            self.wait(name, lambda: fits(shown, self.seen(name)[len(before) :]), "\n".join(shown))
            shell.wait_ready(120)
            return
        shell.wait_ready(120)
        end = time.monotonic() + 120
        while True:
            shell.type(self.real(command))
            lasts = "signals stream" in command
            if lasts:
                self.wait(name, lambda: fits(shown, self.seen(name)), "\n".join(shown))
                break
            shell.wait_ready(120)
            if fits(shown, self.seen(name)):
                break
            assert command == "trade fleet status", f"{command}\n" + "\n".join(self.seen(name))
            assert time.monotonic() < end, "\n".join(self.seen(name))  # a person looks again, too
        if (port := re.search(r"--port (\d+)", command)) is not None:
            assert soon(lambda: answers(self.ports[port[1]])), command
        if "fleet relay" in command:  # what is published from then on has to come
            assert soon(self.relays), command

    def real(self, command: str) -> str:
        for shown, port in self.ports.items():
            command = command.replace(shown, str(port))
        return command

    def seen(self, name: str) -> list[str]:
        text = "\n".join(self.shells[name].seen())
        for shown, port in self.ports.items():
            text = text.replace(str(port), shown)
        return text.splitlines()

    def wait(self, name: str, condition: Callable[[], bool], wanted: str) -> None:
        seen = "\n".join
        assert soon(condition), f"terminal {name} shows\n{seen(self.seen(name))}\nand not\n{wanted}"

    def relays(self) -> bool:
        with FleetConnection(f"redis://127.0.0.1:{self.ports['6379']}") as server:
            keys = server.command("KEYS", "tradesdk:*:relay")
            return any(server.command("HGET", key, "position") for key in keys)


@pytest.mark.long
def test_the_terminals(shells: dict[str, Shell]) -> None:
    player = Player(shells)
    for block in blocks(PAGE):
        if block.language == "terminals":
            player.play(block.lines)


# Rights

SECRET = "swordfish"
RIGHTS = {
    role: (keys, re.findall(r"\+[a-z|]+", commands))
    for role, keys, commands in re.findall(
        r"(?m)^- \*\*([\w ]+)\*\*(?:, keys `(~\S+)`.*?)?: (`\+.*)$", PAGE.read_text(encoding="utf-8")
    )
}


@pytest.fixture(scope="module", params=[pytest.param("redis", marks=pytest.mark.long), "valkey"])
def rights_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(request.param, tmp_path_factory.mktemp("rights")) as running:
        yield running


@pytest.fixture(scope="module")
def mock() -> Iterator[MockServer]:
    with MockServer(seed=7, signals="scripted") as running:
        yield running


def ledger(url: str, mock: MockServer) -> None:
    signer = LocalSigner.from_key("0x" + "01" * 32)
    with (
        RedisLedger(url, signer=signer) as ledger,
        MarketClient(base_url=mock.market_url, signer=signer, ledger=ledger, budget=Budget(per_day="5")) as market,
    ):
        for name in ("one", "two", "one", None):
            market.token_prices(["ETH"], purchase=name and f"{url}/{name}")
        market.payments.spending()
        market.payments.reconcile()
        ledger.check()


def rate_limit(url: str, mock: MockServer) -> None:
    with (
        RedisRateLimiter(url) as limiter,
        TradeClient(base_url=mock.url, api_key="mock_full_me", rate_limiter=limiter) as client,
    ):
        client.account.get()
        assert limiter.look("mock_full_me").members == 1


def relay(url: str, mock: MockServer) -> None:
    with (
        TradeClient(base_url=mock.url, api_key="mock_full_me") as client,
        client.signals.relay(chain=8453, redis=url, lease=1, settle=0.1) as running,
    ):
        assert soon(lambda: running.stats.relaying)
        mock.emit_signal(chain_id=8453)
        assert soon(lambda: running.stats.published > 0)
        time.sleep(0.8)  # it renews its lease
        assert running.once("action")
        assert not running.once("action")
        assert running.stats.relaying


def member(url: str, mock: MockServer, admin: str) -> None:
    with (
        TradeClient(base_url=mock.url, api_key="mock_full_me") as client,
        client.signals.relay(chain=8453, redis=admin, lease=1, settle=0.1) as running,
        client.signals.shared(chain=8453, redis=url, group="bots", lease=1) as stream,
        client.signals.shared(chain=8453, redis=url, group=None, lease=1) as every,
    ):
        assert soon(lambda: running.stats.relaying)
        mock.emit_signal(chain_id=8453)
        mock.emit_signal(chain_id=8453)
        for _ in range(2):
            signal = next(stream)
            stream.once(f"act/{signal.id}")
            assert next(every).id == signal.id
        time.sleep(0.8)  # it renews its lease
        with client.signals.shared(chain=8453, redis=url, group="other", lease=1, manual_ack=True) as other:
            mock.emit_signal(chain_id=8453)
            signal = next(other)
        with client.signals.shared(chain=8453, redis=url, group="other", lease=1) as another:
            again = next(another)
            assert (again.id, again.redelivered) == (signal.id, True)


def approvals(url: str, mock: MockServer) -> None:
    with closing(SharedApprovals(url)) as store:
        tools, person = Approvals(store), Decisions(store)
        now = time.time()
        made = tools.prepare("change", {"number": now}, "do it", 0, now)
        approved = person.decide(person.waiting(made.code, now), yes=True, now=now)
        assert tools.begin(approved, now)
        tools.end(approved, "done", {}, now)
        assert tools.find({"number": now}, now) in tools.all(now)
        tools.prepare("change", {"number": now}, "do it", 0, now + 40 * 86_400)  # the first is forgotten


ROLES: dict[str, Callable[..., None]] = {
    "ledger": ledger,
    "rate limit": rate_limit,
    "relay": relay,
    "member of a group": member,
    "approvals": approvals,
}


@pytest.mark.parametrize("role", ROLES)
def test_rights_of_a_role(
    rights_server: RedisServer, mock: MockServer, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRADE_HOME", str(tmp_path))
    monkeypatch.setattr("tradesdk._sync.fleet.rate_limiter.logger.warning", failing)
    assert set(RIGHTS) == {"all", *ROLES}
    keys, commands = RIGHTS[role]
    rights_server.command("FLUSHALL")
    user = role.replace(" ", "-")
    rules = ["reset", "on", f">{SECRET}", keys, *RIGHTS["all"][1], *commands]
    rights_server.command("ACL", "SETUSER", user, *(rule for rule in rules if known(rights_server, rule)))
    url = rights_server.url.replace("//", f"//{user}:{SECRET}@")
    more = (rights_server.url,) if role == "member of a group" else ()
    ROLES[role](url, mock, *more)
    with FleetConnection(url) as connection, pytest.raises(FleetError, match="does not allow"):
        connection.command("SET", "other", "1")
    if role != "ledger":
        with FleetConnection(url) as connection, pytest.raises(FleetError, match="does not allow"):
            connection.command("HGET", "tradesdk:{0x1}:payments", "1")


def failing(message: str, *arguments: Any, **more: Any) -> None:
    raise AssertionError(message % arguments)


def known(server: RedisServer, rule: str) -> bool:
    """Whether the engine has the command: WAITAOF is newer than Redis 6.2."""
    return not (server.engine == "redis" and rule == "+waitaof")
