"""An interrupt while a stream waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tradesdk import TradeClient
from tradesdk._stream import checkpoint
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState

from .._answers import BASE, KEY
from .._hostile import Visit, hostile
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
        assert list(stream) == []
        with client.signals.stream(chain=8453, checkpoint=sys.argv[2], settle=0.1) as another:
            print("again", next(another).id, flush=True)
"""


@pytest.mark.long
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


BUILT = """
import sys
from tradesdk import Heartbeat, StreamSignal, TradeClient

models = (StreamSignal, Heartbeat)
with TradeClient(api_key="key", base_url=sys.argv[1]) as client:
    print([model.__pydantic_complete__ for model in models])
    with client.signals.stream(chain=8453):
        print([model.__pydantic_complete__ for model in models])
"""


@pytest.mark.long
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
    monkeypatch.setattr(checkpoint, "WAIT", 0.0)
    really = CheckpointFile.save_soon
    interrupts = [KeyboardInterrupt]

    def saving(file: CheckpointFile, state: Callable[[], CheckpointState]) -> bool:
        if interrupts:
            raise interrupts.pop()
        return really(file, state)

    monkeypatch.setattr(CheckpointFile, "save_soon", saving)
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
