"""Waiting is said aloud: why, and until when. Nothing here really waits."""

import json
import re
import socket
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest

from tradesdk import SystemClock
from tradesdk_cli.retries import QUICK

from .._answers import agent
from .._hostile import answer
from ._services import Scripted
from ._terminal import Terminal

pytestmark = pytest.mark.usefixtures("patient")

ACCOUNT = {"id": "a", "email": "e@x.test", "plan": "pro", "created_at": 1, "api_key_last4": "abcd"}
LATER = {"error": {"code": "service_unavailable", "message": "later"}}
LIMITED = {"error": {"code": "rate_limited", "message": "slow down"}}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept; the clock goes on as if it had been."""
    slept: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda self, seconds: slept.append(seconds))
    monkeypatch.setattr(SystemClock, "now", lambda self: time.time() + sum(slept))
    monkeypatch.setattr(SystemClock, "monotonic", staticmethod(lambda: time.monotonic() + sum(slept)))
    return slept


def test_a_wait_is_said(trade: Terminal, service: Scripted, waited: list[float]) -> None:
    service.says(429, LIMITED, Retry_After="7")
    service.then(200, ACCOUNT)
    person = trade("account", "show", tty=True, env={"NO_COLOR": "1"})
    assert person.code == 0
    assert len(waited) == 1
    assert waited[0] >= 7
    assert person.err.startswith("waiting ")
    assert "429" in person.err
    assert "Z: " in person.err, "until when"
    assert "Ctrl-C" in person.err
    assert "again in" not in person.err, "how long is said once"


def test_a_wait_is_said_to_programs_as_json(trade: Terminal, service: Scripted, waited: list[float]) -> None:
    service.says(429, LIMITED, Retry_After="7")
    service.then(200, ACCOUNT)
    run = trade("account", "show")
    assert run.json == ACCOUNT
    assert run.err.startswith('{"note":"waiting ')


def test_the_throttle_says_why_it_waits(trade: Terminal, service: Scripted, waited: list[float]) -> None:
    reset = str(int(time.time()) + 50)
    used_up = {"X_RateLimit_Limit": "60", "X_RateLimit_Remaining": "0", "X_RateLimit_Reset": reset}
    service.says(200, {"data": [], "next_cursor": "c"}, **used_up)
    service.then(200, {"data": []})
    run = trade("agents", "list", "--all", "-o", "table")
    assert run.code == 0
    assert re.search(r"waiting \d+ s", run.err)
    assert "the rate limit is used up" in run.err
    assert 0 < sum(waited) < 55


def test_verbose_says_what_is_sent(world: Terminal) -> None:
    url = re.escape(world.env["TRADE_BASE_URL"])
    assert world("account", "show").err == ""
    assert re.fullmatch(rf"GET {url}/v1/account: 200 in \d+ ms\n", world("account", "show", "-v", "-o", "table").err)
    pages = world("trades", "list", "--all", "-o", "json", "-v").err.splitlines()
    assert [json.loads(line)["note"].partition(": ")[2][:7] for line in pages] == ["200 in "] * 3
    settings, request = world("account", "show", "-vv", "-o", "table").err.splitlines()
    assert re.fullmatch(rf"the service is {url} \(TRADE_BASE_URL\), the key is from TRADE_API_KEY", settings)
    assert re.fullmatch(rf"GET {url}/v1/account: 200 in \d+ ms; \d+ of 60000 requests left until [\d:]+Z", request)


def test_verbose_says_why_it_is_sent_again(trade: Terminal, service: Scripted, waited: list[float]) -> None:
    service.fails(503, "service_unavailable", "later")
    service.then(200, ACCOUNT)
    first, wait, second = trade("account", "show", "-v", "-o", "table").err.splitlines()
    assert first.startswith(f"GET {service.url}/v1/account: 503 in ")
    assert "again" not in wait, "how long is said once"
    assert re.fullmatch(r"waiting \d s, until [\d:]+Z: .*later.* \(Ctrl-C stops\)", wait)
    assert second.startswith(f"GET {service.url}/v1/account: 200 in ")


def test_logging_is_left_as_it_was(world: Terminal) -> None:
    import logging

    logger = logging.getLogger("tradesdk")
    before = (logger.level, list(logger.handlers))
    world("account", "show", "-vv")
    assert (logger.level, list(logger.handlers)) == before


@pytest.mark.parametrize(
    "line",
    [
        "whoami",
        "login --api-key-stdin",
        "account show",
        "agents list --all",
        "agents delete agt_1 --yes",
        *(
            pytest.param(f"signals stream --chain base{more}", marks=pytest.mark.long)  # it waits a moment
            for more in ("", " --since last")
        ),
        "market tokens",
        "market prices ETH --max-price 1",
        "api /v1/account",
        "plot token BRETT",
        "top --once",
        "mock status",
        "mock clock",
    ],
)
def test_where_nothing_listens_it_says_so_soon(trade: Terminal, waited: list[float], line: str) -> None:
    """One quick second try, then what is wrong and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens on it, and nobody else can
        where = f"http://127.0.0.1:{taken.getsockname()[1]}"
        key = {} if line.startswith("login") else {"TRADE_API_KEY": "k"}
        run = trade(
            *line.split(), stdin="k\n", env=key | {"TRADE_BASE_URL": where, "TRADE_WALLET_KEY": "0x" + "6b" * 32}
        )
    problem = run.notes[-1]
    of_mock = line.startswith("mock")
    assert (run.code, where in problem["message"]) == (1 if of_mock else 11, True)
    assert ("nothing listens at" if of_mock else "connection refused") in problem["message"]
    assert problem["hint"].startswith("start ")
    assert len(waited) <= 1
    assert sum(waited) < 1


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_where_nobody_answers_there_is_one_try_of_less_than_3_seconds(trade: Terminal, waited: list[float]) -> None:
    with socket.socket() as full, ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # from then on, what knocks is not answered
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        for line in ("account show", "market tokens"):
            where = f"http://127.0.0.1:{full.getsockname()[1]}"
            run = trade(*line.split(), env={"TRADE_BASE_URL": where, "TRADE_API_KEY": "k"})
            assert (run.code, run.problem["code"]) == (11, "timeout")
            assert "retry" not in run.problem["message"]
    assert waited == []
    assert QUICK.connect is not None
    assert QUICK.connect < 2.5


