"""Writes: asked before, `--yes` where nobody can be asked, `--dry-run` shows exactly what would be sent."""

import pytest

from tradesdk import LocalSigner, TradeClient
from tradesdk_mock import MockServer

from ._terminal import Terminal

KEY = "0x" + "7c" * 32
FORGED = "0x" + "11" * 64 + "1b"


@pytest.fixture
def wallet(client: TradeClient) -> str:
    return next(wallet.id for wallet in client.wallets.list(chain_id=8453))


@pytest.fixture
def agent(client: TradeClient, wallet: str) -> str:
    return client.agents.create(name="mine", wallet_id=wallet, chain_id=8453).id


def writes(server: MockServer, trade: Terminal) -> list[tuple[str, str, object]]:
    """What was written by this test's tenant through the CLI."""
    tenant = trade.env["TRADE_API_KEY"].removeprefix("mock_full_")
    return [(entry.method, entry.path, entry.body) for entry in server.journal(tenant) if entry.method != "GET"]


def test_the_life_of_an_agent(own: Terminal, wallet: str) -> None:
    made = own("agents", "create", "--name", "first", "--wallet-id", wallet, "--chain", "base", "--yes").json
    assert (made["name"], made["status"], made["chain_id"]) == ("first", "idle", 8453)
    assert own("agents", "list").lines[0]["id"] == made["id"]
    line = f"agents update {made['id']} --stop-loss-pct 4 --take-profit-pct 9 --max-positions 2 --min-confidence 0.9 -y"
    changed = own(*line.split()).json
    assert changed["risk"] == {"stop_loss_pct": 4.0, "take_profit_pct": 9.0}
    assert (changed["max_positions"], changed["min_confidence"], changed["name"]) == (2, 0.9, "first")
    assert own("agents", "get", made["id"]).json == changed
    assert own("agents", "delete", made["id"], "--yes").json == {"id": made["id"], "deleted": True}
    assert own("agents", "get", made["id"]).code == 6


def test_deleting_a_running_agent(own: Terminal, server: MockServer, agent: str) -> None:
    server.start_agent(agent)
    run = own("agents", "delete", agent, "--yes")
    assert (run.code, run.problem["code"]) == (7, "conflict")
    server.stop_agent(agent)
    assert own("agents", "delete", agent, "--yes").code == 0


def test_without_a_terminal_yes_is_needed(own: Terminal, server: MockServer, agent: str, wallet: str) -> None:
    server.clear_journal()
    for argv in (
        ("agents", "create", "--name", "n", "--wallet-id", wallet, "--chain", "base"),
        ("agents", "update", agent, "--name", "n"),
        ("agents", "delete", agent),
        ("wallets", "connect", "--label", "l", "--chain", "base", "--address", "0x0", "--signature", "0x0"),
    ):
        run = own(*argv, stdin="y\n")
        assert run.code == 2
        assert "--yes" in run.problem["message"]
    assert writes(server, own) == []


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_asked_and_agreed(own: Terminal, agent: str, answer: str) -> None:
    run = own("agents", "update", agent, "--name", "new\x1b", "--stop-loss-pct", "4", answers=answer)
    assert run.code == 0
    assert "  risk.stop_loss_pct: 4.0\n" in run.err
    assert "  name: new\\x1b\n" in run.err
    assert f"change the agent {agent}? [y/N] " in run.err
    assert run.json["name"] == "new\x1b"


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yesterday\n"])
def test_asked_and_declined(own: Terminal, server: MockServer, agent: str, answer: str) -> None:
    server.clear_journal()
    run = own("agents", "delete", agent, answers=answer)
    assert (run.code, run.out) == (1, "")
    assert "nothing was changed" in run.err
    assert writes(server, own) == []


def test_dry_run_shows_what_is_sent(own: Terminal, server: MockServer, agent: str, wallet: str) -> None:
    lines = [
        f"agents create --name n --wallet-id {wallet} --chain bnb --stop-loss-pct 5 --max-positions 3",
        f"agents create --name n --wallet-id {wallet} --chain base --min-confidence 0.6",
        f"agents update {agent} --name other --position-size-pct 2.5 --trailing-stop-pct 1 --min-confidence 0.7",
        f"agents delete {agent}",
    ]
    for line in lines:
        server.clear_journal()
        dry = own(*line.split(), "--dry-run")
        assert (dry.code, writes(server, own)) == (0, [])
        assert "nothing was sent" in dry.err
        own(*line.split(), "--yes")
        shown = dry.json
        assert (shown["method"], shown["path"], shown.get("body")) == writes(server, own)[0]


def test_dry_run_needs_neither_key_nor_service(trade: Terminal) -> None:
    line = "agents create --name n --wallet-id w --chain base --dry-run -o table"
    run = trade(*line.split())
    assert run.code == 0
    assert "body.wallet_id  w" in run.out


def test_connect_with_a_key(own: Terminal, server: MockServer) -> None:
    address = LocalSigner.from_key(KEY).address
    own.env["TRADE_WALLET_KEY"] = KEY
    dry = own("wallets", "connect", "--label", "main", "--chain", "base", "--dry-run")
    assert dry.json["body"]["address"] == address
    made = own("wallets", "connect", "--label", "main", "--chain", "base", "--address", address.lower(), "--yes").json
    assert (made["address"], made["label"], made["chain_id"]) == (address, "main", 8453)
    again = own("wallets", "connect", "--label", "main", "--chain", "base", "--yes")
    assert (again.code, again.problem["code"]) == (7, "conflict")


def test_connect_with_another_message(own: Terminal) -> None:
    own.env["TRADE_WALLET_KEY"] = KEY
    run = own("wallets", "connect", "--label", "main", "--chain", "base", "--message", "something else", "--yes")
    assert (run.code, run.problem["code"]) == (8, "invalid_signature")


def test_connect_with_a_signature(own: Terminal, server: MockServer) -> None:
    address = LocalSigner.from_key(KEY).address
    argv = ("wallets", "connect", "--label", "l", "--chain", "base", "--address", address, "--signature", FORGED, "-y")
    run = own(*argv)
    assert (run.code, run.problem["code"]) == (8, "invalid_signature")
    assert writes(server, own)[-1][2] == {"address": address, "chain_id": 8453, "label": "l", "signature": FORGED}
    assert own(*argv, "--message", "m").code == 2


def test_connect_refuses_what_does_not_fit(own: Terminal) -> None:
    own.env["TRADE_WALLET_KEY"] = KEY
    run = own("wallets", "connect", "--label", "l", "--chain", "base", "--address", "0x" + "1" * 40, "--yes")
    assert run.code == 2
    own.env["TRADE_WALLET_KEY"] = "not-a-key"
    run = own("wallets", "connect", "--label", "l", "--chain", "base", "--yes")
    assert run.code == 3
    assert "not-a-key" not in run.err
    assert run.problem["message"].startswith("TRADE_WALLET_KEY: the private key must be 64 hexadecimal digits")
    assert run.problem["hint"].startswith("a private key is ")


def test_a_read_only_key_may_not_write(own: Terminal, agent: str) -> None:
    own.env["TRADE_API_KEY"] = own.env["TRADE_API_KEY"].replace("full", "read")
    run = own("agents", "delete", agent, "--yes")
    assert (run.code, run.problem["code"]) == (5, "forbidden")
    assert own("agents", "get", agent).code == 0
