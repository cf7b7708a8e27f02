"""GETs a second that the mock answers on one core, with key, rate limit and state; beside moto's server and Prism.

The server has a core of its own, where the system can bind it to one, and the load comes from the others. What
counts is the server's CPU time for a request.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
from _load import Load
from _measure import Figures, Probe, finish, in_process, installed, measure, report, verdict
from _mocks import KEY, Process, served, subjects

from tradesdk_mock import GapOptions, MockService

ROUNDS = 15
CONNECTIONS = 8
SECONDS = 0.4
"""About so long is each server asked in a round."""
TIMES = 40
ACCOUNT, TRADES = "the mock: GET /v1/account", "the mock: GET /v1/trades"
PATHS = {"/v1/account": ACCOUNT, "/v1/trades": TRADES, "/v1/trades?limit=100": "the mock: GET /v1/trades?limit=100"}
BARS = {ACCOUNT: 2_000}
"""Requests a second. The pages of trades, the usual one with 20 of 250, are shown beside it."""


def prepare(server: Process) -> None:
    """State and a limit that nobody reaches; then look at what is going to be measured."""
    assert server.ask("POST", "/_mock/tenants/bench/plan", {"plan": "enterprise"})[0] == 200
    assert server.ask("POST", "/_mock/tenants/bench/populate", {})[0] == 200
    account = json.loads(server.ask("GET", "/v1/account")[1])
    assert (account["email"], account["plan"]) == ("bench@example.test", "enterprise")
    page = json.loads(server.ask("GET", "/v1/trades")[1])
    assert len(page["data"]) == 20
    assert page["next_cursor"]


def asking(server: Process, load: Load) -> Probe:
    """CPU of the server for one request, and wall time; as many requests as take about `SECONDS`."""
    began = time.perf_counter()
    with load:
        load.run(300)
    times = max(50, int(300 * SECONDS / (time.perf_counter() - began)))

    def probe() -> tuple[float, float]:
        with load:  # anew in each round: most servers close a connection that is quiet for some seconds
            wall, cpu = time.perf_counter(), server.cpu()
            load.run(times)
            return (server.cpu() - cpu) / times, (time.perf_counter() - wall) / times

    return probe


def both_sides(client: httpx.Client, server: Process) -> Probe:
    """A call through httpx: the CPU of the client and of the server together."""
    call = in_process(lambda: client.get("/v1/account"), times=TIMES)

    def probe() -> tuple[float, float]:
        before = server.cpu()
        cpu, wall = call()
        return cpu + (server.cpu() - before) / TIMES, wall

    return probe


def fast_enough(figures: dict[str, Figures]) -> bool:
    """Print requests a second for each, and verdicts for the mock's."""
    held = True
    width = max(map(len, figures))
    print(f"{'':{width}}  {'a CPU second':>10}  {'  a wall second':>15}")
    for name, taken in figures.items():
        print(f"{name:{width}}  {1 / median(taken.cpu):10,.0f}  {1 / median(taken.wall):15,.0f}")
    print()
    for name, bar in BARS.items():
        each = 1 / median(figures[name].cpu)
        held &= verdict(each >= bar, f"{name}: {each:,.0f} a second of CPU  (bar {bar:,})")
    print()
    return held


if not sys.platform.startswith("linux"):
    sys.exit("This needs Linux: it has a clock of the CPU time of another process.")
cores = sorted(os.sched_getaffinity(0))
server_core = cores[0] if len(cores) > 1 else None
if server_core is None:
    print("(one core for both sides: wall times mean little)")
else:
    os.sched_setaffinity(0, set(cores[1:]))
peers = [name for name in ("starlette", "uvicorn", "moto") if installed(name)]

with contextlib.ExitStack() as stack:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    probes: dict[str, Probe] = {}
    mock: Process | None = None
    for name, subject in subjects(folder).items():
        server = stack.enter_context(served(subject, core=server_core))
        paths = {subject.path: f"{name}: GET {subject.path}"}
        if name == "the mock":
            mock, paths = server, PATHS
            prepare(server)
        for path, title in paths.items():
            load = Load(server.port, path, key=KEY, connections=CONNECTIONS)
            probes[title] = asking(server, load)
            if title == ACCOUNT:
                assert b"\r\nx-ratelimit-remaining: " in load.last
    assert mock is not None
    over_sockets = measure(probes, rounds=ROUNDS)
    report(f"GETs over {CONNECTIONS} connections, one server on one core", over_sockets, [], unit="µs", peers=peers)
    held = fast_enough(over_sockets)

    headers = {"Authorization": f"Bearer {KEY}"}
    service = stack.enter_context(MockService(gaps=GapOptions(enterprise_limit=10**9)))
    service.set_plan("bench", "enterprise")
    inside = stack.enter_context(httpx.Client(transport=service.transport(), base_url=service.url, headers=headers))
    outside = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{mock.port}", headers=headers))
    assert inside.get("/v1/account").json().keys() == outside.get("/v1/account").json().keys()
    report(
        f"The same account through httpx, both sides together, {TIMES} calls a round",
        measure(
            {
                "httpx over the transport, in process": in_process(lambda: inside.get("/v1/account"), times=TIMES),
                "httpx over a socket": both_sides(outside, mock),
            },
            rounds=ROUNDS * 4,
        ),
        [],
        unit="µs",
        peers=["httpx", "h11"],
    )
finish(held)
