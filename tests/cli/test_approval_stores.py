"""The store of approvals, in a file."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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

from .._rows import each_of
from ._terminal import Terminal

NOW = 1_795_262_400.0
CONTENT = {"do": "buy", "list": [], "object": {}, "text": "\ud800 ✓ / \\", "number": 2.2760808e-05, "null": None}


@pytest.fixture
def store(tmp_path: Path) -> SqliteApprovals:
    return SqliteApprovals(tmp_path / "approvals")


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


def test_what_cannot_be_written_down_at_the_end_stays_begun(store: SqliteApprovals) -> None:
    """Nobody is told about it, as what has happened is the answer; and it is not begun again."""
    tools = Approvals(store)
    made = [tools.prepare("change", {"number": number}, "do it", 0, NOW) for number in range(2)]
    approved = [Decisions(store).decide(one, yes=True, now=NOW) for one in made]
    assert all(tools.begin(one, NOW) for one in approved)
    aside = store.path.rename(store.path.with_name("aside"))
    store.path.mkdir()
    with pytest.raises(ApprovalError):
        tools.all(NOW)
    tools.end(approved[0], "done", {}, NOW)
    tools.give_back(approved[1], NOW)
    store.path.rmdir()
    aside.rename(store.path)
    assert [one.state for one in tools.all(NOW)] == ["started", "started"]
    assert not any(tools.begin(one, NOW) for one in approved)


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


def test_what_others_wrote_is_shown_as_text(trade: Terminal) -> None:
    """A summary is not part of the digest."""
    trade.home.mkdir(parents=True, exist_ok=True)
    store = SqliteApprovals(trade.home / "ledger.sqlite3-approvals")
    content = {"where": "\x1b[31mhere", "purchase": "\x1b[31mname", "payer": None}
    shown = action(at=time.time(), summary="\x1b[31mred\x1b]0;title\x07")
    store.add(replace(shown, content=content, digest=digest_of(content)), most_pending=None)
    for argv in (["approve"], ["approve", "AAAA2222"]):
        run = trade(*argv, answers="n\n", env={"NO_COLOR": "1"})
        assert "red" in run.out + run.err
        assert "\x1b" not in run.out + run.err


def carry_out(path: str, folder: str, codes: list[str], seed: int, seconds: float = 0.03) -> None:
    """A process that carries out what is approved, which takes a while, and writes each down. Number 0 dies in it."""
    chance = random.Random(seed)
    tools = Approvals(SqliteApprovals(Path(path)))
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
    codes, path = [f"CODE{number}" for number in range(300)], str(tmp_path / "approvals")
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

    store = SqliteApprovals(Path(path))
    for number, code in enumerate(codes):
        store.add(action(code, kind="change", content=number, state="approved"), most_pending=None)
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
