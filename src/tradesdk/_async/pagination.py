"""Pagination: lists as iterators of items and pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from .._http.arguments import MAX_PAGE, optional_text, optional_whole
from .._http.repeated_pages import Repeats
from .._http.request import Listing
from ..errors import APIResponseError
from ..models._base import Page

if TYPE_CHECKING:
    from collections.abc import Generator  # async only

    import pandas
    import polars
    import pyarrow

    from ..models._base import Model
    from .sending import AsyncCaller

M = TypeVar("M", bound="Model")

_id_of = attrgetter("id")  # all listed models have one


class AsyncPager(Generic[M]):
    """A list of the service. Iterating gives all items; a page is fetched when one of its items is needed.

    Every iteration starts at the beginning (or at `cursor`). A pager has one consumer at a time. When a page cannot be
    fetched, the iterator keeps its position: asking for the next item fetches that page again.

    Example:
        ```python
        async for trade in client.trades.list(status="closed"):
            ...
        ```
    """

    def __init__(
        self,
        session: AsyncCaller,
        listing: Listing[M],
        *,
        limit: int | None = None,
        cursor: str | None = None,
        max_items: int | None = None,
    ) -> None:
        self._session = session
        self._listing = listing
        self._limit = optional_whole("limit", limit, 1, MAX_PAGE) or MAX_PAGE
        self._cursor = optional_text("cursor", cursor)
        self._max_items = optional_whole("max_items", max_items, 0)

    def __aiter__(self) -> AsyncIterator[M]:
        return _AsyncItems(self.pages())

    if not TYPE_CHECKING:  # type checkers know the base class

        def __getitem__(self, index: object) -> NoReturn:
            raise TypeError(
                "a pager has no index, as it fetches items one page after the other: use first(), page().data, or "
                "to_list()[…]"
            )

        def __iter__(self) -> NoReturn:  # async only
            raise TypeError("an AsyncPager is read with `async for`, or await pager.to_list()")  # async only

    def __await__(self) -> Generator[object, None, Page[M]]:  # async only
        """`await pager` is `await pager.page()`."""  # async only
        return self.page().__await__()  # async only

    async def page(self) -> Page[M]:
        """The first page, with `data` and `next_cursor`. For the next page, pass that as `cursor=` to `list`."""
        async for page in self.pages():
            return page
        return Page(data=[], next_cursor=self._cursor)  # max_items=0

    def pages(self) -> AsyncIterator[Page[M]]:
        """The pages, each with `data` and `next_cursor`. With `max_items`, the last page has only as many as needed.

        Raises:
            APIResponseError: a cursor came twice, a page has only items that came before, or more than a thousand pages
                in a row are empty, so the list would never end (`code` is `pagination_loop`).
        """
        return AsyncPages(self._session, self._listing, self._limit, self._cursor, self._max_items)

    async def first(self) -> M | None:
        """The first item; None when the list is empty. Fetches one item only."""
        async for page in AsyncPages(self._session, self._listing, 1, self._cursor, self._max_items):
            for item in page.data:
                return item
        return None

    async def to_list(self) -> list[M]:
        """All items."""
        return [item async for page in self.pages() for item in page.data]

    async def to_arrow(self) -> pyarrow.Table:
        """All items as an Arrow table, as `arrow_table` makes it. Needs the extra `frames`.

        Raises:
            ConfigError: pyarrow is not installed (`missing_package`). Nothing was sent.
        """
        from .. import _frames

        _frames.load("pyarrow")
        return _frames.arrow_table(self._listing.item, await self.to_list())

    async def to_pandas(self) -> pandas.DataFrame:
        """All items as a pandas frame. Needs the extra `frames`.

        Raises:
            ConfigError: pyarrow or pandas is not installed (`missing_package`). Nothing was sent.
        """
        from .. import _frames

        _frames.load("pandas")
        return _frames.pandas_frame(await self.to_arrow())

    async def to_polars(self) -> polars.DataFrame:
        """All items as a Polars frame. Needs the extra `frames`.

        Raises:
            ConfigError: pyarrow or polars is not installed (`missing_package`). Nothing was sent.
        """
        from .. import _frames

        _frames.load("polars")
        return _frames.polars_frame(await self.to_arrow())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._listing.item.__name__} at {self._listing.path}>"


# Iterators, not generators: stopping early needs no clean-up, and after an error the page can be fetched again.


class AsyncPages(Generic[M]):
    def __init__(
        self,
        session: AsyncCaller,
        listing: Listing[M],
        limit: int = MAX_PAGE,
        cursor: str | None = None,
        max_items: int | None = None,
        give_up: float | None = None,
    ) -> None:
        self._session = session
        self._listing = listing
        self._limit = limit
        self._cursor = cursor
        self._left = max_items
        self._give_up = give_up
        self._cursors: set[str] = set()
        self._repeats = Repeats()
        self._done = False

    def __aiter__(self) -> AsyncPages[M]:
        return self

    async def __anext__(self) -> Page[M]:
        if self._done or self._left == 0:
            raise StopAsyncIteration
        if self._cursor is not None and self._cursor in self._cursors:
            raise self._loop("the list repeats a cursor")
        limit = self._limit if self._left is None else min(self._limit, self._left)
        request = self._listing.page(limit=limit, cursor=self._cursor)
        page = await self._session.call(request, give_up=self._give_up)
        if page.next_cursor is not None and self._repeats.nothing_new(list(map(_id_of, page.data))):
            raise self._loop("the list has new cursors and no new items")
        if self._left is not None:
            if len(page.data) > self._left:  # more than the limit of the request
                page = page.model_copy(update={"data": page.data[: self._left]})
            self._left -= len(page.data)
        if self._cursor is not None:
            self._cursors.add(self._cursor)
        self._cursor = page.next_cursor
        self._done = self._cursor is None
        return page

    def _loop(self, problem: str) -> APIResponseError:
        return APIResponseError(
            f"{problem}, so it would never end",
            method="GET",
            url=self._session.base_url + self._listing.path,
            code="pagination_loop",
        )


class _AsyncItems(Generic[M]):
    def __init__(self, pages: AsyncIterator[Page[M]]) -> None:
        self._pages = pages
        self._items: Iterator[M] = iter(())

    def __aiter__(self) -> _AsyncItems[M]:
        return self

    async def __anext__(self) -> M:
        while True:
            for item in self._items:
                return item
            page = await anext(self._pages)
            self._items = iter(page.data)
