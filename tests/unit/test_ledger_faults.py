"""A ledger that cannot be used: locked, read-only, full, damaged, moved, gone. The error says so, nothing changes."""

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tradesdk import Ledger, LedgerError, Payment
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.engine import _before_fork, _held
from tradesdk.payments.ledger.errors import from_sqlite

from .._rows import each_of
from ._ledger import NOW, PLENTY, draft, resubmit, set_budget, standing, submitted, told
from ._small_disk import on_a_small_disk, possible

POSIX = pytest.mark.skipif(os.name == "nt", reason="an open file stays where it is")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
def kept(path: Path) -> Payment:
    """A payment in the ledger, which is closed."""
    with Ledger(path) as ledger:
        return submitted(ledger)


@pytest.fixture
def ledger(path: Path, kept: Payment) -> Iterator[Ledger]:
    with Ledger(path, timeout=0) as ledger:
        yield ledger


def refused(ledger: Ledger, code: str, *, told: str = "nothing was sent") -> LedgerError:
    """Writing down a signature fails, and says what it should."""
    with pytest.raises(LedgerError) as caught:
        submitted(ledger)
    assert caught.value.code == code, caught.value
    assert told in caught.value.message
    assert str(ledger.path) in caught.value.message
    assert caught.value.hint
    assert str(caught.value).isprintable()
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, sqlite3.Error | OSError)
    return caught.value


def test_while_another_process_writes(ledger: Ledger, path: Path, kept: Payment) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        refused(ledger, "ledger_locked")
        with pytest.raises(LedgerError) as caught:
            told(ledger, kept, ReasonCode.DELIVERED)
        assert caught.value.code == "ledger_locked"
        # The payment is on its way already: "nothing was sent" would be a lie.
        assert "nothing has changed" in caught.value.message
        assert ledger.get(kept.id) == kept  # reading goes on
        other.execute("ROLLBACK")
        submitted(ledger)
    finally:
        other.close()


def test_while_another_process_has_it_for_itself(path: Path, kept: Payment) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        for timeout in (0.0, 0.02):
            with Ledger(path, timeout=timeout) as ledger:
                refused(ledger, "ledger_locked")
    finally:
        other.close()
    with Ledger(path, timeout=0) as ledger:
        assert ledger.get(kept.id) == kept


def test_while_another_thread_uses_it(ledger: Ledger, kept: Payment) -> None:
    ledger._engine.run(lambda _: refused(ledger, "ledger_locked"))
    assert ledger.get(kept.id) == kept


READ_ONLY = """
import os, sys, tempfile
from pathlib import Path
from tests.unit._ledger import submitted
from tradesdk import LedgerError
from tradesdk import Ledger

if os.geteuid() == 0:
    os.seteuid(65534)  # nothing is read-only for root

def code(use):
    try:
        use()
    except LedgerError as error:
        assert "nothing was sent" in error.message, error
        assert "TRADE_HOME" in error.hint, error
        return error.code

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    with Ledger(folder / "there") as ledger:
        payment = submitted(ledger)
    folder.chmod(0o500)
    for path in ("new", "new/new/new", "there"):
        with Ledger(folder / path) as ledger:
            print(path, code(lambda: submitted(ledger)))
    folder.chmod(0o700)
    (folder / "there").chmod(0o400)
    with Ledger(folder / "there") as ledger:
        print("file", code(lambda: submitted(ledger)))
    (folder / "there").chmod(0o444)
    with Ledger(folder / "there") as ledger:
        print("tightened", code(lambda: submitted(ledger)), oct((folder / "there").stat().st_mode))
    (folder / "there").chmod(0o600)
    with Ledger(folder / "there") as ledger:
        assert ledger.history() == [payment]
"""


@pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")
def test_where_nothing_can_be_written() -> None:
    assert script(READ_ONLY).splitlines() == [
        "new ledger_read_only",
        "new/new/new ledger_read_only",
        "there ledger_read_only",
        "file ledger_read_only",
        "tightened ledger_read_only 0o100400",
    ]


