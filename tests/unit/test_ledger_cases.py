"""What every ledger does, done by the one in SQLite; and owners of claims: who is certainly dead."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk import Ledger
from tradesdk.payments.buyer import owner_name
from tradesdk.payments.ledger import claims
from tradesdk.payments.ledger.claims import is_dead

from .._rows import each_of
from ._ledger import MIDNIGHT, NOW, PLENTY, Machines, claim, submitted
from ._ledger_cases import CASES, DRAWN, SOME


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


@each_of("name", CASES)
def test_it_does_what_every_ledger_does(name: str) -> None:
    with Ledger.memory() as ledger:
        CASES[name](ledger)


@pytest.mark.parametrize("names", [SOME, pytest.param(DRAWN, marks=pytest.mark.long)], ids=["some", "drawn"])
def test_it_does_so_for_two_programs(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        print(name)
        path = tmp_path / str(len(os.listdir(tmp_path)))
        with Machines(Ledger(path, sync=False), Ledger(path, sync=False)) as ledger:
            CASES[name](ledger)


def test_the_times_of_the_cases() -> None:
    assert MIDNIGHT % 86400 == 0
    assert 3600 < NOW - MIDNIGHT < 86400


def test_the_claim_of_a_dead_process_does_not_count(ledger: Ledger, dead: str) -> None:
    payment = submitted(ledger, owner=dead, until=NOW + 60)
    assert claim(ledger, payment, owner_name())


def test_a_dead_owner_holds_nothing_whatever_the_clock_says(ledger: Ledger, dead: str) -> None:
    payment = submitted(ledger, owner=dead, until=NOW + 300)
    assert claim(ledger, payment, "other", until=NOW, now=NOW - 30)


def test_memory_keeps_what_it_knows_when_it_is_closed() -> None:
    with Ledger.memory() as ledger:
        payment = submitted(ledger)
    ledger.close()
    assert ledger.path is None
    assert ledger.get(payment.id) == payment
    assert Ledger.memory().history() == []
    assert ledger.spending(PLENTY, now=NOW).held == 30_000


@pytest.fixture
def dead() -> str:
    """The owner of a process that has ended."""
    code = "from tradesdk.payments.buyer import owner_name; print(owner_name())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_owners(dead: str) -> None:
    name = owner_name()
    host, pid, chance = name.split(":")
    assert int(pid) == os.getpid()
    assert len(chance) == 12
    assert owner_name() != name
    assert not is_dead(name)
    assert dead.split(":")[0] == host
    assert is_dead(dead)


def test_only_what_is_certain_counts_as_dead(dead: str) -> None:
    host, pid, chance = dead.split(":")
    for name in (
        f"elsewhere:{pid}:{chance}",
        f"{host}:0:{chance}",
        f"{host}:-1:{chance}",
        f"{host}:{2**40}:{chance}",
        f"{host}:²:{chance}",
        f"{host}::{chance}",
        host,
        "",
        "nobody",
    ):
        assert not is_dead(name), name


@pytest.mark.parametrize(("answer", "dead"), [(ProcessLookupError, True), (PermissionError, False), (None, False)])
def test_somebody_elses_process_is_alive(
    monkeypatch: pytest.MonkeyPatch, answer: type[OSError] | None, dead: bool
) -> None:
    asked = []

    def kill(pid: int, signal: int) -> None:
        asked.append((pid, signal))
        if answer is not None:
            raise answer

    name = owner_name()
    monkeypatch.setattr("tradesdk.payments.ledger.claims.os.kill", kill)
    assert is_dead(name) is dead
    assert asked == [(os.getpid(), 0)]


def test_where_signals_cannot_ask_everybody_is_alive(monkeypatch: pytest.MonkeyPatch, dead: str) -> None:
    monkeypatch.setattr("tradesdk.payments.ledger.claims.os.name", "nt")
    monkeypatch.setattr("tradesdk.payments.ledger.claims.os.kill", None)
    assert not is_dead(dead)


def another_machine() -> None:
    """Its name is read anew."""
    claims._host.cache_clear()
    claims.process_name.cache_clear()


def test_two_machines_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = set()
    for marks in (["one", "a"], ["two", "a"], ["one", "b"]):
        another_machine()
        monkeypatch.setattr(claims, "_of_system", lambda _, marks=marks: marks.pop(0))
        hosts.add(owner_name().split(":")[0])
    another_machine()
    assert len(hosts) == 3


def test_a_host_name_cannot_break_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    another_machine()
    monkeypatch.setattr("tradesdk.payments.ledger.claims.socket.gethostname", lambda: "odd:name \n" + "x" * 300)
    name = owner_name()
    another_machine()
    assert name.count(":") == 2
    assert name.isprintable()
    assert len(name) < 120
