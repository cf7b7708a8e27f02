"""The file of `--checkpoint`: how far a long list got, so that the same command continues it.

It is replaced as a whole after every page that is safely out, and locked by the process that works with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import INVALID, CliError, ConfigProblem, UsageProblem
from tradesdk_cli.files import atomic_write, locked, refuse_same
from tradesdk_cli.output.formats import GROWING
from tradesdk_cli.output.outfile import FULL, GOES_ON
from tradesdk_cli.text import counted, one_line

if TYPE_CHECKING:
    from tradesdk_cli.framework.params import Walk
    from tradesdk_cli.lists.paging import AnyPager, Source
    from tradesdk_cli.session import Session


VERSION = 1
_LARGEST = 1024 * 1024
_TAIL = 64 * 1024
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_ANEW = "--restart starts over, or choose another file for --checkpoint"


class CheckpointProblem(ConfigProblem):
    """A file that remembers how far something got cannot be used."""

    code = "checkpoint"


@dataclass(frozen=True)
class Work:
    """What is pulled. Another command may not continue it: its rows would not be the rest of these.

    Attributes:
        request: method and path.
        query: what the list is filtered by, as it was typed.
        target: the service, for people.
        key: tells one API key from another; None when it is not known.
        form: the format of the rows.
        fields: which fields of them.
        out: the file that takes them; None is stdout.
    """

    request: str
    query: dict[str, Any]
    target: str
    key: str | None
    form: str
    fields: tuple[str, ...]
    out: str | None

    def differs(self, now: Work) -> str | None:
        """How `now` is something else, in words; None when it is the same."""
        pairs = (
            ("pulls {} and this would be {}", self._asked, now._asked),
            ("is of {} and this is {}", self.target, now.target),
            ("writes to {} and this would go to {}", self.out or "stdout", now.out or "stdout"),
            ("writes {} and this would be {}", self.form, now.form),
            ("has {} and this would have {}", _named(self.fields), _named(now.fields)),
        )
        for text, was, would in pairs:
            if was != would:
                return text.format(one_line(was, 200) + ",", one_line(would, 200))
        return "was made with another API key" if self.key != now.key else None

    @property
    def _asked(self) -> str:
        query = " ".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.request} {query}".strip()


def _named(fields: tuple[str, ...]) -> str:
    return f"the fields {','.join(fields)}" if fields else "all fields"


@dataclass(frozen=True)
class Place:
    """How far it is.

    Attributes:
        cursor: where the next page begins; None at the beginning, and when it is `done`.
        count: how many rows are out.
        offset: how many bytes of the file are theirs; None on stdout.
        done: there are no more.
        pinned: moments that were typed as ages, in Unix seconds, as they were when the pull began.
        tail: tells the file's content before `offset` from anything else; None on stdout, and before there is any.
        working: a page is perhaps being written behind `offset`. When that is still so, the run was killed.
    """

    cursor: str | None = None
    count: int = 0
    offset: int | None = None
    done: bool = False
    pinned: dict[str, float] = field(default_factory=dict)
    tail: str | None = None
    working: bool = False


class PullFile:
    """The checkpoint of one pull. Links are followed: the file that they lead to is replaced, not the link."""

    def __init__(self, path: Path, work: Work) -> None:
        self.path = path
        self._work = work
        self._real = os.path.realpath(path)
        self._lock = contextlib.ExitStack()
        self._taken = False
        self._new = True

    def open(self, *, restart: bool = False) -> Place | None:
        """Takes the lock and reads. None: there is nothing yet, or with `restart` it does not count.

        Raises:
            UsageProblem: it is of other work.
            CheckpointProblem: it is damaged, used by another process, or cannot be read.
        """
        if not os.path.lexists(self._real):
            return None
        try:
            self._take()
            data = self._content()
            self._new = False
            if restart:
                return None
            work, place = self._read(data)
            different = work.differs(self._work)
            if different is not None:
                raise UsageProblem(f"--checkpoint: {self.path} {different}", _ANEW)
        except OSError as error:
            self.close()
            raise self._failed("read", error) from None
        except BaseException:
            self.close()
            raise
        return place

    def save(self, place: Place) -> None:
        """Puts `place` into the file, as a whole or not at all; on disk when this returns.

        Raises:
            CheckpointProblem: it cannot be written. What it said before is still there.
        """
        shown = {"version": VERSION, "work": asdict(self._work), "place": asdict(place)}
        text = json.dumps(shown, indent=2) + "\n"
        self._take()
        if self._new and os.path.lexists(self._real):
            raise self._in_use()
        try:
            atomic_write(Path(self._real), text, mode=0o600)
        except OSError as error:
            raise self._failed("written", error) from None
        self._new = False

    def close(self) -> None:
        """Gives the lock back."""
        self._lock.close()
        self._taken = False

    def _take(self) -> None:
        if not self._taken:
            self._lock.enter_context(locked(self._real, self._in_use()))
            self._taken = True

    def _content(self) -> bytes:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(self._real, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CheckpointProblem(f"--checkpoint: {self.path} is not a file", "choose another name")
            return file.read(_LARGEST + 1)

    def _in_use(self) -> CheckpointProblem:
        return CheckpointProblem(
            f"--checkpoint: another command works with {self.path}", "wait for it, or choose another file"
        )

    def _read(self, data: bytes) -> tuple[Work, Place]:
        from tradesdk import RawResponse

        try:
            found = RawResponse(200, {}, data).json()  # the standard library's reader can overflow the stack
            version, work, place = found["version"], Work(**found["work"]), Place(**found["place"])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self.damaged() from None
        if version != VERSION:
            raise CheckpointProblem(
                f"--checkpoint: {self.path} is of another version of trade", f"finish it with that one; or: {_ANEW}"
            )
        if not _sound(work, place):
            raise self.damaged()
        return replace(work, fields=tuple(work.fields)), place

    def damaged(self) -> CheckpointProblem:
        """What is wrong when its content is not what was saved."""
        return CheckpointProblem(f"--checkpoint: {self.path} is damaged, or something else than a checkpoint", _ANEW)

    def _failed(self, what: str, error: OSError) -> CheckpointProblem:
        hint = GOES_ON if error.errno in FULL else "choose another file, or another folder"
        return CheckpointProblem(f"--checkpoint: {self.path} cannot be {what}: {error.strerror}", hint)


def _sound(work: Work, place: Place) -> bool:
    """Whether these, as they were read, are of the types that they should be."""
    texts: list[Any] = [work.request, work.target, work.form]
    return (
        _count(place.count)
        and (place.offset is None or _count(place.offset))
        and (place.cursor is None or isinstance(place.cursor, str))
        and isinstance(place.done, bool)
        and isinstance(place.working, bool)
        and (place.tail is None or isinstance(place.tail, str))
        and isinstance(place.pinned, dict)
        and all(isinstance(moment, int | float) for moment in place.pinned.values())
        and isinstance(work.query, dict)
        and isinstance(work.fields, list)
        and all(isinstance(text, str) for text in (*texts, *work.fields))
        and (work.out is None or isinstance(work.out, str))
        and (work.out is None) == (place.offset is None)
    )


def _count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def tail_of(path: Path, offset: int) -> str | None:
    """Tells what stands before `offset` from anything else, by its last 64 KiB; None when nothing does.

    Raises:
        OSError: it cannot be read.
    """
    if not offset:
        return None
    import hashlib

    with open(path, "rb") as file:
        file.seek(max(0, offset - _TAIL))
        return hashlib.sha256(file.read(min(offset, _TAIL))).hexdigest()[:16]


def told_apart(key: str | None) -> str | None:
    """Tells one API key from another. The key does not follow from it."""
    import hashlib

    return None if key is None else hashlib.sha256(b"trade pull\0" + key.encode()).hexdigest()[:16]


_NO_SUCH_PLACE = (400, 404, 410, 422)


class PlaceForgotten(CliError):
    """The service does not take the cursor any more that a pull would continue with."""

    exit_code = INVALID
    code = "cursor"


class Pull:
    """A list that is fetched in as many runs as it takes.

    Without --out its rows go to stdout, where only NDJSON can be continued; what was printed after the last save is
    printed once more after a crash. With --out the file is cut back to what the checkpoint knows, so no row is doubled
    or lost.
    """

    def __init__(self, run: Session, walk: Walk, source: Source) -> None:
        """Reads the checkpoint.

        Raises:
            UsageProblem: of other work, or a format that cannot be continued.
            CheckpointProblem: it cannot be used.
        """
        assert walk.checkpoint is not None  # noqa: S101  # else nobody needs one
        self._run, self._walk, self._source = run, walk, source
        settings = run.settings
        form = run.out.format_for(many=True)
        self._file = None if run.out.on_stdout else Path(settings.out or "").absolute()
        _refuse(form, self._file, settings.query)
        refuse_same({"--out": self._file, "--checkpoint": walk.checkpoint})
        typed = source.typed() | ({} if walk.cursor is None else {"cursor": walk.cursor})
        self._checkpoint = PullFile(
            walk.checkpoint,
            Work(
                request=f"GET {source.path}",
                query=typed,
                target=run.target().text,
                key=told_apart(_key(run)),
                form=form,
                fields=settings.fields,
                out=None if self._file is None else str(self._file),
            ),
        )
        self._marked = False
        found = self._checkpoint.open(restart=walk.restart)
        try:
            self._new = found is None
            if found is None:
                found = Place(cursor=walk.cursor, offset=None if self._file is None else 0)
            if not set(found.pinned) <= {*source.filters, *source.pins}:
                raise self._checkpoint.damaged()
            self._broke_off = found.working
            self.place = replace(found, working=False)
            self._rest = self._check_file()
        except BaseException:
            self._checkpoint.close()
            raise

    @property
    def count(self) -> int:
        """How many rows are safely out."""
        return self.place.count

    @property
    def _counted(self) -> str:
        return counted(self.count, self._source.what)

    @property
    def complete(self) -> bool:
        """True when there is nothing left to do."""
        return self.place.done or (self._walk.total is not None and self.count >= self._walk.total)

    def begin(self) -> AnyPager:
        """The list from where it continues. Checkpoint and file stay as they are until a page has come."""
        if self._new:
            now = float(int(self._run.now()))
            self.place = replace(self.place, pinned=self._source.pinned(now))
            if not self._walk.restart:  # else what it starts over is still worth something
                self._mark()
        if self.place.offset is not None:
            self._run.out.go_on_at(self.place.offset)
        self._walk.cursor = self.place.cursor
        if self._walk.total is not None:
            self._walk.total -= self.count
        if self.count:
            rest = f"; {self._rest} bytes of a page that broke off are replaced" if self._rest else ""
            self._run.out.event("pull", f"continuing after {self._counted}{rest}", count=self.count)
        return self._source.pager(self._walk, self.place.pinned)

    def page_came(self) -> None:
        """A page is there and will be written: the checkpoint says so before that begins."""
        if not self._marked:
            self._mark()

    def page_is_out(self, rows: int, cursor: str | None) -> None:
        """So many rows more were written: once they are on disk, the checkpoint says so."""
        offset = self._run.out.position()
        self.place = replace(
            self.place,
            cursor=cursor,
            count=self.count + rows,
            offset=None if self._file is None else offset,
            done=cursor is None,
            tail=self._tail(offset),
        )
        self._mark()

    def explained(self, error: BaseException) -> BaseException:
        """Why the first page of this run did not come: of a cursor that is no longer taken in our own words."""
        status = getattr(error, "status", None)
        if self.place.cursor is None or status not in _NO_SUCH_PLACE:
            return error
        said = one_line(str(getattr(error, "message", "") or error), 200)
        forgotten = PlaceForgotten(
            f"the service does not know the place any more where this ended: {said}",
            f"the {self._counted} so far stay as they are; --restart starts over",
        )
        forgotten.status = status
        return forgotten

    def told(self) -> str:
        """How far it is, for people."""
        is_ = "is" if self.count == 1 else "are"
        where = "printed" if self._file is None else f"in {one_line(str(self._run.settings.out), 200)}"
        return f"{self._counted} {is_} {where}"

    def tell(self) -> None:
        """Says at the end of a run how far it is."""
        more = "" if self.place.done else "; there is more: a larger --limit or --all continues there"
        self._run.out.event("pull", f"{self.told()}{more}", count=self.count, done=self.place.done)

    def tell_complete(self) -> None:
        """Says that nothing had to be done."""
        where = "" if self._file is None else f" in {one_line(str(self._run.settings.out), 200)}"
        if self.place.done:
            text = f"all {self._counted} came before{where}; --restart starts over"
        else:
            text = f"{self._counted} came before{where}; a larger --limit or --all continues there"
        self._run.out.event("pull", text, count=self.count, done=self.place.done)

    def close(self) -> None:
        """Says in the checkpoint that nothing is half written, where that is so, and gives it back."""
        if self._marked and self._file is not None:
            with contextlib.suppress(OSError, CliError):
                if self._run.out.untouched or self._file.stat().st_size == self.place.offset:
                    self._checkpoint.save(self.place)
        self._checkpoint.close()

    def _mark(self) -> None:
        self._checkpoint.save(replace(self.place, working=self._file is not None))
        self._marked = True

    def _tail(self, offset: int | None) -> str | None:
        if self._file is None or offset is None:
            return None
        try:
            return tail_of(self._file, offset)
        except OSError as error:
            shown = one_line(str(self._run.settings.out), 200)
            raise CheckpointProblem(f"--out: {shown} cannot be read: {error.strerror}", "choose another file") from None

    def _check_file(self) -> int:
        """How many bytes of a page that broke off are behind what the checkpoint knows."""
        if self._file is None:
            return 0
        shown = one_line(str(self._run.settings.out), 200)
        try:
            size = self._file.stat().st_size
        except FileNotFoundError:
            size = 0
        except OSError as error:
            raise CheckpointProblem(f"--out: {shown} cannot be used: {error.strerror}", "choose another file") from None
        if self._new and size and not self._walk.restart:
            raise UsageProblem(
                f"--out: {shown} exists already, and the checkpoint knows nothing of it",
                "--restart writes it again; or choose another file",
            )
        offset = self.place.offset or 0
        if size < offset:
            raise UsageProblem(
                f"--out: {shown} is shorter than it was when the checkpoint was written",
                "put it back as it was, or start over with --restart",
            )
        if self._new or self.complete:
            return 0
        if self.place.tail is not None and self.place.tail != self._tail(offset):
            raise UsageProblem(
                f"--out: {shown} was changed after it was written",
                "put it back as it was, or start over with --restart",
            )
        if size > offset and not self._broke_off:
            raise UsageProblem(
                f"--out: {shown} has {size - offset} bytes at its end that are not of this pull",
                "move them to another file, or start over with --restart",
            )
        return size - offset


def _key(run: Session) -> str | None:
    """The key that the list is asked for with; None for the mock's usual one."""
    from tradesdk_cli.mockworld import MOCK_KEYS

    if run.settings.mock:
        given = run.settings.api_key
        return given if given is not None and given.startswith(MOCK_KEYS) else None
    found = run.api_key(run.client.base_url)
    return None if found is None else found[0]


def _refuse(form: str, file: Path | None, query: str | None) -> None:
    if query is not None:
        raise UsageProblem(
            "--query looks at a whole list, and --checkpoint goes page by page", "leave one of them out; --fields works"
        )
    if form not in GROWING:
        raise UsageProblem(
            f"--checkpoint goes page by page, and {form} is one piece",
            "add --out FILE.ndjson or FILE.csv, or -o ndjson",
        )
    if file is None and form != "ndjson":
        raise UsageProblem(
            f"--checkpoint continues with {form} in a file only: on stdout its first line would come again",
            f"add --out FILE.{form}, or use -o ndjson",
        )
