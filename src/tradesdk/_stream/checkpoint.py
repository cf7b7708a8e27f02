"""The file in which a stream keeps its position, so that the next run continues from there.

It is one JSON object, written whole and synced, at most twice a second.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from .._http.arguments import file_path
from .._http.response import explained
from .._local.folders import data_folder
from .._system import private_files
from .._system.file_lock import FileLock, InUseError
from .._system.interrupts import failures
from .._values.hints import HINTS, of_file
from .._values.text import printable
from ..errors import CheckpointError, ErrorCode

LARGEST = 64 * 1024 * 1024
"""Bytes. A stream remembers a few MiB at most."""

WAIT = 0.5
"""Seconds between two writes, at least."""

_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
_Moment = Annotated[float, Field(ge=0, lt=_YEAR_10000)]
_AnyMoment = Annotated[float, Field(ge=_YEAR_1, lt=_YEAR_10000)]
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The position of a stream. Times are Unix seconds of the service's clock."""

    begin: float  # signals from this time on are wanted
    position: float  # older signals, less the overlap, are acknowledged; not before `begin`
    handled: tuple[tuple[str, float], ...] = ()  # (id, time) of acknowledged signals that are not older than that


class _Content(BaseModel, strict=True):
    version: Annotated[int, Field(ge=1, le=1)]
    service: str
    key: str
    chain: int
    begin: _Moment
    position: _Moment
    handled: list[tuple[str, _AnyMoment]]


def hash_of_key(key: str) -> str:
    """A hash of an API key, to tell keys apart. The key cannot be derived from it."""
    return hashlib.sha256(b"tradesdk checkpoint of the key\0" + key.encode()).hexdigest()[:16]


def default_path(base_url: str, key_hash: str, chain: int) -> Path:
    """The default file, one for each service, key and chain: `checkpoints/HOST-CHAIN-HASH.json`."""
    host = "".join(ch if ch.isascii() and (ch.isalnum() or ch in ".-") else "_" for ch in urlsplit(base_url).netloc)
    digest = hashlib.sha256("\0".join((base_url, key_hash, str(chain))).encode()).hexdigest()[:12]
    return (
        data_folder(os.environ.get("TRADE_HOME"), "the checkpoint")
        / "checkpoints"
        / f"{host.strip('.-')[:60]}-{chain}-{digest}.json"
    )


