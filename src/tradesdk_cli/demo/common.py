"""What all parts of the demo share: its time, its key, and checks of each answer."""

from __future__ import annotations

import hashlib

from tradesdk_cli.errors import CliError

START = 1_767_268_800.0
"""2026-01-01 12:00 UTC: the mock's clock begins here in every run."""


class DemoFailed(CliError):
    """An answer was wrong."""

    code = "demo_failed"


def check(holds: bool, what: str) -> None:
    """Ends the demo when an answer is wrong."""
    if not holds:
        raise DemoFailed(
            f"the demo found something wrong: {what}", "please report it, with the output of: trade --version"
        )


def private_key(seed: int) -> str:
    """The key of the demo's wallet. Anybody can know it: nothing is worth anything there."""
    return hashlib.sha256(f"trade demo {seed}".encode()).hexdigest()
