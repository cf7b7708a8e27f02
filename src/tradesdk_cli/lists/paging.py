"""Where a list comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tradesdk_cli.framework.params import Age, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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
        model: the SDK's model of one of them, by its name.
        path: where it is: `/v1/trades`.
        find: the SDK's method.
        filters: that method's own arguments; None is not sent.
        keep: which of its items are shown, where the service has no such filter.
        pins: which of them an absent value is pinned to the present for, so that pages do not move while they are read.
    """

    what: str
    model: str
    path: str
    find: Callable[..., AnyPager]
    filters: Mapping[str, Any] = field(default_factory=dict)
    pins: tuple[str, ...] = ()
    keep: Callable[[Any], bool] | None = None

    def pager(self, walk: Walk, pinned: Mapping[str, float] | None = None) -> AnyPager:
        """The SDK's pager for this walk. `pinned` moments go before what was typed."""
        # The last page asks for what is missing, so that its cursor continues right there.
        most = walk.total if self.keep is None else None
        asked = {"limit": walk.page_size, "cursor": walk.cursor, "max_items": most}
        return self.find(**{**self.filters, **(pinned or {}), **asked})

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