def script(text: str, *arguments: str) -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text, *arguments], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("free", [0, 4096], ids=["full", "not full"])
def test_io_errors_never_send_anybody_to_another_folder(free: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it would know nothing of budgets and of payments that could still be taken."""
    disk = SimpleNamespace(f_bavail=free // 4096, f_frsize=4096)
    monkeypatch.setattr("tradesdk.payments.ledger.errors.os.statvfs", lambda folder: disk, raising=False)
    for name in ("FULL", "IOERR_SHMSIZE", "IOERR_WRITE", "IOERR_FSYNC", "IOERR"):
        met = sqlite3.OperationalError("disk I/O error")
        met.sqlite_errorcode, met.sqlite_errorname = getattr(sqlite3, f"SQLITE_{name}"), f"SQLITE_{name}"
        error = from_sqlite(met, str(path))
        assert error.code == "ledger_failed"
        assert "free space" in error.hint
        assert "TRADE_HOME" not in error.hint
        full = free == 0 or name in ("FULL", "IOERR_SHMSIZE")
        assert ("no space is left on the disk" in error.message) is full, error
        assert (f"disk I/O error (SQLITE_{name})" in error.message) is not full, error


NO_ROOM = """
import resource, sys
from tests.unit._ledger import NOW, PLENTY, resubmit, submitted
from tradesdk import LedgerError
from tradesdk import Ledger

with Ledger(sys.argv[1]) as ledger:
    made = [submitted(ledger)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))  # a write past it fails, as it does on a full disk
    failures = 0
    while failures < 3:
        try:
            made.append(submitted(ledger))
        except LedgerError as error:
            assert (error.code, "nothing was sent" in error.message) == ("ledger_failed", True), error
            failures += 1
    while failures < 6:
        try:
            made[0] = resubmit(ledger, made[0])
        except LedgerError as error:
            assert (error.code, "was not resent" in error.message) == ("ledger_failed", True), error
            failures += 1
    assert ledger.history(limit=9999) == made[::-1]
    assert ledger.spending(PLENTY, now=NOW).held == 30_000 * len(made)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    made.append(submitted(ledger))
with Ledger(sys.argv[1]) as ledger:
    assert ledger.history(limit=9999) == made[::-1]
    assert ledger.spending(PLENTY, now=NOW).held == 30_000 * len(made)
print(len(made) > 5)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of processes are POSIX's")
def test_when_the_system_refuses_to_write(path: Path) -> None:
    assert script(NO_ROOM, str(path)) == "True\n"


