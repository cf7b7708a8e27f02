"""Which x402 client does what: each buys from our mock while the same things go wrong. Prints a table in Markdown.

    python -m tests.peers.client_table DIRECTORY

The environments of the other clients are made in the directory, and found there again. A client that can't be installed
is in the table as "not run"; standard error says why.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tradesdk import LocalSigner, __version__
from tradesdk_mock import MockServer, Settlement, Submission

from ._programs import SECONDS, Program
from .environments import HERE, NODE_PROGRAMS, EnvironmentFailed, make, python_in

PRICE = 30_000
PURCHASE = ("/v1/token-prices", {"tokens": [{"identifier": "ETH"}]})
ELSEWHERE = "0x00000000000000000000000000000000000E15e0"
LONG = 7_200
Fault = tuple[str, Mapping[str, Any]]


def fault(kind: str, /, **parameters: Any) -> Fault:
    """For `add_fault`: once, on a request with a payment."""
    return kind, {"count": 1, "paid": "only", **parameters}


def offer(**fields: Any) -> Fault:
    return "offer", {"fields": fields}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of the table.

    Attributes:
        name: what goes wrong.
        faults: of the mock, while the call is made.
        gaps: options of the mock.
        before: another call is made first, which is not counted.
        stop: what happens to the client's process once the mock has taken the money.
        later: seconds until the same call is made again.
        again: whether it is made again when it brought no answer.
        at_last: seconds until the money is counted.
    """

    name: str
    faults: Sequence[Fault] = ()
    gaps: Mapping[str, Any] = field(default_factory=dict)
    before: bool = False
    stop: Literal["", "killed", "interrupted"] = ""
    later: float = 0
    again: bool = True
    at_last: float = 0


CUT = [fault("reset", executed=True)]
KEPT = [fault("verification", status=503, count=99), fault("hold")]
SLOW = [fault("latency", seconds=LONG / 2)]

SCENARIOS = (
    Scenario(name="nothing"),
    Scenario(name="paid, then the connection is cut", faults=CUT),
    Scenario(
        name="the same, at a service that keeps answers", faults=CUT, gaps={"payment_identifier": "optional"}
    ),
    Scenario(name="paid, then 502", faults=[fault("status", status=502, executed=True)]),
    Scenario(name="paid, then 402 with a new offer", faults=[fault("overlook", charged=True)]),
    Scenario(
        name="paid, and answered `settlement_pending`",
        faults=[fault("settlement", reason="settlement_pending", charged=True)],
    ),
    Scenario(
        name="paid, and answered `insufficient_funds`",
        faults=[fault("verification", reason="insufficient_funds", charged=True)],
    ),
    Scenario(name="paid, then cut; again two hours later", faults=CUT, later=LONG),
    Scenario(name="not paid, 503; again two hours later", faults=[fault("status", status=503, count=99)], later=LONG),
    Scenario(name="503, and cashed at the last moment; again two hours later", faults=KEPT, later=LONG),
    Scenario(name="paid, then the client's process is killed", faults=SLOW, stop="killed"),
    Scenario(name="paid, then the call is canceled (Ctrl-C)", faults=SLOW, stop="interrupted"),
    Scenario(name="twice the published price", faults=[offer(amount=str(2 * PRICE))], again=False),
    Scenario(name="40 times the published price", faults=[offer(amount=str(40 * PRICE))], again=False),
    Scenario(name="another recipient than before", faults=[offer(payTo=ELSEWHERE)], before=True, again=False),
    Scenario(
        name="the offer wants a validity of an hour; 503, and cashed at the last moment",
        faults=[offer(maxTimeoutSeconds=3_600), *KEPT],
        again=False,
        at_last=LONG,
    ),
)  # fmt: skip


def pinned(file: str | Path, package: str) -> str:
    """The version that a file of requirements, or package.json, asks for."""
    found = re.search(rf'^ *"?{re.escape(package)}(?:\[.*\])?(?:==|": ")([0-9.]+)', (HERE / file).read_text(), re.M)
    assert found is not None, f"{file} has no version of {package}"
    return found[1]


CLIENTS = {
    "tradesdk": f"tradesdk {__version__}",
    "v2": f"official Python: x402 {pinned('requirements-v2.txt', 'x402')}",
    "node": f"official TypeScript: @x402/fetch {pinned(NODE_PROGRAMS / 'package.json', '@x402/fetch')}",
    "tx402": f"tx402 {pinned('requirements-tx402.txt', 'tx402')}",
}


def program_of(name: str, environment: Callable[[str], Path]) -> Callable[[], Program]:
    """What starts the program that buys with this client."""
    if name == "tradesdk":
        return partial(Program, sys.executable, "-m", "programs.client_tradesdk")
    place = environment(name)
    if name == "node":
        return partial(Program, "node", "client.mjs", folder=place)
    return partial(Program, python_in(place), "-m", f"programs.client_{name}")


