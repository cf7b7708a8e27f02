"""Checkpoints for the tests of their file; the scripts that tests run in a process of their own use them too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tradesdk import CheckpointError
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState, hash_of_key

URL = "https://api.trade.example"
KEY = "trade_live_7Yh2kQ9vXw4LmN8pR3sT"
PRINT = hash_of_key(KEY)
BASE = 8453
NOW = 1_760_000_000.0


def checkpoint(path: Path | str, **changes: Any) -> CheckpointFile:
    values: dict[str, Any] = {"base_url": URL, "key_hash": PRINT, "chain": BASE}
    return CheckpointFile(path, **{**values, **changes})


def state(number: int, ids: int = 3) -> CheckpointState:
    """The state after `number` steps."""
    return CheckpointState(NOW, NOW + number, tuple((f"sig_{number}_{i}", NOW + number - i / 7) for i in range(ids)))


def save(file: CheckpointFile, saves: CheckpointState) -> None:
    file.save(lambda: saves)


@contextmanager
def opened(path: Path | str, saves: CheckpointState | None = None, **changes: Any) -> Iterator[CheckpointFile]:
    """A checkpoint in use."""
    file = checkpoint(path, **changes)
    file.open()
    try:
        if saves is not None:
            save(file, saves)
        yield file
    finally:
        file.close()


def kept(path: Path | str, **changes: Any) -> CheckpointState | None:
    """What a run that starts now would find."""
    file = checkpoint(path, **changes)
    try:
        return file.open()
    finally:
        file.close()


def refused(
    file: CheckpointFile, *told: str, code: str = "checkpoint_failed", saves: CheckpointState | None = None
) -> str:
    """Opening fails, or saving when there is something to save; `told` is in message or hint. Returns the message."""
    with pytest.raises(CheckpointError) as caught:
        file.open() if saves is None else save(file, saves)
    error = caught.value
    assert (error.path, error.code) == (file.path, code), error
    assert error.path[:300] in error.message
    assert error.hint
    assert f"{error.message}{error.hint}".isprintable()
    assert len(error.message) < len(file.path) + 300
    assert error.__cause__ is None or isinstance(error.__cause__, OSError)
    for text in told:
        assert text in f"{error.message}; {error.hint}"
    return error.message


def in_use(file: CheckpointFile, by: str = "", saves: CheckpointState | None = None) -> None:
    refused(file, f"is in use by {by}", "end that one first", code="checkpoint_in_use", saves=saves)


def script(text: str, *arguments: str) -> str:
    """What a Python of its own prints; it may fork, change its user, and have limits."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text, *arguments], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
