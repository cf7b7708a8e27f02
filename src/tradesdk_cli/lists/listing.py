"""Prints a list as far as requested, with progress, and says how to continue it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING, Any

from tradesdk_cli import idcache
from tradesdk_cli.errors import Interrupted, UsageProblem
from tradesdk_cli.interrupts import DeferInterrupt, deferring, exit_code_of
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tradesdk_cli.framework.params import Walk
    from tradesdk_cli.lists.paging import Source
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

    `total` makes the line below a whole table on a terminal from the items. With `--watch` it is shown again.

    When Ctrl-C, SIGTERM or an error ends it on the way, what has come is printed first. Nothing is printed when not
    even the first page came.
    """
    if source.best is not None and walk.cursor is not None:
        raise UsageProblem("--cursor and --sort exclude each other: --sort looks at all", "leave one of them out")
    if walk.watch is not None and not run.out.on_terminal:
        raise UsageProblem("--watch needs a terminal", "leave it out, and run the command again when you need to")
    again = False
    while True:
        _walk(run.out, columns, walk, source, empty=empty, total=total, again=again)
        if walk.watch is None:
            return
        again = True
        time.sleep(walk.watch)


def _walk(
    out: Output,
    columns: Sequence[Column],
    walk: Walk,
    source: Source,
    *,
    empty: str,
    total: Callable[[Sequence[Any]], str] | None = None,
    again: bool = False,
) -> None:
    with ExitStack() as stack:
        stop = stack.enter_context(deferring())
        progress = stack.enter_context(Progress(out, source.what, walk.total))
        pages = _Pages(out, walk, source, progress, stop)
        pages.totalled = total is not None and out.on_terminal and out.draws(many=True)
        try:
            rows = iter(pages) if walk.watch is None else iter(list(pages))  # read before clearing
            if walk.watch is not None:
                out.clear()
            out.many(columns, rows, empty=empty)
        except KeyboardInterrupt as interrupt:
            progress.clear()
            out.note("interrupted" if pages.count or again else "interrupted before anything came")
            raise Interrupted(exit_code_of(interrupt)) from None
    whole = walk.cursor is None and walk.next_cursor is None and not pages.cut and pages.ended is None
    if total is not None and pages.items and whole:  # else it would be a sum of some of them
        out.note(total(pages.items))
    if whole and not source.filtered:
        idcache.all_seen(source.what)
    if pages.ended is not None:
        _tell_ended(out, walk, source, pages)
    if pages.cut:
        out.note(f"the first {pages.count}; there is more: --all, or a larger --limit")
    elif walk.next_cursor is not None:
        shown = f"the first {pages.count}" if walk.cursor is None else f"{pages.count} more"
        out.note(f"{shown}; there is more: --all, --limit N, or --cursor", next_cursor=_to_paste(out, walk))


def _tell_ended(out: Output, walk: Walk, source: Source, pages: _Pages) -> None:
    """Says how to continue, and raises what it was that ended the list."""
    ended = pages.ended
    begin = "interrupted: " if isinstance(ended, KeyboardInterrupt) else ""
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

    def __init__(self, out: Output, walk: Walk, source: Source, progress: Progress, stop: DeferInterrupt) -> None:
        self._out, self._walk, self._progress, self._stop = out, walk, progress, stop
        self._keep, self._best = source.keep, source.best
        self._pages = iter(source.pager(walk).pages())
        self.count = 0
        self.ended: BaseException | None = None
        self.cut = False
        self.totalled = False
        self.items: list[Any] = []

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        from tradesdk_cli.session import wire_all

        if self._best is not None:
            yield wire_all(self._ranked(self._best))
            return
        first = True
        while True:
            try:
                with self._stop.open():
                    page = next(self._pages, None)
            except (Exception, KeyboardInterrupt) as error:
                if first:
                    raise
                self.ended = error
                if isinstance(error, KeyboardInterrupt):
                    self._progress.clear()
                self._out.incomplete()
                return
            if page is None:
                break
            first = False
            items, done = self._kept(page.data)
            rows = wire_all(items)
            self.count += len(rows)
            self._walk.next_cursor = page.next_cursor
            if self.totalled:
                self.items += items
            yield rows
            if page.next_cursor is None or done:
                break
            self._progress.step(self.count)
        self._stop.over()

    def _ranked(self, best: Callable[[Any], float | None]) -> list[Any]:
        """All items, the best first, cut. When it ends on the way, there is no answer: it would be a wrong one."""
        found: list[Any] = []
        with self._stop.open():
            for page in self._pages:
                found += [item for item in page.data if self._keep is None or self._keep(item)]
                self._progress.step(len(found))
        found.sort(key=lambda item: inf if (value := best(item)) is None else -value)
        shown = found[: self._walk.total]
        self.count, self.cut = len(shown), len(shown) < len(found)
        return shown

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
