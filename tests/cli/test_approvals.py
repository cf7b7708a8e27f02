"""The approvals in their file: how long each holds, and that it is begun once."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tradesdk_cli.mcp.approvals import KEPT, MOST_PENDING, VALID, Action, ApprovalError, Approvals, Decisions

from .._rows import each_of
from ._terminal import Terminal

NOW = 1_795_262_400.0
ODD = {"list": [], "object": {}, "text": "\ud800 ✓ / \\", "number": 2.2760808e-05, "null": None}
BUY = {"do": "buy", "what": "token-prices", "price_usd": "0.03", "where": "here", "payer": None}
CHANGE = {"do": "update", "id": "agt_1", "before": {"name": "mine"}, "where": "here", "account": "a"}


@pytest.fixture
def store(tmp_path: Path) -> Decisions:
    return Decisions(tmp_path / "approvals")


def prepared(
    store: Approvals, content: Any = "", kind: str = "change", now: float = NOW, effect: Any = None, **more: Any
) -> Action:
    """`effect`: what it comes to, which is its content by default."""
    usual = {"purchase": "mcp/a", **BUY} if kind == "purchase" else CHANGE
    whole = {**usual, "body": {**ODD, "more": content}, **more}
    return store.prepare(whole, whole if effect is None else effect, now)


def approved(store: Approvals, content: Any = "", kind: str = "change", now: float = NOW) -> Action:
    return Decisions(store.path).decide(prepared(store, content, kind, now), yes=True, now=now)


def test_what_is_kept_comes_back(store: Decisions) -> None:
    one = prepared(store)
    assert store.get(one.code.lower()) == store.find(one.content, NOW) == one
    assert store.all(NOW) == [one]
    assert store.get("NOPE2345") is None
    assert store.find({}, NOW) is None
    assert store.begin(store.decide(one, yes=True, now=NOW), NOW)
    outcome: dict[str, Any] = {"payment": None, "list": [], "text": "\ud800 ✓"}
    store.end(one, "done", outcome, NOW + 1)
    found = store.get(one.code)
    assert found is not None
    assert (found.state, found.updated, found.outcome) == ("done", NOW + 1, outcome)


STATES = ["pending", "approved", "refused", "started", "done", "unknown"]


@each_of(("kind", "state"), [(kind, state) for kind in ("purchase", "change") for state in STATES])
def test_how_long_an_action_is_in_force(store: Decisions, kind: Any, state: Any) -> None:
    """A refusal holds from the refusal on. A second action is kept only when the first is in force no longer."""
    content = f"{kind} {state}"
    one = prepared(store, content, kind)
    if state != "pending":
        store.decide(one, yes=state != "refused", now=NOW + 100)
    if state in ("started", "done", "unknown"):
        assert store.begin(store.get(one.code) or one, NOW + 100)
    if state in ("done", "unknown"):
        store.end(one, state, {}, NOW + 100)
    kept = store.get(one.code)
    begun = NOW + 100 + (KEPT if kind == "purchase" else VALID)
    end = {"pending": NOW + VALID, "approved": NOW + VALID, "refused": NOW + 100 + VALID}.get(state, begun)
    for at, expected in ((NOW, kept), (end - 0.001, kept), (end, None), (end + 1, None)):
        assert store.find(one.content, at) == expected
    assert prepared(store, content, kind, end - 0.001) == kept
    assert prepared(store, content, kind, end).code != one.code


def test_a_refusal_holds_for_the_same_effect(store: Decisions) -> None:
    """Under any name, and with numbers that are nearly the same."""
    first = prepared(store, kind="purchase", effect={"buy": "ETH"}, purchase="mcp/a")
    second = prepared(store, kind="purchase", effect={"buy": "ETH"}, purchase="mcp/b")
    assert first.code != second.code
    store.decide(second, yes=True, now=NOW)
    no = store.decide(first, yes=False, now=NOW + VALID - 1)
    for name in ("mcp/a", "mcp/c", "mcp/d"):
        now = NOW + 2 * VALID - 2
        assert prepared(store, kind="purchase", effect={"buy": "ETH"}, now=now, purchase=name, price_usd="1") == no
    kept = prepared(store, kind="purchase", effect={"buy": "ETH"}, now=NOW + VALID - 1, purchase="mcp/b")
    assert kept.state == "approved", "a yes to this name goes before a no to another"
    later = prepared(store, kind="purchase", effect={"buy": "ETH"}, now=NOW + 2 * VALID - 1, purchase="mcp/c")
    assert later.state == "pending"
    assert store.refused({"buy": "ETH"}, NOW + VALID)
    assert not store.refused({"buy": "BRETT"}, NOW + VALID)


@each_of(
    ("asked", "refused"),
    [(0.7, True), (0.700001, True), (0.705, True), (0.6999, True), (0.8, False), ("0.7", False), (None, False)],
)
def test_numbers_that_are_nearly_the_same(store: Decisions, asked: Any, refused: bool) -> None:
    effect = {"id": f"agt_{asked!r}", "set min_confidence": 0.7, "set name": "a", "set max_positions": 5}
    store.decide(prepared(store, repr(asked), effect=effect), yes=False, now=NOW)
    assert store.refused({**effect, "set min_confidence": asked}, NOW) is refused


def test_only_so_many_may_wait(store: Decisions) -> None:
    waiting = [prepared(store, number) for number in range(MOST_PENDING)]
    with pytest.raises(ApprovalError, match="wait for a person already"):
        prepared(store, "next")
    assert prepared(store, 0) == waiting[0]
    store.decide(waiting[0], yes=False, now=NOW)
    assert prepared(store, "next").state == "pending"
    assert prepared(store, "later", now=NOW + VALID).state == "pending"


def test_old_actions_are_forgotten(store: Decisions) -> None:
    first, second = prepared(store), prepared(store, "other", now=NOW + 1)
    assert store.all(NOW + KEPT - 0.5) == [second, first]
    assert store.all(NOW + KEPT + 0.5) == [second]
    prepared(store, "third", now=NOW + KEPT + 0.5)
    assert (store.get(first.code), store.get(second.code)) == (None, second)


def test_what_cannot_be_written_down_at_the_end_stays_begun(store: Decisions) -> None:
    """Nobody is told about it, as what has happened is the answer; and it is not begun again."""
    ready = [approved(store, number) for number in range(2)]
    assert all(store.begin(one, NOW) for one in ready)
    aside = store.path.rename(store.path.with_name("aside"))
    store.path.mkdir()
    with pytest.raises(ApprovalError):
        store.all(NOW)
    store.end(ready[0], "done", {}, NOW)
    store.reopen(ready[1], NOW)
    store.path.rmdir()
    aside.rename(store.path)
    assert [one.state for one in store.all(NOW)] == ["started", "started"]
    assert not any(store.begin(one, NOW) for one in ready)


def test_a_file_whose_content_was_changed_is_refused(store: Decisions, trade: Terminal) -> None:
    """What is shown and carried out is what was prepared, or nothing."""
    file = trade.home / "ledger.sqlite3-approvals"
    code = prepared(Approvals(file), now=time.time(), id="agt_other").code
    with sqlite3.connect(file) as db:
        db.execute("UPDATE action SET content = replace(content, 'agt_other', 'agt_mine')")
    db.close()
    for argv in (["approve"], ["approve", code], ["approve", "--refuse", code]):
        run = trade(*argv, answers="y\n", env={"NO_COLOR": "1"})
        assert (run.code, "was changed" in run.err, "moving the file away" in run.err) == (3, True, True)


@pytest.mark.long
def test_a_purchase_costs_the_same_with_forty_thousand_old_ones(store: Decisions) -> None:
    """By the number of steps that SQLite takes, which is the same on every machine."""
    effect = {"buy": "ETH"}
    prepared(store, kind="purchase", effect=effect)

    def steps() -> int:
        counted = [0]
        connect = sqlite3.connect

        def counting(*args: Any, **more: Any) -> sqlite3.Connection:
            db: sqlite3.Connection = connect(*args, **more)
            db.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 100)
            return db

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", counting)
            one = prepared(store, f"{time.perf_counter()}", kind="purchase", effect=effect, purchase="mcp/new")
            store.find(one.content, NOW)
            store.refused({"buy": "other"}, NOW)
            store.begun("mcp/new", NOW)
            store.get(one.code)
        return counted[0]

    few = steps()
    with sqlite3.connect(store.path) as db:
        row = ["X", "d", "{}", "e", "[]", "mcp/x", NOW, NOW, "done", None]
        rows = (
            [f"X{number}", f"d{number}", "{}", f"e{number}", "[]", f"mcp/{number}", *row[6:]]
            for number in range(40_000)
        )
        db.executemany("INSERT INTO action VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    db.close()
    assert steps() <= few + 5


def carry_out(path: str, folder: str, codes: list[str], seed: int, seconds: float = 0.03) -> None:
    """A process that carries out what is approved, which takes a while, and writes each down. Number 0 dies in it."""
    chance = random.Random(seed)
    tools = Approvals(Path(path))
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
def test_processes_that_are_killed_carry_nothing_out_twice(tmp_path: Path) -> None:
    """Six processes and 300 approvals; now and then one is killed."""
    chance = random.Random(int(os.environ.get("TRADE_SEED") or 3))
    context = multiprocessing.get_context("forkserver")  # from a server that has imported everything
    context.set_forkserver_preload([__name__])
    path = str(tmp_path / "approvals")
    store = Approvals(Path(path))
    codes = [approved(store, number).code for number in range(300)]
    running: list[Any] = []
    numbers = iter(range(10_000))
    first: list[Any] = []

    def done() -> list[str]:
        return [line for file in tmp_path.glob("*.done") for line in file.read_text().split()]

    def processes() -> list[Any]:
        running[:] = [one for one in running if one.is_alive()]
        while len(running) < 6:
            given = (path, str(tmp_path), codes, next(numbers))
            running.append(context.Process(target=carry_out, args=given, daemon=True))
            running[-1].start()
            first[:] = first or running
        return running

    for kill in range(16):
        deadline = time.monotonic() + 60
        while len(done()) < 15 * (kill + 1) and time.monotonic() < deadline:
            processes()
            time.sleep(0.02)
        os.kill(chance.choice([one for one in processes() if one not in first]).pid, signal.SIGKILL)
    for one in running:
        one.join(300)
    carry_out(path, str(tmp_path), codes, next(numbers), 0)
    states = [one.state for one in store.all(NOW)]
    begun = states.count("started")
    print(f"16 processes killed, {len(done())} carried out, {begun} begun and not written down as done")
    assert len(done()) == len(set(done()))
    assert set(states) <= {"done", "started"}
    assert begun > 0, "no kill came in the middle"
    assert len(done()) + begun >= len(codes)
