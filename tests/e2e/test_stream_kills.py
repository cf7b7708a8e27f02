"""A consumer is killed again and again, also while it saves: nothing is lost, and what was written comes once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from ._streamhouse import HISTORY, STREAM, key_of, publishing, server_of

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")]
ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("TRADE_STREAM_KILLS", "9"))

# Children of a process with one thread, so that none has to import everything again. Each reads until it is killed: at
# some moment, or by itself before or after one step of a save. The last one is left alone until it has caught up.
DRIVER = """
import json, os, random, signal, sys, time
from pathlib import Path
import anyio
from tests._killing import Deadly
from tradesdk import AsyncTradeClient, RetryPolicy, TradeClient
from tradesdk._stream import checkpoint
from tradesdk._system import private_files
import tradesdk._async.signal_stream, tradesdk._sync.signal_stream, filelock, httpx_sse

url, key, folder, flavour, manual, since, times, seed = json.loads(sys.argv[1])
log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
settings = {"api_key": key, "base_url": url, "retry": RetryPolicy(base=0.001, jitter=0, cap=0.02)}
options = {
    "chain": 8453, "since": since, "checkpoint": f"{folder}/checkpoint", "manual_ack": manual,
    "settle": 0.02, "idle_timeout": 5.0,
}
draw = random.Random(seed)
STEPS = ("open", "write", "fsync", "close", "replace")

def note(run, what, signal_id):
    os.write(log, f"{run} {what} {signal_id}\\n".encode())

saving = checkpoint.CheckpointFile.save

def noted(run, file, state):
    def told():
        note(run, "saving", "-")
        return state()

    saving(file, told)
    note(run, "saved", "-")

class Acknowledging:
    # In another order than they came, and never all of them.
    def __init__(self, run):
        self.run, self.draw, self.kept = run, random.Random(f"{seed} {run}"), []

    def due(self, signal):
        note(self.run, "got", signal.id)
        if not manual:
            return None
        self.kept.append(signal)
        if self.draw.random() < 0.5:
            return self.kept.pop(self.draw.randrange(len(self.kept)))

def blocking(run):
    acknowledging = Acknowledging(run)
    with TradeClient(**settings) as client, client.signals.stream(**options) as stream:
        for signal in stream:
            if (due := acknowledging.due(signal)) is not None:
                stream.ack(due)
                note(run, "acked", due.id)

async def awaiting(run):
    acknowledging = Acknowledging(run)
    async with AsyncTradeClient(**settings) as client, client.signals.stream(**options) as stream:
        async for signal in stream:
            if (due := acknowledging.due(signal)) is not None:
                await stream.ack(due)
                note(run, "acked", due.id)

def newest_signal():
    with TradeClient(**settings) as client:
        return client.signals.latest(chain=8453, limit=1)[0].id

def child(run, deadly):
    pid = os.fork()
    if pid:
        return pid
    try:
        # Written for each signal, for every few, or twice a second.
        checkpoint.WAIT = (0.0, 0.1, 0.5)[run // 3 % 3]
        note(run, "waits", checkpoint.WAIT)
        checkpoint.CheckpointFile.save = lambda file, state: noted(run, file, state)
        if deadly is not None:
            private_files.os = Deadly(os, *deadly)
        blocking(run) if flavour == "blocking" else anyio.run(awaiting, run)
    except BaseException as error:
        note(run, "failed", repr(error).replace("\\n", " ")[:2000])
    finally:
        os._exit(1)

for run in range(times + 1):
    last = run == times
    deadly = ((draw.choice(STEPS),), draw.randint(1, 60), draw.random() < 0.5) if run % 3 == 2 and not last else None
    pid = child(run, deadly)
    until = time.monotonic() + (60.0 if last else draw.uniform(0.01, 0.4) if deadly is None else 30.0)
    newest = f" got {newest_signal()}\\n" if last else ""
    status = 0
    while time.monotonic() < until and not status and not (last and newest in Path(folder, "log").read_text()):
        time.sleep(0.005)
        status = os.waitpid(pid, os.WNOHANG)[1]
    if not status:
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    note(run, "ended", os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1)
"""


@pytest.mark.parametrize(
    ("flavour", "manual", "times"),
    [
        ("blocking", False, KILLS),
        ("blocking", True, KILLS),
        ("async", False, KILLS),
        ("async", True, KILLS),
    ],
)
@pytest.mark.long
def test_killed_at_any_moment(tmp_path: Path, flavour: str, manual: bool, times: int) -> None:
    with server_of(4, heartbeat=1) as server:
        server.add_fault("drop", route=STREAM, probability=0.5, after=15, how="reset")
        server.add_fault("half_event", route=STREAM, probability=0.5, after=25)
        server.add_fault("truncate", route=HISTORY, probability=0.05)
        told = [server.url, key_of(server), str(tmp_path), flavour, manual, int(time.time()), times, 11]
        with publishing(server, every=0.06) as publisher:
            process = subprocess.run(
                [sys.executable, "-W", "error", "-c", DRIVER, json.dumps(told)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=540,
                check=False,
            )
        assert process.returncode == 0, process.stderr[-3000:]
        assert "Traceback" not in process.stderr, process.stderr[-3000:]
    judge(tmp_path / "log", publisher.ids, times, manual=manual)


def judge(log: Path, published: list[str], times: int, *, manual: bool) -> None:
    """What was written does not come again. It is written at once or, as noted, by a later save."""
    got: dict[int, list[str]] = defaultdict(list)
    acknowledged: dict[int, set[str]] = defaultdict(set)
    written: set[str] = set()
    being_saved: set[str] = set()
    at_once = False
    for line in log.read_text().splitlines():
        number, what, signal_id = line.split(" ", 2)
        run = int(number)
        assert what != "failed", line
        match what:
            case "ended":
                assert signal_id == "9", line  # none of them ended by itself
            case "waits":
                at_once = signal_id == "0.0"
            case "saving":
                being_saved = set(acknowledged[run])
            case "saved":
                written |= being_saved
            case "acked":
                acknowledged[run].add(signal_id)
            case "got":
                assert signal_id not in written, f"{signal_id} comes again in run {run}"
                if not manual and got[run]:
                    acknowledged[run].add(got[run][-1])  # it was taken when the next one was asked for
                got[run].append(signal_id)
        if at_once:
            written |= acknowledged[run]
    places = {signal_id: place for place, signal_id in enumerate(published)}
    for run, ids in got.items():
        order = [places[signal_id] for signal_id in ids]
        assert order == sorted(set(order)), f"run {run}"
    everything = {signal_id for ids in got.values() for signal_id in ids}
    last = max(places[signal_id] for signal_id in everything)
    assert [signal_id for signal_id in published[: last + 1] if signal_id not in everything] == []
    assert last > len(published) - 100, "the last run did not get to the end"
    assert sum(map(len, got.values())) > len(everything), "nobody was killed between a signal and its acknowledgement"
