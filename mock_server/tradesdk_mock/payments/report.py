"""`MockService.payments`: who paid what, and whether anything was charged twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.errors import ApiError, MockServerError
from ..core.router import path_pattern
from . import requirements, settlements
from .settlements import Presentation, Settlement

if TYPE_CHECKING:
    from ..state.world import World

_SHOWN = 8


class MockPayments:
    """The payments that a mock has received: `MockService.payments`.

    Amounts are whole numbers: millionths of a US dollar. Addresses may be given in upper or lower case.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def pay_to(self) -> str:
        """The address that receives payments; it follows from the seed."""
        return requirements.pay_to(self._world.seed)

    def settlements(self, payer: str | None = None, path: str | None = None) -> list[Settlement]:
        """Every payment that was taken, oldest first; with `payer` or `path` (a path or a pattern), only those."""
        with self._reading() as world:
            found = settlements.settlements(world, payer)
        return [each for each in found if path is None or path_pattern(path).fullmatch(each.path)]

    def presentations(self, payer: str | None = None) -> list[Presentation]:
        """Every payment header that arrived, taken or not, oldest first: the latest 100,000."""
        with self._reading() as world:
            return settlements.presentations(world, payer)

    def signatures(self, payer: str | None = None) -> int:
        """How many different authorizations have arrived; resending one needs no new signature."""
        return len({(each.payer, each.nonce) for each in self.presentations(payer) if each.nonce is not None})

    def spent(self, payer: str | None = None) -> int:
        """The total of all settlements."""
        return sum(each.amount for each in self.settlements(payer))

    def balance(self, payer: str) -> int:
        """A payer's balance; a new payer has that of the gap option `payer_balance`."""
        with self._reading() as world:
            return settlements.balance(world, payer)

    def balances(self) -> dict[str, int]:
        """The balance of every payer that has paid or whose balance was set."""
        with self._reading() as world:
            return settlements.balances(world)

    def set_balance(self, payer: str, amount: int) -> None:
        """Set a payer's balance of play money. MockServerError for an invalid address or amount."""
        with self._reading() as world:
            settlements.set_balance(world, payer, amount)

    def charged_twice(self, payer: str | None = None, *, within: float | None = None) -> list[list[Settlement]]:
        """Settlements of one payer for the same request (method, path and body), where there are several.

        Args:
            payer: whose; everybody's when left out.
            within: only those that follow another one within this many seconds of the service's time.
        """
        groups: dict[tuple[str, str], list[list[Settlement]]] = {}
        for each in self.settlements(payer):
            series = groups.setdefault((each.payer, each.fingerprint), [])
            if series and (within is None or each.at - series[-1][-1].at <= within):
                series[-1].append(each)
            else:
                series.append([each])
        return [found for series in groups.values() for found in series if len(found) > 1]

    def assert_charged(
        self,
        *,
        times: int | None = None,
        amount: int | None = None,
        payer: str | None = None,
        path: str | None = None,
    ) -> list[Settlement]:
        """AssertionError unless money was taken; its message shows what was taken instead. Those settlements.

        Args:
            times: exactly this many settlements; by default, at least one.
            amount: all of them together.
            payer: whose.
            path: what for: a path, or a pattern such as `/v1/token-*`.
        """
        __tracebackhide__ = True
        if times is not None and (type(times) is not int or times < 0):
            raise ValueError(f"times: must be a count, not {times!r}")
        found = self.settlements(payer, path)
        who = "".join(f" {name}={value}" for name, value in (("payer", payer), ("path", path)) if value is not None)
        if (times is None and not found) or (times is not None and len(found) != times):
            wanted = "at least once" if times is None else f"{times} times"
            raise AssertionError(f"charged {len(found)} times, not {wanted}{who}\n{self._shown(found)}")
        total = sum(each.amount for each in found)
        if amount is not None and total != amount:
            raise AssertionError(f"charged {total:,} millionths of a dollar, not {amount:,}{who}\n{self._shown(found)}")
        return found

    def assert_not_charged(self, *, payer: str | None = None, path: str | None = None) -> None:
        """AssertionError if money was taken; its message shows each settlement."""
        __tracebackhide__ = True
        self.assert_charged(times=0, payer=payer, path=path)

    def assert_not_charged_twice(self, payer: str | None = None, *, within: float | None = None) -> None:
        """AssertionError if a payer was charged several times for the same request. Arguments as `charged_twice`."""
        __tracebackhide__ = True
        twice = self.charged_twice(payer, within=within)
        if twice:
            lines = [line(each) for found in twice for each in found]
            raise AssertionError("charged several times for the same request:\n" + _listed(lines))

    def _shown(self, found: list[Settlement]) -> str:
        """What was taken, or else what was presented and not taken."""
        if found:
            return _listed([line(each) for each in found])
        refused = [
            f"#{each.n} {each.path}: {each.verdict} ({each.status})"
            for each in self.presentations()
            if each.verdict != "settled"
        ]
        return "presented:\n" + _listed(refused) if refused else "no payment that was refused has arrived either"

    @contextmanager
    def _reading(self) -> Iterator[World]:
        try:
            with self._world.transaction():
                yield self._world
        except ApiError as error:
            raise MockServerError(error.message) from None


def line(each: Settlement) -> str:
    """A settlement in one line."""
    dollars = f"{each.amount / settlements.MICRO:.6f}"
    return (
        f"#{each.n} {each.method} {each.path}: {dollars} USD of {each.payer}, nonce {each.nonce[:12]}…, {each.at:.3f}"
    )


def _listed(lines: Iterable[str]) -> str:
    found = [f"  {each}" for each in lines]
    return "\n".join([*found[:_SHOWN], *([f"  ... and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])])
