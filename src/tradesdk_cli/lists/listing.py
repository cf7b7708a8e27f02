"""Prints a list as far as requested, with progress, and says how to continue it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tradesdk_cli import idcache
from tradesdk_cli.errors import Interrupted, UsageProblem
from tradesdk_cli.interrupts import DeferInterrupt, deferring, exit_code_of
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tradesdk_cli.framework.params import Walk
    from tradesdk_cli.lists.checkpoint import Pull
    from tradesdk_cli.lists.paging import AnyPager, Source
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session


def show_list(
    run: Session,
    columns: Sequence[Column],
    walk: Walk,
    source: Source,
    *,
    empty: str,
    total: Callable[[Sequence[Any]], str] | None = None,
) -> None:
    """Prints a list as far as it was asked for, and says on stderr where it continues.

    `total` makes the line below a table on a terminal from the items. With `--watch` the list is read and shown again.

    When Ctrl-C, SIGTERM or an error ends it on the way, what has come is printed first. Nothing is printed when not
    even the first page came.
    """
    if run.out.parquet:
        from tradesdk_cli.output.parquet import refuse_unusable

        refuse_unusable(run.out, source.names(), checkpoint=walk.checkpoint is not None)
    if walk.checkpoint is not None and source.keep is not None:
        raise UsageProblem(
            "--checkpoint keeps a place in a whole list, not in what a filter of trade leaves of it",
            "leave out --checkpoint",
        )
    if walk.watch is not None and not run.out.on_terminal:
        raise UsageProblem("--watch needs a terminal", "leave it out, and run the command again when you need to")
    if walk.checkpoint is None:
        again = False
        while True:
            _walk(run.out, columns, walk, source, source.pager(walk), empty=empty, total=total, again=again)
            if walk.watch is None:
                return
            again = True
            time.sleep(walk.watch)
    from tradesdk_cli.lists.checkpoint import Pull

    pull = Pull(run, walk, source)
    run.closing(pull.close)
    if pull.complete:
        pull.tell_complete()
        return
    _walk(run.out, columns, walk, source, pull.begin(), empty=empty, pull=pull, total=total)
    pull.tell()


def _walk(
    out: Output,
    columns: Sequence[Column],
    walk: Walk,
    source: Source,
    pager: AnyPager,
    *,
    empty: str,
    pull: Pull | None = None,
    total: Callable[[Sequence[Any]], str] | None = None,
    again: bool = False,
) -> None:
    before = 0 if pull is None else pull.count
    most = None if walk.total is None else before + walk.total
    with ExitStack() as stack:
        stop = stack.enter_context(deferring())
        progress = stack.enter_context(Progress(out, source.what, most, done=before))
        pages = _Pages(out, walk, source, pager, progress, stop, pull)
        pages.totalled = total is not None and out.on_terminal and out.draws(many=True)
        try:
            if out.parquet:
                from tradesdk_cli.output.parquet import write_list

                write_list(out, source.of(), pages.models(), empty=empty)
            else:
                header = None if pull is None else source.names()
                rows = iter(pages) if walk.watch is None else iter(list(pages))  # read before clearing
                if walk.watch is not None:
                    out.clear()
                out.many(columns, rows, empty="there are no more" if before else empty, header=header)
        except KeyboardInterrupt as interrupt:
            progress.clear()
            out.note("interrupted" if pages.count or again else "interrupted before anything came")
            raise Interrupted(exit_code_of(interrupt)) from None
    if total is not None and pages.items:
        out.note(total(pages.items))
    if pull is None and walk.cursor is None and walk.next_cursor is None and not source.typed() and source.keep is None:
        idcache.all_seen(source.what)
    if pages.ended is not None:
        _tell_ended(out, walk, source, pages, pull)
    if pages.cut:
        out.note(f"the first {pages.count}; there is more: --all, or a larger --limit")
    elif walk.next_cursor is not None and pull is None:
        shown = f"the first {pages.count}" if walk.cursor is None else f"{pages.count} more"
        out.note(f"{shown}; there is more: --all, --limit N, or --cursor", next_cursor=_to_paste(out, walk))


def _tell_ended(out: Output, walk: Walk, source: Source, pages: _Pages, pull: Pull | None) -> None:
    """Says how to continue, and raises what it was that ended the list."""
    ended = pages.ended
    interrupted = isinstance(ended, KeyboardInterrupt)
    begin = "interrupted: " if interrupted else ""
    if pull is not None:
        out.event("pull", f"{begin}{pull.told()}; the same command continues there", count=pull.count)
    else:
        are = "that came is" if pages.count == 1 else "that came are"
        what = f"the {counted(pages.count, source.what)} {are} {'printed' if out.on_stdout else 'kept'}"
        out.note(f"{begin}{what}; --cursor continues there", next_cursor=_to_paste(out, walk))
    if isinstance(ended, KeyboardInterrupt):
        raise Interrupted(exit_code_of(ended)) from None
    assert ended is not None  # noqa: S101  # else nobody calls
    raise ended


def _to_paste(out: Output, walk: Walk) -> str | None:
    """The cursor as a person pastes it into a shell; for programs as it is."""
    cursor = walk.next_cursor
    if cursor is None or out.machine_notes:
        return cursor
    from shlex import quote

    return quote(cursor)


class _Pages:
    """The pages of a list in wire form, as they come.

    Attributes:
        count: how many items there were.
        ended: what ended it on the way: then it just stops, so that what has come is printed.
        totalled: whether `items` are kept, for what is said below them.
        cut: whether a filtered list has more in the page that it ended in, where no cursor continues.
    """

    def __init__(
        self,
        out: Output,
        walk: Walk,
        source: Source,
        pager: AnyPager,
        progress: Progress,
        stop: DeferInterrupt,
        pull: Pull | None,
    ) -> None:
        self._out, self._walk, self._progress, self._stop, self._pull = out, walk, progress, stop, pull
        self._keep = source.keep
        self._pages = iter(pager.pages())
        self._before = 0 if pull is None else pull.count
        self.count = 0
        self.ended: BaseException | None = None
        self.cut = False
        self.totalled = False
        self.items: list[Any] = []

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return (rows for rows, _ in self._walk_on())

    def models(self) -> Iterator[Sequence[Any]]:
        """The same as the SDK's models."""
        return (models for _, models in self._walk_on())

    def _walk_on(self) -> Iterator[tuple[list[dict[str, Any]], Sequence[Any]]]:
        from tradesdk_cli.session import wire_all

        first = True
        while True:
            try:
                with self._stop.open():
                    page = next(self._pages, None)
            except (Exception, KeyboardInterrupt) as error:
                if first:
                    raise error if self._pull is None else self._pull.explained(error) from None
                self.ended = error
                if isinstance(error, KeyboardInterrupt):
                    self._progress.clear()
                if self._pull is None:
                    self._out.incomplete()
                return
            if page is None:
                break
            first = False
            if self._pull is not None:
                self._pull.page_came()
            items, done = self._kept(page.data)
            rows = wire_all(items)
            self.count += len(rows)
            self._walk.next_cursor = page.next_cursor
            if self.totalled:
                self.items += items
            yield rows, items
            # Only now is the page out.
            if self._pull is not None:
                self._pull.page_is_out(len(rows), page.next_cursor)
            if page.next_cursor is None or done:
                break
            self._progress.step(self._before + self.count)
        self._stop.over()

    def _kept(self, items: Sequence[Any]) -> tuple[Sequence[Any], bool]:
        """Those of a page that are shown, and whether there are enough of them."""
        if self._keep is None:
            return items, False  # the pager counts
        kept = [item for item in items if self._keep(item)]
        if self._walk.total is None:
            return kept, False
        room = self._walk.total - self.count
        self.cut = len(kept) > room
        return kept[:room], len(kept) >= room
