"""Shows a change before it is sent, and asks for confirmation."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import Declined, Interrupted, UsageProblem
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.output.stderr import broken, columns_of
from tradesdk_cli.redact import without_secrets
from tradesdk_cli.text import one_line, plain_dollars, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.run import Run, Target

_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?", re.ASCII)
LEDGER = "ledger"
"""The method of a change in the ledger, which sends no request."""
_LONGEST = 200


@dataclass(frozen=True)
class Change:
    """A change before it is sent.

    Attributes:
        what: its effect, as an imperative: `delete the agent calm (agt_1) for good`.
        method: of the request; `LEDGER` for a change in the ledger.
        path: of the request.
        body: of the request, usually an object; None: no body.
        before: the current values of the body's fields, by dotted names; None when there are none, or they are unknown.
        about: more information, by name.
        warnings: possible mistakes.
        query: the query string of the path.
        mock: the mock that it changes through the control interface, if any.
        needs_yes: False for a change on this machine only: a terminal asks, but scripts need no `--yes`.
    """

    what: str
    method: str
    path: str
    body: Any = None
    before: Mapping[str, Any] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    mock: str | None = None
    needs_yes: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The output of `--dry-run`."""
        shown: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.query:
            shown["query"] = dict(self.query)
        return shown if self.body is None else {**shown, "body": self.body}

    def fields(self) -> Iterable[tuple[str, Any]]:
        """The new values, by dotted names."""
        body = self.body if isinstance(self.body, Mapping) else {} if self.body is None else {"body": self.body}
        return flatten(body).items()

    def differences(self) -> dict[str, dict[str, Any]] | None:
        """The values that change: `{name: {"from", "to"}}`; None when the current ones are unknown."""
        if self.before is None:
            return None
        return {
            name: {"from": self.before.get(name), "to": value}
            for name, value in self.fields()
            if name not in self.before or self.before[name] != value
        }


def approve(run: Run, change: Change, *, yes: bool, dry_run: bool | None) -> bool:
    """True when `change` may be carried out; `dry_run` prints it instead. None: the command has no `--dry-run`.

    First, stderr shows the target and the change: lines for people, one object for programs.
    """
    out = run.out
    if dry_run:
        _show_dry_run(run, change)
        return False
    if change.needs_yes:
        check(change.what, yes=yes, dry_run=dry_run)
    yes = yes or not can_ask()
    if yes and out.machine_notes:
        if change.mock is None:  # a program that controls a mock needs no note
            out.note(change.what, **_fields(run, change))
        return True
    explain(run, change, heading=yes)
    if yes:
        return True
    try:
        agreed = ask(f"{change.what}?")
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was changed", file=sys.stderr)
        raise Interrupted from None
    if not agreed:
        raise Declined("nothing was changed")
    return True


def check(what: str, *, yes: bool, dry_run: bool | None) -> None:
    """Refuses a change that cannot be confirmed, before any request."""
    if not yes and not dry_run and not can_ask():
        hint = "add --yes" + ("" if dry_run is None else ", or --dry-run")
        raise UsageProblem(f"--yes is needed to {one_line(what)}: there is no terminal to ask on", hint)


def agree(what: str, *, yes: bool) -> None:
    """Asks before `what` is done, for a change without a request and without `--dry-run`."""
    check(what, yes=yes, dry_run=None)
    if not yes and not ask(f"{what}?"):
        raise Declined("nothing was changed")


def _show_dry_run(run: Run, change: Change) -> None:
    out, shown, differences = run.out, change.as_dict(), change.differences()
    if differences is not None and (out.machine_notes or not out.selection.is_all):
        shown["changes"] = differences
    if not out.machine_notes:
        explain(run, change, body=differences is not None)
    out.one(shown)
    note = "nothing was changed (--dry-run)" if change.method == LEDGER else "nothing was sent (--dry-run)"
    out.event("dry_run", note, **_fields(run, change, brief=True))


def _fields(run: Run, change: Change, *, brief: bool = False) -> dict[str, Any]:
    """The same for programs."""
    found: dict[str, Any] = {"target": where(run, change).fields}
    differences = change.differences()
    if not brief and differences is not None:
        found["changes"] = differences
    elif not brief and change.body is not None:
        found["body"] = without_secrets(change.body)
    if change.about:
        found["about"] = dict(change.about)
    if change.warnings:
        found["warnings"] = [one_line(text) for text in change.warnings]
    return found


# For people


def where(run: Run, change: Change) -> Target:
    """The target of a change."""
    from tradesdk_cli.run import Target

    if change.mock is not None:
        return Target(change.mock, {"mode": "mock", "place": change.mock})
    if change.method != LEDGER:
        return run.target()
    if run.settings.mock:
        whose = run.target()
        return Target(f"{whose.text} · its ledger", {**whose.fields, "ledger": True})
    path = run.ledger_name
    return Target(f"the ledger {visible(path)}", {"mode": "ledger", "ledger": path})


def say_target(out: Output, target: Target) -> None:
    """The line above every change and payment: its target."""
    say(out, out.paint("bold" if target.fields.get("mode") == "live" else "dim", target.text))


def explain(run: Run, change: Change, *, body: bool = True, heading: bool = False) -> None:
    """Prints the target of a change, its information and its differences.

    `body`: also print the values that it sets. `heading`: also print its effect, which otherwise the question has.
    """
    out = run.out
    say_target(out, where(run, change))
    if heading:
        say(out, one_line(change.what))
    # A text to sign is shown whole, however long it is.
    rows = [(name, _shown(name, value, None)) for name, value in change.about.items()]
    if body:
        rows += [(name, _change_of(out, name, value, change.before)) for name, value in change.fields()]
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        say(out, f"  {visible(name).ljust(width)}  {text}")
    for warning in change.warnings:
        first, *rest = broken(f"warning: {one_line(warning)}", columns_of(out.stderr))
        say(out, "\n".join([out.paint("yellow", "warning:") + first.removeprefix("warning:"), *rest]))


def _change_of(out: Output, name: str, value: Any, before: Mapping[str, Any] | None) -> str:
    new = _shown(name, value)
    if before is None:
        return new
    if name in before and before[name] == value:
        return f"{new} {out.paint('dim', '(unchanged)')}"
    return f"{out.paint('red', _shown(name, before.get(name)))} → {out.paint('green', new)}"


def _shown(name: str, value: Any, limit: int | None = _LONGEST) -> str:
    """A value as it is sent, with its unit, not rounded."""
    if value is None:
        return "not set"
    value = without_secrets(value, name)
    text = visible(value if isinstance(value, str) else to_json(value), limit)
    if name == "chain_id" and value in CHAIN_NAMES:
        return f"{CHAIN_NAMES[value]} ({value})"
    if _NUMBER.fullmatch(text) and name.endswith("_pct"):  # as in tables
        return f"{plain_dollars(Decimal(text))}%"
    if _NUMBER.fullmatch(text) and name.endswith("_usd"):
        return f"{'-' * text.startswith('-')}${plain_dollars(Decimal(text.lstrip('-')))}"
    return text


def say(out: Output, line: str) -> None:
    """Prints a line on stderr for people. Untrusted text must be escaped before."""
    print(line, file=out.stderr, flush=True)


def can_ask() -> bool:
    """True when a person can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Asks at the terminal; True for yes. A closed terminal is a no."""
    lines = broken(f"{one_line(question)} [y/N]", columns_of(sys.stderr))
    print("\n".join(lines), end=" ", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)  # ends the line of the question
    return answer.strip().lower() in ("y", "yes")
