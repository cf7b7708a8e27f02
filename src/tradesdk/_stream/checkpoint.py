"""The file in which a stream keeps its position, so that the next run continues from there.

The first line is a state as JSON; it replaces the whole file and is synced. Each line after it is a signal that was
acknowledged since then: `["id",time]`, appended and not synced. A state is as large as what it remembers, so it is
written only now and then. A line costs the same at one signal a minute and at a thousand a second.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from .._http.settings import data_folder
from .._system import private_files
from .._system.file_lock import FileLock, InUseError
from .._values.http import parse_json
from .._values.text import printable
from ..errors import CheckpointError, ErrorCode, InvalidArgumentError

VERSION = 1
LARGEST = 64 * 1024 * 1024
"""Bytes. A stream remembers a few MiB at most."""

OFTEN = 1.0
"""Seconds between two whole states, at least, as long as lines can be appended."""
SHARE = 20
"""Writing whole states takes at most 1/SHARE of the time: on a slow disk they are written less often."""
MOST_LINES = 256 * 1024
"""Bytes of lines after a small state. A larger state has as many bytes of lines as of its own."""

_YEAR_1 = -62_135_596_800.0
_YEAR_10000 = 253_402_300_800.0
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_START_OVER = "move it away to start over, or choose another file"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The position of a stream. Times are Unix seconds of the service's clock.

    Attributes:
        begin: signals from this time on are wanted.
        position: signals older than this, less the overlap, are acknowledged; not before `begin`.
        handled: (id, time) of acknowledged signals that are not older than that.

    Raises:
        ValueError: a value is out of range, and could not be read again.
    """

    begin: float
    position: float
    handled: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("begin", "position"):
            if not 0 <= getattr(self, name) < _YEAR_10000:  # False for NaN
                raise ValueError(f"{name} is not a time after 1970")
        if self.position < self.begin:
            raise ValueError("position is before begin")
        if not all(_is_time(mark) for _, mark in self.handled):
            raise ValueError("a time in handled is out of range")


def fingerprint(key: str) -> str:
    """Tells API keys apart. The key cannot be derived from it."""
    return hashlib.sha256(b"tradesdk checkpoint of the key\0" + key.encode()).hexdigest()[:16]


def default_path(base_url: str, key_fingerprint: str, chain: int) -> Path:
    """A file of its own for each service, key and chain: `checkpoints/HOST-CHAIN-HASH.json`.

    Raises:
        ConfigError: there is no home folder.
    """
    service = _service(base_url)
    host = "".join(ch if ch.isascii() and (ch.isalnum() or ch in ".-") else "_" for ch in urlsplit(service).netloc)
    told = hashlib.sha256("\0".join((service, key_fingerprint, str(chain))).encode()).hexdigest()[:12]
    return data_folder("the checkpoint") / "checkpoints" / f"{host.strip('.-')[:60]}-{chain}-{told}.json"


