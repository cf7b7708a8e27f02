"""`trade help`: topics, and the help of every command."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, cast

import typer

from tradesdk_cli.cli.group import TradeGroup, Verbs, global_options
from tradesdk_cli.cli.topics import TOPICS, topic
from tradesdk_cli.errors import TRADE, UsageProblem, placed
from tradesdk_cli.next_steps import IN_TRADE
from tradesdk_cli.text import one_line

app = Verbs()


@app.verb("help", "trade help options", "trade help agents list", silent=True)
def help(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="A topic, the words of a command, or the code of an error."),
    ] = None,
) -> None:
    """Help about a topic, a command or an error: trade help TOPIC.

    Without a word it lists the topics.
    """
    requested = [word.lower() for word in words or () if not word.startswith("-")]
    name, root = "-".join(requested), cast("TradeGroup", ctx.find_root().command)
    found = next((one for one in (name, f"{name}s") if one in TOPICS), None)
    if not requested or name in ("topics", "list"):
        formatter = ctx.make_formatter()
        with formatter.section("Topics"):
            formatter.write_dl([(name, topic(name)[0]) for name in TOPICS])
        formatter.write_paragraph()
        formatter.write_text("trade help TOPIC shows one, trade help agents list the help of that command.")
        formatter.write_text("trade --help lists the commands.")
        print(formatter.getvalue().strip("\n"))
    elif found is not None:
        _print_topic(ctx, found)
    elif name in IN_TRADE:
        from tradesdk import ErrorCode, TradeError
        from tradesdk_cli.explain import next_step

        error = TradeError("", code=cast("ErrorCode", name))
        formatter = ctx.make_formatter()
        formatter.write_text(f"{name}: {error.meaning}")
        formatter.write_text(f"next: {placed(next_step(error, lister=f'{TRADE} agents list, for example'), 'trade')}")
        print(formatter.getvalue().strip("\n"))
    elif requested[0] in root.commands:
        with root.make_context("trade", [*requested, "--help"], obj=ctx.obj) as context:
            root.invoke(context)  # as it would be typed, with its errors
    else:
        known = [*TOPICS, *root.commands]
        near = " or ".join(f"trade help {one}" for one in get_close_matches(name, known))
        hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}"
        raise UsageProblem(f"there is no help about {one_line(' '.join(requested), 60)!r}", hint)


def _print_topic(ctx: typer.Context, name: str) -> None:
    formatter = ctx.make_formatter()
    _, paragraphs = topic(name)
    for part in paragraphs:
        if part.startswith("  ") and "\t" not in part:
            formatter.write(part + "\n")
        elif "\t" in part:
            with formatter.indentation():
                formatter.write_dl(
                    [(first, rest) for first, _, rest in (row.partition("\t") for row in part.split("\n"))]
                )
        else:
            formatter.write_text(part.replace("\n", " "))
        formatter.write_paragraph()
    if name == "options":
        with formatter.indentation():
            formatter.write_dl(global_options(ctx))
    print(formatter.getvalue().strip("\n"))