def test_a_new_file_that_cannot_be_written_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Ledger(tmp_path / "file" / "ledger.sqlite3") as ledger:
        refused(ledger, "ledger_failed")


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\x00", b"\x00" * 5000, b"SQLite format 3\x00" * 500]
)
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with Ledger(path, timeout=0) as ledger:
        error = refused(ledger, "ledger_damaged")
    assert "move it away" in error.hint
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE notes (text)", "PRAGMA user_version = 1", "PRAGMA application_id = 77"]
)
def test_a_database_of_another_program(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    before = path.read_bytes()
    with Ledger(path, timeout=0) as ledger:
        assert "another program" in refused(ledger, "ledger_damaged").message
    assert path.read_bytes() == before


@each_of("version", [0, -1])
def test_a_ledger_of_no_version_is_damaged(tmp_path: Path, version: int) -> None:
    path = tmp_path / f"{version}"
    with Ledger(path) as ledger:
        submitted(ledger)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with Ledger(path, timeout=0) as ledger:
        assert f"its version is {version}" in refused(ledger, "ledger_damaged").message


def test_an_empty_file_is_a_new_ledger(path: Path) -> None:
    path.touch()
    with Ledger(path) as ledger:
        assert ledger.get(submitted(ledger).id) is not None


def test_a_folder_is_no_ledger(path: Path) -> None:
    path.mkdir(mode=0o700)
    with Ledger(path, timeout=0) as ledger:
        refused(ledger, "ledger_damaged")


def test_pages_that_were_overwritten(path: Path) -> None:
    with Ledger(path) as ledger:
        for _ in range(60):
            submitted(ledger)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with Ledger(path, timeout=0) as ledger:
        refused(ledger, "ledger_damaged")
        with pytest.raises(LedgerError) as caught:
            ledger.history()
        assert caught.value.code == "ledger_damaged"
    path.write_bytes(whole)
    with Ledger(path, timeout=0) as ledger:
        assert len(ledger.history()) == 60


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payments SET stage = 'odd'",
        "UPDATE payments SET receipt = 'no JSON'",
        "UPDATE payments SET receipt = '[]'",
        """UPDATE payments SET receipt = '{"success": true}'""",
        "UPDATE payments SET url = CAST(x'ff' AS TEXT)",
        "ALTER TABLE payments RENAME COLUMN payer TO somebody",
        "DROP TABLE payments",
    ],
)
def test_rows_that_nobody_of_ours_wrote(path: Path, kept: Payment, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    for read in (lambda ledger: ledger.get(kept.id), Ledger.check):
        with Ledger(path) as ledger, pytest.raises(LedgerError) as caught:
            read(ledger)
        assert caught.value.code == "ledger_damaged", caught.value


def test_what_cannot_be_stored_is_an_error_of_the_ledger(ledger: Ledger, kept: Payment) -> None:
    for odd in (draft(url="https://\ud800"), draft(valid_before=2**70), draft(amount=-1)):
        with pytest.raises(LedgerError) as caught:
            submitted(ledger, odd)
        assert caught.value.code == "ledger_failed"
    assert ledger.history() == [kept]


@each_of(
    "change",
    [
        "UPDATE sums SET counted = counted + 1 WHERE unit = 'minute'",
        "UPDATE sums SET held = held - 1 WHERE unit = 'day'",
        "UPDATE sums SET at = at + 1 WHERE unit = 'month'",
        "DELETE FROM sums WHERE unit = 'minute'",
        "INSERT INTO sums VALUES ('month', 1, 1, 0)",
        "INSERT INTO sums VALUES ('year', 1, 1, 1)",
        "UPDATE payments SET counted = counted + 1",
        "UPDATE payments SET counts_until = counts_until + 60",
        "UPDATE payments SET paid = 0",
        "UPDATE payments SET paid = 1",
    ],
)
def test_sums_that_are_not_those_of_the_payments(tmp_path: Path, change: str) -> None:
    path = tmp_path / f"{len(os.listdir(tmp_path))}.sqlite3"
    with Ledger(path, sync=False) as ledger:
        submitted(ledger)
        ledger.check()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    with (
        Ledger(path, sync=False) as ledger,
        pytest.raises(LedgerError, match=r"\d sums are not those of|a sum is not a whole number of") as caught,
    ):
        ledger.check()
    assert caught.value.code == "ledger_damaged"


# The file is taken away or replaced while it is in use


def gone(ledger: Ledger, what: str) -> None:
    """Nothing is read or written, however often it is tried."""
    uses: list[Callable[[], object]] = [
        lambda: submitted(ledger),
        lambda: standing(ledger, "call", now=NOW),
        lambda: ledger.spending(PLENTY, now=NOW),
        lambda: submitted(ledger),
    ]
    for use in uses:
        with pytest.raises(LedgerError, match=what) as caught:
            use()
        assert caught.value.code == "ledger_failed"
        assert "nothing was sent" in caught.value.message
        assert "restore it" in caught.value.hint


@POSIX
def test_a_file_that_is_removed_is_missed(ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    saved = path.rename(path.with_name("saved"))
    gone(ledger, "was removed")
    assert not path.exists()  # an empty one would forget what is spent
    saved.rename(path)
    assert ledger.get(kept.id) == kept


@POSIX
@pytest.mark.parametrize("forks", [False, True])
def test_an_older_copy_in_its_place_is_refused(ledger: Ledger, path: Path, kept: Payment, forks: bool) -> None:
    """It would forget what has been spent since."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    later = submitted(ledger)
    if forks:
        _before_fork()  # closes the file, as every fork does
        _held.clear()
    saved = path.with_name("saved")
    path.rename(saved)
    copy.replace(path)
    gone(ledger, "was replaced")
    saved.replace(path)
    assert ledger.history() == [later, kept]


@POSIX
def test_one_that_is_emptied_while_it_is_in_use_is_missed(ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    log = path.with_name(f"{path.name}-wal").read_bytes()
    os.truncate(path, 0)
    gone(ledger, "was emptied")
    assert path.with_name(f"{path.name}-wal").read_bytes() == log, "what is left of it may still be needed"


def with_its_log(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        if not one.name.endswith("-signed"):
            one.unlink()


LOSSES: dict[str, Callable[[Path], None]] = {
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: os.truncate(path, 0),
    "removed with its log": with_its_log,
}


@POSIX
@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_one_that_has_vanished_is_not_begun_anew(tmp_path: Path, closed: bool, lose: Callable[[Path], None]) -> None:
    """By whoever opens it next, until a person says so."""
    used = tmp_path / "used" / "ledger.sqlite3"
    with Ledger(used) as ledger:
        kept = submitted(ledger)
        if closed:
            ledger.close()
        path = (
            Path(shutil.copytree(used.parent, tmp_path / "left")) / used.name
        )  # as a process leaves it that is killed
    lose(path)
    left = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    hints: set[str | None] = set()
    for _ in range(2):
        with Ledger(path, timeout=0) as fresh, pytest.raises(LedgerError) as caught:
            submitted(fresh)
        hints.add(caught.value.hint)
        assert caught.value.code == "ledger_lost"
        assert "nothing was sent" in caught.value.message
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == left, "nothing was made or thrown away"
    mark = path.with_name(f"{path.name}-signed")
    (hint,) = hints
    assert f"to start over, remove {mark}:" in str(hint)
    mark.unlink()
    with Ledger(path) as anew:
        assert anew.get(kept.id) is None
        submitted(anew)
    assert mark.exists(), "the new one would be missed as well"


@POSIX
def test_one_whose_log_was_removed_before_it_was_taken_over_is_not_begun_anew(path: Path) -> None:
    ledger = Ledger(path)
    submitted(ledger)  # all of it is in the log for now
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.with_name("copy-signed").touch()
    with Ledger(copy, timeout=0) as other, pytest.raises(LedgerError) as caught:
        submitted(other)
    assert caught.value.code == "ledger_lost"
    ledger.close()


@POSIX
def test_without_a_signed_payment_there_is_nothing_to_miss(path: Path) -> None:
    with Ledger(path) as ledger:
        set_budget(ledger, PLENTY)
    path.unlink()
    with Ledger(path) as ledger:
        assert ledger.history() == []
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@POSIX
def test_a_ledger_that_is_moved_or_copied_is_used_as_before(tmp_path: Path, path: Path, kept: Payment) -> None:
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, f"{path.name}-signed"]
    places = [tmp_path / name / "ledger.sqlite3" for name in ("moved", "copied")]
    for place in places:
        place.parent.mkdir()
        place.write_bytes(path.read_bytes())
        with Ledger(place) as ledger:
            later = submitted(ledger)
            assert ledger.history() == [later, kept]
        with Ledger(place) as again:
            assert again.history() == [later, kept]


@POSIX
def test_a_mark_that_cannot_be_made_means_that_nothing_is_sent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(name: str, *args: int) -> int:
        if str(name).endswith("-signed"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(name, *args)

    with Ledger(path) as ledger:
        set_budget(ledger, PLENTY)
        monkeypatch.setattr(os, "open", full)
        with pytest.raises(LedgerError, match="no space is left on the disk; nothing was sent"):
            submitted(ledger)
        assert ledger.history() == []


@POSIX
def test_another_file_is_the_ledger_after_closing(tmp_path: Path, ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    with Ledger(tmp_path / "other") as other:
        payment = submitted(other)
    ledger.close()
    (tmp_path / "other").replace(path)
    with pytest.raises(LedgerError, match=f"{kept.id} is no longer in the ledger"):
        resubmit(ledger, kept)
    assert ledger.history() == [payment]


# A disk that is really full

SMALL_DISK = """
import os, sys
from tests.unit._ledger import HEADER, NOW, PLENTY, submitted, told
from tradesdk import Budget
from tradesdk import LedgerError
from tradesdk import Ledger
from tradesdk.payments import ReasonCode

disk = sys.argv[1]

def full(use):
    try:
        use()
    except LedgerError as error:
        assert error.code == "ledger_failed", error
        assert "no space is left" in error.message, error
        assert error.hint == "free space on that disk", error
        return error.message.partition("; ")[2]
    raise AssertionError("it was written")

def fill():
    with open(f"{disk}/filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass

ledger, new = Ledger(f"{disk}/ledger"), Ledger(f"{disk}/new")
made = [submitted(ledger)]
ledger.close()
fill()
with Ledger(f"{disk}/ledger") as late:  # what SQLite keeps beside the file while it is open finds no room
    assert full(lambda: submitted(late)) == "nothing was sent"
os.unlink(f"{disk}/filling")
assert ledger.history() == made
fill()

def spend():
    for _ in range(100):
        made.append(submitted(ledger, budget=Budget.unlimited()))

assert full(spend) == "nothing was sent"
assert full(lambda: submitted(ledger, budget=Budget.unlimited(), header=HEADER * 200)) == "nothing was sent"
assert full(lambda: told(ledger, made[0], ReasonCode.DELIVERED, reply=bytes(9000))) == (
    "nothing has changed"
)
assert full(lambda: submitted(new)) == "nothing was sent"
assert ledger.history(limit=999) == made[::-1]
assert ledger.spending(PLENTY, now=NOW).total.counted == 30_000 * len(made)

ledger.close()
os.unlink(f"{disk}/filling")
made.append(submitted(ledger))
assert ledger.history(limit=999) == made[::-1]
submitted(new)
ledger.close()
new.close()
"""


@pytest.mark.long
def test_nothing_is_lost_when_the_disk_is_full(tmp_path: Path) -> None:
    if not possible(tmp_path):
        pytest.skip("only root may mount a file system here")
    done = on_a_small_disk(tmp_path, sys.executable, "-W", "error", "-c", SMALL_DISK, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
