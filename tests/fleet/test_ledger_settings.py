"""A server that lost its budget and its trusted recipients: the journals mend it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Budget, LedgerError, PaymentRefusedError
from tradesdk.fleet import RedisLedger
from tradesdk.fleet.journal import Journal

from .._redis_server import RedisServer
from ..unit._ledger import ADDRESS, HEADER, NOW, ORIGIN, OTHER, draft, reserve, submitted
from ._cutting import CuttingProxy
from ._ledger import ledgers
from .test_ledger_lost import begun_again, cut_back, emptied, keys, stopped

CENTS_9, CENTS_40, CENTS_50 = Budget(total="0.09"), Budget(total="0.40"), Budget(total="0.50")
THIRD = "0x" + "3" * 40


def refused(ledger: RedisLedger, code: str, **changes: Any) -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        reserve(ledger, draft(**changes))
    assert caught.value.code == code


def journal_of(folder: Path, name: str) -> Path:
    [found] = folder.glob(f"*-{name}.journal")
    return found


@pytest.mark.parametrize("engine", [pytest.param("redis", marks=pytest.mark.long), "valkey"])
@pytest.mark.parametrize("lose", [cut_back, emptied, begun_again], ids=lambda one: one.__name__)
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_budget_that_is_used_up_stays_used_up(
    engine: str, lose: Callable[[RedisServer], None], restarted: bool, tmp_path: Path
) -> None:
    with RedisServer(engine, tmp_path / "server") as server:
        make = ledgers(server, tmp_path)
        with make("one") as one, make("two") as two:
            one.set_budget(CENTS_9)
            for member in (one, two, one):
                submitted(member)
            refused(two, "over_budget")
            lose(server)
            with ExitStack() as stack:
                members = [stack.enter_context(make(name)) for name in ("one", "two")] if restarted else [one, two]
                stopped(members[0])
                if lose is not cut_back:  # which may leave all that the second one knew
                    stopped(members[1])
                assert sum(len(member.restore()) for member in members) >= 1
                for member in members:
                    assert member.budget() == CENTS_9
                    refused(member, "over_budget")
                    member.check()
                    member.check_journal()


@pytest.mark.parametrize("first", ["old", "new"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(CENTS_50, CENTS_40), (CENTS_40, CENTS_50), (CENTS_40, Budget())],
    ids=["less", "more", "removed"],
)
def test_of_two_journals_the_newer_one_holds(
    server: RedisServer, tmp_path: Path, old: Budget, new: Budget, first: str
) -> None:
    make = ledgers(server, tmp_path)
    with make("old") as one, make("new") as two:
        one.set_budget(old)
        submitted(one)
        two.set_budget(new)
        submitted(two)
        server.command("FLUSHALL")
        members = [one, two] if first == "old" else [two, one]
        for member in members:
            stopped(member)
        for member in members:
            member.restore()
        for member in members:
            assert member.budget() == new
            submitted(member)
    for name in ("old", "new"):  # and it is what each goes by from now on
        server.command("FLUSHALL")
        with make(name) as again:
            stopped(again)
            again.restore()
            assert again.budget() == new


def test_who_only_bought_under_a_budget_has_it(server: RedisServer, tmp_path: Path) -> None:
    """Also who was only refused under it, or lost its payment before it was signed."""
    make = ledgers(server, tmp_path)
    with make("owner") as owner, make("buyer") as buyer, make("reserver") as reserver, make("late") as late:
        owner.set_budget(CENTS_9)
        submitted(buyer)
        reserve(reserver)
        submitted(buyer)
        refused(late, "over_budget")
    for name in ("owner", "buyer", "reserver", "late"):
        server.command("FLUSHALL")
        with make(name) as member:
            stopped(member)
            member.restore()
            assert member.budget() == CENTS_9, name


def test_a_budget_that_was_removed_does_not_come_back(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make("old") as old, make("new") as new:
        old.set_budget(CENTS_9)
        submitted(old)
        new.set_budget(Budget())
        for name in ("old", "new"):
            with make(name) as restarted:
                assert restarted.restore() == []
                assert restarted.budget() == Budget()
        # The server loses something else: its removal is newer than what the journal has.
        server.command("HDEL", keys(server, "log"), *server.command("HKEYS", keys(server, "log")))
        stopped(old)
        old.restore()
        assert old.budget() == Budget()


def test_what_a_person_has_set_since_holds(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make("one") as one, make("fresh") as fresh:
        one.set_budget(CENTS_9)
        submitted(one)
        server.command("FLUSHALL")
        fresh.set_budget(Budget(total="0.04"))
        stopped(one)
        one.restore()
        assert one.budget() == fresh.budget() == Budget(total="0.04")
        server.command("FLUSHALL")
        stopped(one)
        one.set_budget(Budget(total="0.05"))  # before it has reconciled
        one.restore()
        assert one.budget() == Budget(total="0.05")


@pytest.mark.parametrize("stored", ['[90000,null,null,null,0,"proof"]', '[null,null,null,90000,0,"proof"]'])
def test_budgets_without_a_time(server: RedisServer, tmp_path: Path, stored: str) -> None:
    """Of an earlier release: which one is newer cannot be told, so both hold."""
    make = ledgers(server, tmp_path)
    with make("one") as one, make("two") as two:
        one.set_budget(Budget(per_hour="0.06"))
        submitted(one)
        server.command("HSET", keys(server, "meta"), "budget", stored)
        assert two.budget().per_hour is None
        submitted(two)
        server.command("FLUSHALL")
        for member in (one, two):
            stopped(member)
            member.restore()
        assert two.budget() == two.budget().strictest(Budget(per_hour="0.06"))
        assert 90_000 in (two.budget().per_call, two.budget().total)


def test_a_torn_line_costs_that_change_only(server: RedisServer, tmp_path: Path) -> None:
    """Nothing was signed under it, as it was not synced."""
    make = ledgers(server, tmp_path)
    with make("one") as one:
        one.set_budget(CENTS_9)
        payment = submitted(one)
        journal = journal_of(tmp_path, "one")
        before = journal.read_bytes()
        one.set_budget(CENTS_50)
        after = journal.read_bytes()
    assert after.startswith(before)
    assert b"setting" in after[len(before) :]
    for end in range(len(before), len(after) - 1, 7):
        journal.write_bytes(after[:end])
        server.command("FLUSHALL")
        with make("one") as again:
            stopped(again)
            assert again.restore() == [payment]
            assert again.budget() == CENTS_9
            submitted(again)
            again.check_journal()


def test_journals_of_earlier_releases(server: RedisServer, tmp_path: Path) -> None:
    """They have no settings, and what they have comes back."""
    make = ledgers(server, tmp_path)
    with make("one") as one:
        one.set_budget(CENTS_9)
        first = submitted(one)
        server.command("FLUSHALL")
        stopped(one)
        one.restore()
        second = submitted(one)
    journal = journal_of(tmp_path, "one")
    lines = [json.loads(line) for line in journal.read_text().splitlines() if line]
    assert {"setting", "accepted", "id"} == {name for line in lines for name in line} & {"setting", "accepted", "id"}
    old = [{name: line[name] for name in line if name != "settings"} for line in lines if "setting" not in line]
    journal.write_text("".join(f"\n{json.dumps(line)}\n" for line in old))
    server.command("FLUSHALL")
    with make("one") as again:
        stopped(again)
        assert again.restore() == [first, second]
        assert again.budget() == Budget()
        again.set_budget(CENTS_9)
        submitted(again)
        refused(again, "over_budget")


def test_what_was_trusted_is_trusted_again_and_nothing_else(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make("one") as one, make("two") as two, make("fresh") as fresh:
        submitted(one)  # the first recipient
        submitted(two)
        two.trust(ORIGIN, OTHER, now=NOW)
        two.trust("https://other.example", THIRD, now=NOW)
        server.command("FLUSHALL")
        stopped(one)
        one.restore()
        assert one.trusted(ORIGIN) == [ADDRESS]
        refused(one, "recipient_changed", pay_to=THIRD)
        stopped(two)
        two.restore()
        assert set(two.trusted(ORIGIN)) == {ADDRESS, OTHER}
        assert two.trusted("https://other.example") == [THIRD]
        # Whoever was paid first on an empty server is not trusted by those who knew another one.
        server.command("FLUSHALL")
        submitted(fresh, draft(pay_to=THIRD), now=NOW + 1)
        for member in (one, two):
            stopped(member)
            member.restore()
        assert set(fresh.trusted(ORIGIN)) == {ADDRESS, OTHER}
        refused(fresh, "recipient_changed", pay_to=THIRD)
        submitted(fresh)


def test_a_journal_that_cannot_be_written(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is reserved under a budget that is not in it."""
    journal = tmp_path / "journal"
    make = ledgers(server, tmp_path)
    with make(journal=journal) as ledger, make("other") as other:
        other.set_budget(CENTS_9)
        assert ledger.budget() == CENTS_9
        journal.mkdir()
        with pytest.raises(LedgerError) as caught:
            reserve(ledger)
        assert caught.value.code == "ledger_failed"
        assert "journal" in caught.value.message
        assert "nothing was sent" in caught.value.message
        assert ledger.history() == []
        with caplog.at_level(logging.WARNING):
            ledger.set_budget(CENTS_50)
        assert "journal" in caplog.text
        assert ledger.budget() == other.budget() == CENTS_50
        journal.rmdir()
        submitted(ledger)
        assert Journal(str(journal)).content().settings.keys() == {"budget", f"trusted:{ORIGIN}"}


