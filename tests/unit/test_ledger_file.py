"""The ledger's file: where it is, who may read it, how durable it is, and which versions it may have."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tradesdk import (
    Budget,
    ConfigError,
    InvalidArgumentError,
    Ledger,
    LedgerError,
    PaymentRefusedError,
    TradeClient,
    TradeError,
    create_keystore,
)
from tradesdk.payments import ReasonCode, SignedHeader
from tradesdk.payments.ledger.schema import VERSION

from .._rows import each_of
from ._ledger import NOW, PLENTY, draft, set_budget, standing, submit, submitted, told

URL = "postgresql://user:hidden@host/db"
SECRET = SignedHeader("c2VjcmV0LWNoZXF1ZQ==" * 200)
posix = pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(path: Path, code: str) -> LedgerError:
    with Ledger(path, timeout=0) as ledger, pytest.raises(LedgerError) as caught:
        submitted(ledger)
    assert caught.value.code == code
    assert "nothing was sent" in caught.value.message
    assert caught.value.hint
    assert caught.value.charged is False
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def test_it_is_kept_in_the_file(path: Path) -> None:
    ledger = Ledger(path)
    assert ledger.path == path
    assert not path.exists()  # not before it is needed
    with ledger:
        first = submitted(ledger)
        ledger.close()
        assert ledger.get(first.id) == first  # it opens again
    with Ledger(str(path)) as again:
        assert again.get(first.id) == first
    assert repr(again) == f"Ledger({str(path)!r})"


def test_the_folder_is_the_one_of_the_terminal_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tradesdk_cli.config.settings import resolve

    for environ in ({"TRADE_HOME": str(tmp_path)}, {"TRADE_HOME": "~/trading", "HOME": str(tmp_path)}, {}):
        with monkeypatch.context() as patch:
            patch.delenv("TRADE_HOME", raising=False)
            for name, value in environ.items():
                patch.setenv(name, value)
            assert Ledger().path == resolve({}, environ).data_folder() / "ledger.sqlite3"


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("TRADE_HOME", "~/trading")
    monkeypatch.setattr(Path, "expanduser", nowhere)
    with pytest.raises(ConfigError, match="TRADE_HOME"):
        Ledger()


@each_of(
    ("bad", "match"),
    [
        *((bad, r"Ledger\.memory") for bad in ("", ":memory:")),
        *((bad, "path must be the path of a file") for bad in ("ledger\ud83d", "ledger\0", b"ledger", 5)),
    ],
)
def test_a_path_must_name_a_file(bad: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        Ledger(bad)


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf")])
def test_a_timeout_must_be_seconds(path: Path, bad: float) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout"):
        Ledger(path, timeout=bad)


def test_a_relative_path_does_not_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger("here.sqlite3") as ledger:
        (tmp_path / "else").mkdir()
        monkeypatch.chdir(tmp_path / "else")
        submitted(ledger)
    assert (tmp_path / "here.sqlite3").exists()


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_only_its_owner_may_read_it(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "new" / "folder" / "ledger.sqlite3"
    before = os.umask(umask)
    try:
        with Ledger(path) as ledger:
            submitted(ledger)
            files = {file.name: mode(file) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert files == {f"ledger.sqlite3{side}": 0o600 for side in ("", "-wal", "-shm", "-signed")}
    assert mode(path.parent) == mode(path.parent.parent) == 0o700


@posix
def test_one_that_others_may_read_is_made_private(path: Path) -> None:
    with Ledger(path) as ledger, Ledger(path) as other:
        set_budget(ledger, PLENTY)
        for file in path.parent.iterdir():
            file.chmod(0o666)
        submitted(other)
        assert {mode(file) for file in path.parent.iterdir()} == {0o600}


@posix
def test_one_that_belongs_to_somebody_else_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch(0o644)
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    error = refused(path, "ledger_exposed")
    assert "chmod 600" in error.hint
    assert mode(path) == 0o644


@posix
def test_links_are_followed(tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "elsewhere" / "real.sqlite3"
    link.symlink_to(real)
    with Ledger(link) as ledger, Ledger(real) as same:
        payment = submitted(ledger)
        assert same.get(payment.id) == payment
        assert ledger.path == link
    assert link.is_symlink()
    assert sorted(file.name for file in real.parent.iterdir()) == ["real.sqlite3", "real.sqlite3-signed"]


def test_odd_names_are_names(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "b#c", "d%20e", "f g", "ü"):
        with Ledger(tmp_path / name) as ledger:
            submitted(ledger)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(("sync", "level"), [(True, 3), (False, 0)])
def test_it_is_as_durable_as_it_can_be(path: Path, sync: bool, level: int) -> None:
    with Ledger(path, sync=sync) as ledger:
        submitted(ledger)
        names = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync", "secure_delete")
        pragmas = [(f"PRAGMA {name}", ()) for name in names]
        found = [rows[0][0] for rows in ledger._engine.run(lambda db: db.read(*pragmas))]
    assert found == ["wal", level, 1, 1, 1]


def test_a_signed_payment_is_gone_from_the_file_at_its_end(path: Path) -> None:
    with Ledger(path) as ledger:
        payment = submitted(ledger, header=SECRET)
        ledger.close()
        assert SECRET[:400].encode() in path.read_bytes()
        told(ledger, payment, ReasonCode.DELIVERED)
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert payment.nonce.encode() in left
    assert SECRET[:16].encode() not in left


THAWED = """
import os, sys, tempfile
from pathlib import Path
from typing import Any
from tests.unit._ledger import submitted
from tradesdk import LedgerError, PaymentRefusedError
from tradesdk import Budget
from tradesdk import Ledger
from tradesdk.payments.buyer import named_fingerprint
from tradesdk.payments.purchases import item_name
from tradesdk.payments.ledger.schema import to_row

