"""Writes: asked before, `--yes` where nobody can be asked, `--dry-run` shows exactly what would be sent."""

import pytest

import tradesdk_cli.confirm as changes
from tradesdk import TradeClient
from tradesdk_mock import MockServer

from .._rows import each_of
from . import _services
from ._services import Scripted
from ._terminal import Terminal


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


@pytest.mark.rule("agent.delete.active")
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
    line = ("agents", "update", agent, "--name", "new\x1b", "--stop-loss-pct", "4", "--max-positions", "5")
    run = own(*line, answers=answer, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert run.err.splitlines() == [
        f"{own.env['TRADE_BASE_URL'].removeprefix('http://')} · this machine",
        "  agent               mine",
        "  status              idle",
        "  name                mine → new\\x1b",
        "  risk.stop_loss_pct  not set → 4.00%",
        "  max_positions       5 (unchanged)",
        f"change the agent mine ({agent})? [y/N] ",
    ]
    assert run.json["name"] == "new\x1b"


def test_old_and_new_are_told_apart_by_color_and_by_words(own: Terminal, agent: str) -> None:
    line = ("agents", "update", agent, "--max-positions", "3")
    colored = own(*line, answers="n\n", tty=True)
    assert "\x1b[31m5\x1b[0m → \x1b[32m3\x1b[0m" in colored.err
    plain = own(*line, answers="n\n", tty=True, env={"NO_COLOR": "1"})
    assert "  max_positions  5 → 3\n" in plain.err
    assert "\x1b" not in plain.err


def test_what_is_agreed_to_is_not_rounded(own: Terminal, agent: str) -> None:
    for given, shown in (("0.001", "0.001"), ("4.0049", "4.0049")):
        run = own("agents", "update", agent, "--stop-loss-pct", given, answers="n\n", env={"NO_COLOR": "1"})
        assert f"not set → {shown}%\n" in run.err


def test_what_is_like_that_already_is_not_sent(own: Terminal, server: MockServer, agent: str) -> None:
    server.clear_journal()
    for more in ((), ("--yes",), ("--dry-run",)):
        run = own("agents", "update", agent, "--name", "mine", "--max-positions", "5", *more, answers="n\n")
        assert (run.code, run.json["id"]) == (0, agent)
        assert f"mine ({agent}) already has these values" in run.err
    assert writes(server, own) == []


def test_an_active_agent_is_warned_about(own: Terminal, server: MockServer, agent: str) -> None:
    server.start_agent(agent)
    server.clear_journal()
    run = own("agents", "delete", agent, answers="n\n")
    assert f"mine ({agent}) is active: it must be stopped before it can be deleted" in run.err.replace("\n", " ")
    tried = own("agents", "delete", agent, "--dry-run")
    assert (tried.json["method"], tried.notes[-1]["about"]["status"]) == ("DELETE", "active")
    assert "is active" in tried.notes[-1]["warnings"][0]
    assert writes(server, own) == []
    refused = own("agents", "delete", agent, "--yes")
    assert (refused.code, refused.problem["code"], refused.problem["status"]) == (7, "conflict", 409)
    assert f"trade mock agent stop {agent}" in refused.problem["hint"]


def test_another_conflict_of_a_deletion_is_told_as_it_is(trade: Terminal, service: Scripted) -> None:
    service.says(200, _services.agent(id="agt_1", status="idle", risk={}, min_confidence=0.75, max_positions=5))
    service.then(409, {"error": {"code": "conflict", "message": "it has open positions"}})
    run = trade("agents", "delete", "agt_1", "--yes")
    assert (run.code, run.problem["message"]) == (7, "it has open positions")
    assert (service.seen[-1][0], "stop" in run.problem["hint"]) == ("DELETE", False)


@each_of("verb", ["pause", "resume", "start", "stop"])
def test_what_the_api_cannot_do_is_said_and_not_tried(own: Terminal, server: MockServer, agent: str, verb: str) -> None:
    server.clear_journal()
    for line in (("agents", verb, agent), ("agents", "update", agent, "--status", "paused", "--yes")):
        run = own(*line)
        assert (run.code, run.problem["code"]) == (2, "usage")
        assert "no endpoint" in run.problem["hint"]
        assert "in the dashboard, on a mock with trade mock agent" in run.problem["hint"]
        assert "trade agents update AGENT_ID --max-positions 1" in run.problem["hint"]
    assert writes(server, own) == []


def test_programs_get_target_and_changes_as_fields(own: Terminal, agent: str) -> None:
    run = own("agents", "update", agent, "--max-positions", "3", "--yes")
    assert run.notes == [
        {
            "note": f"change the agent mine ({agent})",
            "target": {"mode": "local", "host": own.env["TRADE_BASE_URL"].removeprefix("http://")},
            "changes": {"max_positions": {"from": 5, "to": 3}},
            "about": {"agent": "mine", "status": "idle"},
        }
    ]
    dry = own("agents", "update", agent, "--max-positions", "4", "--dry-run")
    assert dry.json["changes"] == {"max_positions": {"from": 3, "to": 4}}


def test_ctrl_c_at_the_question(own: Terminal, server: MockServer, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(question: str) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(changes, "ask", interrupted)
    server.clear_journal()
    run = own("agents", "delete", agent, answers="y\n")
    assert (run.code, run.out) == (130, "")
    assert run.err.endswith("\ninterrupted: nothing was changed\n")
    assert writes(server, own) == []


@each_of("answer", ["n\n", "\n", "", "yesterday\n"])
def test_asked_and_declined(own: Terminal, server: MockServer, agent: str, answer: str) -> None:
    server.clear_journal()
    run = own("agents", "delete", agent, answers=answer)
    assert (run.code, run.out) == (1, "")
    assert "nothing was changed" in run.err
    assert "error:" not in run.err, "it is an answer"
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


@each_of(
    "line",
    [
        "agents create --name n --wallet-id WALLET --chain base",
        "agents update AGENT --max-positions 2",
        "agents delete AGENT",
        "wallets connect --label l --chain base --address 0x0 --signature 0x0",
        "api GET /v1/agents",
        "api POST /v1/agents -d {}",
        "mock reset",
        "market prices ETH",
        "pay budget set --per-day 5",
        "pay trust 0x52908400098527886E0F7030069857D2E4169EE7",
    ],
)
def test_a_dry_run_is_a_result(own: Terminal, agent: str, wallet: str, line: str) -> None:
    """Fields, a query and a format apply to what it prints, and a field that it has not is refused."""
    dry = [*line.replace("AGENT", agent).replace("WALLET", wallet).split(), "--dry-run"]
    whole = own(*dry, "-o", "json").json
    assert own(*dry, "--fields", "path,method", "-o", "csv").out.split() == [
        "path,method",
        f"{whole['path']},{whole['method']}",
    ]
    assert own(*dry, "-q", "[method, body]", "-o", "json").json == [whole["method"], whole.get("body")]
    assert own(*dry, "--fields", "no_such").problem["message"] == "--fields: there is no field no_such"
    if "changes" in whole:
        assert own(*dry, "-q", "changes", "-o", "json", tty=True).json == whole["changes"]


@each_of(
    ("line", "said"),
    [
        ("agents delete AGENT", "nothing was sent (--dry-run)"),
        ("agents update AGENT --max-positions 2", "nothing was sent (--dry-run)"),
        ("mock reset", "nothing was sent (--dry-run)"),
        ("pay budget set --per-day 5", "nothing was changed (--dry-run)"),
        ("pay trust 0x52908400098527886E0F7030069857D2E4169EE7", "nothing was changed (--dry-run)"),
    ],
)
def test_a_person_reads_what_a_dry_run_left_undone(own: Terminal, agent: str, line: str, said: str) -> None:
    run = own(*line.replace("AGENT", agent).split(), "--dry-run", "-o", "table")
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == said


@pytest.mark.rule("auth.scope.read-only.writes")
def test_a_read_only_key_may_not_write(own: Terminal, agent: str) -> None:
    own.env["TRADE_API_KEY"] = own.env["TRADE_API_KEY"].replace("full", "read")
    run = own("agents", "delete", agent, "--yes")
    assert (run.code, run.problem["code"]) == (5, "forbidden")
    assert own("agents", "get", agent).code == 0
