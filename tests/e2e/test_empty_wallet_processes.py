"""Processes and one empty wallet: they hold one price, and all go on once it has money."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tradesdk import Budget, Ledger, LocalSigner, MarketClient, PaymentRejectedError
from tradesdk_mock import MockServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PRICE = 30_000
KEY = "0x" + "4e" * 32
PROCESSES, TOKENS = 4, 4
BUYER = """
import json, sys
from tradesdk import Budget, Ledger, LocalSigner, MarketClient, TradeError

url, path, key, tokens = sys.argv[1:]
sold = []
with MarketClient(
    base_url=url, signer=LocalSigner.from_key(key), ledger=Ledger(path, timeout=60), budget=Budget(per_day="4"),
    check_tokens=False,
) as client:
    for token in json.loads(tokens):
        try:
            client.token_prices([token])
        except TradeError as error:
            sold.append(f"{type(error).__name__} {error.code}")
        else:
            sold.append("delivered")
print(json.dumps(sold))
"""


def calls(server: MockServer, path: Path, tokens: list[str]) -> Counter[str]:
    """What the calls of all processes give: each asks for all tokens, beginning with another one."""
    running = []
    for number in range(PROCESSES):
        begin = number % len(tokens)
        own = json.dumps([*tokens[begin:], *tokens[:begin]])
        command = [sys.executable, "-W", "error", "-c", BUYER, server.market_url, str(path), KEY, own]
        running.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    sold: Counter[str] = Counter()
    for process in running:
        out, errors = process.communicate(timeout=540)
        assert (process.returncode, errors) == (0, "")
        sold.update(json.loads(out))
    return sold


def test_processes_hold_one_price(tmp_path: Path) -> None:
    path, signer = tmp_path / "ledger", LocalSigner.from_key(KEY)
    with MockServer(seed=5) as server:
        server.payments.set_balance(signer.address, 0)
        with MarketClient(
            base_url=server.market_url,
            signer=signer,
            budget=Budget(per_day="4"),
            ledger=Ledger(path),
            check_tokens=False,
        ) as client:
            tokens = [token.token_address for token in client.supported_tokens(limit=TOKENS).data.tokens]
            with pytest.raises(PaymentRejectedError):
                client.token_prices(tokens[:1])
            first = client.payments.list()
            told = calls(server, path, tokens)
            assert told == {
                "PaymentRejectedError insufficient_funds": PROCESSES,
                "PaymentRefusedError insufficient_funds": PROCESSES * (TOKENS - 1),
            }
            assert [one.id for one in client.payments.list()] == [one.id for one in first]
            assert client.payments.spending().held == PRICE
            server.payments.set_balance(signer.address, 4_000_000)
            assert client.token_prices(tokens[:1]).charged is True
            assert calls(server, path, tokens) == {"delivered": PROCESSES * TOKENS}
            spending = client.payments.spending()
            assert (spending.held, spending.total.counted) == (0, server.payments.spent())
            assert not server.payments.charged_twice()