def test_it_is_written_once(server: RedisServer, tmp_path: Path) -> None:
    make = ledgers(server, tmp_path)
    with make("one") as one:
        one.set_budget(Budget(total="5"))
        for _ in range(5):
            submitted(one)
    with make("one") as restarted:
        submitted(restarted)
    assert journal_of(tmp_path, "one").read_bytes().count(b'"setting"') == 2


def test_settings_outlast_old_payments(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk.fleet.journal._LARGEST", 10_000)
    make = ledgers(server, tmp_path)
    with make("one") as one:
        one.set_budget(Budget(total="1.5"))
        payments = [submitted(one) for _ in range(50)]
        server.command("FLUSHALL")
        stopped(one)
        assert len(one.restore()) < len(payments) - 20
        assert one.budget() == Budget(total="1.5")
        assert one.trusted(ORIGIN) == [ADDRESS]


def test_another_process_of_the_machine_may_write_late(tmp_path: Path) -> None:
    """What it saw earlier does not replace what is newer."""
    journal = Journal(str(tmp_path / "journal"))
    newer, older = '[null,null,null,9,0,"proof",6]', '[null,null,null,5,0,"proof",5]'
    for text in (newer, older):
        journal.keep("budget", text, None)
    journal.keep("unknown", "[]", None)
    assert journal.content().settings == {"budget": newer}
    journal.accept(None, {"budget": older})  # what the server has after it was mended
    assert journal.content().settings == {"budget": older}


def test_a_member_that_slept_longer_than_the_server_remembers(server: RedisServer, tmp_path: Path) -> None:
    """Its journal decides: it lacks nothing, or a budget."""
    make = ledgers(server, tmp_path)
    with make("sleeper") as sleeper, make() as other:
        sleeper.set_budget(CENTS_9)
        submitted(sleeper)
        other.set_budget(Budget(total="5"))
        meta, log = keys(server, "meta"), keys(server, "log")
        newest = server.command("HGET", meta, "budget")

        def much_later() -> None:
            server.command("HINCRBY", meta, "seq", "10001")
            number, digest = server.command("HMGET", meta, "seq", "hash")
            server.command("DEL", log)
            server.command("HSET", log, number, digest)

        much_later()
        submitted(sleeper)
        assert sleeper.budget() == Budget(total="5")
        much_later()
        for lost in (("HDEL", meta, "budget"), ("HSET", meta, "budget", '[null,null,null,1,0,"proof",7]')):
            server.command(*lost)
            with make("sleeper") as woken:
                stopped(woken)
        server.command("HSET", meta, "budget", newest)
        with make("sleeper") as woken:
            submitted(woken)


@pytest.mark.parametrize("after_reply", [False, True])
def test_a_connection_that_is_cut_while_it_is_put_back(server: RedisServer, tmp_path: Path, after_reply: bool) -> None:
    with CuttingProxy(server.port) as proxy:
        make = ledgers(server, tmp_path, url=proxy.url)
        with make("one") as one:
            one.set_budget(CENTS_9)
            payment = submitted(one)
            server.command("FLUSHALL")
            stopped(one)
            send = one._store._line.send
            cuts: list[int] = []

            def cut(commands: Any) -> Any:
                is_write = any(str(one[0]) in ("EVAL", "EVALSHA") and len(one) > 12 for one in commands)
                if is_write and len(cuts) < 5:
                    cuts.append(1)
                    if after_reply:
                        send(commands)
                    proxy.cut()
                return send(commands)

            one._store._line.send = cut  # type: ignore[method-assign]
            assert one.restore() == [payment]
            assert cuts
            assert one.budget() == CENTS_9
            one.submit(reserve(one), HEADER, now=NOW)
            one.check()


def just_before_it_writes(ledger: RedisLedger, action: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Something that another member does after this one has read and decided."""
    commit, actions = ledger._store._commit, [action]

    def late(*args: Any, **options: Any) -> Any:
        while actions:
            actions.pop()()
        return commit(*args, **options)

    patch.setattr(ledger._store, "_commit", late)


def test_of_two_changes_at_once_the_later_one_is_the_newer_one(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ledgers(server, tmp_path)
    with make() as one, make() as two:
        submitted(two)
        just_before_it_writes(one, lambda: two.set_budget(CENTS_50), monkeypatch)
        one.set_budget(CENTS_40)
        assert two.budget() == CENTS_40
        server.command("FLUSHALL")
        for member in (one, two):
            stopped(member)
            member.restore()
        assert one.budget() == two.budget() == CENTS_40


def test_who_never_knew_is_refused_as_soon_as_the_budget_is_back(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ledgers(server, tmp_path)
    with make() as one, make() as fresh:
        one.set_budget(Budget(total="0.01"))
        server.command("FLUSHALL")
        just_before_it_writes(fresh, one.restore, monkeypatch)
        refused(fresh, "over_budget")
        assert fresh.history() == []
