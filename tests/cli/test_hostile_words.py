"""What stands in headers, variables, arguments and names of files is a stranger's text as well."""

import os

from .._rows import each_of
from ._hostile import ALL, harmless
from ._services import Scripted, agent
from ._terminal import Terminal


@each_of("value", ["", "NaN", "-1", "1e309", "9" * 400, "soon", "0x10", "1;2", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_junk_in_headers_is_no_crash(trade: Terminal, service: Scripted, value: str) -> None:
    limits = {"X-RateLimit-Limit": value, "X-RateLimit-Remaining": value, "X-RateLimit-Reset": value}
    service.says(200, {"data": [agent()]}, **limits)
    run = trade("agents", "list", "-vv", "-o", "table")
    assert run.code == 0, run.err
    harmless(run, "table")
    service.fails(429, "rate_limited", "slow down", Retry_After=value, **limits)
    run = trade("agents", "list", "--no-retry", "-o", "table")
    assert run.code == 9, run.err
    harmless(run, "table")


def test_what_stands_in_the_environment_is_text_too(trade: Terminal, service: Scripted) -> None:
    weapon = ALL.replace("\0", "")
    for name in ("TRADE_BASE_URL", "TRADE_API_KEY", "TRADE_MOCK", "TRADE_MARKET_BASE_URL", "TRADE_BUDGET_PER_DAY"):
        for tty in (True, False):
            for argv in (("agents", "list"), ("market", "metrics")):
                run = trade(*argv, tty=tty, env={name: weapon, "NO_COLOR": "1"})
                harmless(run, "terminal")
                assert run.code != 1, run.err
    for name in ("TERM", "LANG", "TRADE_PROFILE", "TRADE_KEYSTORE"):
        run = trade("agents", "list", env={name: weapon, "NO_COLOR": "1"})
        harmless(run, "terminal")


def test_words_that_are_not_utf8(trade: Terminal, service: Scripted) -> None:
    odd = os.fsdecode(b"a\xff\xfe\x1b[2J")
    service.says(200, {"data": [agent()]})
    for argv in (
        ("agents", "get", odd),
        ("agents", "list", "--cursor", odd),
        ("agents", "list", "--profile", odd),
        ("agents", "list", "--world", odd),
        ("agents", "update", "agt_1", "--name", odd, "--yes"),
        ("agents", "create", "--name", odd, "--wallet-id", odd, "--chain", "base", "--yes"),
        ("signals", "stream", "--chain", "base", "--tape", str(trade.home / odd), "--duration", "1s", "--token", odd),
        ("replay", odd),
        ("market", "prices", odd),
        ("market", "tokens", "--world", "x", "--network", odd),
        ("pay", "show", odd),
        ("mock", "snapshot", odd),
        ("mock", "fault", "add", odd),
        ("--base-url", f"http://127.0.0.1:1/{odd}", "agents", "list"),
        (odd,),
        (f"--{odd}",),
    ):
        for tty in (True, False):
            run = trade(*argv, "--no-retry" if len(argv) > 1 else "-v", tty=tty, env={"NO_COLOR": "1"})
            harmless(run, "terminal")
            assert run.code != 130


def test_names_of_files_are_text_too(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent()]})
    odd = "a\n\x1b[2J\u202e漢.json"
    run = trade("agents", "list", "--out", str(trade.home / odd), tty=True, env={"NO_COLOR": "1"})
    harmless(run, "terminal")
    assert run.code == 0, run.err
    assert (trade.home / odd).exists()
    missing = trade("replay", str(trade.home / odd / "x"), tty=True, env={"NO_COLOR": "1"})
    harmless(missing, "terminal")
    assert missing.code != 0
