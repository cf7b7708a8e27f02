"""Programs in the environments of the official packages: clients that we talk to, servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, cast

import httpx

from .environments import HERE

SECONDS = 180


class Program:
    """One that runs while the block lasts, and says things by one line of JSON each.

    It ends when its standard input is closed, so also when we end without a word.
    """

    def __init__(self, *command: str | Path, folder: Path = HERE) -> None:
        self._command = [str(word) for word in command]
        self._folder = folder

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env=_surroundings(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *error: object) -> None:
        with self._process:
            cast(IO[str], self._process.stdin).close()
            try:
                self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def hear(self) -> Any:
        """The next thing that it says."""
        # A program that hangs is ended, which ends the waiting for its line.
        patience = threading.Timer(SECONDS, self._process.kill)
        patience.start()
        try:
            line = cast(IO[str], self._process.stdout).readline()
        finally:
            patience.cancel()
            patience.join()
        assert line, f"{self._command} ended with {self._process.wait(SECONDS)}"
        return json.loads(line)

    def tell(self, asked: dict[str, Any]) -> None:
        pipe = cast(IO[str], self._process.stdin)
        pipe.write(json.dumps(asked) + "\n")
        pipe.flush()

    def ask(self, asked: dict[str, Any]) -> Any:
        """What it says to this."""
        self.tell(asked)
        return self.hear()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, and wait until it has ended."""
        self._process.kill()
        self._process.wait(SECONDS)


def _surroundings() -> dict[str, str]:
    """Ours without what would lead to other modules, keep bytecode from being kept, or send loopback to a proxy."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**found, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@dataclass(frozen=True)
class Chain:
    """The money behind a seller's facilitator: what happened on the chain, and what shall.

    Attributes:
        url: where it can be asked.
    """

    url: str

    def _ask(self, wanted: dict[str, Any] | None = None) -> dict[str, Any]:
        method = "GET" if wanted is None else "POST"
        answer = httpx.request(method, self.url + "/chain", json=wanted, trust_env=False, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        return cast(dict[str, Any], answer.json())

    def give(self, address: str, micro: int) -> None:
        """Set a balance, in micro-dollars."""
        self._ask({"balances": {address: micro}})

    def refuse_next(self, reason: str) -> None:
        """The next transaction is reverted with this reason; nothing is moved."""
        self._ask({"revert": reason})

    def lose_receipts(self, count: int) -> None:
        """So many times nobody learns that a transfer was made, although it was."""
        self._ask({"pending": count})

    def has_wallets_of(self, mock: str | None, *, deploys: bool = False) -> None:
        """The smart contract wallets there are: those of a mock server. The facilitator may deploy them."""
        self._ask({"wallets": mock, "deploys": deploys})

    def balance(self, address: str) -> int:
        return int(self._ask()["balances"].get(address.lower(), 0))

    def transfers(self, payer: str) -> list[dict[str, Any]]:
        """What this payer has paid: `from`, `to`, `value`, `nonce`, `transaction`."""
        return [made for made in self._ask()["transfers"] if made["from"].lower() == payer.lower()]

    def calls(self) -> tuple[int, int]:
        """How often a facilitator was asked to verify and to settle."""
        state = self._ask()
        return state["verify"], state["settle"]


Purchases = Sequence[tuple[str, dict[str, Any]]]
