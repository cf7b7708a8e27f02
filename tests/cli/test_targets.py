"""Which commands write or pay, who is asked before, and where it is said to go."""

import os
import pty
import signal
import subprocess
from contextlib import suppress

import pytest

from tradesdk import Ledger

from ._terminal import TRADE, Terminal, press_ctrl_c
from .test_help import LEAVES, in_doubt

ASKS = (
    "agents create, agents update, agents delete, wallets connect, pay trust, pay key accept-secret, api, "
    "mock reset, mock restore"
)
"""Ask at a terminal; elsewhere they want --yes."""
ASKS_AT_A_TERMINAL = "pay budget, pay reconcile"
"""Change nothing but the ledger on this machine: elsewhere they go ahead."""
PAYS = "market signals, market prices, market history, market win-rate, market avg-prices, market top, market metrics"
"""Ask for the price when neither --max-price nor a budget allows it."""
NEVER_ASKS = {
    "pay resume": "the same payment, which was allowed when it was made, and cannot be taken twice",
}


def words(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")]


def options(name: str) -> set[str]:
    return {option for param in LEAVES[tuple(name.split())].params for option in param.opts}


def test_whoever_writes_can_be_tried_out_and_agreed_to_beforehand() -> None:
    for name in words(ASKS) + words(ASKS_AT_A_TERMINAL):
        assert {"--yes", "--dry-run"} <= options(name), name
    for name in words(PAYS):
        assert {"--max-price", "--dry-run"} <= options(name), name
    for name in NEVER_ASKS:
        assert {"--yes", "--dry-run"} & options(name) == {"--dry-run"}, name


def test_whoever_can_be_tried_out_stands_in_a_list_above() -> None:
    known = {*words(ASKS), *words(ASKS_AT_A_TERMINAL), *words(PAYS), *NEVER_ASKS}
    ours = {"agents", "wallets", "market", "pay", "api"}
    found = {" ".join(name) for name in LEAVES if name[0] in ours and "--dry-run" in options(" ".join(name))}
    assert found <= known


ADDRESS = "0x" + "cd" * 20


@pytest.mark.usefixtures("worlds")
@pytest.mark.parametrize(
    "line",
    [
        "agents update AGENT_ID --name n",
        pytest.param("agents delete AGENT_ID", marks=pytest.mark.long),
        pytest.param(
            "agents create --name n --wallet-id wal_000000000000000000000000 --chain base", marks=pytest.mark.long
        ),
        pytest.param("wallets connect --label l --chain base --address 0x1 --signature 0x2", marks=pytest.mark.long),
        f"pay trust {ADDRESS}",
        pytest.param("pay budget set --per-day 5", marks=pytest.mark.long),
        "api DELETE /v1/agents/x",
        "mock reset",
    ],
)
def test_the_first_line_says_where_it_goes(trade: Terminal, line: str) -> None:
    argv = line.split()
    if "AGENT_ID" in argv:
        idle = trade("--world", "one", "agents", "list", "--status", "idle").lines[0]["id"]
        argv[argv.index("AGENT_ID")] = idle
    told = "the embedded mock (world one)" if argv[0] == "mock" else "mock world one"
    for more, answer in (((), "n\n"), (("--dry-run", "-o", "table"), None)):
        run = trade("--world", "one", *argv, *more, answers=answer, env={"NO_COLOR": "1"})
        assert run.code == (0 if more else 1), run.err
        first = run.err.splitlines()[0]
        assert first == (f"{told} · its ledger" if argv[0] == "pay" else told)


def test_a_live_service_stands_out(trade: Terminal) -> None:
    trade.env |= {"TRADE_BASE_URL": "https://api.example.com", "TRADE_API_KEY": "key-of-the-test"}
    line = ("api", "POST", "/v1/agents", "-f", "name=n")
    assert trade(*line, answers="n\n", tty=True).err.splitlines()[0] == "\x1b[1mapi.example.com · live\x1b[0m"
    dry = trade(*line, "--dry-run")
    assert dry.notes[-1]["target"] == {"mode": "live", "host": "api.example.com"}
    assert "key-of-the-test" not in dry.out + dry.err


def test_budgets_are_compared_and_asked_about_at_a_terminal_only(buyer: Terminal) -> None:
    line = ("pay", "budget", "set", "--per-day", "5", "--per-call", "0.5")
    for more, answer in ((("--dry-run",), None), ((), "n\n")):
        run = buyer(*line, *more, answers=answer)
        assert run.code == (0 if more else 1)
        with Ledger(buyer.home / "ledger.sqlite3") as ledger:
            assert ledger.setting("budget") is None
    assert "  per_day_usd   not set → $5.00\n" in buyer(*line, answers="n\n", env={"NO_COLOR": "1"}).err
    done = buyer(*line)
    assert (done.code, done.json["per_day_usd"]) == (0, "5.00")
    assert done.notes[0]["changes"]["per_day_usd"] == {"from": None, "to": "5.00"}
    again = buyer(*line, answers="n\n")
    assert (again.code, "already has these values" in again.err) == (0, True)
    gone = buyer("pay", "budget", "set", "--per-call", "none", answers="y\n", env={"NO_COLOR": "1"})
    assert "  per_call_usd  $0.50 → not set\n" in gone.err
    assert gone.json["per_call_usd"] is None


@pytest.mark.long
def test_payments_in_doubt_are_shown_before_anything_is_done_about_them(trade: Terminal) -> None:
    name = in_doubt(trade, later=3600)
    for line in (("reconcile", "--dry-run"), ("resume", name, "--dry-run")):
        run = trade("--mock", "pay", *line)
        assert run.code == 0, run.err
        record = run.lines[0] if line[0] == "reconcile" else run.json
        assert (record["id"], record["status"]) == (name, "unknown, expired")
        assert "nothing was sent" in run.err
        assert "header" not in run.out
    mark = ("--mock", "pay", "reconcile", "--mark", "unpaid", name)
    trade("--mock", "mock", "fault", "add", "node_lag", "seconds=1000000")  # the chain decides nothing
    trade("--mock", "pay", "reconcile")
    no = trade(*mark, answers="n\n")
    assert (no.code, f"mark the payment {name} as unpaid? [y/N]" in no.err) == (1, True)
    assert "its money is no longer held then" in no.err
    assert trade(*mark, "--dry-run").json["body"] == {"mark": "unpaid"}
    assert trade("--mock", "pay", "show", name).json["status"] == "unknown, expired"
    assert trade(*mark, "--yes").json["status"] == "not paid"


@pytest.mark.long
@pytest.mark.parametrize(("typed", "code"), [(signal.SIGINT, 130), (b"\x04", 1), (b"no\n", 1), (b"y\n", 0)])
def test_a_question_on_a_real_terminal(trade: Terminal, typed: signal.Signals | bytes, code: int) -> None:
    idle = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    reader, terminal = pty.openpty()
    try:
        process = subprocess.Popen(  # our own interpreter
            [*TRADE, "--mock", "agents", "delete", idle],
            env=trade.environment() | {"TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
    finally:
        os.close(terminal)
    seen = b""
    with process:
        while b"[y/N] " not in seen:
            seen += os.read(reader, 4096)
        if isinstance(typed, bytes):
            os.write(reader, typed)
        else:
            press_ctrl_c(process)
        with suppress(OSError):  # nobody writes there any more
            while chunk := os.read(reader, 4096):
                seen += chunk
    os.close(reader)
    assert process.returncode == code, seen
    assert (b"nothing was changed" in seen) is (code != 0)
    assert trade("--mock", "agents", "get", idle).code == (0 if code else 6)
