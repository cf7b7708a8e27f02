"""Every example runs as a newcomer runs it: a process of its own, nothing set, from any folder."""

import base64
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tradesdk import ConfigError
from tradesdk_mock import MockServer

from ._hostile import Visit, answer, hostile
from ._pages import ROOT, blocks
from ._stock import stocked

EXAMPLES = ROOT / "examples"
# Without hypothesis: nobody uses it there, and it takes a second to load.
PYTEST = ("-m", "pytest", "-v", "-W", "error", "--strict-markers", "-p", "no:hypothesispytest")

PAYS = {"TRADE_WALLET_KEY": "0x" + "01" * 32}

QUICKSTART = """\
me@example.test, plan pro, 6 of 25 agents
  idle    bnb-watch
  error   bnb-scalper
  paused  bnb-momentum
  idle    base-slow
  active  base-dips
  active  base-momentum
"""


def start(*arguments: str | Path, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, where nothing is set but `env`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "PYTEST_"))}
    command = [sys.executable, *map(str, arguments)]
    env = {**clean, "PYTHONIOENCODING": "utf-8", **(env or {})}
    # Only so that nothing hangs: two workers of pytest take 10 s, and six minutes on a machine that does much else.
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=1_800)


def run(name: str, folder: Path, *options: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    """What the example prints. Warnings are errors there too."""
    done = start("-W", "error", EXAMPLES / name, *options, folder=folder, env=env)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    tested = set(re.findall(r'"(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert {
        file.name for file in EXAMPLES.glob("*.py")
    } == tested  # "fleet_bot.py" and "fastapi_bot.py": in recipes; "bot.py", "stop_everything.py" too


@pytest.mark.long
def test_quickstart(tmp_path: Path) -> None:
    blocking = run("quickstart.py", tmp_path)
    assert blocking.startswith(QUICKSTART)
    trades, *signals, agent = blocking.removeprefix(QUICKSTART).splitlines()
    counts = re.fullmatch(r"242 closed trades, (\d+) of them won, [+-][\d,]+\.\d\d USD in all", trades)
    assert counts is not None
    assert 0 < int(counts[1]) < 242
    assert len(signals) == 3
    for signal in signals:
        assert re.fullmatch(r"  (BUY |SELL) [A-Z0-9]+ +(9\d|100)% at \S+ USD", signal)
    assert agent == "new agent 'quickstart': idle, trades signals from 90% on"


@pytest.mark.long
def test_quickstart_says_the_same_in_both_flavours(tmp_path: Path) -> None:
    assert run("quickstart_async.py", tmp_path) == run("quickstart.py", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ["quickstart.py", "quickstart_async.py"])
def test_quickstart_only_reads_the_service_that_is_set_unless_told_to_write(name: str, tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        server.populate("me")
        service = {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url}
        assert run(name, tmp_path, env=service).startswith(QUICKSTART)
        assert {entry.method for entry in server.journal()} == {"GET"}
        told = run(name, tmp_path, "--write", env=service)
        assert told.endswith("new agent 'quickstart': idle, trades signals from 90% on\n")
        writes = [entry for entry in server.journal() if entry.method != "GET"]
        created, changed, deleted = writes
        assert (created.method, created.path, created.status) == ("POST", "/v1/agents", 201)
        assert (changed.method, changed.body) == ("PATCH", {"min_confidence": 0.9})
        assert (deleted.method, deleted.path, deleted.status) == ("DELETE", changed.path, 204)


@pytest.mark.long
def test_quickstart_on_an_empty_account(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        told = run("quickstart.py", tmp_path, env={"TRADE_API_KEY": "mock_full_new", "TRADE_BASE_URL": server.url})
    first, trades, *signals = told.splitlines()
    assert (first, trades) == (
        "new@example.test, plan pro, 0 of 25 agents",
        "0 closed trades, 0 of them won, +0.00 USD in all",
    )
    assert all(signal.startswith("  ") for signal in signals)


@pytest.mark.long
def test_risk_report(tmp_path: Path) -> None:
    told = run("risk_report.py", tmp_path, code=1)  # 1 because two positions are close to their stops
    agents, positions, summary = told.split("\n\n")

    head, *rows = agents.splitlines()
    assert head.split() == ["agent", "closed", "won", "result", "USD", "worst", "USD"]
    results = [float(row.split()[-2].replace(",", "")) for row in rows]
    assert results == sorted(results)
    assert [row.split()[0] for row in rows if "losing" in row] == [
        row.split()[0] for row, result in zip(rows, results, strict=True) if result < 0
    ]
    assert sum(int(row.replace("losing", "").split()[1]) for row in rows) == 242

    head, *rows = positions.splitlines()
    assert len(rows) == 8
    assert {len(row) for row in rows} == {len(head)}
    distances = [float(row.split()[-3].rstrip("%")) for row in rows]
    assert distances == sorted(distances, reverse=True)
    assert all(distance < 0 for distance in distances)
    assert [("near stop" in row) for row in rows] == [True, True] + [False] * 6

    stopped = sum(float(row.split()[-1].replace(",", "")) for row in rows)
    line = "Losing agents: 1 of 6. Positions near their stop: 2 of 8.\nIf every stop is hit: about "
    assert summary.startswith(line)
    assert float(summary.removeprefix(line).split()[0].replace(",", "")) == pytest.approx(stopped, abs=0.05)


@pytest.mark.long
def test_risk_report_of_an_account_without_agents(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        told = run("risk_report.py", tmp_path, env={"TRADE_API_KEY": "mock_read_new", "TRADE_BASE_URL": server.url})
        assert {entry.method for entry in server.journal()} == {"GET"}
    assert told.endswith(
        "Losing agents: 0 of 0. Positions near their stop: 0 of 0.\nIf every stop is hit: about +0.00 USD.\n"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "quickstart.py",
        "quickstart_async.py",
        "risk_report.py",
        "testing_your_bot.py",
        "paid_market_data.py",
        "paid_batches_async.py",
        "follow_signals.py",
        "follow_signals_async.py",
        "signal_bot.py",
        "backtest_a_rule.py",  # tests/test_backtest.py runs it
    ],
)
def test_half_a_configuration_is_not_taken_for_none(name: str, tmp_path: Path) -> None:
    """With a key but no URL nobody wants a mock server instead."""
    done = start(EXAMPLES / name, folder=tmp_path, env={"TRADE_API_KEY": "k", **PAYS})
    assert done.returncode == 1
    assert (
        done.stderr.rstrip().splitlines()[-1].startswith("tradesdk.errors.ConfigError: no base URL: set TRADE_BASE_URL")
    )


@pytest.mark.long
def test_paid_market_data(tmp_path: Path) -> None:
    """It ends with an error if the mock's books show anything but two payments, none of them twice."""
    lines = run("paid_market_data.py", tmp_path).splitlines()
    again = [line for line in lines if "resending it in" in line]
    assert len(again) == 4
    assert all("the connection was lost" in line for line in again)
    told = [line for line in lines if line not in again]
    assert re.fullmatch(r"paid \$0\.06, transaction 0x[0-9a-f]{64}", told.pop(3))
    assert told == [
        "prices of 2 tokens: $0.06, and the budgets allow it: True",
        "  ETH   2,798.28 USD",
        "  BRETT 0.0636911 USD",
        "refused here, nothing was signed: over_budget: this call costs $0.15, more than the budget of $0.10 per call",
        "in doubt: $0.06 may have been paid, sent 5x",
        "  ETH   62.5 %",
        "  BRETT 36.1 %",
        "answered $0.06, sent 6x, charged: True",
        "answered $0.06, sent 1x, charged: True",
        "spent today: $0.12",
    ]


@pytest.mark.long
def test_paid_market_data_of_the_service_that_is_set(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        env = {**PAYS, "TRADE_BASE_URL": server.url, "TRADE_HOME": str(tmp_path / "home")}
        told = run("paid_market_data.py", tmp_path, env=env)
        server.payments.assert_charged(times=2, amount=120_000)
    assert "in doubt" not in told
    assert (tmp_path / "home" / "ledger.sqlite3").stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_paid_batches(tmp_path: Path) -> None:
    """It ends with an error if the mock's books show anything but three payments, none of them twice."""
    first, second = run("paid_batches_async.py", tmp_path).split("11 tokens in 3 batches for $0.33, ")[1:]
    bought = [line.partition(": ")[::2] for line in first.splitlines()[1:]]
    assert [cost for cost, _ in bought] == ["  1/3 $0.15 spent", "  2/3 $0.30 spent", "  stopped"]
    assert bought[2][1] == "over_total: the next batch costs $0.03, and max_total=$0.30 leaves $0.00"
    kept = [line.partition(": ")[::2] for line in second.splitlines()[1:]]
    assert [cost for cost, _ in kept] == ["  1/3 kept from before", "  2/3 kept from before", "  3/3 $0.03 spent"]
    assert [found for _, found in kept[:2]] == [found for _, found in bought[:2]]
    assert [len(found.split(", ")) for _, found in kept] == [5, 5, 1]


@pytest.mark.long
def test_paid_batches_are_paid_once_however_often_it_runs(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        env = {**PAYS, "TRADE_MARKET_BASE_URL": server.url, "TRADE_HOME": str(tmp_path)}
        run("paid_batches_async.py", tmp_path, env=env)
        server.payments.assert_charged(times=3)
        assert run("paid_batches_async.py", tmp_path, env=env).count("kept from before") == 6
        server.payments.assert_charged(times=3)


@pytest.mark.long
def test_a_wallet_service_signs(tmp_path: Path) -> None:
    """It ends with an error if the mock's books show anything but one payment."""
    first, *told = run("wallet_service_signer.py", tmp_path).splitlines()
    assert re.fullmatch(r"ETH [\d,.]+ USD", first)
    assert told == [
        "paid $0.03 by 0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
        "not paid: signer_failed: the wallet service did not sign: status 400",
    ]


WALLET_SERVICE = {
    "PRIVY_WALLET_ADDRESS": "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
    "PRIVY_WALLET_ID": "id2tptkqrxd39qo9j423etij",
    "PRIVY_APP_ID": "an-app-id",
    "PRIVY_APP_SECRET": "an-app-secret",
}
SIGNED_TYPES = {
    "EIP712Domain": {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"},
    "TransferWithAuthorization": {
        "from": "address",
        "to": "address",
        "value": "uint256",
        "validAfter": "uint256",
        "validBefore": "uint256",
        "nonce": "bytes32",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("outcome", ["signed", "signed with another key", "refused", "garbage"])
def test_a_wallet_service_is_asked_as_its_documentation_says(
    outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Privy's `eth_signTypedData_v4`: POST /v1/wallets/{wallet_id}/rpc, Basic auth by app id and secret.

    In this process, as the next test: the example as a process of its own is the test before.
    """
    asked: list[tuple[str, Any]] = []

    def privy(visit: Visit) -> None:
        asked.append((visit.head.decode(), json.loads(visit.body)))
        data = asked[-1][1]["params"]["typed_data"]
        whole = {"primaryType": data["primary_type"], "types": data["types"], "message": data["message"]}
        domain = {**data["domain"], "chainId": int(data["domain"]["chainId"], 16)}
        account = Account.from_key("0x" + ("02" if "another" in outcome else "01") * 32)
        signature = bytes(account.sign_typed_data(full_message={**whole, "domain": domain}).signature).hex()
        told = {"method": "eth_signTypedData_v4", "data": {"signature": "0x" + signature, "encoding": "hex"}}
        if outcome == "refused":
            visit.send(answer(b'{"error": "an-app-secret", "code": "policy_violation"}', status="400 Bad Request"))
        else:
            visit.send(answer(b"[]" if outcome == "garbage" else json.dumps(told).encode()))

    with hostile(privy) as service, MockServer(seed=7, signals="scripted") as server:
        stocked(server)
        env = {**WALLET_SERVICE, "PRIVY_URL": service.url, "TRADE_BASE_URL": server.url, "TRADE_HOME": str(tmp_path)}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        runpy.run_path(str(EXAMPLES / "wallet_service_signer.py"), run_name="__main__")
        told = capsys.readouterr().out
        settled = server.payments.settlements()
    ((head, request),) = asked
    lines = head.lower().split("\r\n")
    basic = base64.b64encode(b"an-app-id:an-app-secret").decode()
    assert lines[0] == "post /v1/wallets/id2tptkqrxd39qo9j423etij/rpc http/1.1"
    assert {f"authorization: basic {basic.lower()}", "privy-app-id: an-app-id"} <= set(lines)
    assert (set(request), request["method"]) == ({"method", "params"}, "eth_signTypedData_v4")
    data = request["params"].pop("typed_data")
    assert (request["params"], set(data)) == ({}, {"types", "primary_type", "domain", "message"})
    types = {kind: {one["name"]: one["type"] for one in fields} for kind, fields in data["types"].items()}
    assert types == SIGNED_TYPES
    assert data["primary_type"] == "TransferWithAuthorization"
    assert data["domain"]["chainId"] == "0x2105"
    assert list(data["message"]) == list(SIGNED_TYPES["TransferWithAuthorization"])
    assert data["message"]["value"] == "30000"
    if outcome == "signed":
        assert [(one.amount, one.nonce) for one in settled] == [(30_000, data["message"]["nonce"])]
        assert "paid $0.03 by 0x1a64" in told
    else:
        assert settled == []
        assert told.startswith("not paid: signer_failed: the ")
        assert "secret" not in told


def test_a_wallet_service_that_is_half_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVY_APP_ID", "an-app-id")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / "wallet_service_signer.py"), run_name="__main__")
    assert ended.value.code == "not set: PRIVY_WALLET_ADDRESS, PRIVY_WALLET_ID, PRIVY_APP_SECRET"
    for name, value in WALLET_SERVICE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="no base URL: set TRADE_BASE_URL"):
        runpy.run_path(str(EXAMPLES / "wallet_service_signer.py"), run_name="__main__")


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What became of each test of a run with `-v`."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(re.findall(r"::(test_\w+)\S* (\w+)", done.stdout))


def shown_in(text: str) -> dict[str, str]:
    """Every test that is shown in a text, and that it passes."""
    return dict.fromkeys(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE), "PASSED")


@pytest.mark.long
def test_the_bot_rehearses(tmp_path: Path) -> None:
    lines = run("testing_your_bot.py", tmp_path).splitlines()
    size = 2.0
    for line in lines:
        taken = re.fullmatch(r"(BUY |SELL) \w+ (9\d|100)%: size (\S+) -> (\S+) %", line)
        assert taken is not None, line
        assert float(taken[3]) == size
        size = float(taken[4])
    assert len(lines) > 5
    assert run("testing_your_bot.py", tmp_path).splitlines() == lines


@pytest.mark.long
def test_the_bot_brakes(tmp_path: Path) -> None:
    with MockServer(seed=7) as server:
        server.populate("me")
        env = {"TRADE_API_KEY": "mock_full_me", "TRADE_BASE_URL": server.url}
        done = start("-W", "error", EXAMPLES / "testing_your_bot.py", "brake", folder=tmp_path, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        changed = server.assert_requested("PATCH", "/v1/agents/{agent_id}", body={"risk": {"position_size_pct": 1}})
    assert len(done.stdout.splitlines()) == len(changed) == 6


@pytest.mark.long
def test_the_bots_tests_as_somebody_copies_them(tmp_path: Path) -> None:
    """Without this repository's configuration, on two workers. The page on testing runs them where they are."""
    for name in ("testing_your_bot.py", "test_testing_your_bot.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    done = start(*PYTEST, "-n", "2", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"PASSED \S+::(test_\w+)", done.stdout)
    assert set(passed) == shown_in((EXAMPLES / "test_testing_your_bot.py").read_text(encoding="utf-8")).keys()


@pytest.mark.long
@pytest.mark.parametrize("name", ["README.md", "docs/testing.md"])
def test_tests_on_a_page_pass(name: str, tmp_path: Path) -> None:
    """Shown tests under pytest itself, with the fixtures that the page shows and those of the plugin."""
    code = [
        block.text
        for block in blocks(ROOT / name)
        if block.language == "python" and not block.example and "def test_" in block.text
    ]
    (tmp_path / f"test_{Path(name).stem}.py").write_text("\n\n".join(code), encoding="utf-8")
    done = start(*PYTEST, folder=tmp_path)
    expected = shown_in("\n".join(code))
    assert expected
    assert outcomes(done) == expected
