"""How much of a list is wanted, and walking exactly that far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk_cli.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST = 20
LARGEST_PAGE = 100


class AnyPage(Protocol):
    """A page of whatever it is."""

    @property
    def data(self) -> Sequence[Any]: ...

    @property
    def next_cursor(self) -> str | None: ...


class AnyPager(Protocol):
    """The SDK's pager of whatever it is."""

    def pages(self) -> Iterator[AnyPage]: ...


@dataclass
class Walk:
    """What was asked for, and, once it has been walked, where the list goes on."""

    total: int | None
    page_size: int
    cursor: str | None
    next_cursor: str | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """Arguments of the SDK's `list`. Its last page asks for what is missing, so its cursor goes on right there."""
        return {"limit": self.page_size, "cursor": self.cursor, "max_items": self.total}

    def pages(self, pager: AnyPager) -> Iterator[Sequence[Any]]:
        """The pages of `pager`; sets `next_cursor`."""
        for page in pager.pages():
            self.next_cursor = page.next_cursor
            yield page.data


def plan(limit: int | None, everything: bool, cursor: str | None, page_size: int | None) -> Walk:
    """The walk that the flags of a list ask for.

    Raises:
        UsageProblem: `--limit` and `--all` together.
    """
    if everything and limit is not None:
        raise UsageProblem("--limit and --all exclude each other", "leave one of them out")
    total = None if everything else limit if limit is not None else FIRST
    return Walk(total, page_size or LARGEST_PAGE, cursor)
