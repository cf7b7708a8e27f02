"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import re

import pytest

from .._requirements import install

pytestmark = pytest.mark.long

OPTIONS = "seed, start, frozen, signals, gaps, populate"


pytest_plugins = ["pytester"]

# Plugins that these runs don't need and that take a second to load.
STRICT = ("-W", "error", "--strict-markers", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:respx")


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=source)
    return pytester.runpytest_subprocess(*STRICT, *arguments)


WORLDS = """
from datetime import UTC, datetime

import httpx
import pytest

from tradesdk_mock import MockServerError

START = 1_800_000_000
AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


def ask(mock, path, key="mock_full_me", **query):
    with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        return http.get(path, params=query, headers={"Authorization": f"Bearer {key}"}).json()


def new_signals(mock):
    mock.clock.advance(600)
    return ask(mock, "/v1/signals/history", **{"chain": 8453, "from": int(mock.clock.now()) - 600})["data"]


@pytest.mark.parametrize("time", [1, 2])
def test_as_it_is_without_a_mark(trade_mock, time):
    assert trade_mock.journal() == []
    assert trade_mock.clock.now() == START
    assert trade_mock.clock.frozen
    assert repr(trade_mock) == "MockService(seed=7)"
    assert trade_mock.gaps.write_status == "201/200"
    account = ask(trade_mock, "/v1/account")
    assert account["id"] == "acc_c441ecbeb70ca2a083bcd151"
    assert account["created_at"] == START
    assert ask(trade_mock, "/v1/agents")["data"] == []
    assert ask(trade_mock, "/v1/signals", chain=8453)["data"] != []  # of the days before
    assert new_signals(trade_mock) == []


@pytest.mark.trade_mock(seed=8, start=5_000, frozen=False, signals="live", populate="me")
@pytest.mark.trade_mock(gaps={"write_status": "200/200"})
def test_every_option(trade_mock):
    assert repr(trade_mock) == "MockService(seed=8)"
    assert not trade_mock.clock.frozen
    assert 5_000 <= trade_mock.clock.now() < 6_000
    assert trade_mock.gaps.write_status == "200/200"
    assert len(ask(trade_mock, "/v1/agents")["data"]) == 6
    assert new_signals(trade_mock) != []


@pytest.mark.trade_mock(start=AT, populate=["me", "you"])
class TestMarks:
    def test_of_the_class(self, trade_mock):
        assert trade_mock.clock.now() == AT.timestamp()
        assert ask(trade_mock, "/v1/agents", "mock_read_you")["data"] != []

    @pytest.mark.trade_mock(populate=(), seed=9)
    def test_the_nearer_one_wins(self, trade_mock):
        assert trade_mock.clock.now() == AT.timestamp()
        assert ask(trade_mock, "/v1/agents")["data"] == []
        assert repr(trade_mock) == "MockService(seed=9)"

    def test_that_needs_no_mock(self):
        pass


kept = []


def test_one_is_kept(trade_mock):
    kept.append(trade_mock)


def test_it_is_closed_after_its_test():
    with pytest.raises(MockServerError, match="closed"):
        ask(kept[0], "/v1/account")
"""


@pytest.mark.parametrize("mode", ["prepend", pytest.param("importlib", marks=pytest.mark.long)])
def test_the_service_of_a_test(pytester: pytest.Pytester, mode: str) -> None:
    run(pytester, WORLDS, f"--import-mode={mode}").assert_outcomes(passed=8)


SERVER = """
import os
import pathlib
import ssl

import httpx
import pytest

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused, and made sooner than a whole one


@pytest.fixture(params=range(4))
def url(request, trade_mock_url):
    pathlib.Path(f"{request.param}.url").write_text(f"{os.getpid()} {trade_mock_url}")
    return trade_mock_url


def test_a_server(url, trade_mock_server, trade_mock, request):
    assert url == trade_mock_server.url
    key = trade_mock_server.create_key()
    for _ in range(2):
        answer = httpx.get(url + "/v1/account", headers={"Authorization": f"Bearer {key.value}"}, verify=TLS)
        assert answer.status_code == 200
    trade_mock_server.assert_requested("GET", "/v1/account", tenant=key.tenant, times=2)
    trade_mock.assert_requested(times=0)
    assert not trade_mock_server.clock.frozen
    assert trade_mock_server.world.market == "live"
"""


