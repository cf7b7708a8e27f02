"""docs/x402-clients.md shows what tests/peers/client_table.py measures."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tradesdk import Ledger

from ._programs import Program
from .client_table import CLIENTS, SCENARIOS, column, program_of
from .programs.client_tradesdk import buy

PAGE = Path(__file__).parents[2] / "docs" / "x402-clients.md"
NODE = pytest.param(
    "node", "fetch", marks=pytest.mark.skipif(not os.environ.get("PEERS_NODE"), reason="run by scripts/peers --node")
)


def shown() -> dict[str, list[str]]:
    """The page's table: the cells below each title."""
    lines = [
        line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "
    ]
    first = next(place for place, cells in enumerate(lines) if cells[0] == "What goes wrong")
    titles, *rows = lines[first : first + 1 + len(SCENARIOS)]
    return dict(zip(titles, (list(cells) for cells in zip(*rows, strict=True)), strict=True))


class InProcess:
    """Our client's program, without a process of its own, and with ledgers in memory."""

    def __init__(self) -> None:
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger.memory)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *error: object) -> None: ...

    def tell(self, asked: dict[str, Any]) -> None:
        self._bought = buy(asked, self._ledgers[asked["ledger"]])

    def hear(self) -> Any:
        return self._bought


@pytest.mark.long
def test_our_column() -> None:
    """Every row that ends no process; the others are compared below."""
    found = shown()
    assert found.pop("What goes wrong") == [scenario.name for scenario in SCENARIOS]
    assert list(found) == list(CLIENTS.values())
    rows = [scenario for scenario in SCENARIOS if not scenario.stop]
    cells = dict(zip([scenario.name for scenario in SCENARIOS], found[CLIENTS["tradesdk"]], strict=True))
    assert column(cast(Callable[[], Program], InProcess), rows) == [cells[scenario.name] for scenario in rows]


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "flavour"), [("tradesdk", ""), ("v2", "httpx"), ("v2", "requests"), NODE, ("tx402", "")]
)
def test_a_column(name: str, flavour: str, environment: Callable[[str], Path]) -> None:
    assert column(program_of(name, environment), flavour=flavour) == shown()[CLIENTS[name]]
