"""What one check found, and how checks are run: none of them may fail or hang the whole."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tradesdk_cli.errors import CONFIG, OTHER
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

State = Literal["ok", "warning", "problem", "skipped"]

PATIENCE = 12.0
"""Seconds after which a check is given up, whatever it waits for: looking up a name knows no timeout."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name, the same for ever.
        status: `ok`, `warning`, `problem`, or `skipped` where there is nothing to check.
        said: what was found, in words.
        hint: what to do next.
        facts: the same for programs.
        config: whether a problem is one of the settings.
    """

    check: str
    status: State
    said: str
    hint: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    config: bool = False

    def as_dict(self) -> dict[str, Any]:
        """What machine formats print."""
        return {
            "check": self.check,
            "status": self.status,
            "said": self.said,
            "next": self.hint,
            "facts": self.facts,
        }


def exit_code(findings: Iterable[Finding]) -> int:
    """0 when nothing is wrong; 3 when a setting is; else 1. Warnings don't count."""
    problems = [one for one in findings if one.status == "problem"]
    if not problems:
        return 0
    return CONFIG if any(one.config for one in problems) else OTHER


def run(name: str, check: Callable[[], Sequence[Finding]], *, patience: float | None = None) -> list[Finding]:
    """What `check` finds. What it raises is a finding as well; with `patience`, so is that it takes longer."""
    found: list[Finding] = []
    done = threading.Event()

    def work() -> None:
        try:
            found.extend(check())
        except Exception as error:
            found[:] = [_failed(name, error)]
        finally:
            done.set()

    if patience is None:
        work()
        return found
    threading.Thread(target=work, name=f"doctor {name}", daemon=True).start()
    if done.wait(patience):
        return found
    said = f"no answer within {patience:g} s"
    return [Finding(name, "problem", said, "check the network; a name that cannot be looked up takes long as well")]


def _failed(name: str, error: Exception) -> Finding:
    from tradesdk_cli.explain import problem_of

    problem = problem_of(error)
    said = problem.headline if problem.code != "internal" else f"could not be checked: {type(error).__name__}"
    facts = {"code": problem.code} if problem.status is None else {"code": problem.code, "http_status": problem.status}
    return Finding(name, "problem", one_line(said), problem.hint, facts, config=problem.exit_code == CONFIG)
