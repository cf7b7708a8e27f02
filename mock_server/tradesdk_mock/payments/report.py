"""`MockService.payments`: who paid what, and whether anything was charged twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..core.errors import mock_errors
from ..core.request_log import listed
from ..core.router import path_pattern
from ..core.units import Address, MicroUsd, Seconds
from . import accounts, requirements, settlements
from .accounts import MockWallet
from .settlements import Settlement, Submission

if TYPE_CHECKING:
    from ..state.world import World

PAGE = 10_000
PURCHASE = 600.0
"""Seconds after its payment in which an equal call continues a purchase without a response."""
_Row = TypeVar("_Row", Settlement, Submission)


class MockPayments:
    """The payments that a mock has received: `MockService.payments`.

    Amounts are micro-dollars, as ints. Addresses may be given in upper or lower case.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def __repr__(self) -> str:
        return f"<MockPayments of seed {self._world.seed}>"

    @property
    def pay_to(self) -> str:
        """The address that receives payments; it follows from the seed."""
        return requirements.pay_to(self._world.seed)

    def settlements(
        self, payer: Address | None = None, path: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[Settlement]:
        """List the payments that were taken, oldest first. Amounts are micro-dollars.

        Args:
            payer: only those of this address.
            path: only those for this path, or for a pattern such as `/v1/token-*`.
            after: only those with a higher number (`n`).
            limit: at most this many, 1 to 10,000.

        Raises:
            ValueError: not a path, or an invalid `limit`.
        """
        if path is not None and path[:1] not in ("/", "*"):
            raise ValueError("path: must be a path such as /v1/token-prices, or a pattern that begins with *")
        with self._reading() as world:
            found = settlements.settlements(world, payer)
        return _page([each for each in found if path is None or path_pattern(path).fullmatch(each.path)], after, limit)

    def submissions(
        self, payer: Address | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[Submission]:
        """List the latest 100,000 payment headers that arrived, taken or not, oldest first.

        Args:
            payer: only those of this address.
            after: only those with a higher number (`n`).
            limit: at most this many, 1 to 10,000.

        Raises:
            ValueError: an invalid `limit`.
        """
        with self._reading() as world:
            return _page(settlements.submissions(world, payer), after, limit)

    def signatures(self, payer: Address | None = None) -> int:
        """How many different authorizations have arrived; resending one needs no new signature."""
        return len({(each.payer, each.nonce) for each in self.submissions(payer) if each.nonce is not None})

    def spent(self, payer: Address | None = None, path: str | None = None) -> int:
        """The total of all settlements."""
        return sum(each.amount for each in self.settlements(payer, path))

    def balance(self, payer: Address) -> int:
        """Show a payer's balance; a new payer has that of the gap option `payer_balance`.

        Args:
            payer: the payer's address.
        """
        with self._reading() as world:
            return settlements.balance(world, payer)

    def balances(self) -> dict[str, int]:
        """List the balances of all payers that have paid or whose balance was set, in micro-dollars."""
        with self._reading() as world:
            return settlements.balances(world)

    def set_balance(self, payer: Address, balance: MicroUsd) -> None:
        """Set a payer's balance of play money.

        Args:
            payer: the payer's address.
            balance: micro-dollars.

        Raises:
            MockServerError: an invalid address or balance.
        """
        with self._reading() as world:
            settlements.set_balance(world, payer, balance)

    def wallet(self, owner: Address, salt: int = 0) -> MockWallet:
        """Show the smart contract wallet of an owner: its address is known before it is deployed.

        Args:
            owner: the address of the key that signs for it.
            salt: another number is another wallet of the same owner.

        Raises:
            MockServerError: an invalid address or salt.
        """
        with self._reading() as world:
            return accounts.wallet(world, owner, salt)

    def deploy_wallet(self, owner: Address, salt: int = 0) -> MockWallet:
        """Deploy the smart contract wallet of an owner: from now on it has code. Paying from it deploys it, too.

        Args:
            owner: the address of the key that signs for it.
            salt: another number is another wallet of the same owner.

        Raises:
            MockServerError: an invalid address or salt.
        """
        with self._reading() as world:
            accounts.deploy(world, accounts.wallet(world, owner, salt))
            return accounts.wallet(world, owner, salt)

    def delegate(self, address: Address) -> str:
        """Delegate a key's account to a contract (EIP-7702). The gap option `delegated_payers` decides the effect.

        Args:
            address: the account's address.

        Raises:
            MockServerError: an invalid address.
        """
        with self._reading() as world:
            return accounts.delegate(world, address)

    def charged_twice(self, payer: Address | None = None, *, within: Seconds = PURCHASE) -> list[list[Settlement]]:
        """List purchases that were charged more than once, each with its settlements.

        A nonce is taken only once, so this means another nonce for the same request (method, path and body) of the same
        payer, before the first payment got its response. After a response, an equal call is another purchase.

        Args:
            payer: only those of this address.
            within: only those that follow within this many seconds of the service's time. Later, an equal call is
                another purchase.

        Raises:
            ValueError: a negative `within`.
        """
        if within < 0:
            raise ValueError("within: must be 0 or more seconds")
        delivered: dict[tuple[str, str], float] = {}
        for sent in self.submissions(payer):
            if sent.payer is not None and sent.nonce is not None and 200 <= sent.status < 300:
                delivered.setdefault((sent.payer, sent.nonce), sent.at)
        groups: dict[tuple[str, str], list[list[Settlement]]] = {}
        for each in self.settlements(payer):
            series = groups.setdefault((each.payer, each.fingerprint), [])
            last = series[-1][-1] if series else None
            lost = last is not None and delivered.get((last.payer, last.nonce), math.inf) > each.at
            if lost and last is not None and each.at - last.at <= within:
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
        """AssertionError unless money was taken; its message shows the payments. Returns those settlements.

        Args:
            times: exactly this many settlements, such as 0; by default, at least one.
            amount: their total.
            payer: only those of this address.
            path: only those for this path, or for a pattern such as `/v1/token-*`.
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
            raise AssertionError(f"charged {total:,} micro-dollars, not {amount:,}{who}\n{self._shown(found)}")
        return found

    def assert_not_charged_twice(self, payer: str | None = None, *, within: float = PURCHASE) -> None:
        """AssertionError if a purchase was charged more than once. Arguments as `charged_twice`."""
        __tracebackhide__ = True
        twice = self.charged_twice(payer, within=within)
        if twice:
            lines = [line(each) for found in twice for each in found]
            raise AssertionError("charged more than once for the same purchase:\n" + listed(lines))

    def _shown(self, found: list[Settlement]) -> str:
        """The settlements, or else the submissions that were not settled."""
        if found:
            return listed([line(each) for each in found])
        refused = [
            f"#{each.n} {each.path}: {each.verdict} ({each.status})"
            for each in self.submissions()
            if each.verdict != "settled"
        ]
        return "submitted:\n" + listed(refused) if refused else "no payment has arrived"

    @contextmanager
    def _reading(self) -> Iterator[World]:
        with mock_errors(), self._world.transaction():
            settlements.cash_held(self._world)
            yield self._world


def line(each: Settlement) -> str:
    """A settlement in one line."""
    dollars = f"{each.amount / settlements.MICRO:.6f}"
    return (
        f"#{each.n} {each.method} {each.path}: {dollars} USD of {each.payer}, nonce {each.nonce[:12]}…, {each.at:.3f}"
    )


def _page(found: list[_Row], after: int, limit: int | None) -> list[_Row]:
    if limit is not None and not 1 <= limit <= PAGE:
        raise ValueError(f"limit: must be from 1 to {PAGE:,}")
    return [each for each in found if each.n > after][:limit]
