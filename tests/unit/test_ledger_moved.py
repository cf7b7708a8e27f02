"""A ledger whose file is taken away or replaced while it is in use: what has been spent must not be forgotten."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tradesdk._values.payment import Payment
from tradesdk.errors import LedgerError
from tradesdk.payments.ledger.sqlite import Ledger, _after_fork, _before_fork

from ._ledger import HEADER, NOW, PLENTY, reserve, submitted

pytestmark = pytest.mark.skipif(os.name == "nt", reason="an open file stays where it is")


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


def refused(ledger: Ledger, what: str) -> None:
    """Nothing is read or written, however often it is tried."""
    uses: list[Callable[[], object]] = [
        lambda: reserve(ledger),
        lambda: ledger.find("call", now=NOW),
        lambda: ledger.spending(PLENTY, now=NOW),
        lambda: reserve(ledger),
    ]
    for use in uses:
        with pytest.raises(LedgerError, match=what) as caught:
            use()
        assert caught.value.code == "ledger_failed"
        assert "nothing was sent" in caught.value.message
        assert "restore it" in caught.value.hint


def test_a_file_that_is_removed_is_missed(ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    saved = path.rename(path.with_name("saved"))
    refused(ledger, "was removed")
    assert not path.exists()  # an empty one would forget what is spent
    saved.rename(path)
    assert ledger.get(kept.id) == kept


@pytest.mark.parametrize("forks", [False, True])
def test_an_older_copy_in_its_place_is_refused(ledger: Ledger, path: Path, kept: Payment, forks: bool) -> None:
    """It would forget what has been spent since."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    later = reserve(ledger)
    if forks:
        _before_fork()  # closes the file, as every fork does
        _after_fork()
    saved = path.with_name("saved")
    path.rename(saved)
    copy.replace(path)
    refused(ledger, "was replaced")
    saved.replace(path)
    assert ledger.history() == [later, kept]


def test_one_that_is_emptied_while_it_is_in_use_is_missed(ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    log = path.with_name(f"{path.name}-wal").read_bytes()
    os.truncate(path, 0)
    refused(ledger, "was emptied")
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
            reserve(fresh)
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


def test_one_whose_log_was_removed_before_it_was_taken_over_is_not_begun_anew(path: Path) -> None:
    ledger = Ledger(path)
    submitted(ledger)  # all of it is in the log for now
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.with_name("copy-signed").touch()
    with Ledger(copy, timeout=0) as other, pytest.raises(LedgerError) as caught:
        reserve(other)
    assert caught.value.code == "ledger_lost"
    ledger.close()


def test_without_a_signed_payment_there_is_nothing_to_miss(path: Path) -> None:
    with Ledger(path) as ledger:
        reserve(ledger)
    path.unlink()
    with Ledger(path) as ledger:
        assert ledger.history() == []
    assert [file.name for file in path.parent.iterdir()] == [path.name]


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


def test_a_mark_that_cannot_be_made_means_that_nothing_is_sent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(name: str, *args: int) -> int:
        if str(name).endswith("-signed"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(name, *args)

    with Ledger(path) as ledger:
        payment = reserve(ledger)
        monkeypatch.setattr(os, "open", full)
        with pytest.raises(LedgerError, match="no space is left on the disk; nothing was sent"):
            ledger.submit(payment.id, HEADER, now=NOW)
        assert ledger.get(payment.id) == payment


def test_another_file_is_the_ledger_after_closing(tmp_path: Path, ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    with Ledger(tmp_path / "other") as other:
        payment = reserve(other)
    ledger.close()
    (tmp_path / "other").replace(path)
    with pytest.raises(LedgerError, match=f"{kept.id} is no longer in the ledger"):
        ledger.resubmit(kept.id, now=NOW)
    assert ledger.history() == [payment]
