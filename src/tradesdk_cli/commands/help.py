"""`trade help`: topics, and the help of every command."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from tradesdk_cli.cli.group import LazyCommand, Verbs, global_options
from tradesdk_cli.cli.topics import TOPICS, topic
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import one_line

app = Verbs()


@app.verb("help", "trade help options", "trade help agents list", silent=True)
def help(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="A topic, or the words of a command."),
    ] = None,
) -> None:
    """Help about a topic or a command: trade help TOPIC.

    Without a word it lists the topics.
    """
    requested = [word.lower() for word in words or () if not word.startswith("-")]
    name = "-".join(requested)
    found = _topic(requested)
    if not requested or name in ("topics", "list"):
        _print_topics(ctx)
    elif found is not None:
        _print_topic(ctx, found)
    elif first := next(filter(None, (_topic(requested[:count]) for count in range(1, len(requested)))), None):
        raise UsageProblem(f"{first} is a topic and takes no second word", f"trade help {first}")
    else:
        _print_command(ctx, requested)


def _topic(requested: list[str]) -> str | None:
    """The topic of these words, which may be slightly misspelled."""
    name = "-".join(requested)
    return next((one for one in (name, f"{name}s") if one in TOPICS), None)


def _print_topics(ctx: typer.Context) -> None:
    formatter = ctx.make_formatter()
    with formatter.section("Topics"):
        formatter.write_dl([(name, topic(name)[0]) for name in TOPICS])
    formatter.write_paragraph()
    formatter.write_text("trade help TOPIC shows one, trade help agents list the help of that command.")
    formatter.write_text("trade --help lists the commands.")
    print(formatter.getvalue().strip("\n"))


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


def _print_command(ctx: typer.Context, requested: list[str]) -> None:
    context: Any = typer.Context(ctx.find_root().command, info_name="trade", obj=ctx.obj)
    for index, word in enumerate(requested):
        known = [*([] if index else TOPICS), *getattr(context.command, "commands", {})]
        found = getattr(context.command, "commands", {}).get(word)
        if found is None:
            begun = " ".join(["trade help", *requested[:index]])
            near = " or ".join(f"{begun} {name}" for name in get_close_matches(word, known))
            hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}" if known else begun
            raise UsageProblem(f"there is no help about {one_line(' '.join(requested[: index + 1]), 60)!r}", hint)
        real = found.load() if isinstance(found, LazyCommand) else found
        context = typer.Context(real, parent=context, info_name=word, **real.context_settings)
    print(context.get_help())
