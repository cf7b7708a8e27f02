"""Both stores of approvals, in a file and on a fleet's server, do the same; and what only one of them can get wrong."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tradesdk import LocalSigner
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.approval_store import SqliteApprovals
from tradesdk_cli.mcp.approvals import (
    KEPT,
    VALID,
    Action,
    ApprovalError,
    Approvals,
    ApprovalStore,
    Decisions,
    digest_of,
)
from tradesdk_cli.mcp.shared_approvals import SharedApprovals
from tradesdk_cli.mcp.tools import Toolbox
from tradesdk_mock import MockServer

from .._redis_server import RedisServer, drawn_engines
from .._rows import each_of
from ..fleet._cutting import CuttingProxy
from ._mcp import toolbox
from ._terminal import Terminal

NOW = 1_795_262_400.0
CONTENT = {"do": "buy", "list": [], "object": {}, "text": "\ud800 ✓ / \\", "number": 2.2760808e-05, "null": None}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RedisServer]]:
    with (
        RedisServer("redis", tmp_path_factory.mktemp("redis")) as redis,
        RedisServer("valkey", tmp_path_factory.mktemp("valkey")) as valkey,
    ):
        yield {"redis": redis, "valkey": valkey}


@pytest.fixture
def server(servers: dict[str, RedisServer]) -> RedisServer:
    servers["redis"].command("FLUSHALL")
    return servers["redis"]


@pytest.fixture(params=["file", "redis", "valkey"])
def store(request: pytest.FixtureRequest, tmp_path: Path, servers: dict[str, RedisServer]) -> Iterator[ApprovalStore]:
    if request.param == "file":
        yield SqliteApprovals(tmp_path / "approvals")
        return
    servers[request.param].command("FLUSHALL")
    made = SharedApprovals(servers[request.param].url)
    yield made
    made.close()


def action(code: str = "AAAA2222", at: float = NOW, **more: Any) -> Action:
    content = {**CONTENT, "more": more.pop("content", "")}
    found = Action(code, "purchase", digest_of(content), content, "buy ✓", 30_000, at, at, "pending")
    return replace(found, **more)


# The contract


def test_what_is_kept_comes_back(store: ApprovalStore) -> None:
    one = action(by="person")
    assert store.add(one, most_pending=1) == one
    assert store.get(one.code) == store.find(one.digest, NOW) == one
    assert store.all(NOW) == [one]
    assert store.get("NOPE2345") is None
    assert store.find("0" * 64, NOW) is None
    outcome: dict[str, Any] = {"payment": None, "list": [], "text": "\ud800 ✓"}
    assert store.change(one.code, "done", ("pending",), NOW + 1, by="auto", outcome=outcome)
    assert store.get(one.code) == replace(one, state="done", updated=NOW + 1, by="auto", outcome=outcome)
    assert store.change(one.code, "unknown", ("done",), NOW + 2)
    assert store.get(one.code) == replace(one, state="unknown", updated=NOW + 2, by="auto", outcome=outcome)


@each_of(("row", "state"), enumerate(["pending", "approved", "refused", "started", "done", "unknown"] * 2))
def test_how_long_an_action_is_in_force(store: ApprovalStore, row: int, state: Any) -> None:
    """A second one with the same content is kept only when the first is in force no longer."""
    kind: Any = "purchase" if row < 6 else "change"
    now = NOW + row * 2 * KEPT  # what rows before this one left is forgotten
    one = action(f"A{row}", now, kind=kind)
    assert store.add(one, most_pending=None) == one
    begun = state in ("started", "done", "unknown")
    if state != "pending":
        assert store.change(one.code, state, ("pending",), now + 100)
    kept = store.get(one.code)
    end = now + 100 + (KEPT if kind == "purchase" else VALID) if begun else now + VALID
    for at, expected in ((now, kept), (end - 0.001, kept), (end, None), (end + 1, None)):
        assert store.find(one.digest, at) == expected
    later = action(f"B{row}", end - 0.001)
    assert store.add(later, most_pending=None) == kept
    later = action(f"B{row}", end)
    assert store.add(later, most_pending=None) == later
    assert store.find(one.digest, end) == later


def test_an_older_one_with_the_same_content_is_found_when_the_newest_has_expired(store: ApprovalStore) -> None:
    older, newest = action(), action("BBBB2222", NOW + VALID)
    store.add(older, most_pending=None)
    store.add(newest, most_pending=None)
    assert store.change(older.code, "started", ("pending",), NOW + VALID + 1)
    assert store.find(older.digest, NOW + VALID + 1) == newest
    found = store.find(older.digest, NOW + 2 * VALID)
    assert found is not None
    assert (found.code, found.state) == (older.code, "started")


def test_only_so_many_may_wait(store: ApprovalStore) -> None:
    for number in range(3):
        assert store.add(action(f"CODE{number}", content=number), most_pending=3) is not None
    assert store.add(action("NEXT", content="next"), most_pending=3) is None
    assert store.add(action("AGAIN", content=0), most_pending=3) == store.get("CODE0")
    free = action("FREE", content="free", state="approved", by="auto")
    assert store.add(free, most_pending=None) == free
    assert store.change("CODE1", "refused", ("pending",), NOW)
    assert store.add(action("NEXT", content="next"), most_pending=3) is not None
    assert store.add(action("MORE", content="more"), most_pending=3) is None
    later = action("LATER", NOW + VALID, content="later")
    assert store.add(later, most_pending=3) == later


def test_a_change_needs_the_state_that_is_expected(store: ApprovalStore) -> None:
    store.add(action(), most_pending=None)
    assert not store.change("AAAA2222", "started", ("approved",), NOW)
    assert not store.change("NOPE2345", "approved", ("pending",), NOW)
    assert store.change("AAAA2222", "approved", ("refused", "pending"), NOW, by="person")
    assert store.change("AAAA2222", "started", ("approved",), NOW)
    assert not store.change("AAAA2222", "started", ("approved",), NOW)
    assert not store.change("AAAA2222", "started", (), NOW)


def test_old_actions_are_forgotten(store: ApprovalStore) -> None:
    store.add(action(), most_pending=None)
    store.add(action("BBBB2222", NOW + 1, content="other"), most_pending=None)
    end = NOW + KEPT
    assert [one.code for one in store.all(end - 0.5)] == ["BBBB2222", "AAAA2222"]
    assert [one.code for one in store.all(end + 0.5)] == ["BBBB2222"]
    store.add(action("CCCC2222", end + 0.5, content="third"), most_pending=None)
    assert store.get("AAAA2222") is None
    assert store.get("BBBB2222") is not None
    again = action("DDDD2222", end + 0.5)
    assert store.add(again, most_pending=None) == again


def test_a_code_is_taken_once(store: ApprovalStore) -> None:
    store.add(action(), most_pending=None)
    with pytest.raises(ApprovalError) as caught:
        store.add(action(content="other"), most_pending=None)
    assert caught.value.code == "approvals_unusable"
    assert store.get("AAAA2222") == action()


def test_of_many_at_once_one_begins_it(store: ApprovalStore) -> None:
    found: list[bool] = []
    for number in range(10):
        code = f"CODE{number}"
        store.add(action(code, content=number, state="approved"), most_pending=None)
        barrier = threading.Barrier(6)

        def begin(code: str = code, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            found.append(store.change(code, "started", ("approved",), NOW))

        together(6, begin)
        assert sum(found) == number + 1


def together(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# On a server


def test_the_keys_hold_no_more_than_what_is_kept(server: RedisServer) -> None:
    store = SharedApprovals(server.url, prefix="mine")
    for number in range(4):
        store.add(action(f"CODE{number}", NOW + number, content=number % 2), most_pending=None)
    store.add(action("LAST", NOW + 2 * KEPT, content="last"), most_pending=None)
    keys = {key: server.command("TYPE", key) for key in server.command("KEYS", "*")}
    assert {key.removeprefix("mine:{approvals}:") for key in keys} == {"actions", "changed", "codes", "waiting"}
    sizes = [server.command("HLEN" if kind == "hash" else "ZCARD", key) for key, kind in keys.items()]
    assert sizes == [1, 1, 1, 1]
    store.close()


@pytest.mark.parametrize("seconds", [86_400, -86_400])
def test_clocks_that_differ(server: RedisServer, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """An action is prepared on one machine, and approved and begun on another whose clock is a day away."""
    real = time.time
    store = SharedApprovals(server.url)
    tools, person = Approvals(store), Decisions(store)
    made = tools.prepare("change", CONTENT, "do it", 0, real())
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    there = real() + seconds
    waiting = person.waiting(made.code, there)
    assert waiting.created == pytest.approx(made.created + seconds, abs=60)
    approved = person.decide(waiting, yes=True, now=there)
    assert not tools.begin(approved, there + VALID + 60)
    assert tools.begin(approved, there)
    monkeypatch.undo()
    begun = tools.get(made.code)
    assert begun is not None
    assert begun.updated == pytest.approx(real(), abs=60)
    store.close()


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_a_lost_request_or_reply(server: RedisServer, monkeypatch: pytest.MonkeyPatch, when: Any) -> None:
    """Each step is taken once, and its answer is the right one, wherever the connection is cut."""
    monkeypatch.setattr("tradesdk_cli.mcp.shared_approvals._PAUSE", 0.0)
    with CuttingProxy(server.port) as proxy:
        store = SharedApprovals(proxy.url)
        for cut in range(1, 13):
            code = f"CODE{cut}"
            one = action(code, content=cut, state="approved")
            proxy.arm(cut, when)
            assert store.add(one, most_pending=None) == one
            proxy.arm(cut, when)
            assert store.change(code, "started", ("approved",), NOW)
            proxy.arm(0, when)
            assert not store.change(code, "started", ("approved",), NOW)
        assert len(store.all(NOW)) == 12
        store.close()


def refusal(store: SharedApprovals) -> ApprovalError:
    with pytest.raises(ApprovalError) as caught:
        store.add(action(), most_pending=None)
    store.close()
    assert caught.value.code == "approvals_unusable"
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("setting", "value"),
    [("appendfsync", "everysec"), ("appendonly", "no"), ("maxmemory-policy", "allkeys-lru")],
)
def test_a_server_that_could_lose_an_approval(tmp_path: Path, setting: str, value: str) -> None:
    with RedisServer("valkey", tmp_path, f"--{setting}", value) as server:
        assert f"{setting} is {value}" in str(refusal(SharedApprovals(server.url)))
        store = SharedApprovals(server.url)
        with pytest.raises(ApprovalError, match=setting):
            store.change("AAAA2222", "started", ("approved",), NOW)
        store.close()


def test_a_server_that_does_not_tell_its_settings(server: RedisServer) -> None:
    server.command("ACL", "SETUSER", "bot", "on", ">swordfish", "~*", "+@all", "-config")
    store = SharedApprovals(f"redis://bot:swordfish@127.0.0.1:{server.port}")
    error = refusal(store)
    managed = SharedApprovals(f"redis://bot:swordfish@127.0.0.1:{server.port}", managed=True)
    assert managed.add(action(), most_pending=None) == action()
    managed.close()
    server.command("ACL", "DELUSER", "bot")
    assert "does not tell its settings" in str(error)


def test_a_server_that_is_away(tmp_path: Path) -> None:
    server = RedisServer("valkey", tmp_path)
    url = server.url.replace("127.0.0.1", "me:swordfish@127.0.0.1")
    error = refusal(SharedApprovals(url))
    assert "nothing listens at redis://127.0.0.1" in str(error)
    assert "swordfish" not in f"{error}{error.hint}"


def test_what_another_program_wrote(server: RedisServer) -> None:
    server.command("SET", "tradesdk:{approvals}:actions", "1")
    assert "another program" in str(refusal(SharedApprovals(server.url)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: "no JSON",
        lambda kept: "[]",
        lambda kept: json.dumps({**kept, "created": "soon"}),
        lambda kept: json.dumps({**kept, "state": "agreed"}),
        lambda kept: json.dumps({key: value for key, value in kept.items() if key != "kind"}),
        lambda kept: json.dumps({**kept, "body": kept["body"].replace('"do"', '"don"')}),
    ],
)
def test_an_action_that_was_altered_is_not_shown(server: RedisServer, damage: Callable[[Any], str]) -> None:
    """What a person sees is what the code stands for."""
    store = SharedApprovals(server.url)
    one = action()
    store.add(one, most_pending=None)
    key = "tradesdk:{approvals}:actions"
    server.command("HSET", key, one.code, damage(json.loads(server.command("HGET", key, one.code))))
    for read in (lambda: store.get(one.code), lambda: store.all(NOW)):
        with pytest.raises(ApprovalError, match="not what was written"):
            read()
    store.close()


def test_what_others_wrote_is_shown_as_text(server: RedisServer, trade: Terminal) -> None:
    """A summary is not part of the digest."""
    trade.env |= {"TRADE_FLEET": server.url}
    store = SharedApprovals(server.url)
    content = {"where": "\x1b[31mhere", "purchase": "\x1b[31mname", "payer": None}
    shown = action(at=time.time(), summary="\x1b[31mred\x1b]0;title\x07")
    store.add(replace(shown, content=content, digest=digest_of(content)), most_pending=None)
    store.close()
    for argv in (["approve"], ["approve", "AAAA2222"]):
        run = trade(*argv, answers="n\n", env={"NO_COLOR": "1"})
        assert "red" in run.out + run.err
        assert "\x1b" not in run.out + run.err


def test_what_cannot_be_written_down_at_the_end_stays_begun(tmp_path: Path) -> None:
    """The answer is not lost, and the action is not begun again."""
    with RedisServer("valkey", tmp_path) as server:
        store = SharedApprovals(server.url)
        tools = Approvals(store)
        made = [tools.prepare("change", {"number": number}, "do it", 0, NOW) for number in range(2)]
        approved = [Decisions(store).decide(one, yes=True, now=NOW) for one in made]
        assert all(tools.begin(one, NOW) for one in approved)
        server.kill()
        tools.end(approved[0], "done", {}, NOW)
        tools.give_back(approved[1], NOW)
        server.start()
        assert [one.state for one in tools.all(NOW)] == ["started", "started"]
        assert not any(tools.begin(one, NOW) for one in approved)
        store.close()


# Several machines


Machine = Callable[[str], AbstractContextManager[Toolbox]]


@pytest.fixture
def machines(server: RedisServer, stock: MockServer, tmp_path: Path) -> Machine:
    """Machines with one wallet: the tools of an agent there."""
    env = {"TRADE_FLEET": server.url}
    wallet = "0x" + "7a" * 32
    return lambda name: toolbox(tmp_path / name, stock, wallet=wallet, env=env)


def test_prepared_on_one_machine_approved_on_another_and_carried_out_on_a_third(
    machines: Machine, server: RedisServer, stock: MockServer, trade: Terminal
) -> None:
    trade.env |= {"TRADE_FLEET": server.url, "TRADE_BASE_URL": stock.url}
    buy = {"data": "metrics", "purchase": "totals"}
    with machines("first") as first, machines("third") as third:
        code = first.call("market_buy", buy)["code"]
        assert third.call("market_buy", buy)["code"] == code
        assert [one["code"] for one in trade("approve", "-o", "json").json] == [code]
        assert trade("approve", code, answers="y\n").code == 0
        assert third.call("market_buy", buy)["status"] == "done"
        bought = first.call("market_buy", buy)
        assert (bought["status"], bought["paid_now_usd"], bought["again"]) == ("done", "0.00", True)
        other = first.call("market_buy", {**buy, "purchase": "second"})["code"]
        assert trade("approve", "--refuse", other).code == 0
        with pytest.raises(Fault, match="a person refused it"):
            third.call("market_buy", {**buy, "purchase": "second"})
    address = LocalSigner.from_key("0x" + "7a" * 32).address
    assert len(stock.payments.settlements(address)) == 1
    assert not list(trade.home.rglob("*-approvals"))


def test_two_machines_with_one_approval_change_once(
    machines: Machine, server: RedisServer, stock: MockServer, trade: Terminal
) -> None:
    trade.env |= {"TRADE_FLEET": server.url, "TRADE_BASE_URL": stock.url}
    store = SharedApprovals(server.url)
    person = Decisions(store)
    with machines("first") as first, machines("second") as second:
        agent = first.call("agents", {"limit": 1})["items"][0]["id"]
        for number in range(5):
            update = {"operation": "update", "id": agent, "max_positions": 30 + number}
            code = first.call("agent_change", update)["code"]
            person.decide(person.waiting(code, time.time()), yes=True, now=time.time())
            outcomes: list[str] = []
            barrier = threading.Barrier(2)
            boxes = [first, second]

            def change(
                update: Any = update, outcomes: list[str] = outcomes, barrier: Any = barrier, boxes: Any = boxes
            ) -> None:
                box = boxes.pop()
                barrier.wait()
                try:
                    outcomes.append(box.call("agent_change", update)["status"])
                except Fault as fault:
                    outcomes.append(fault.code)

            together(2, change)
            assert outcomes.count("done") == 1, outcomes
    store.close()
    path = f"/v1/agents/{agent}"
    assert sum(entry.method == "PATCH" and entry.path == path for entry in stock.journal()) == 5


def carry_out(url: str, folder: str, codes: list[str], seed: int, seconds: float = 0.03) -> None:
    """A machine that carries out what is approved, which takes a while, and writes each down. Number 0 dies in it."""
    chance = random.Random(seed)
    tools = Approvals(SharedApprovals(url))
    with open(Path(folder) / f"{seed}.done", "ab", buffering=0) as done:
        for code in chance.sample(codes, len(codes)):
            found = tools.get(code)
            if found is not None and tools.begin(found, NOW):
                done.write(f"{code}\n".encode())
                if seed == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(seconds)
                tools.end(found, "done", {}, NOW)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL needs a system that has it")
@pytest.mark.parametrize("engine", drawn_engines())
def test_machines_that_are_killed_carry_nothing_out_twice(tmp_path: Path, engine: str) -> None:
    """Six machines and 300 approvals; now and then a machine or the server is killed."""
    chance = random.Random(int(os.environ.get("TRADE_SEED") or 3))
    context = multiprocessing.get_context("forkserver")  # from a server that has imported everything
    context.set_forkserver_preload([__name__])
    codes = [f"CODE{number}" for number in range(300)]
    running: list[Any] = []
    numbers = iter(range(10_000))
    first: list[Any] = []

    def done() -> list[str]:
        return [line for file in tmp_path.glob("*.done") for line in file.read_text().split()]

    def machines() -> list[Any]:
        running[:] = [one for one in running if one.is_alive()]
        while len(running) < 6:
            given = (there.url, str(tmp_path), codes, next(numbers))
            running.append(context.Process(target=carry_out, args=given, daemon=True))
            running[-1].start()
            first[:] = first or running
        return running

    with RedisServer(engine, tmp_path / "server") as there:
        store = SharedApprovals(there.url)
        for number, code in enumerate(codes):
            store.add(action(code, kind="change", content=number, state="approved"), most_pending=None)
        for kill in range(16):
            deadline = time.monotonic() + 60
            while len(done()) < 15 * (kill + 1) and time.monotonic() < deadline:
                machines()
                time.sleep(0.02)
            if kill % 4 == 3:
                there.kill()
                there.start()
            else:
                os.kill(chance.choice([one for one in machines() if one not in first]).pid, signal.SIGKILL)
        for one in running:
            one.join(300)
        carry_out(there.url, str(tmp_path), codes, next(numbers), 0)
        states = [one.state for one in store.all(NOW)]
        store.close()
    begun = states.count("started")
    print(f"12 machines and 4 servers killed, {len(done())} carried out, {begun} begun and not written down as done")
    assert len(done()) == len(set(done()))
    assert set(states) <= {"done", "started"}
    assert begun > 0, "no kill came in the middle"
    assert len(done()) + begun >= len(codes)
