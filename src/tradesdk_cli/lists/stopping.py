"""Ctrl-C and SIGTERM while something is fetched piece by piece: they end it between two pieces, not inside one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.stream.watching import Told, hearing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Deferral:
    """What becomes of Ctrl-C and SIGTERM: where it is `open` they are raised, elsewhere they wait for that."""

    def __init__(self, noticed: Callable[[], object] = lambda: None) -> None:
        """`noticed` is called when a signal comes, before anything ends because of it."""
        self._noticed = noticed
        self._told: Told | None = None
        self._raises = True

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, the signal is raised as `Told` at once; one that came before is raised here."""
        self._raises = True
        try:
            if self._told is not None:
                raise self._told
            yield
        finally:
            self._raises = False

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Inside, the signal waits until this ends, and is raised then."""
        self._raises = False
        try:
            yield
        finally:
            self._raises = True
        if self._told is not None:
            raise self._told

    def over(self) -> None:
        """From now on nothing waits: all pieces are there. What came meanwhile came too late to matter."""
        self._told = None
        self._raises = True

    def hear(self, number: int) -> bool:
        """A signal came."""
        self._noticed()
        told = Told(number)
        if self._raises:
            raise told
        self._told = told
        return False


@contextmanager
def deferring(noticed: Callable[[], object] = lambda: None) -> Iterator[Deferral]:
    """Inside, the first Ctrl-C or SIGTERM is dealt with by the `Deferral`; the second ends the process at once."""
    deferral = Deferral(noticed)
    with hearing(deferral.hear):
        yield deferral
