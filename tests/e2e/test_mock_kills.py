"""A state file whose process is killed: whatever the moment, what was answered is there, and nothing is half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("TRADE_MOCK_KILLS", "15"))

# A child works on the file and tells what it was answered. It is killed before its nth statement, whichever that is:
# opening the file, the middle of an advance with a thousand trades, a commit. What it told must be there afterwards.
KILLED = """
import json, random, signal, sys
from tests._killing import child, dies_at_statement
from tests.mock._paying import PAYER, offer_of, pay
from tests.mock._http import START, add_agent, add_wallet, in_process, ok
from tradesdk_mock import MockClock, MockService

path, first, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ORDER = {"tokens": [{"identifier": "BRETT"}]}

def work(number, fatal, tell):
    dice = random.Random(number)
    dies_at_statement(fatal)

    def answered(what, value):
        tell(json.dumps([what, value]).encode() + b"\\n")

    service = MockService(db=path)
    with in_process(service) as http:
        wallet = ok(http.get("/v1/wallets"))["data"][0]["id"]
        for turn in range(10_000):
            what = dice.choice(["agents", "agents", "keys", "signals", "signals", "settlements", "clock"])
            if what == "agents":
                answered(what, add_agent(http, wallet)["id"])
            elif what == "keys":
                answered(what, service.create_key(tenant="main").id)
            elif what == "signals":
                answered(what, service.emit_signal(direction="BUY", confidence=1.0).id)
            elif what == "settlements":
                offer = offer_of(http.post("/v1/token-prices", json=ORDER).headers)
                paying = pay(offer, service.clock.now(), 100_000 * number + turn)
                bought = http.post("/v1/token-prices", json=ORDER, headers=paying)
                assert bought.status_code == 200, bought.text
                answered(what, service.payments.settlements()[-1].transaction)
            else:
                service.clock.advance(300)
                answered("clock", service.clock.now())
                for trade in ok(http.get("/v1/trades?limit=5"))["data"]:
                    answered("trades", trade["id"])

def look(told):
    service = MockService(db=path)
    value, rows = service.world.store.value, service.world.store.all
    assert value("PRAGMA integrity_check") == "ok"
    for table, ident in (("agents", "id"), ("keys", "id"), ("trades", "id"), ("settlements", "tx")):
        there = {found for (found,) in rows(f"SELECT {ident} FROM {table}")}
        assert told.get(table, set()) <= there, table
    there = {found for (found,) in rows("SELECT id FROM signals UNION SELECT id FROM scheduled")}
    assert told.get("signals", set()) <= there
    assert max(told.get("clock", {START})) <= service.clock.now()
    # Counters and what they count change together.
    for table, kind in (("agents", "agent"), ("keys", "key")):
        counted = value("SELECT n FROM counters WHERE tenant = 'main' AND kind = ?", (kind,))
        assert counted == value(f"SELECT count(*) FROM {table} WHERE tenant = 'main'"), (table, counted)
    # So do trades, positions and the sums over them, and a payment and the money that it moves.
    closed = value("SELECT count(*) FROM trades WHERE closed_at IS NOT NULL")
    assert value("SELECT coalesce(sum(closed), 0) FROM books") == closed
    opened = rows("SELECT id FROM trades WHERE closed_at IS NULL ORDER BY id")
    assert rows("SELECT trade_id FROM positions ORDER BY trade_id") == opened
    assert value("SELECT count(*) FROM signals") == value("SELECT count(DISTINCT id) FROM signals")
    paid = value("SELECT coalesce(sum(amount), 0) FROM settlements")
    assert service.payments.balance(PAYER.address) == 1_000_000_000 - paid
    counts = service.status()
    service.close()
    return {name: counts[name] for name in ("agents", "keys", "trades", "signals", "settlements")}

with MockService(db=path, seed=3, clock=MockClock(START)) as service, in_process(service) as http:
    service.create_key(tenant="main", plan="enterprise")
    service.set_gaps(enterprise_limit=60000)
    wallet = add_wallet(http)
    for confidence in (0.0, 0.6):
        service.start_agent(add_agent(http, wallet, min_confidence=confidence, max_positions=50)["id"])
    service.clock.advance(600)
    ok(http.get("/v1/trades"))

told, begun, found = {}, 0, {}
for number in range(first, first + rounds):
    # Some die while they open the file, others after a thousand statements.
    fatal = int(10 ** random.Random(number).uniform(1.0, 3.9))
    lines, status = child(lambda tell: work(number, fatal, tell))
    assert status == signal.SIGKILL, status
    heard = [json.loads(line) for line in lines.splitlines()]
    begun += not heard
    for what, value in heard:
        assert what in ("clock", "trades") or value not in told.get(what, set()), (what, value)
        told.setdefault(what, set()).add(value)
    found = look(told)
print(json.dumps({"told": {name: len(ids) for name, ids in told.items()}, "found": found, "silent": begun}))
"""


def killed(path: Path, first: int, rounds: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, str(path), str(first), str(rounds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    for first in range(0, KILLS, 50):  # a file for 50 kills: a plan allows 1,000 agents
        kills = min(50, KILLS - first)
        seen = killed(tmp_path / f"{first}.db", first, kills)
        told, found = seen["told"], seen["found"]
        assert min(told[name] for name in ("agents", "keys", "signals", "settlements", "clock", "trades")) > 0
        assert found["agents"] <= told["agents"] + 2 + kills, "of each life, at most what it was about to answer"
        assert found["settlements"] <= told["settlements"] + kills
        assert 0 < seen["silent"] < kills
