"""What a mock has built before it first shows data about trades: taking it over takes a hundredth of building it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tradesdk_mock import MockClock, MockService


@cache
def stock(at: float | None, *tenants: str) -> bytes:
    """A snapshot of a market with its trades, and of these tenants'; `at`: the time at which its clock stands still."""
    clock = None if at is None else MockClock(at)
    with MockService(seed=7, clock=clock, signals="scripted") as made:
        for tenant in (*tenants, "house"):
            made.populate(tenant)
        return made.snapshot()


def stocked(mock: MockService, at: float | None = None, *tenants: str) -> None:
    """Give a mock in memory that stock. Its `restore` checks and copies every row, which takes ten times as long."""
    gaps, market = mock.world.gaps, mock.world.market
    mock.world.store._db.deserialize(stock(at, *tenants))
    mock.world.store.set_meta("market", market)
    mock.world.replace(lambda: None)
    mock.set_gaps(**gaps.as_dict())


@cache
def world() -> bytes:
    """That stock, and the tenant of `trade --mock`."""
    with MockService(seed=7, signals="scripted") as made:
        stocked(made)
        made.populate("me")
        return made.snapshot()


def stocked_worlds(home: Path, *names: str) -> None:
    """Worlds of `trade --mock`: to build one, its first command and its first purchase take half a second."""
    folder = home / "mock"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in names:
        (folder / f"{name}.sqlite3").write_bytes(world())
