"""Signals of the system while a stream is read: an interrupt, and a handler that closes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tradesdk import TradeClient
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState

from .._answers import BASE, KEY
from .._hostile import Visit, hostile
from .._seeds import EVERY_STEP
from .._streamscript import CHAIN, StreamScript, live
from ._streamplaces import EMPTY, OPEN, signal_event

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such signals on this system")
ROOT = Path(__file__).parents[2]

CTRL_C = """
import sys
from tradesdk import TradeClient

with TradeClient(api_key="key", base_url=sys.argv[1]) as client:
    stream = client.signals.stream(chain=8453, checkpoint=sys.argv[2], settle=0.1)
    try:
        with stream:
            for signal in stream:
                print(signal.id, flush=True)
    except KeyboardInterrupt:
        assert not client._session.sender._slots._taken
        assert list(stream) == []
        with client.signals.stream(chain=8453, checkpoint=sys.argv[2], settle=0.1) as another:
            print("again", next(another).id, flush=True)
"""

# A handler runs between any two steps of the thread that reads, so it must not wait for a lock that this one has.
# Here it runs at every step in turn, of those that have to do with waiting; until a stream has ended before it.
HANDLER = """
import faulthandler, logging, random, sys
import httpx
from tradesdk import RetryPolicy, TradeClient

faulthandler.dump_traceback_later(1000, exit=True)
logging.disable()
OPCODES = ("tradesdk/_sync/concurrency.py", "lib/python3.%d/threading.py" % sys.version_info[1])
LINES = ("_sync/signal_stream.py", "_sync/stream_connection.py", "_sync/stream_backfill.py")
opened = closed = left = 0

class Body(httpx.SyncByteStream):
    def __iter__(self):
        yield b'data: {"type": "heartbeat", "timestamp": 1760000000}\\n\\n'

    def close(self):
        global closed
        closed += 1

def answer(request):
    global opened
    if not request.url.path.endswith("stream"):
        return httpx.Response(200, json={"data": []})
    opened += 1
    if opened == 3:
        stream.close()
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

def entering(frame, event, arg):
    name = frame.f_code.co_filename.replace(chr(92), "/")
    if name.endswith(OPCODES):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return at_a_step
    return at_a_step if name.endswith(LINES) else None

def at_a_step(frame, event, arg):
    global left
    if event in ("line", "opcode"):
        left -= 1
        if left == 0:
            stream.close()
    return at_a_step

stride, chance, first, times = int(sys.argv[1]), random.Random(sys.argv[2]), 1, 0
at_once = RetryPolicy(base=0, jitter=0, cap=0.0001)
with (
    httpx.Client(transport=httpx.MockTransport(answer)) as http,
    TradeClient(api_key="key", base_url="http://localhost", http_client=http, retry=at_once) as client,
):
    while left <= 0:
        place = first + chance.randrange(stride)  # of so many steps in a row, each seed takes another one
        first, times = first + stride, times + 1
        opened, closed, left = 0, 0, place
        stream = client.signals.stream(chain=8453, since=1.0, settle=0.0001, heartbeats=True)
        sys.settrace(entering)
        with stream:
            for _ in stream:
                pass
        sys.settrace(None)
        assert opened == closed, (place, opened, closed)
print(times)
"""


def test_ctrl_c(tmp_path: Path) -> None:
    """It ends the block at once and leaves nothing behind; the checkpoint knows what was taken."""
    streams = 0
    now = int(time.time())

    def answering(visit: Visit) -> None:
        nonlocal streams
        if b"/stream" in visit.head:
            streams += 1
            visit.send(OPEN, *(signal_event(number, now) for number in range(1, streams + 2)))
            visit.hold()
        visit.send(EMPTY)

    with hostile(answering) as server:
        command = [sys.executable, "-W", "error", "-c", CTRL_C, server.url, str(tmp_path / "checkpoint")]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = [process.stdout.readline() for _ in range(2)]
            while "sig_2" not in (tmp_path / "checkpoint").read_text():  # until it waits for the next one
                assert process.poll() is None
                time.sleep(0.01)
            time.sleep(0.05)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            try:
                out, err = process.communicate(timeout=300)
            finally:
                process.kill()
        assert (process.returncode, err, first, out) == (0, "", ["sig_1\n", "sig_2\n"], "again sig_3\n")
        assert time.monotonic() - began < 20
        assert server.settled(open_connections=0)


@pytest.mark.parametrize("stride", [31, pytest.param(1 if EVERY_STEP else 3, marks=pytest.mark.long, id="long")])
def test_a_handler_that_closes_it_at_any_step(stride: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLER, str(stride), os.environ.get("TRADE_SEED", "")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 500 / stride


BUILT = """
import sys
from tradesdk import Heartbeat, StreamSignal, TradeClient

models = (StreamSignal, Heartbeat)
with TradeClient(api_key="key", base_url=sys.argv[1]) as client:
    print([model.__pydantic_complete__ for model in models])
    with client.signals.stream(chain=8453):
        print([model.__pydantic_complete__ for model in models])
"""


def test_nothing_is_left_to_be_built_when_the_first_event_comes() -> None:
    """While pydantic builds, it makes an error of its own of what a signal's handler raises."""

    def answering(visit: Visit) -> None:
        if b"/stream" in visit.head:
            visit.send(OPEN)
            visit.hold()
        visit.send(EMPTY)

    with hostile(answering) as server:
        command = [sys.executable, "-W", "error", "-c", BUILT, server.url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[False, False]\n[True, True]\n")


def test_an_interrupt_when_the_checkpoint_has_been_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is not left behind: the stream may be asked again."""
    really = CheckpointFile.open
    interrupts = [KeyboardInterrupt]

    def opening(file: CheckpointFile) -> CheckpointState | None:
        state = really(file)
        if interrupts:
            raise interrupts.pop()
        return state

    monkeypatch.setattr(CheckpointFile, "open", opening)
    script = StreamScript([1.0, live("a", 1)])
    with (
        httpx.Client(transport=script) as http,
        TradeClient(api_key=KEY, base_url=BASE, clock=script.clock, http_client=http) as client,
    ):
        stream = client.signals.stream(chain=CHAIN, checkpoint=tmp_path / "place.json")
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        assert next(stream).id == "a"
        stream.close()


def test_an_acknowledgement_that_was_interrupted_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = CheckpointFile.add
    interrupts = [KeyboardInterrupt]

    def adding(file: CheckpointFile, signal_id: str, when: float) -> bool:
        if interrupts:
            raise interrupts.pop()
        return really(file, signal_id, when)

    monkeypatch.setattr(CheckpointFile, "add", adding)
    path, script = tmp_path / "place.json", StreamScript([1.0, live("a", 1), live("b", 1)])
    with (
        httpx.Client(transport=script) as http,
        TradeClient(api_key=KEY, base_url=BASE, clock=script.clock, http_client=http) as client,
        client.signals.stream(chain=CHAIN, checkpoint=path, manual_ack=True) as stream,
    ):
        first, second = next(stream), next(stream)
        with pytest.raises(KeyboardInterrupt):
            stream.ack(first)
        stream.ack(second)
        assert [signal_id in path.read_text() for signal_id in ('"a"', '"b"')] == [True, True]