def test_a_host_that_there_is_not(trade: Terminal, monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    def lookup(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    run = trade("account", "show", env={"TRADE_BASE_URL": "https://nowhere.invalid", "TRADE_API_KEY": "k"})
    assert (run.code, "unknown host" in run.problem["message"], waited) == (11, True, [])
    assert run.problem["hint"].startswith("correct TRADE_BASE_URL or --base-url")  # there is no service to start


def test_what_answers_is_tried_as_often_as_ever(trade: Terminal, service: Scripted, waited: list[float]) -> None:
    service.says(503, LATER)
    for _ in range(2):
        service.then(503, LATER)
    service.then(200, ACCOUNT)
    assert (trade("whoami").code, len(waited)) == (0, 3)


def test_a_service_that_goes_away_in_a_long_list_is_waited_for(trade: Terminal, waited: list[float]) -> None:
    page = {"data": [agent()], "next_cursor": "c"}
    limits: dict[str, Any] = {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "50", "X-RateLimit-Reset": "1"}
    sent = answer(json.dumps(page).encode(), connection="close", **limits)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            connection, _ = listening.accept()
            listening.close()
            with connection:
                connection.recv(65_536)
                connection.sendall(sent)

        serving = threading.Thread(target=once)
        serving.start()
        where = f"http://127.0.0.1:{listening.getsockname()[1]}"
        run = trade("agents", "list", "--all", env={"TRADE_BASE_URL": where, "TRADE_API_KEY": "k"})
        serving.join()
    assert (run.code, "connection refused" in run.notes[-1]["message"], len(run.lines)) == (11, True, 1)
    assert len(waited) == 5
