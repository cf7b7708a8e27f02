"""Where a list comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tradesdk_cli.framework.params import Walk


class AnyPage(Protocol):
    """A page of whatever it is."""

    @property
    def data(self) -> Sequence[Any]: ...

    @property
    def next_cursor(self) -> str | None: ...


class AnyPager(Protocol):
    """The SDK's pager of whatever it is."""

    def pages(self) -> Iterator[AnyPage]: ...


@dataclass(frozen=True)
class Source:
    """A list of the service.

    Attributes:
        what: what is in it, in the plural.
        find: the SDK's method.
        filters: that method's own arguments; None is not sent.
        keep: which of its items are shown, where the service has no such filter.
        best: the number by which items are ranked, highest first; None of an item: it comes last. All are read.
    """

    what: str
    find: Callable[..., AnyPager]
    filters: Mapping[str, Any] = field(default_factory=dict)
    keep: Callable[[Any], bool] | None = None
    best: Callable[[Any], float | None] | None = None

    @property
    def filtered(self) -> bool:
        """Whether anything was left out of the list."""
        return self.keep is not None or any(value is not None for value in self.filters.values())

    def pager(self, walk: Walk) -> AnyPager:
        """The SDK's pager for this walk."""
        # The last page asks for what is missing, so that its cursor continues right there.
        most = walk.total if self.keep is None and self.best is None else None
        return self.find(**self.filters, limit=walk.page_size, cursor=walk.cursor, max_items=most)


def keeping(token: str | None = None, **wanted: object) -> Callable[[Any], bool] | None:
    """Which items are shown where the service has no such filter: those with these values, in upper or lower case.

    `token` is an address or a symbol. None: all are.
    """
    symbol = None if token is None else token.strip().casefold()
    given = {name: str(value).casefold() for name, value in wanted.items() if value is not None}
    if symbol is None and not given:
        return None

    def keep(item: Any) -> bool:
        if symbol is not None and symbol not in (item.token_symbol.casefold(), item.token_address.casefold()):
            return False
        return all(str(getattr(item, name)).casefold() == value for name, value in given.items())

    return keep