class CheckpointFile:
    """A checkpoint file, for one stream at a time. Links are followed: the file is replaced, not the link.

    Beside it are `.lock`, which stays, and `.tmp` while it is written.
    """

    def __init__(self, path: str | os.PathLike[str], *, base_url: str, key_hash: str, chain: int) -> None:
        self.path = str(file_path("checkpoint", path))
        self.behind = False  # whether something is not written yet
        self._service = base_url
        self._key = key_hash
        self._chain = chain
        self._guard = threading.RLock()  # a signal handler may close the file that it interrupts
        self._lock: FileLock | None = None
        self._real = self.path
        self._ours: list[bytes] = []
        """The content that we wrote or read; two while it is unknown which one is in the file."""
        self._written = 0.0
        self._timer: threading.Timer | None = None

    def open(self) -> CheckpointState | None:
        """Take the lock and read the file. None: there is no file yet. Missing folders are created, private."""
        if self._lock is not None and self._lock.forked:
            self._lock, self._guard = None, threading.RLock()  # a thread of the parent may hold the old one
        with self._guard:
            if self._lock is not None:
                raise self._in_use("another stream of this process")
            with self._refusing("used"):
                self._real = os.path.realpath(self.path)
                private_files.prepare(self._real)
            lock = FileLock(f"{self._real}.lock")
            self._acquire(lock)
            try:
                with self._refusing("read"):
                    if (names := private_files.names(self._real)) > 1:
                        raise self._error(
                            f"has {names} names (hard links), and only one of them would be kept up to date",
                            "copy it and use the copy, or remove the other names",
                        )
                    state = self._read()
                with self._refusing("written"):  # now, not at the first signal
                    private_files.try_to_replace(self._real)
            except BaseException:
                lock.release()
                raise
            self._lock = lock
            return state

    def save(self, state: Callable[[], CheckpointState]) -> None:
        """Replace the file, whole or not at all; on disk when this returns.

        If it cannot be written, the file is unchanged, and the next `save` tries again.
        """
        self._held()  # before waiting: in a forked child, the thread that holds the guard may not exist
        with self._guard:
            lock = self._held()
            self._cancel()
            self.behind = False  # before `state` is called: a later acknowledgment sets it again
            try:
                data = self._encoded(state())
                with self._refusing("written"):
                    if lock.lost():  # its file was removed: two could write here
                        lock.release()
                        self._acquire(lock)  # if it fails, the next save tries again
                    self._must_be_as_it_was()
                    self._ours.append(data)
                    private_files.replace(self._real, data)
            except BaseException:
                self.behind = True
                raise
            self._ours = [data]
            self._written = monotonic()

    def save_soon(self, state: Callable[[], CheckpointState]) -> bool:
        """Save within half a second, in a thread. False: the last write was longer ago, and the caller has to `save`.

        It does not wait for a write.
        """
        self._held()
        left = self._written + WAIT - monotonic()
        if left <= 0:
            return False
        self.behind = True
        if self._timer is None:
            self._timer = timer = threading.Timer(left, self._save_late, (state,))
            timer.daemon = True
            timer.start()
        return True

    def _save_late(self, state: Callable[[], CheckpointState]) -> None:
        with self._guard, suppress(CheckpointError):  # the next `save` tries again, and reports it
            if self._timer is threading.current_thread():
                self.save(state)

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Release the lock. Closing twice does no harm."""
        if self._lock is not None and self._lock.forked:
            return
        with self._guard:
            self._cancel()
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release()

    def _held(self) -> FileLock:
        if self._lock is None:
            raise self._error("is not open", "open a new stream")
        if self._lock.forked:
            raise self._error(
                "belongs to the process that this one was forked from", "open a stream in the process that uses it"
            )
        return self._lock

    def _acquire(self, lock: FileLock) -> None:
        try:
            with self._refusing("locked"):
                lock.take()
        except InUseError as error:
            raise self._in_use(str(error)) from None
        except ImportError as error:
            raise self._error(f"cannot be locked: {error}", "use a Python that has it, or no checkpoint") from None

    def _must_be_as_it_was(self) -> None:
        """Refuse to overwrite what another program wrote. A removed file is written again."""
        try:
            found = private_files.content(self._real, LARGEST)
        except ValueError as error:
            what = str(error)
        else:
            if found is None or found in self._ours:
                self._ours = [] if found is None else [found]
                return
            what = "another program has changed or replaced it"
        raise self._error(
            f"cannot be written: {what}",
            "move that file away and this stream continues; or end it and start another, which reads that file",
        )

    def _read(self) -> CheckpointState | None:
        self._ours = []
        data = private_files.content(self._real, LARGEST)
        if data is None:
            return None
        self._ours = [data]
        content = _Content.model_validate_json(data)
        hint, other = HINTS["checkpoint_mismatch"], None
        if content.service != self._service:
            other = f"service, {printable(content.service, 100)}"
        elif content.chain != self._chain:
            other = f"chain, {printable(str(content.chain), 30)}, not {self._chain}"
        elif content.key != self._key:
            other = "API key"
            hint = (
                f'if the key was rotated, put "key":"{self._key}" into the file to continue; '
                "if it belongs to another account, choose another file, or delete this one to start over"
            )
        if other is not None:
            raise self._error(f"belongs to another {other}", hint, "checkpoint_mismatch")
        if content.position < content.begin:
            raise ValueError("position is before begin")
        return CheckpointState(content.begin, content.position, tuple(content.handled))

    def _encoded(self, state: CheckpointState) -> bytes:
        # Not by the model: another thread may hold locks of pydantic-core while this process is forked.
        whose = {"version": 1, "service": self._service, "key": self._key, "chain": self._chain}
        content = whose | {"begin": state.begin, "position": state.position, "handled": state.handled}
        data = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        if len(data) > LARGEST:
            raise self._error("would be too large to be read again", "acknowledge signals roughly in their order")
        return data

    def _error(self, what: str, hint: str, code: ErrorCode | None = None) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint {printable(self.path, 300)} {what}", path=self.path, code=code, hint=hint
        )

    def _in_use(self, by: str) -> CheckpointError:
        return self._error(f"is in use by {by}", "end that one first, or choose another file", "checkpoint_in_use")

    @contextmanager
    def _refusing(self, doing: str) -> Iterator[None]:
        """Raise our error for errors of the file system or the content."""
        try:
            yield
        except failures(OSError) as error:
            raise self._failed(error, doing) from error
        except ValueError as error:
            what = printable(explained(error), 150)
            start_over = "move it away to start over, or choose another file"
            raise self._error(f"is damaged or not a checkpoint ({what})", start_over, "checkpoint_damaged") from None

    def _failed(self, error: OSError, doing: str) -> CheckpointError:
        code = errno.errorcode.get(error.errno or 0, "no number")
        if error.errno in _NO_SPACE:
            hint = "make room on that disk, or choose a file on another one"
        elif error.errno in _REFUSED:
            hint = "make it and its folder readable and writable for you, or choose another file"
        elif doing == "locked":
            hint = "choose a file on a local disk: without a lock, two streams could damage it"
        else:
            hint = "check that folder, or choose another file"
        return self._error(
            f"cannot be {doing}: {error.strerror or type(error).__name__} ({code})", of_file(error, hint)
        )
