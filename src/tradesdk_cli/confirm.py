"""A change before it is sent: where it goes, what it changes, and the question."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import INTERRUPTED, Declined, Interrupted, UsageProblem
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.redact import without_secrets
from tradesdk_cli.text import one_line, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.session import Session, Target

_UNITS = {"_usd": "{} USD", "_pct": "{} %"}
"""By the ending of a field's name."""
LEDGER = "ledger"
"""The method of a change that sends nothing: it is made in the ledger."""
_LONGEST = 200
_MOST_PIECES = 25


@dataclass(frozen=True)
class Change:
    """A request that changes something, before it is sent.

    Attributes:
        what: what it does, as a command: `delete the agent calm (agt_1) for good`.
        method: of the request; `LEDGER` for what is changed in the ledger only.
        path: of the request.
        body: of the request, nearly always an object; None: nothing.
        before: what the fields of the body are now, by dotted names; None where nothing is changed that was there
            before, or where that is not known.
        about: what else helps to decide, by name.
        warnings: what may be a mistake.
        query: what stands behind the path's question mark.
        mock: which mock it changes by its control interface; None: it changes no mock.
        needs_yes: False where only this machine is changed: somebody at a terminal is asked, but elsewhere it is done
            without `--yes`.
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
        """What `--dry-run` prints."""
        shown: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.query:
            shown["query"] = dict(self.query)
        return shown if self.body is None else {**shown, "body": self.body}

    def fields(self) -> Iterable[tuple[str, Any]]:
        """What is set, by dotted names."""
        body = self.body if isinstance(self.body, Mapping) else {} if self.body is None else {"body": self.body}
        return flatten(body).items()

    def differences(self) -> dict[str, dict[str, Any]] | None:
        """What becomes another value: `{name: {"from", "to"}}`; None where it is not known what there was."""
        if self.before is None:
            return None
        return {
            name: {"from": self.before.get(name), "to": value}
            for name, value in self.fields()
            if name not in self.before or self.before[name] != value
        }


def approve(run: Session, change: Change, *, yes: bool, dry_run: bool | None) -> bool:
    """True when `change` may be carried out; with `--dry-run` it is printed instead. None: there is no `--dry-run`.

    Before that, where it goes and what it changes is said on stderr: to people in lines, to programs as one object.

    Raises:
        UsageProblem: nobody can be asked and `--yes` is missing.
        Declined: the person said no.
        Interrupted: Ctrl-C instead of an answer.
    """
    out = run.out
    if dry_run:
        _show_dry_run(run, change)
        return False
    if change.needs_yes:
        check(change.what, yes=yes, dry_run=dry_run)
    yes = yes or not can_ask()
    if yes and out.machine_notes:
        if change.mock is None:  # a program that controls a mock knows that it is one
            out.note(change.what, **_fields(run, change))
        return True
    explain(run, change, heading=yes)
    if yes:
        return True
    try:
        agreed = ask(f"{change.what}?")
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was changed", file=sys.stderr)
        raise Interrupted(INTERRUPTED) from None
    if not agreed:
        raise Declined("nothing was changed")
    return True


def check(what: str, *, yes: bool, dry_run: bool | None) -> None:
    """Refuses what could not be asked, before anything is looked up for the question.

    Raises:
        UsageProblem: nobody can be asked and `--yes` is missing.
    """
    if not yes and not dry_run and not can_ask():
        hint = "add --yes" + ("" if dry_run is None else ", or --dry-run")
        raise UsageProblem(f"--yes is needed to {one_line(what)}: there is no terminal to ask on", hint)


def agree(what: str, *, yes: bool) -> None:
    """Asks before `what` is done, for what is no request and has no `--dry-run`.

    Raises:
        UsageProblem: nobody can be asked and `--yes` is missing.
        Declined: the person said no.
    """
    check(what, yes=yes, dry_run=None)
    if not yes and not ask(f"{what}?"):
        raise Declined("nothing was changed")


def _show_dry_run(run: Session, change: Change) -> None:
    out, shown, differences = run.out, change.as_dict(), change.differences()
    if differences is not None and (out.machine_notes or not out.selection.is_all):
        shown["changes"] = differences
    if not out.machine_notes:
        explain(run, change, body=differences is not None)
    out.one(shown)
    said = "nothing was changed (--dry-run)" if change.method == LEDGER else "nothing was sent (--dry-run)"
    out.note(said, **(_fields(run, change, brief=True) if out.machine_notes else {}))


def _fields(run: Session, change: Change, *, brief: bool = False) -> dict[str, Any]:
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


def where(run: Session, change: Change) -> Target:
    """Where a change is made."""
    from tradesdk_cli.session import Target

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
    """The line above every change and payment: where it goes."""
    say(out, out.paint("bold" if target.fields.get("mode") == "live" else "dim", target.text))


def explain(run: Session, change: Change, *, body: bool = True, heading: bool = False) -> None:
    """Says where a change goes, what it is about and what becomes different.

    `body`: what is set as well; `heading`: what it is, which a question would say.
    """
    out = run.out
    say_target(out, where(run, change))
    if heading:
        say(out, one_line(change.what))
    rows = [row for name, value in change.about.items() for row in _whole(name, value)]
    if body:
        rows += [(name, _change_of(out, name, value, change.before)) for name, value in change.fields()]
    width = max((len(name) for name, _ in rows), default=0)
    for name, told in rows:
        say(out, f"  {visible(name).ljust(width)}  {told}")
    for warning in change.warnings:
        say(out, f"{out.paint('yellow', 'warning:')} {one_line(warning)}")


def _whole(name: str, value: Any) -> Iterable[tuple[str, str]]:
    """A long text in pieces: what is signed is not cut."""
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return [(name, _shown(name, value))]
    starts = range(0, min(len(value), _MOST_PIECES * _LONGEST), _LONGEST)
    pieces = [(name if start == 0 else "", visible(value[start : start + _LONGEST])) for start in starts]
    left = len(value) - _MOST_PIECES * _LONGEST
    return [*pieces, ("", f"… and {left:,} characters more")] if left > 0 else pieces


def _change_of(out: Output, name: str, value: Any, before: Mapping[str, Any] | None) -> str:
    new = _shown(name, value)
    if before is None:
        return new
    old = before.get(name)
    if name in before and old == value:
        return f"{new} {out.paint('dim', '(as it is)')}"
    was = _shown(name, old)
    return f"{out.paint('red', was)} → {out.paint('green', new)}"


def _shown(name: str, value: Any) -> str:
    """A value as it is sent, with its unit: what is agreed to is not rounded."""
    if value is None:
        return "not set"
    value = without_secrets(value, name)
    text = visible(value if isinstance(value, str) else to_json(value), _LONGEST)
    if name == "chain_id" and value in CHAIN_NAMES:
        return f"{CHAIN_NAMES[value]} ({value})"
    is_number = isinstance(value, (int, float)) or text.replace(".", "", 1).isdigit()
    unit = next((unit for ending, unit in _UNITS.items() if is_number and name.endswith(ending)), "{}")
    return unit.format(text)


def say(out: Output, line: str) -> None:
    """A line on stderr, for people. What comes from strangers has been made visible before."""
    print(line, file=out.stderr, flush=True)


def can_ask() -> bool:
    """True when somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Asks whoever sits there; True for a yes. A terminal that is closed says no."""
    print(f"{one_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)  # the question is still on the line
    return answer.strip().lower() in ("y", "yes")
