"""`trade doctor`: what is wrong is found and named with what to do next, and nothing can stop it from saying so."""

import importlib.metadata
import json
import sqlite3
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

import tradesdk_cli.health as findings
import tradesdk_cli.health as service_checks
from tradesdk import Ledger, create_keystore
from tradesdk_mock import MockServer

from .._ports import free_port
from .._requirements import install
from .._rows import each_of
from .._stock import stocked, stocked_worlds
from .._texts import HOSTILE
from ._services import Scripted
from ._terminal import Run, Terminal

ACCOUNT = {"id": "a", "email": "e@x.test", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"}
CHECKS = [
    "settings",
    "api",
    "clock",
    "market data",
    "wallet",
    "ledger",
    "mcp",
]
KEY = "0x" + "6b" * 32
LONG = pytest.mark.long


def found(run: Run, check: str) -> dict[str, Any]:
    one: dict[str, Any]
    (one,) = [one for one in run.lines if one["check"] == check]
    return one


def status(run: Run) -> dict[str, str]:
    return {one["check"]: one["status"] for one in run.lines}


@pytest.fixture
def bare(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """`trade` with a home folder of its own."""
    monkeypatch.setenv("HOME", str(trade.home))
    monkeypatch.setenv("SHELL", "/bin/zsh")
    return trade


@pytest.fixture
def well(trade: Terminal) -> Iterator[Terminal]:
    """`trade` at a mock whose clock runs: it is compared with the one of this machine."""
    with MockServer(signals="scripted") as running:
        stocked(running)
        running.populate("well")
        running.set_plan("well", "enterprise")
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_well"}
        yield trade


def test_all_is_well(well: Terminal) -> None:
    run = well("doctor")
    assert run.code == 0
    assert [one["check"] for one in run.lines] == CHECKS
    assert all(list(one) == ["check", "status", "message", "next", "facts"] for one in run.lines)
    assert "problem" not in status(run).values()
    api = found(run, "api")["facts"]
    assert (api["plan"], api["api_key_source"], api["url"]) == (
        "enterprise",
        "TRADE_API_KEY",
        well.env["TRADE_BASE_URL"],
    )
    assert api["rate_limit"]["remaining"] < api["rate_limit"]["limit"]
    assert abs(found(run, "clock")["facts"]["difference_seconds"]) < 20, "each second that its answer takes is one"
    assert found(run, "settings")["facts"]["base_url"]["source"] == "TRADE_BASE_URL"
    assert well.env["TRADE_API_KEY"] not in run.out + run.err
    assert not list(well.home.iterdir()), "nothing was written"


@pytest.mark.parametrize("columns", [60, pytest.param(140, marks=LONG)])
def test_the_table(bare: Terminal, columns: int) -> None:
    stocked_worlds(bare.home, "default")
    run = bare("--mock", "doctor", tty=True, columns=columns, env={"NO_COLOR": "1"})
    assert run.code == 0
    for line in run.out.splitlines():
        alone = line.strip()
        whole = " " not in alone or alone.startswith(("trade ", "next: trade"))  # a path, a command: to be copied
        assert whole or len(line) <= columns
    assert "✓ ok" in run.out
    assert run.err.splitlines()[-1] == "all checks passed"
    assert "✗ problem" in bare("doctor", tty=True, columns=columns, env={"NO_COLOR": "1"}).out


@pytest.mark.parametrize("answer", [401, 403, 404, 500])
def test_a_service_that_refuses(trade: Terminal, service: Scripted, answer: int) -> None:
    service.fails(answer, "a_code", f"no {HOSTILE} key-of-the-test")
    run = trade("doctor")
    assert run.code == 1
    api = found(run, "api")
    assert api["facts"] == {"code": "a_code", "http_status": answer}
    assert api["next"]
    assert "key-of-the-test" not in json.dumps(api)
    assert trade("doctor", "-o", "table").out.replace("\n", "").isprintable()
    assert len(service.keys) <= 4, "nothing is tried again"


AWAY = {"TRADE_BASE_URL": "http://127.0.0.1:9", "TRADE_API_KEY": "key-of-the-test"}
NODES = "https://user@node.example/v2/a-marked-key https://other.example?a-marked-key"
FOUND: list[tuple[str, dict[str, str], int, str, str]] = [
    ("", {}, 3, "api", "no address is set"),
    ("", AWAY, 1, "api", "connection refused"),
    ("", {"TRADE_BASE_URL": "http://127.0.0.1:9"}, 3, "api", "no API key"),
    ("", {"TRADE_MAX_RETRIES": ""}, 3, "settings", "none: every setting has its default"),
    ("", {"TRADE_MOCK": "perhaps"}, 3, "settings", "TRADE_MOCK is neither 1 nor 0"),
    ("", {"TRADE_RPC_URL": NODES}, 3, "settings", "node node.example other.example (TRADE_RPC_URL)"),
    ('profile = "work', {}, 3, "settings", "config.toml: unterminated"),
    ('profile = "work', AWAY, 3, "api", "connection refused"),
    ("profile = 3\n", {}, 3, "settings", "profile"),
    ("profiles = 1\n", {}, 3, "settings", "profiles"),
]


@each_of(("text", "env", "code", "check", "said"), FOUND)
def test_what_is_wrong_is_found_and_the_rest_is_looked_at_all_the_same(
    bare: Terminal, text: str, env: dict[str, str], code: int, check: str, said: str
) -> None:
    (bare.home / "config.toml").write_text(text)
    run = bare("doctor", env=env)
    assert (run.code, said in found(run, check)["message"]) == (code, True), run.out
    assert "a-marked-key" not in run.out + run.err
    assert (found(run, check)["status"] == "problem") is not (said.startswith(("none", "node")))
    assert status(run)["wallet"] == status(run)["ledger"] == "skipped"
    if said.startswith("no address"):
        assert all(f"trade {next_one}" in found(run, "api")["next"] for next_one in ("login", "demo"))


def test_an_answer_that_is_none(trade: Terminal, service: Scripted) -> None:
    service.says(200, b"<html>", Content_Type="text/html")
    run = trade("doctor")
    assert (run.code, status(run)["api"], status(run)["market data"]) == (1, "problem", "problem")


def test_nothing_is_changed_and_nothing_paid(trade: Terminal, service: Scripted) -> None:
    service.says(200, ACCOUNT)
    trade.env["TRADE_WALLET_KEY"] = KEY
    trade("doctor")
    sent = [(method, path, body) for method, path, body in service.seen]
    assert [(method, body) for method, _, body in sent if method != "GET"] == [("POST", b'{"limit":1}')]


@each_of(("seconds", "state"), [(0, "ok"), (20, "ok"), (90, "warning"), (-3600, "warning")])
def test_the_clock(trade: Terminal, service: Scripted, seconds: int, state: str) -> None:
    class Later(service_checks.LastAnswer):
        @property
        def difference(self) -> float | None:
            self.headers["date"] = formatdate(self.at + seconds, usegmt=True)
            return super().difference

    service.says(200, ACCOUNT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_checks, "LastAnswer", Later)
        run = trade("doctor")
    clock = next(one for one in run.lines if one["check"] == "clock")
    assert clock["status"] == state
    assert abs(clock["facts"]["difference_seconds"] - seconds) < 5
    assert ("next" in clock and clock["next"] is not None) is (state == "warning")


@each_of("date", ["", "yesterday", "Mon, 99 Jan 2026 99:99:99 GMT"])
def test_a_service_without_a_usable_date(trade: Terminal, date: str) -> None:
    heard = service_checks.LastAnswer.__new__(service_checks.LastAnswer)
    heard.headers, heard.at, heard.seconds = {"date": date}, 1.0, 0.0
    assert heard.difference is None


def test_a_check_that_breaks(bare: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("MARKED")

    monkeypatch.setattr("tradesdk_cli.health.wallet", broken)
    run = bare("doctor")
    assert run.code == 3, "no address is set"
    assert found(run, "wallet")["message"] == "could not be checked: RuntimeError"
    assert "MARKED" not in run.out + run.err


def test_proxies_are_shown_without_their_passwords(bare: Terminal) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTPS_PROXY", "http://user:MARKED@proxy.example:8080")
        patch.setenv("no_proxy", "localhost")
        stocked_worlds(bare.home, "default")
        run = bare("--mock", "doctor")
    settings = found(run, "settings")
    assert settings["facts"]["proxies"] == {"HTTPS_PROXY": "http://…@proxy.example:8080", "NO_PROXY": "localhost"}
    assert "HTTPS_PROXY http://…@proxy.example:8080" in settings["message"]
    assert "MARKED" not in run.out + run.err


def test_without_the_package_for_ai_clients(bare: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    stocked_worlds(bare.home, "default")
    assert found(bare("--mock", "doctor"), "mcp")["status"] == "ok"
    monkeypatch.setattr(importlib.metadata, "version", missing)
    mcp = found(bare("--mock", "doctor"), "mcp")
    assert (mcp["status"], mcp["next"]) == ("skipped", f"only needed for AI clients: {install('mcp')}")


def test_a_proxy_that_is_not_there(bare: Terminal) -> None:
    proxy = {"HTTPS_PROXY": f"http://user:hunter2@127.0.0.1:{free_port()}", "https_proxy": "", "NO_PROXY": ""}
    run = bare(
        "doctor", "--base-url", "https://service.example", env={"TRADE_API_KEY": "mock_full_me", "no_proxy": ""} | proxy
    )
    for service in ("api", "market data"):
        assert found(run, service)["message"].startswith("could not connect to the proxy of HTTPS_PROXY: ")
        assert "NO_PROXY" in found(run, service)["next"]
    assert "hunter2" not in run.out + run.err


def test_the_wallet(bare: Terminal) -> None:
    assert found(bare("doctor"), "wallet")["status"] == "skipped"
    run = bare("doctor", env={"TRADE_WALLET_KEY": KEY})
    address = found(run, "wallet")["facts"]["address"]
    assert KEY not in run.out
    password = bare.home / "password"
    password.write_text("a password")
    create_keystore(bare.home / "keystore.json", "a password", KEY, work=2)
    run = bare("doctor")
    assert found(run, "wallet")["facts"]["address"] == address
    password.chmod(0o644)
    (bare.home / "keystore.json").chmod(0o644)
    run = bare("doctor", env={"TRADE_KEYSTORE_PASSWORD_FILE": str(password)})
    assert run.code == 3
    assert found(run, "wallet")["status"] == "problem"
    assert "other users may access the keystore" in found(run, "wallet")["message"]
    for env in ({"TRADE_KEYSTORE": "/nowhere/k.json"}, {"TRADE_WALLET_KEY": "MARKED"}):
        run = bare("doctor", env=env)
        assert (run.code, found(run, "wallet")["status"]) == (3, "problem")
        assert "MARKED" not in run.out + run.err
    (bare.home / "keystore.json").write_text("{}")
    assert found(bare("doctor"), "wallet")["status"] == "problem"


def test_what_a_node_says_of_the_wallet(bare: Terminal, shop: MockServer) -> None:
    """Its balance, and in one sentence that there is code at its address. Without a node, nothing of it."""
    bare.env["TRADE_WALLET_KEY"] = KEY
    address = found(bare("doctor"), "wallet")["facts"]["address"]
    bare.env["TRADE_RPC_URL"] = shop.rpc_url
    shop.payments.set_balance(address, 12_340_000)
    row = found(bare("doctor"), "wallet")
    assert (row["status"], row["facts"]["balance_usd"], row["facts"]["code"]) == ("ok", "12.34", "none")
    assert row["message"].endswith("; $12.34 of USDC")
    shop.payments.set_balance(address, 0)
    shop.payments.delegate(address)
    run = bare("doctor")
    empty, code = (row for row in run.lines if row["check"] == "wallet")
    assert (empty["status"], empty["next"]) == ("warning", f"add USDC on Base to {address}")
    assert (code["status"], code["facts"]) == ("warning", {"code": "delegated"})
    assert code["message"].count(". ") == 0
    assert "(EIP-7702): a service may refuse its payments" in code["message"]
    shop.add_fault("rpc_error", call="*", code=-1, message="no")
    row = found(bare("doctor"), "wallet")
    assert (row["status"], row["facts"]["balance_usd"], row["facts"]["code"]) == ("ok", None, None)
    assert row["message"].endswith("; the node does not report its balance")
    assert shop.rpc_url not in bare("doctor").out


@pytest.mark.long
def test_a_ledger(bare: Terminal, shop: MockServer) -> None:
    bare.env |= {"TRADE_MARKET_BASE_URL": shop.url, "TRADE_WALLET_KEY": KEY}
    shop.add_fault("status", paid="only", status=404, count=1)
    bare("market", "prices", "BRETT", "--max-price", "0.10")
    assert "consistent; $0.03 held; " in found(bare("doctor"), "ledger")["message"], "refused, and not in doubt"
    shop.add_fault("status", paid="only", count=1)
    assert bare("market", "prices", "ETH", "--max-price", "0.10").code == 14
    bare("pay", "budget", "set", "--per-day", "5")
    run = bare("doctor")
    ledger = found(run, "ledger")
    assert ledger["status"] == "warning"
    assert ledger["next"] == "trade pay reconcile"
    assert len(ledger["facts"]["in_doubt"]) == 1
    assert ledger["facts"]["budget_usd"]["per_day"] == "5.00"
    assert "1 payment in doubt, $0.06 held; $4.94 left today; no node of Base is set" in ledger["message"]
    seen = found(bare("doctor", env={"TRADE_RPC_URL": f"{shop.url}/rpc"}), "ledger")
    assert (seen["status"], "witness" in seen["message"]) == ("warning", False)
    elsewhere = found(bare("doctor", env={"TRADE_MARKET_BASE_URL": ""}), "ledger")
    assert elsewhere["next"] == "TRADE_RPC_URL=https://mainnet.base.org trade pay reconcile"


@pytest.mark.parametrize("damage", ["overwritten", "cut", "another", "folder", "lost"])
def test_a_ledger_that_is_damaged(bare: Terminal, damage: str) -> None:
    path = bare.home / "ledger.sqlite3"
    if damage == "folder":
        path.mkdir()
    elif damage == "lost":
        path.with_name(f"{path.name}-signed").touch()
    elif damage == "another":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE notes (text)")
        db.close()
    else:
        with Ledger(path) as ledger:
            ledger.history()
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + b"\xff" * 9_000 + whole[9_100:] if damage == "overwritten" else whole[:5_000])
    run = bare("doctor")
    assert run.code == 3
    ledger_found, said = found(run, "ledger"), bare("pay", "budget", "-o", "json")
    assert ledger_found["status"] == "problem"
    assert (ledger_found["message"], ledger_found["next"]) == (said.problem["message"], said.problem["hint"])
    assert ledger_found["facts"]["code"] == said.problem["code"]
    assert run.code == said.code
    assert path.exists() is (damage != "lost"), "nothing was made in its place"


def test_flags_that_contradict_each_other_are_still_refused(bare: Terminal) -> None:
    assert bare("--mock", "doctor", "--base-url", "https://x.test").problem["code"] == "usage"


def test_exit_codes() -> None:
    def one(state: findings.State, config: bool = False) -> findings.Finding:
        return findings.Finding("a", state, "b", config=config)

    assert findings.exit_code([one("ok"), one("warning"), one("skipped")]) == 0
    assert findings.exit_code([one("problem"), one("ok")]) == 1
    assert findings.exit_code([one("problem"), one("problem", config=True)]) == 3
    assert json.dumps(one("ok").as_dict())
