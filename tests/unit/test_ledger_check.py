"""A ledger that reads itself as a whole: damage that no call has met yet is found."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tradesdk import Ledger, LedgerError

from ._ledger import reserve


def test_one_that_is_whole(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite3", sync=False) as ledger:
        ledger.check()
        reserve(ledger)
        ledger.check()
    Ledger.memory().check()


def test_pages_that_were_written_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with Ledger(path, sync=False) as ledger:
        for _ in range(200):
            reserve(ledger)
    content = bytearray(path.read_bytes())
    content[-8_192:-4_096] = b"\xff" * 4_096
    path.write_bytes(content)
    with Ledger(path) as ledger, pytest.raises(LedgerError) as caught:
        ledger.check()
    assert caught.value.code == "ledger_damaged"
    assert caught.value.hint


def test_a_row_that_nobody_can_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with Ledger(path, sync=False) as ledger:
        reserve(ledger)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE payments SET receipt = 'no receipt'")
    db.close()
    with Ledger(path) as ledger, pytest.raises(LedgerError) as caught:
        ledger.check()
    assert caught.value.code == "ledger_damaged"
