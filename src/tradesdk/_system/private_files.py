"""Files and folders that only their owner may read, on disk when the call returns.

A file is replaced as a whole: the new one is written beside it, synced and renamed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys

from .interrupts import failures, suppress

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
_NAMED = 80  # characters of a file's name in the name of its part
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES}


def prepare(path: str) -> None:
    """Create the folder of a file if it is missing, and check that the path is a file or free (ValueError)."""
    with suppress(FileNotFoundError):
        _must_be_file(os.stat(path).st_mode)
    make_folder(os.path.dirname(path))


def make_folder(folder: str) -> None:
    """Create a folder, and those above it, with mode 0700. An existing folder keeps its mode."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above != folder:
        make_folder(above)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # another process was faster
        return
    os.chmod(folder, 0o700)  # the umask may have removed bits
    sync_folder(above)


def create(path: str) -> int:
    """Create a file with mode 0600, whatever the umask, and open it for writing. Fails if the name exists."""
    file = os.open(path, _NEW, 0o600)
    try:
        if os.name != "nt":
            os.fchmod(file, 0o600)
    except BaseException:
        os.close(file)
        os.unlink(path)
        raise
    return file


def write(file: int, data: bytes) -> None:
    """Write all of `data` and sync it. `sync_folder` syncs the name of the file.

    After an OSError, a part of `data` may be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):  # some file systems lack it
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)  # a plain sync leaves the bytes in the disk's cache
            return
    os.fsync(file)


def sync_folder(folder: str) -> None:
    """Make new names in a folder durable, if the system can."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY | _FLAGS)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def try_to_replace(path: str) -> None:
    """Check that `replace` may write here, and remove the files that a killed process left."""
    temp = f"{path}.tmp"
    os.close(_new(temp))
    os.unlink(temp)


def replace(path: str, data: bytes) -> None:
    """Replace a file by `data`, readable only for its owner; on disk when this returns.

    One writer at a time: the caller holds a lock.

    After an OSError the old file is unchanged, or, if only the last step failed, replaced.
    """
    temp = f"{path}.tmp"
    file = _new(temp)
    try:
        try:
            write(file, data)
        finally:
            os.close(file)
        os.replace(temp, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temp)
        raise
    sync_folder(os.path.dirname(path))


def create_whole(path: str, data: bytes) -> None:
    """Create a file of `data`, readable only for its owner: complete and on disk when this returns, or missing.

    On file systems without hard links, a killed process may leave it empty.
    """
    temp, file = new_part(path)
    try:
        try:
            if os.name != "nt" and os.fstat(file).st_mode & 0o077:
                raise OSError(errno.EPERM, "the file system does not keep others out")
            write(file, data)
        finally:
            if os.name == "nt":  # on Windows, an open file cannot be renamed or removed
                os.close(file)
        try:
            os.link(temp, path)  # unlike a rename, it does not replace a file
        except FileExistsError:
            raise
        except failures(OSError):  # a file system without links: create the name first
            os.close(create(path))
            try:
                os.replace(temp, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(path)
                raise
    finally:
        with suppress(OSError):
            os.unlink(temp)
        if os.name != "nt":
            os.close(file)
    with suppress(OSError):  # the file is there: reporting a failure would be wrong
        sync_folder(os.path.dirname(path))


def new_part(path: str, mode: int | None = None) -> tuple[str, int]:
    """Create a file beside another one, which it replaces when it is complete. It is locked while this process lives.

    If the process is killed, it stays, and `remove_parts` removes it. `mode`: by default 0600, whatever the umask.
    """
    folder, name = os.path.split(path)
    while True:
        part = os.path.join(folder, f".{name[:_NAMED]}.{os.urandom(8).hex()}.tmp")  # others may be creating the same
        file = create(part) if mode is None else os.open(part, _NEW, mode)
        if try_lock(file) is not False and os.fstat(file).st_nlink:
            return part, file
        os.close(file)  # before the lock, another process took it for an abandoned one


def remove_parts(folder: str, name: str | None = None) -> bool:
    """Remove the parts that nobody has locked, of one file or of all in a folder. Returns whether there were any."""
    shape = re.compile(r"\.%s\.[0-9a-f]{16}\.tmp" % (".+" if name is None else re.escape(name[:_NAMED])))
    found = False
    with suppress(OSError):
        for part in filter(shape.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                found |= _remove_unlocked(os.path.join(folder, part))
    return found


def _remove_unlocked(path: str) -> bool:
    if os.name == "nt":  # Windows refuses to remove an open file
        os.unlink(path)
        return True
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | _FLAGS)
    try:
        if is_free := try_lock(file) is True:
            os.unlink(path)
        return is_free
    finally:
        os.close(file)


def try_lock(file: int) -> bool | None:
    """Lock a file until it is closed. False: another process has the lock; None: the system has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def names(path: str) -> int:
    """The number of names (hard links) of a file; 0 when it is missing."""
    try:
        return os.stat(path).st_nlink
    except FileNotFoundError:
        return 0


def content(path: str, largest: int) -> bytes | None:
    """The bytes of a file; None if it is missing. ValueError: it is not a file, or has more than `largest` bytes."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FLAGS)
    except FileNotFoundError:
        return None
    try:
        _must_be_file(os.fstat(file).st_mode)
        with open(file, "rb", closefd=False) as stream:
            data = stream.read(largest + 1)
    finally:
        os.close(file)
    if len(data) > largest:
        raise ValueError(f"it has more than {largest >> 20} MiB")
    return data


def _must_be_file(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ValueError("it is a folder" if stat.S_ISDIR(mode) else "it is not a file")


def _new(path: str) -> int:
    """A new file that replaces what was there."""
    try:
        return create(path)
    except FileExistsError:
        os.unlink(path)
        return create(path)
