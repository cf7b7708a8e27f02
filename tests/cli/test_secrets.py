"""Marked secrets appear nowhere: not in results, notes, logs, errors or tracebacks."""

import pytest

from tradesdk_cli.context import Session

from ._services import Scripted
from ._terminal import Run, Terminal

API_KEY = "MARKED-api-key-0123456789"
WALLET_KEY = "0x" + "DEADBEEF" * 8
MARKS = ("MARKED", "DEADBEEF", "deadbeef")


def clean(run: Run) -> bool:
    return not any(mark in run.out + run.err for mark in MARKS)


@pytest.mark.parametrize("verbose", [(), ("-v",), ("-vv",)])
@pytest.mark.parametrize("status", [200, 401, 403, 429, 500, 503])
def test_whatever_the_service_answers(
    trade: Terminal, service: Scripted, status: int, verbose: tuple[str, ...]
) -> None:
    trade.env |= {"TRADE_API_KEY": API_KEY, "TRADE_WALLET_KEY": WALLET_KEY}
    service.fails(status, "code", "message")
    for argv in (
        ("account", "show"),
        ("agents", "create", "--name", "n", "--wallet-id", "w", "--chain", "base", "--yes"),
        ("wallets", "connect", "--label", "l", "--chain", "base", "--yes"),
        ("wallets", "connect", "--label", "l", "--chain", "base", "--dry-run"),
    ):
        for form in ("table", "json"):
            assert clean(trade(*argv, "--no-retry", *verbose, "-o", form))
    assert service.keys
    assert set(service.keys) == {f"Bearer {API_KEY}"}


def test_a_key_that_cannot_be_sent(trade: Terminal, service: Scripted) -> None:
    for key in (f"{API_KEY} x", f"{API_KEY}\tx", f"{API_KEY}ä"):
        run = trade("account", "show", "-vv", env={"TRADE_API_KEY": key})
        assert run.code == 3
        assert clean(run)
        assert clean(trade("account", "show", "-vv", "--api-key-stdin", stdin=key))


def test_a_wallet_key_that_is_none(trade: Terminal, service: Scripted) -> None:
    for key in (WALLET_KEY + "0", WALLET_KEY[:-1] + "g", "0x" + "DEADBEEF" + "f" * 56, "DEADBEEF\n"):
        line = ("wallets", "connect", "--label", "l", "--chain", "base", "--yes", "-vv")
        run = trade(*line, env={"TRADE_WALLET_KEY": key})
        assert clean(run), key
        assert run.code in (3, 8, 10), "a bad key, or one whose wallet the service did not take"


def test_a_key_on_the_command_line(trade: Terminal) -> None:
    for argv in (("--api-key", API_KEY, "account", "show"), ("account", "show", f"--api-key={API_KEY}")):
        run = trade(*argv, "-vv")
        assert run.code == 2
        assert clean(run)


def test_a_traceback(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Session, "show", broken)
    service.says(200, {"id": "a", "email": "e", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"})
    run = trade("account", "show", "-vv", env={"TRADE_API_KEY": API_KEY})
    assert "Traceback" in run.err
    assert clean(run)
