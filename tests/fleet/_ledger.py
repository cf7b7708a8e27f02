"""Ledgers on a server, each test with its own keys and journals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tradesdk import LocalSigner
from tradesdk.fleet import RedisLedger

from .._redis_server import RedisServer

KEY = b"\x01" * 32
_numbers = itertools.count()


def ledgers(server: RedisServer, folder: Path, **options: Any) -> Callable[..., RedisLedger]:
    """Makes members of one fleet. Each is a machine with a journal of its own, unless it is given a name twice."""
    prefix = f"test{next(_numbers)}"
    members = itertools.count()

    def member(name: str = "", **more: Any) -> RedisLedger:
        journal = folder / f"{prefix}-{name or next(members)}.journal"
        values = {"prefix": prefix, "signer": LocalSigner(KEY), "journal": journal, **options, **more}
        return RedisLedger(values.pop("url", server.url), **values)

    return member