@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_server_of_a_run(pytester: pytest.Pytester, servers: int) -> None:
    run(pytester, SERVER, *(("-n", "2") if servers == 2 else ())).assert_outcomes(passed=4)
    used = {tuple(file.read_text().split()) for file in pytester.path.glob("*.url")}
    assert len(used) == len({process for process, _ in used}) == len({url for _, url in used}) == servers


def test_async_tests(pytester: pytest.Pytester) -> None:
    source = """
        import httpx
        import pytest


        @pytest.mark.anyio
        async def test_it(trade_mock, anyio_backend):
            assert anyio_backend in ("asyncio", "trio")
            async with httpx.AsyncClient(transport=trade_mock.transport(), base_url=trade_mock.url) as http:
                await http.get("/v1/account")
            trade_mock.assert_requested("GET", "/v1/account", status=401, times=1)
    """
    run(pytester, source).assert_outcomes(passed=2)


WRONG = {
    "sed=7": f"there is no option 'sed'; there are: {OPTIONS}",
    "7": f"options are given by name: {OPTIONS}",
    "seed='7'": "seed: must be an integer, not '7'",
    "seed=True": "seed: must be an integer, not True",
    "frozen=1": "frozen: must be True or False, not 1",
    "start='now'": "start: must be Unix seconds or an aware datetime, not 'now'",
    "start=AT": "start: must be Unix seconds or an aware datetime, not datetime.datetime(2030, 1, 1, 0, 0)",
    "start=-1": "-1 is not a time in Unix seconds, such as datetime.timestamp() returns",
    "signals='some'": "'some' is not a market: live, scripted",
    "signals=None": "signals: must be text, not None",
    "gaps={'write_status': '418'}": "gap option write_status: '418' is not one of 201/200, 200/200, 201/201",
    "gaps={1: 2}": "gaps: must be names and values as in {'write_status': '200/200'}, not {1: 2}",
    "populate=1": "populate: must be a list of texts, not 1",
    "populate=[1]": "populate: must be text, not 1",
    "populate=['a b']": "'a b' is not a tenant name: letters, digits, `_`, `.` and `-`, at most 64",
}


def test_marks_that_can_not_be(pytester: pytest.Pytester) -> None:
    marked = "@pytest.mark.trade_mock({})\ndef test_{}({}):\n    assert False\n"
    tests = [marked.format(mark, number, "trade_mock") for number, mark in enumerate(WRONG)]
    tests.append(marked.format("seed=8", "b", "trade_mock_url"))
    done = run(pytester, "from datetime import datetime\nimport pytest\nAT = datetime(2030, 1, 1)\n" + "\n".join(tests))
    done.assert_outcomes(errors=len(WRONG) + 1)
    said = [line for line in done.outlines if line.startswith("@pytest.mark.trade_mock: ")]
    expected = [*WRONG.values(), "it is for the fixture trade_mock; all tests share the server of trade_mock_url"]
    assert said == [f"@pytest.mark.trade_mock: {text}" for text in expected]
    assert "During handling" not in done.stdout.str()


