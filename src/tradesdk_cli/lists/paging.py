"""How much of a list is wanted, where it comes from, and walking exactly that far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk_cli.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

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


class Age(float):
    """A moment in Unix seconds that was typed as an age, so that it is another one every time."""

    text: str
    """What was typed."""

    def __new__(cls, moment: float, text: str) -> Age:
        made = super().__new__(cls, moment)
        made.text = text
        return made


@dataclass(frozen=True)
class Source:
    """A list of the service.

    Attributes:
        what: what is in it, in the plural.
        model: the SDK's model of one of them, by its name.
        path: where it is: `/v1/trades`.
        find: the SDK's method.
        filters: that method's own arguments; None is not sent.
        pins: which of them an absent value is pinned to the present for, so that pages do not move while they are read.
    """

    what: str
    model: str
    path: str
    find: Callable[..., AnyPager]
    filters: Mapping[str, Any] = field(default_factory=dict)
    pins: tuple[str, ...] = ()

    def pager(self, walk: Walk, pinned: Mapping[str, float] | None = None) -> AnyPager:
        """The SDK's pager for this walk. `pinned` moments go before what was typed."""
        return self.find(**{**self.filters, **(pinned or {}), **walk.asked})

    def of(self) -> Any:
        """The SDK's model of one of them."""
        import tradesdk

        return getattr(tradesdk, self.model)

    def names(self) -> list[str]:
        """The wire fields that each of them may have, as the columns of a file that begins before they are seen."""
        from tradesdk_cli.output.select import names_of_model

        return list(names_of_model(self.of()))

    def typed(self) -> dict[str, Any]:
        """The filters as they were typed: an age as its text."""
        return {
            name: value.text if isinstance(value, Age) else value
            for name, value in self.filters.items()
            if value is not None
        }

    def pinned(self, now: float) -> dict[str, float]:
        """The moments that are to stay what they are now."""
        found = {name: now for name in self.pins if self.filters.get(name) is None}
        return found | {name: float(value) for name, value in self.filters.items() if isinstance(value, Age)}


@dataclass
class Walk:
    """What was asked for, and, while it is walked, where the list goes on.

    Attributes:
        total: how many at most; None: all.
        page_size: how many a request asks for.
        cursor: where it begins; None: at the beginning of the list.
        next_cursor: where the last page says that it goes on.
        checkpoint: the file that keeps how far it is.
        restart: what that file says does not count.
    """

    total: int | None
    page_size: int
    cursor: str | None
    next_cursor: str | None = None
    checkpoint: Path | None = None
    restart: bool = False

    @property
    def asked(self) -> dict[str, Any]:
        """Arguments of the SDK's `list`. Its last page asks for what is missing, so its cursor goes on right there."""
        return {"limit": self.page_size, "cursor": self.cursor, "max_items": self.total}


def plan(
    limit: int | None,
    everything: bool,
    cursor: str | None,
    page_size: int | None,
    checkpoint: Path | None = None,
    restart: bool = False,
) -> Walk:
    """The walk that the flags of a list ask for.

    Raises:
        UsageProblem: flags that do not go together.
    """
    if everything and limit is not None:
        raise UsageProblem("--limit and --all exclude each other", "leave one of them out")
    if checkpoint is not None and not everything and limit is None:
        raise UsageProblem("--checkpoint is for long lists: how long?", "add --all, or --limit N")
    if restart and checkpoint is None:
        raise UsageProblem("--restart belongs to --checkpoint", "it begins anew what that file has begun")
    total = None if everything else limit if limit is not None else FIRST
    return Walk(total, page_size or LARGEST_PAGE, cursor, checkpoint=checkpoint, restart=restart)
