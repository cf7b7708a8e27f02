"""A ledger whose file is taken away or replaced while it is in use: what has been spent must not be forgotten."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tradesdk.payments.errors import LedgerError
from tradesdk.payments.ledger import Ledger
from tradesdk.payments.ledger_file import _after_fork, _before_fork
from tradesdk.payments.records import Payment

from ._ledger import NOW, PLENTY, presented, reserve

pytestmark = pytest.mark.skipif(os.name == "nt", reason="an open file stays where it is")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
def kept(path: Path) -> Payment:
    """A payment in the ledger, which is closed."""
    with Ledger(path) as ledger:
        return presented(ledger)


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
        assert "put it back" in caught.value.hint


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
    refused(ledger, "was replaced by another one")
    saved.replace(path)
    assert ledger.history() == [later, kept]


def test_another_file_is_the_ledger_after_closing(tmp_path: Path, ledger: Ledger, path: Path, kept: Payment) -> None:
    assert ledger.get(kept.id) == kept
    with Ledger(tmp_path / "other") as other:
        payment = reserve(other)
    ledger.close()
    (tmp_path / "other").replace(path)
    with pytest.raises(LedgerError, match=f"{kept.id} is not in the ledger any more"):
        ledger.present_again(kept.id, now=NOW)
    assert ledger.history() == [payment]