FAILURES = """
import httpx
import pytest


def ask(mock, path):
    transport = mock.transport() if hasattr(mock, "transport") else None
    with httpx.Client(transport=transport, base_url=getattr(mock, "url", mock)) as http:
        http.get(path, headers={"Authorization": "Bearer mock_full_me"})


def test_with_requests(trade_mock):
    trade_mock.add_fault("status", route="/v1/trades", status=503)
    for _ in range(22):
        ask(trade_mock, "/v1/account?x=1")
        trade_mock.clock.advance(2)
    ask(trade_mock, "/v1/trades")
    trade_mock.assert_requested("POST")


def test_without_requests(trade_mock):
    assert not trade_mock


def test_with_faults(trade_mock):
    trade_mock.add_fault("status", route="/v1/trade", status=503)
    trade_mock.add_fault("status", route="/v1/account", status=503)
    trade_mock.add_fault("reset", method="POST")
    trade_mock.add_fault("malformed_json", route="/v1/agents", nth=2)
    trade_mock.add_fault("drop", route="/v1/agents")
    trade_mock.add_fault("bom", nth=3)
    ask(trade_mock, "/v1/account")
    ask(trade_mock, "/v1/agents")
    assert False


def test_passes(trade_mock):
    trade_mock.add_fault("truncate", route="/v1/agents", nth=3)
    for _ in range(2):
        ask(trade_mock, "/v1/agents")


def test_closed(trade_mock):
    trade_mock.add_fault("reset")
    trade_mock.close()
    assert False


def test_of_the_server(trade_mock_server):
    trade_mock_server.add_fault("latency", route="/v1/account/")
    ask(trade_mock_server.url, "/v1/agents")
    assert False


def test_of_the_server_again(trade_mock_url, trade_mock_server):
    trade_mock_server.add_fault("drip", tenant="you")
    ask(trade_mock_url, "/v1/wallets")
    assert not trade_mock_url


def test_of_both(trade_mock, trade_mock_url):
    trade_mock.add_fault("huge_body")


@pytest.fixture
def broken(trade_mock):
    ask(trade_mock, "/v1/signals")
    trade_mock.add_fault("latency", seconds=2)
    raise RuntimeError


def test_with_a_broken_fixture(broken):
    pass


def test_without_any():
    assert False
"""
# The first and the last line of the requests that are shown.
SHOWN = {
    "test_with_requests": (
        "requests to trade_mock (the last 20 of 23)",
        "     6.00 s  #4 GET /v1/account?x=1: 200",
        "    44.00 s  #23 GET /v1/trades: 503 service_unavailable (fault: status)",
    ),
    "test_without_requests": ("requests to trade_mock", "none", "none"),
    "test_with_faults": (
        "requests to trade_mock",
        "     0.00 s  #1 GET /v1/account: 503 service_unavailable (fault: status)",
        "     0.00 s  #2 GET /v1/agents: 200",
    ),
    "test_closed": ("requests to trade_mock", "none", "none"),
    "test_of_the_server": (
        "requests to trade_mock_server",
        *(["     0.00 s  #1 GET /v1/agents: 200"] * 2),
    ),
    "test_of_the_server_again": (
        "requests to trade_mock_server",
        *(["     0.00 s  #2 GET /v1/wallets: 200"] * 2),
    ),
    "test_with_a_broken_fixture": (
        "requests to trade_mock",
        *(["     0.00 s  #1 GET /v1/signals: 400 invalid_request"] * 2),
    ),
    "test_without_any": ("", "", ""),
}


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2", "--dist", "loadfile"), marks=pytest.mark.long)])
def test_what_a_failure_shows(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    done = run(pytester, FAILURES, *workers)
    done.assert_outcomes(passed=2, failed=7, errors=1)
    text = done.stdout.str()
    shown = {}
    for name, part in re.findall(r"(?ms)^_{4,} (.+?) _{4,}$(.*?)(?=^_{4,} |^={4,} |\Z)", text):
        sections = {
            title: lines.splitlines() for title, lines in re.findall(r"-{3,} (.+?) -{3,}\n((?:[^-=_].*\n)+)", part)
        }
        title = next((title for title in sections if title.startswith("requests")), "")
        requests = sections.pop(title, [""])
        shown[name.split()[-1]] = (title, requests[0], requests[-1])
    assert shown == SHOWN
    # The line of the test is shown, not those of the assertion's inside.
    assert '>       trade_mock.assert_requested("POST")' in text
    assert "assertions.py" not in text


def test_a_run_without_the_fixtures_loads_next_to_nothing(pytester: pytest.Pytester) -> None:
    source = """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.startswith("tradesdk")}
            assert ours == {"tradesdk_mock", "tradesdk_mock.pytest_plugin"}
            assert not {"uvicorn", "pydantic", "eth_keys"} & sys.modules.keys()
    """
    run(pytester, source).assert_outcomes(passed=1)


def test_without_uvicorn(pytester: pytest.Pytester) -> None:
    source = """
        import sys

        sys.modules["uvicorn"] = None

        def test_in_process(trade_mock):
            assert trade_mock.transport()

        def test_on_a_port(trade_mock_url):
            pass
    """
    done = run(pytester, source)
    done.assert_outcomes(passed=1, errors=1)
    assert f"trade_mock_server: the mock server needs uvicorn: {install('uvicorn')}" in done.outlines
    assert "Traceback" not in done.stdout.str()
    assert "server.py" not in done.stdout.str()


def test_it_tells_what_there_is(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_subprocess(*STRICT, "--fixtures").stdout.str()
    for name in ("trade_mock", "trade_mock_server [session scope]", "trade_mock_url [session scope]"):
        assert re.search(rf"(?m)^{re.escape(name)} -- .*plugin\.py:\d+\n    \S", shown)
    shown = pytester.runpytest_subprocess(*STRICT, "--markers").stdout.str()
    assert "@pytest.mark.trade_mock(*, seed=7, start=1800000000, " in shown
