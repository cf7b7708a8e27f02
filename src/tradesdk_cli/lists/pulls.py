"""A long list with a checkpoint: every page is safely out before the file says so."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.errors import INVALID, CliError, UsageProblem
from tradesdk_cli.files import refuse_same
from tradesdk_cli.lists.checkpoint import CheckpointProblem, Place, PullFile, Work, tail_of, told_apart
from tradesdk_cli.lists.progress import counted
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.lists.paging import AnyPager, Source, Walk
    from tradesdk_cli.session import Session

STEPWISE = ("ndjson", "csv", "tsv")
"""Formats whose rows stand for themselves, so that more can follow in another run."""
_NO_SUCH_PLACE = (400, 404, 410, 422)


class PlaceForgotten(CliError):
    """The service does not take the cursor any more that a pull would go on with."""

    exit_code = INVALID
    code = "cursor"


class Pull:
    """A list that is fetched in as many runs as it takes.

    Without --out its rows go to stdout, where only NDJSON can be gone on with; what was printed after the last save is
    printed once more after a crash. With --out the file is cut back to what the checkpoint knows, so no row is doubled
    or lost.
    """

    def __init__(self, run: Session, walk: Walk, source: Source) -> None:
        """Reads the checkpoint.

        Raises:
            UsageProblem: of other work, or a format that cannot be gone on with.
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
        """The list from where it goes on. Checkpoint and file stay as they are until a page has come."""
        if self._new:
            now = float(int(self._run.now()))
            self.place = replace(self.place, pinned=self._source.pinned(now))
            if not self._walk.restart:  # else what it begins anew is still worth something
                self._mark()
        if self.place.offset is not None:
            self._run.out.go_on_at(self.place.offset)
        self._walk.cursor = self.place.cursor
        if self._walk.total is not None:
            self._walk.total -= self.count
        if self.count:
            rest = f"; {self._rest} bytes of a page that broke off are replaced" if self._rest else ""
            self._run.out.event("pull", f"going on after {self._counted}{rest}", count=self.count)
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
            f"the {self._counted} so far stay as they are; --restart begins anew",
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
        more = "" if self.place.done else "; there is more: a larger --limit or --all goes on there"
        self._run.out.event("pull", f"{self.told()}{more}", count=self.count, done=self.place.done)

    def tell_complete(self) -> None:
        """Says that nothing had to be done."""
        where = "" if self._file is None else f" in {one_line(str(self._run.settings.out), 200)}"
        if self.place.done:
            text = f"all {self._counted} came before{where}; --restart begins anew"
        else:
            text = f"{self._counted} came before{where}; a larger --limit or --all goes on there"
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
                "--restart writes it anew; or choose another file",
            )
        offset = self.place.offset or 0
        if size < offset:
            raise UsageProblem(
                f"--out: {shown} is shorter than it was when the checkpoint was written",
                "put it back as it was, or begin anew with --restart",
            )
        if self._new or self.complete:
            return 0
        if self.place.tail is not None and self.place.tail != self._tail(offset):
            raise UsageProblem(
                f"--out: {shown} was changed after it was written",
                "put it back as it was, or begin anew with --restart",
            )
        if size > offset and not self._broke_off:
            raise UsageProblem(
                f"--out: {shown} has {size - offset} bytes at its end that are not of this pull",
                "move them to another file, or begin anew with --restart",
            )
        return size - offset


def _key(run: Session) -> str | None:
    """The key that the list is asked for with; None for the mock's usual one."""
    from tradesdk_cli.config.credentials import MOCK_KEYS

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
    if form not in STEPWISE:
        raise UsageProblem(
            f"--checkpoint goes page by page, and {form} is one piece",
            "add --out FILE.ndjson or FILE.csv, or -o ndjson",
        )
    if file is None and form != "ndjson":
        raise UsageProblem(
            f"--checkpoint goes on with {form} in a file only: on stdout its first line would come again",
            f"add --out FILE.{form}, or use -o ndjson",
        )
