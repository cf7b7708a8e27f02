"""The findings for people: a mark and a word each, what was found, and what to do next below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tradesdk_cli.doctor.findings import Finding
    from tradesdk_cli.output.printer import Output

MARKS = {"ok": "✓", "warning": "!", "problem": "✗", "skipped": "-"}
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}
_LEAST = 20


def show(out: Output, findings: Sequence[Finding]) -> None:
    """Draws them, wrapped to the terminal."""
    utf8 = (out.stdout.encoding or "").lower().replace("-", "") == "utf8"
    marks = MARKS if utf8 else MARKS | {"ok": "+", "problem": "x"}
    names = max(len(one.check) for one in findings)
    states = max(len(one.status) for one in findings)
    indent = 2 + states + 2 + names + 2
    width = out.width

    def draw(console: Console) -> None:
        from rich.text import Text

        from tradesdk_cli.output.stderr import wrapped
        from tradesdk_cli.output.table import print_line
        from tradesdk_cli.text import visible

        # Where little room is left beside the names, what was found stands below them.
        beside = width is None or width - indent >= 2 * _LEAST
        room = None if width is None else max(_LEAST, width - (indent if beside else 4))
        for one in findings:
            style = STYLES[one.status]
            head = Text.assemble(
                (f"{marks[one.status]} {one.status:<{states}}", style), "  ", (f"{one.check:<{names}}", "bold")
            )
            first, *rest = wrapped(visible(one.said), room)
            lead = " " * (indent if beside else 4)
            if beside:
                print_line(console, head + Text(f"  {first}"))
            else:
                head.rstrip()
                print_line(console, head)
                rest = [first, *rest]
            for line in rest:
                print_line(console, Text(lead + line))
            if one.hint and one.status != "ok":
                for number, line in enumerate(wrapped(visible(f"next: {one.hint}"), room)):
                    text = Text(lead + line)
                    if number == 0:
                        text.stylize("cyan", len(lead), len(lead) + 5)
                    print_line(console, text)

    out.draw(draw)


def summary(findings: Sequence[Finding]) -> str:
    """All of it in a line."""
    problems = sum(one.status == "problem" for one in findings)
    warnings = sum(one.status == "warning" for one in findings)
    told = [f"{many} {word}{'s' * (many > 1)}" for many, word in ((problems, "problem"), (warnings, "warning")) if many]
    return " and ".join(told) if told else "all is well"