def column(
    start: Callable[[], Program], scenarios: Sequence[Scenario] = SCENARIOS, flavour: str = "httpx"
) -> list[str]:
    """Play scenarios with one client; its cells."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(MockServer(signals="scripted"))
        program = stack.enter_context(start())
        cells = []
        for number, scenario in enumerate(scenarios, 1):
            asked = {
                "url": server.url,
                "key": f"0x{0xB0B000 + number:064x}",
                "flavour": flavour,
                "ledger": f"{folder}/{number}.sqlite3",
                "buy": [PURCHASE],
            }
            play = Play(server, program, scenario, asked)
            cells.append(play.cell(lambda: stack.enter_context(start())))
            program = play.program
        return cells


class Play:
    """One scenario with one client, and a payer of its own."""

    def __init__(self, server: MockServer, program: Program, scenario: Scenario, asked: dict[str, Any]) -> None:
        self.program = program
        self._server = server
        self._scenario = scenario
        self._asked = asked
        self._payer = LocalSigner.from_key(asked["key"]).address

    def cell(self, start: Callable[[], Program]) -> str:
        """What the caller was told, and what the mock has counted."""
        server, scenario = self._server, self._scenario
        server.set_gaps(**{"payment_identifier": "none", **scenario.gaps})
        if scenario.before:
            self._buy(name="before")
        payments = server.payments
        sent_before, paid_before = len(payments.submissions(self._payer)), len(payments.settlements(self._payer))
        for kind, parameters in scenario.faults:
            server.add_fault(kind, **parameters)
        told = [self._buy(scenario.stop)]
        if scenario.stop == "killed":
            self.program = start()
        server.clear_faults()
        server.clock.advance(scenario.later)
        if scenario.again and told != ["answer"]:
            told.append(self._buy())
        server.clock.advance(scenario.at_last or LONG * bool(scenario.stop))  # so that no late answer is waited for
        sent, paid = payments.submissions(self._payer)[sent_before:], payments.settlements(self._payer)[paid_before:]
        text = f"{', then '.join(told)}: {counted(sent, paid)}"
        if scenario.at_last and paid:
            text += f" ({60 * round((paid[-1].at - sent[0].at) / 60):,} s later)"
        return text

    def _buy(self, stop: str = "", name: str = "call") -> str:
        """Make the call; what the caller is told."""
        self.program.tell({**self._asked, "name": name, "ahead": self._server.clock.now() - time.time()})
        if stop:
            self._wait_until_paid()
            if stop == "killed":
                self.program.kill()
                return stop
            self.program.interrupt()
        (found,) = self.program.hear()
        if "raised" in found:
            return f"`{found.get('code', found['raised'])}`"
        return "answer" if found["status"] == 200 else f"status {found['status']}"

    def _wait_until_paid(self) -> None:
        patience = time.monotonic() + SECONDS
        while not self._server.payments.settlements(self._payer):
            assert time.monotonic() < patience, "nothing was paid"
            time.sleep(0.002)


def counted(sent: Sequence[Submission], paid: Sequence[Settlement]) -> str:
    """How many payments were signed, and how many taken; nonces, amount and recipient where they are not the usual."""
    signed, nonces = len({one.header for one in sent}), len({one.nonce for one in sent})
    money = f"{len(paid)} paid"
    if any(one.amount != PRICE for one in paid):
        money += f" (${sum(one.amount for one in paid) / 1e6:.2f})"
    if any(one.pay_to == ELSEWHERE for one in paid):
        money += " to the new one"
    again = f" (nonces: {nonces})" if nonces < signed else ""
    return f"{signed} signed{again}, " + (f"**{money}**" if len(paid) > 1 else money)


def table(columns: Mapping[str, Sequence[str]]) -> str:
    """In Markdown; titles and cells of each client."""
    rows = zip((scenario.name for scenario in SCENARIOS), *columns.values(), strict=True)
    titles, *lines = (f"| {' | '.join(cells)} |" for cells in [("What goes wrong", *columns), *rows])
    return "\n".join([titles, "|---" * (1 + len(columns)) + "|", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what each x402 client does when things go wrong.")
    parser.add_argument("directory", type=Path, help="for the environments of the other clients")
    home = parser.parse_args().directory.absolute()
    columns: dict[str, Sequence[str]] = {}
    for name, title in CLIENTS.items():
        try:
            columns[title] = column(program_of(name, partial(make, home=home)))
        except EnvironmentFailed as error:
            print(f"{title} was not run: {error}", file=sys.stderr)
            columns[title] = ["not run"] * len(SCENARIOS)
    print(table(columns))
    print(f"\nMeasured on {datetime.date.today()}, with Python {sys.version.split()[0]}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