class CheckpointFile:
    """A checkpoint file, for one stream at a time. Links are followed: the file is replaced, not the link.

    Args:
        path: the file. Beside it are `.lock`, which stays, and `.tmp` while the file is written.
        base_url: the service that it is for.
        key_fingerprint: `fingerprint` of the API key that it is for.
        chain: the chain that it is for.

    Raises:
        InvalidArgumentError: the path is not valid.
    """

    def __init__(self, path: str | os.PathLike[str], *, base_url: str, key_fingerprint: str, chain: int) -> None:
        self.path = _absolute(path)
        self._service = _service(base_url)
        self._key = key_fingerprint
        self._chain = chain
        self._guard = threading.RLock()  # a signal handler may close the file that it interrupts
        self._lock: FileLock | None = None
        self._real = self.path
        self._ours: list[tuple[int, int]] = []
        """Size and checksum of what we wrote or read. Two pairs while it is unknown which one is in the file."""
        self._line = b""  # an append that failed: any part of it may be in the file
        self._whole = 0  # bytes of the state, without lines
        self._until = 0.0  # when the next whole state is due

    def __repr__(self) -> str:
        return f"CheckpointFile({self.path!r})"

    def open(self) -> CheckpointState | None:
        """Take the lock and read. None: there is no file yet. Missing folders are made, private.

        Raises:
            CheckpointError: in use, not writable, damaged, of a newer release, or of another service, key or chain.
        """
        if self._lock is not None and self._lock.forked:
            self._lock, self._guard = None, threading.RLock()  # a thread of the parent may hold the old one
        with self._guard:
            if self._lock is not None:
                raise self._in_use("another stream of this process")
            try:
                self._real = os.path.realpath(self.path)
                private_files.prepare(self._real)
            except OSError as error:
                raise self._failed(error, "used") from error
            except ValueError as error:
                raise self._damaged(str(error)) from None
            lock = FileLock(f"{self._real}.lock")
            self._take(lock)
            try:
                self._must_have_one_name()
                state = self._read()
                self._try_to_write()
            except BaseException:
                lock.release()
                raise
            self._lock = lock
            return state

    def save(self, state: CheckpointState) -> None:
        """Replace the file, whole or not at all; on disk when this returns.

        Raises:
            CheckpointError: it cannot be written, another program has changed it, or it is not open in this process.
                The file is unchanged, and the next `save` tries again.
        """
        self._taken()  # before waiting: in a forked child, the thread that holds the guard may not exist
        data = self._encoded(state)
        with self._guard:
            lock = self._taken()
            began = monotonic()
            self._until = 0.0  # no lines until it is known what they would be appended to
            try:
                if lock.lost():  # its file was removed: two could write here
                    lock.release()
                    self._take(lock)  # if it fails, the next save tries again
                self._must_be_as_it_was()
                new = len(data), crc32(data)
                self._ours.append(new)
                private_files.replace(self._real, data)
            except OSError as error:
                raise self._failed(error, "written") from error
            self._ours, self._line, self._whole = [new], b"", len(data)
            now = monotonic()
            self._until = now + max(OFTEN, SHARE * (now - began))

    def add(self, signal_id: str, when: float) -> bool:
        """Append an acknowledged signal. Killing the process does not undo it; a power cut may.

        False: a whole state is due or the append failed, and the caller has to `save`.

        Raises:
            CheckpointError: it is not open in this process.
        """
        self._taken()
        with self._guard:
            lock = self._taken()
            if monotonic() >= self._until or not _is_time(when):
                return False
            size, check = self._ours[0]
            line = _dumped([signal_id, when])
            if size - self._whole > max(MOST_LINES, self._whole) or size + len(line) > LARGEST:
                return False
            until, self._until, self._line = self._until, 0.0, line
            try:
                if lock.lost() or not private_files.append(self._real, line, size):
                    return False
            except OSError:
                return False
            self._ours, self._line, self._until = [(size + len(line), crc32(line, check))], b"", until
            return True

    @property
    def has_lines(self) -> bool:
        """Whether there are lines after the state."""
        return bool(self._ours) and self._ours[0][0] > self._whole

    def close(self) -> None:
        """Release the lock. Closing twice does no harm."""
        if self._lock is not None and self._lock.forked:
            return
        with self._guard:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.release()

    def _taken(self) -> FileLock:
        if self._lock is None:
            raise self._error("is not open", "open a new stream")
        if self._lock.forked:
            raise self._error(
                "belongs to the process that this one was forked from", "open a stream in the process that uses it"
            )
        return self._lock

    def _take(self, lock: FileLock) -> None:
        try:
            lock.take()
        except InUseError as error:
            raise self._in_use(str(error)) from None
        except OSError as error:
            raise self._failed(error, "locked") from error

    def _try_to_write(self) -> None:
        """Fail now rather than at the first signal; and remove what a killed process left behind."""
        try:
            private_files.try_to_replace(self._real)
        except OSError as error:
            raise self._failed(error, "written") from error

    def _must_have_one_name(self) -> None:
        try:
            names = private_files.names(self._real)
        except OSError as error:
            raise self._failed(error, "read") from error
        if names > 1:
            raise self._error(
                f"has {names} names (hard links), and only one of them would be kept up to date",
                "copy it and use the copy, or remove the other names",
            )

    def _must_be_as_it_was(self) -> None:
        """Do not overwrite what another program wrote. A removed file is written again."""
        try:
            found = private_files.content(self._real, LARGEST)
        except ValueError as error:
            what = str(error)
        else:
            same = [each for each in self._ours if found is not None and self._is(found, *each)]
            if same or found is None:
                self._ours = same
                return
            what = "another program has changed or replaced it"
        raise self._error(
            f"cannot be written: {what}",
            "move that file away and this stream continues; or end it and start another, which reads that file",
        )

    def _is(self, found: bytes, size: int, check: int) -> bool:
        return len(found) >= size and crc32(found[:size]) == check and self._line.startswith(found[size:])

    def _read(self) -> CheckpointState | None:
        self._ours, self._line, self._until = [], b"", 0.0
        try:
            data = private_files.content(self._real, LARGEST)
            if data is None:
                return None
            self._ours, self._whole = [(len(data), crc32(data))], len(data)
            found, lines = _split(data)
            if not isinstance(found, dict):
                raise ValueError("not a JSON object")
            version = found.get("version")
            if not isinstance(version, int) or isinstance(version, bool) or version < 1:
                raise ValueError("it has no valid version")
        except OSError as error:
            raise self._failed(error, "read") from error
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        if version > VERSION:
            raise self._error(
                f"has version {printable(str(version), 20)}, and this release knows versions up to {VERSION}",
                "use a newer release of tradesdk, or choose another file",
                "checkpoint_mismatch",
            )
        try:
            self._must_be_ours(_text(found, "service"), _text(found, "key"), found.get("chain"))
            return _state(found, lines)
        except (ValueError, OverflowError) as error:
            raise self._damaged(str(error)) from None

    def _must_be_ours(self, service: str, key: str, chain: object) -> None:
        if not isinstance(chain, int) or isinstance(chain, bool):
            raise ValueError("its chain is not a number")
        hint = "choose another file: each service, key and chain needs its own"
        if service != self._service:
            raise self._error(f"belongs to another service, {printable(service, 100)}", hint, "checkpoint_mismatch")
        if chain != self._chain:
            raise self._error(
                f"belongs to another chain, {printable(str(chain), 30)}, not {self._chain}", hint, "checkpoint_mismatch"
            )
        if key != self._key:
            raise self._error(
                "belongs to another API key",
                f'if the key was rotated, put "key":"{self._key}" into the file to continue; '
                "if it belongs to another account, choose another file, or delete this one to start over",
                "checkpoint_mismatch",
            )

    def _encoded(self, state: CheckpointState) -> bytes:
        data = _dumped(
            {
                "version": VERSION,
                "service": self._service,
                "key": self._key,
                "chain": self._chain,
                "begin": state.begin,
                "position": state.position,
                "handled": state.handled,
            }
        )
        if len(data) > LARGEST:
            raise self._error("would be too large to be read again", "acknowledge signals roughly in their order")
        return data

    def _error(self, what: str, hint: str, code: ErrorCode | None = None) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint {printable(self.path, 300)} {what}", path=self.path, code=code, hint=hint
        )

    def _in_use(self, by: str) -> CheckpointError:
        return self._error(f"is in use by {by}", "end that one first, or choose another file", "checkpoint_in_use")

    def _damaged(self, what: str) -> CheckpointError:
        return self._error(
            f"is damaged or not a checkpoint ({printable(what, 150)})", _START_OVER, "checkpoint_damaged"
        )

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
        return self._error(f"cannot be {doing}: {error.strerror or type(error).__name__} ({code})", hint)


