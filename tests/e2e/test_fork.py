"""A blocking client that forked processes go on using: each opens connections of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .._answers import trade
from .._hostile import Visit, answer, hostile

# In a process of its own, because the test's has threads, and a process with threads had better not be forked.
SCRIPT = """
import os, sys
from tradesdk import TradeClient

client = TradeClient(api_key="key", base_url=sys.argv[1], max_retries=0)

def right(who):
    return all(client.trades.get(f"{who}-{number}").id == f"{who}-{number}" for number in range(10))

assert right("before")
children = []
for number in range(3):
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if right(f"child{number}") else 2
            client.close()
        finally:
            os._exit(code)
    children.append(child)
assert right("parent")
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
assert right("after")
client.close()
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_answers_are_never_mixed_up() -> None:
    def answering(visit: Visit) -> None:
        trade_id = visit.head.split()[1].decode().rpartition("/")[2]
        visit.send(answer(json.dumps(trade(trade_id, entry_tx_hash="0x01", exit_tx_hash=None)).encode()))

    with hostile(answering) as server:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, server.url],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(server.visits) == 60
        assert server.connections == 4  # the parent's is still the first one
