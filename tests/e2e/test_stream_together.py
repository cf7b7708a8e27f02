"""Many streams in one process: two chains, threads that share a client, a crowd on one client, a forked child."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tradesdk import AsyncTradeClient, TradeClient
from tradesdk_mock import MockServer

from .._flavour_sync import at_once, soon
from .._hostile import Visit, hostile
from ._streamhouse import QUICKLY, STREAM, Publisher, key_of, publishing, server_of
from ._streamplaces import EMPTY, OPEN, chunk, signal_event

ROOT = Path(__file__).parents[2]
MANY = 105


@pytest.fixture
def server() -> Iterator[MockServer]:
    with server_of(5) as running:
        yield running


@pytest.mark.long
async def test_two_chains_at_once(server: MockServer) -> None:
    """Each has what is of its chain, and only that, though one of them is cut again and again."""
    server.add_fault("drop", route=STREAM, query={"chain": 56}, after=8, how="reset", count=5)
    got: dict[int, list[str]] = {8453: [], 56: []}
    base, bnb = Publisher(server, every=0.005), Publisher(server, every=0.005, chain=56)
    async with AsyncTradeClient(api_key=key_of(server), base_url=server.url, retry=QUICKLY) as client:
        opened, ended = anyio.Semaphore(0), anyio.Semaphore(0)

        async def follow(chain: int) -> None:
            async with client.signals.stream(chain=chain, settle=0.05) as stream:
                opened.release()
                async for signal in stream:
                    assert signal.chain_id == chain
                    got[chain].append(signal.id)
                    if len(got[chain]) == 100:
                        break
            ended.release()

        async with anyio.create_task_group() as group:
            for chain in got:
                group.start_soon(follow, chain)
            for _ in got:
                await opened.acquire()
            base.start()
            bnb.start()
            for _ in got:
                await ended.acquire()
            base.stop()
            bnb.stop()
    assert got == {8453: base.ids[:100], 56: bnb.ids[:100]}


@pytest.mark.long
def test_threads_share_a_client(server: MockServer) -> None:
    """A stream in each of them, beside ordinary calls; every stream has everything."""
    server.add_fault("half_event", route=STREAM, every=2, count=8, after=12)
    opened = threading.Barrier(9)
    with TradeClient(api_key=key_of(server), base_url=server.url, retry=QUICKLY) as client:

        def follow() -> list[str]:
            got: list[str] = []
            with client.signals.stream(chain=8453, settle=0.05) as stream:
                opened.wait(60)
                for signal in stream:
                    got.append(signal.id)
                    if len(got) == 60:
                        break
            return got

        def publish() -> list[str]:
            opened.wait(60)
            with publishing(server) as publisher:
                while not over.wait(0.01):
                    assert client.account.get().id
            return publisher.ids

        over = threading.Event()

        def follow_all() -> list[list[str]]:
            try:
                return at_once([follow] * 8)
            finally:
                over.set()

        found: list[Any] = at_once([publish, follow_all])
    published, streams = found
    assert streams == [published[:60]] * 8


@pytest.mark.long
async def test_a_crowd_on_one_client(server: MockServer) -> None:
    """More streams than a client has connections for calls: the calls have theirs, and so has every look back."""
    got: list[list[str]] = [[] for _ in range(MANY)]
    wanted = 12
    publisher = Publisher(server, every=0.05)
    async with AsyncTradeClient(api_key=key_of(server), base_url=server.url, retry=QUICKLY) as client:
        opened, ended = anyio.Semaphore(0), anyio.Semaphore(0)

        async def follow(ids: list[str]) -> None:
            async with client.signals.stream(chain=8453, settle=0.1, recovery_timeout=60.0) as stream:
                opened.release()
                async for signal in stream:
                    ids.append(signal.id)
                    if len(ids) == wanted:
                        break
                assert stream.stats.connects == 2
            ended.release()

        server.add_fault("drop", route=STREAM, count=MANY, after=4, how="reset")
        async with anyio.create_task_group() as group:
            for ids in got:
                group.start_soon(follow, ids)
            for _ in got:
                await opened.acquire()
            assert (await client.account.get()).id
            publisher.start()
            for _ in got:
                await ended.acquire()
            publisher.stop()
    assert got == [publisher.ids[:wanted]] * MANY


FORKING = """
import os, sys, time
from tradesdk import TradeClient, TradeError

with TradeClient(api_key="key", base_url=sys.argv[1]) as client:
    with client.signals.stream(chain=8453, idle_timeout=60.0) as stream:
        assert next(stream).id == "sig_1"
        child = os.fork()
        if not child:
            code = 1
            try:
                next(stream)
            except TradeError:
                stream.close()  # the parent's goes on all the same
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert next(stream).id == "sig_2"
        child = os.fork()
        if not child:
            code = 1
            try:
                with client.signals.stream(chain=8453) as another:
                    assert next(another).id == "sig_1"
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert next(stream).id == "sig_3"
        print(stream.stats.connects)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.long
def test_a_forked_child_leaves_the_stream_of_its_parent_alone() -> None:
    """It reads nothing of it, closing it there cuts nothing off, and a stream of its own has its own connection."""

    def answering(visit: Visit) -> None:
        if b"/stream" not in visit.head:
            visit.send(EMPTY)
            return
        visit.send(OPEN)
        for number in (1, 2, 3):
            visit.send(signal_event(number, int(time.time())))
            time.sleep(0.15)
        visit.send(chunk(b": that was all\n\n"))
        visit.hold()

    with hostile(answering) as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", FORKING, server.url],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "1\n")
        assert soon(lambda: sum(b"/stream" in visit.head for visit in server.visits) == 2)
