"""Lists: paging, filters and sorting that the service does not have, and how to continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from math import inf
from shlex import quote
from typing import Any

from tradesdk_cli.cli.params import Walk
from tradesdk_cli.errors import Interrupted, UsageProblem
from tradesdk_cli.interrupts import DeferInterrupt, deferring
from tradesdk_cli.output.columns import Column
from tradesdk_cli.output.printer import Output
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.run import Run, wire_all
from tradesdk_cli.text import one_line, plural

_PAGE = 100


@dataclass(frozen=True)
class Source:
    """A list of the service.

    Attributes:
        what: its items, in the plural.
        find: the SDK's method.
        filters: the method's arguments; None is not sent.
        keep: a filter that the service does not have.
        rank: the sort key, lowest first; items without one are left out. Reads the whole list.
        read: gets one whole item, where the list has only a part of it.
    """

    what: str
    find: Callable[..., Any]
    filters: Mapping[str, Any] = field(default_factory=dict)
    keep: Callable[[Any], bool] | None = None
    rank: Callable[[Any], float | None] | None = None
    read: Callable[[str], Any] | None = None


def keeping(
    token: str | None = None, *, min_confidence: float | None = None, **wanted: object
) -> Callable[[Any], bool] | None:
    """A filter for items with these values, ignoring case. `token` is an address or a symbol. None: no filter."""
    symbol = None if token is None else token.strip().casefold()
    given = {name: str(value).casefold() for name, value in wanted.items() if value is not None}
    if symbol is None and not given and not min_confidence:
        return None

    def keep(item: Any) -> bool:
        if min_confidence and item.confidence < min_confidence:
            return False
        if symbol is not None and symbol not in (item.token_symbol.casefold(), item.token_address.casefold()):
            return False
        return all(str(getattr(item, name)).casefold() == value for name, value in given.items())

    return keep


def ranked_by(sort: str, fields: Mapping[str, str]) -> Callable[[Any], float]:
    """The sort key for a column: best first, with `-` worst first, items without a value last.

    `fields` are the fields of the columns, dotted where nested.
    """
    name, sign = fields[sort.removeprefix("-")], 1 if sort.startswith("-") else -1

    def rank(item: Any) -> float:
        for part in name.split("."):
            item = getattr(item, part, None)
        return inf if item is None else sign * item

    return rank


def refuse_query(out: Output, hint: str) -> None:
    """Refuses a query on a part of a list: its result would look like that of the whole list."""
    if out.selection.asks:
        raise UsageProblem("--query needs the whole list, and there is more", hint)


def show_list(
    run: Run,
    columns: Sequence[Column],
    walk: Walk,
    source: Source,
    *,
    empty: str,
    total: Callable[[Sequence[Any]], str] | None = None,
) -> None:
    """Prints a list, and on stderr how to continue.

    `total` makes the line below a complete table from the items. With `--watch`, the list is refreshed. After Ctrl-C,
    SIGTERM or an error, the items received so far are printed first, if there was at least one page.
    """
    out = run.out
    if source.rank is not None and walk.cursor is not None:
        raise UsageProblem("a sorted list needs all items, and --cursor skips some", "leave --cursor out")
    if walk.watch is not None and not out.on_terminal:
        raise UsageProblem("--watch needs a terminal", "leave it out, and run the command again when you need to")
    for again in count():
        with deferring() as stop, Progress(out, source.what, walk.total) as progress:
            pages = _Pages(out, walk, source, progress, stop, total)
            try:
                rows = iter(pages) if walk.watch is None else iter(list(pages))  # read before the screen is cleared
                if walk.watch is not None:
                    out.draw(lambda console: console.clear())
                out.many(columns, rows, empty=empty, foot=pages.foot)
            except KeyboardInterrupt as interrupt:
                progress.clear()
                out.note("interrupted" if pages.count or again else "interrupted before the first page")
                raise Interrupted(interrupt) from None
        pages.end()
        if walk.watch is None:
            return
        time.sleep(walk.watch)


@dataclass(eq=False)
class _Pages:
    """The pages of a list in wire form.

    Attributes:
        count: the number of items so far.
        ended: the error that ended it early. Iteration then stops normally, so that the items so far are printed.
        cut: whether a filtered list ended within a page, so that no cursor continues it.
        items: all items, for the total below.
    """

    out: Output
    walk: Walk
    source: Source
    progress: Progress
    stop: DeferInterrupt
    total: Callable[[Sequence[Any]], str] | None
    count: int = 0
    ended: BaseException | None = None
    cut: bool = False
    items: list[Any] = field(default_factory=list)

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        source, walk = self.source, self.walk
        # The last page has exactly the missing items, so its cursor continues right after them.
        most = walk.total if source.keep is None and source.rank is None else None
        pages = iter(source.find(**source.filters, limit=_PAGE, cursor=walk.cursor, max_items=most).pages())
        if source.rank is not None:
            yield wire_all(self._ranked(pages, source.rank))
            self._is_enough()
            return
        first = True
        while True:
            try:
                with self.stop.open():
                    page = next(pages, None)
                    items, done = self._filtered([] if page is None else page.data)
                    items = list(self._whole(items))
            except (Exception, KeyboardInterrupt) as error:
                if first:
                    raise
                self.ended = error
                if isinstance(error, KeyboardInterrupt):
                    self.progress.clear()
                self.out.partly = True
                return
            if page is None:
                break
            first = False
            rows = wire_all(items)
            self.count += len(rows)
            walk.next_cursor = page.next_cursor
            if self.total is not None:
                self.items += items
            yield rows
            if page.next_cursor is None or done:
                break
            self.progress.step(self.count)
        self.stop.over()
        self._is_enough()

    def _ranked(self, pages: Iterator[Any], rank: Callable[[Any], float | None]) -> list[Any]:
        """All items sorted, then cut. Without the whole list there is no result: it would be wrong."""
        found: list[Any] = []
        with self.stop.open():
            for page in pages:
                found += [item for item in page.data if self.source.keep is None or self.source.keep(item)]
                self.progress.step(len(found))
            found = list(self._whole(found))
        ranks = [(value, item) for item in found if (value := rank(item)) is not None]
        ranks.sort(key=lambda pair: pair[0])
        shown = [item for _, item in ranks[: self.walk.total]]
        self.count, self.cut = len(shown), len(shown) < len(ranks)
        return shown

    def _whole(self, items: Sequence[Any]) -> Iterator[Any]:
        """The items, each fetched where the list has only a part of it."""
        from tradesdk import NotFoundError

        read = self.source.read
        for number, item in enumerate(items, self.count + 1):
            try:
                yield item if read is None else read(item.id)
            except NotFoundError:
                self.out.note(f"{one_line(item.name, 80)} ({one_line(item.id, 80)}) was deleted meanwhile")
            if read is not None:
                self.progress.step(number)

    def _filtered(self, items: Sequence[Any]) -> tuple[Sequence[Any], bool]:
        """The filtered items of a page, and whether there are enough."""
        keep = self.source.keep
        if keep is None:
            return items, False  # the pager counts the items
        kept = [item for item in items if keep(item)]
        if self.walk.total is None:
            return kept, False
        room = self.walk.total - self.count
        self.cut = len(kept) > room
        return kept[:room], len(kept) >= room

    def _is_enough(self) -> None:
        if self.walk.first and (self.cut or self.walk.next_cursor is not None):
            refuse_query(self.out, "--all, or --limit N")

    def foot(self) -> tuple[list[str], dict[str, Any]]:
        """Notes below the list: its total, and how to continue; the cursor for programs, or with `-v`."""
        out, walk = self.out, self.walk
        if self.ended is not None:
            return [], {}
        if self.cut:
            return [f"the first {self.count}; there is more: --all, or a larger --limit"], {}
        if walk.next_cursor is None:
            # After --cursor, it would be the sum of a part.
            is_whole = self.items and walk.cursor is None and out.on_terminal and out.draws(many=True)
            return [self.total(self.items)] if self.total is not None and is_whole else [], {}
        shown = f"the first {self.count}" if walk.cursor is None else f"{self.count} more"
        fields = {"next_cursor": self._to_paste()} if not out.on_terminal or out.settings.verbose else {}
        return [f"{shown}; there is more: --all, or --limit N"], fields

    def end(self) -> None:
        """After an early end: prints how to continue, and raises the error."""
        if self.ended is None:
            return
        interrupted = isinstance(self.ended, KeyboardInterrupt)
        are, done = "is" if self.count == 1 else "are", "printed" if self.out.file is None else "saved"
        text = f"{plural(self.count, self.source.what)} {are} {done}; --cursor continues there"
        self.out.note("interrupted: " * interrupted + text, next_cursor=self._to_paste())
        if interrupted:
            raise Interrupted(self.ended) from None
        raise self.ended

    def _to_paste(self) -> str | None:
        """The cursor, quoted for a shell; for programs as it is."""
        cursor = self.walk.next_cursor
        return cursor if cursor is None or self.out.machine_notes else quote(cursor)


# The names of agents beside their trades and positions


_AT_MOST = 1000
"""Agents whose names are looked up; others are shown by id."""
_SECONDS = 5.0


def with_names(run: Run, columns: Sequence[Column], filters: Mapping[str, object]) -> Sequence[Column]:
    """`columns` with the agent's name as `agent` in a table on a terminal, and without the fields of `filters`.

    The first row fetches the list of agents; scripts send no extra request. Without a name, the id is shown. Fields of
    filters are left out because they are the same in each row.
    """
    if not (run.out.on_terminal and run.out.draws(many=True)):
        return columns
    from tradesdk import TradeError

    columns = [column for column in columns if filters.get(column.key) is None]

    @cache
    def names() -> dict[str, str]:
        quick = run.client.with_options(max_retries=0, deadline=_SECONDS)  # no retries: the rows are waiting
        try:
            return {agent.id: agent.name for agent in quick.agents.list(max_items=_AT_MOST)}
        except TradeError:
            return {}  # the list itself is here, and has the ids

    def name_of(row: Mapping[str, Any]) -> Any:
        return names().get(row.get("agent_id", ""), row.get("agent_id"))

    return [
        replace(column, key="agent", kind="text", title="agent", of=name_of) if column.key == "agent_id" else column
        for column in columns
    ]