def _service(base_url: str) -> str:
    """The base URL in its canonical form."""
    parts = urlsplit(base_url)
    usual = {"https": ":443", "http": ":80"}.get(parts.scheme, "")
    host = parts.netloc.lower()
    return f"{parts.scheme}://{host.removesuffix(usual) if usual else host}{parts.path.rstrip('/')}"


def _absolute(path: str | os.PathLike[str]) -> str:
    given = os.fspath(path)
    try:
        if not isinstance(given, str) or not given or b"\0" in os.fsencode(given):
            raise ValueError
        return str(Path(given).absolute())  # the process may change its working directory
    except (ValueError, OSError):
        raise InvalidArgumentError("checkpoint must be the path of a file") from None


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise ValueError(f"its {name} is not text")
    return value


def _time(value: object, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is not a number")
    return float(value)


def _is_time(value: float) -> bool:
    return _YEAR_1 <= value < _YEAR_10000


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _split(data: bytes) -> tuple[Any, list[bytes]]:
    """The state, and the lines after it."""
    first, *lines = data.split(b"\n")
    try:
        return parse_json(first), lines[:-1]  # the last one is empty or torn
    except ValueError:
        return parse_json(data), []  # pretty-printed by hand


def _pair(pair: object) -> tuple[str, float]:
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise ValueError("handled has an entry that is not an id and a time")
    return pair[0], _time(pair[1], "a time in handled")


def _state(found: dict[str, Any], lines: list[bytes]) -> CheckpointState:
    pairs = found.get("handled")
    if not isinstance(pairs, list):
        raise ValueError("its handled is not a list")
    handled = [_pair(pair) for pair in pairs]
    begin, position = _time(found.get("begin"), "begin"), _time(found.get("position"), "position")
    return CheckpointState(begin, position, (*handled, *_added(lines, {signal_id for signal_id, _ in handled})))


def _added(lines: list[bytes], known: set[str]) -> Iterator[tuple[str, float]]:
    """The lines before the first damaged one. Signals after it come again; none is lost."""
    for line in lines:
        try:
            signal_id, when = _pair(parse_json(line))
        except (ValueError, OverflowError):
            return
        if not _is_time(when):
            return
        if signal_id not in known:
            known.add(signal_id)
            yield signal_id, when
