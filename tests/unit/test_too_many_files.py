"""A process that may open no more files: every error says so, and blames nothing else."""

from __future__ import annotations

import os
import resource
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tradesdk import Ledger, LocalSigner, RetryPolicy, TradeClient, TradeError, create_keystore
from tradesdk_mock import MockServerError, MockService

from .._answers import KEY
from .._rows import each_of

SECRET = "0x" + "2e" * 32


def asked(path: Path) -> None:
    with TradeClient(api_key=KEY, base_url="http://127.0.0.1:9", retry=RetryPolicy(max_retries=0)) as client:
        client.account.get()


def streamed(path: Path) -> None:
    with (
        TradeClient(api_key=KEY, base_url="http://127.0.0.1:9", retry=RetryPolicy(max_retries=0)) as client,
        client.signals.stream(chain=8453, checkpoint=path / "point", max_reconnects=0) as stream,
    ):
        next(stream)


def opened(path: Path) -> None:
    with Ledger(path / "ledger.sqlite3") as ledger:
        ledger.check()


def played(path: Path) -> None:
    with MockService(db=path / "state.sqlite3"):
        pass


@contextmanager
def files_left(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(number)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with suppress(OSError):
            while True:
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        for each in spare:
            os.close(each)
        yield


@each_of(
    ("call", "free", "code"),
    [
        (asked, 0, "too_many_files"),
        (streamed, 0, "checkpoint_failed"),
        (streamed, 1, "checkpoint_failed"),
        (opened, 0, "ledger_failed"),
        (opened, 1, "ledger_failed"),
        (lambda path: create_keystore(path / secrets.token_hex(4), "password", SECRET, work=2), 0, "invalid_keystore"),
        (lambda path: LocalSigner.from_keystore(path / "keystore", "password"), 0, "invalid_keystore"),
        (played, 0, ""),
        (played, 1, ""),
    ],
)
def test_it_is_said(tmp_path: Path, call: Callable[[Path], object], free: int, code: str) -> None:
    if not (tmp_path / "keystore").exists():
        create_keystore(tmp_path / "keystore", "password", SECRET, work=2)
    with suppress(TradeError):
        call(tmp_path)  # what it imports is read from files
    with files_left(free), pytest.raises((TradeError, MockServerError), match="Too many open files") as caught:
        call(tmp_path)
    if isinstance(caught.value, TradeError):
        assert caught.value.code == code
        assert "ulimit -n" in caught.value.hint