if os.geteuid() == 0:
    os.seteuid(65534)  # nothing is read-only for root

with tempfile.TemporaryDirectory() as name:
    path = Path(name) / "ledger"
    with Ledger(path) as ledger:
        first = submitted(ledger)
    path.chmod(0o400)
    ledger = Ledger(path)
    assert ledger.history() == [first]
    try:
        submitted(ledger)
    except LedgerError as error:
        print(error.code)
    if sys.argv[1] == "closed":
        ledger.close()
    print(sorted(oct(path.with_name(f"ledger{side}").stat().st_mode & 0o777) for side in ("", "-wal", "-shm")))
    path.chmod(0o600)
    second = submitted(ledger)
    assert ledger.history() == [second, first]
    print(sorted(oct(path.with_name(f"ledger{side}").stat().st_mode & 0o777) for side in ("", "-wal", "-shm")))
    ledger.close()
"""


@posix
@pytest.mark.parametrize("use", [pytest.param("closed", marks=pytest.mark.long), "open"])
def test_one_that_was_read_only_can_be_used_again(use: str) -> None:
    """Its side files were made with the mode that it had then."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", THAWED, use],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ledger_read_only",
        "['0o400', '0o400', '0o400']",
        "['0o600', '0o600', '0o600']",
    ]


def write(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def test_the_version_goes_on() -> None:
    """Ledgers of versions 1 to 5 exist that have other tables: a number that was in use before would take them."""
    assert VERSION > 5


@each_of(
    ("version", "age", "hint"),
    [
        *(
            (version, "older", "settle its open payments with the older release that wr")
            for version in range(1, VERSION)
        ),
        (VERSION + 1, "newer", "use the newer release that wrote it"),
    ],
)
def test_another_version_is_left_alone(path: Path, version: int, age: str, hint: str) -> None:
    path = path.parent / f"{version}" / path.name
    with Ledger(path) as ledger:
        submitted(ledger)
    write(path, f"PRAGMA user_version = {version}", "ALTER TABLE payments RENAME TO others")
    before = path.read_bytes()
    error = refused(path, "ledger_version")
    assert str(path) in error.message
    assert f"is {age} than this release: it has version {version}, and only version {VERSION} is read" in error.message
    assert hint in error.hint
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}-signed"]
    if age == "older":
        subprocess.run(error.hint.rpartition(": ")[2], shell=True, check=True)  # noqa: S602 - our own hint
        with Ledger(path) as ledger:
            assert ledger.history() == [], "a new one begins, as the hint says"


def test_a_newer_release_may_change_it_while_it_is_open(path: Path) -> None:
    with Ledger(path) as ledger:
        payment = submitted(ledger)
        write(path, "PRAGMA user_version = 99")
        with pytest.raises(LedgerError) as writing:
            submitted(ledger)
        with pytest.raises(LedgerError) as reading:
            ledger.get(payment.id)
        assert (writing.value.code, reading.value.code) == ("ledger_version", "ledger_version")


def test_every_reading_of_a_new_ledger_is_empty(path: Path) -> None:
    with Ledger(path) as ledger:
        assert standing(ledger, "call", now=NOW) is None
        assert ledger.history() == []
        assert ledger.setting("budget") is None
        assert ledger.spending(PLENTY, now=NOW).left == 1_000_000_000


def test_a_refusal_that_is_kept_holds_nothing_open(path: Path) -> None:
    """An open SELECT would keep an old state of the file, and this process could no longer write."""
    budget = Budget(per_hour="0.05")
    with Ledger(path, timeout=0) as ledger, Ledger(path, timeout=0) as other:
        for _ in range(3):  # more than the refusal has to read
            submitted(ledger, draft(amount=10_000))
        with pytest.raises(PaymentRefusedError) as kept:
            submit(ledger, budget=budget)
        submitted(other)
        submitted(ledger)
        assert kept.value.code == "over_budget"
        assert len(other.history()) == 5


def test_many_threads_may_open_it_at_once(path: Path) -> None:
    ledgers = [Ledger(path, sync=False) for _ in range(8)]
    start, failures = threading.Barrier(8), []

    def open_it(ledger: Ledger) -> None:
        start.wait()
        try:
            submitted(ledger)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(ledgers[0].history()) == 8
    for ledger in ledgers:
        ledger.close()


@each_of(
    "use",
    [
        lambda: Ledger(URL),
        lambda: Ledger(Path(URL)),
        Ledger,
        lambda: TradeClient(api_key="k" * 32, base_url="http://127.0.0.1:9").signals.stream(chain=56, checkpoint=URL),
        lambda: TradeClient(api_key="k" * 32, base_url="http://127.0.0.1:9").signals.stream(chain=56, checkpoint=True),
        lambda: create_keystore(URL, "password"),
    ],
)
def test_a_url_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use: Callable[[], object]) -> None:
    """Nothing is made, and its password is not shown."""
    monkeypatch.setenv("TRADE_HOME", URL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TradeError) as caught:
        use()
    assert "hidden" not in f"{caught.value} {caught.value.hint}"
    assert list(tmp_path.iterdir()) == []
