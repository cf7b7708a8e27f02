"""`trade help`: topics, and the help of every command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.framework.group import LazyCommand, global_options, refuse_result_options, single
from tradesdk_cli.session import session

if TYPE_CHECKING:
    from tradesdk_cli.framework.topics import Topic

app = single("Help about a topic or a command: trade help TOPIC.")


@app.verb("help", "trade help options", "trade help exit-codes -o json")
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
    from tradesdk_cli.framework.topics import TOPICS

    asked = [word.lower() for word in words or () if not word.startswith("-")]
    selected = any(ctx.obj.get(name) is not None for name in ("fields", "query", "out"))
    for_people = ctx.obj.get("output") in (None, "auto", "table") and not selected
    if not asked or asked in (["topics"], ["list"]):
        if for_people:
            _print_topics(ctx)
        else:
            _print_rows(ctx, [{"topic": topic.name, "summary": topic.summary} for topic in TOPICS.values()])
        return
    topic = TOPICS.get("-".join(asked)) or TOPICS.get(asked[0].removesuffix("s") + "s") if len(asked) < 3 else None
    if topic is not None and topic.name == "options":
        topic = replace(topic, rows=tuple(global_options(ctx)))
    if topic is None:
        _print_command(ctx, asked)
    elif for_people:
        _print_topic(ctx, topic)
    elif topic.rows:
        _print_rows(ctx, topic.as_dicts())
    else:
        with session(ctx) as run:
            run.out.one({"topic": topic.name, "summary": topic.summary, "text": topic.text.strip()})


def _print_rows(ctx: typer.Context, rows: list[dict[str, Any]]) -> None:
    from tradesdk_cli.output.columns import Column

    with session(ctx) as run:
        run.out.many([Column(name, "text") for name in rows[0]], [rows], empty="nothing")


def _print_topics(ctx: typer.Context) -> None:
    from tradesdk_cli.framework.topics import TOPICS

    formatter = ctx.make_formatter()
    with formatter.section("Topics"):
        formatter.write_dl([(topic.name, topic.summary) for topic in TOPICS.values()])
    formatter.write_paragraph()
    formatter.write_text("trade help TOPIC shows one, trade help agents list the help of that command.")
    formatter.write_text("trade --help lists the commands.")
    print(formatter.getvalue().strip("\n"))


def _print_topic(ctx: typer.Context, topic: Topic) -> None:
    formatter = ctx.make_formatter()
    table = topic.rows
    for part in topic.text.strip("\n").split("\n\n"):
        if part.startswith("  "):
            formatter.write(part + "\n")
        else:
            formatter.write_text(part.replace("\n", " "))
        formatter.write_paragraph()
        if table:
            numbers = len(str(table[-1][0])) if isinstance(table[0][0], int) else 0
            rows = [(str(row[0]).rjust(numbers), "; ".join(str(cell) for cell in row[-1:])) for row in table]
            with formatter.indentation():
                formatter.write_dl(rows)
            formatter.write_paragraph()
            table = ()
    print(formatter.getvalue().strip("\n"))


def _print_command(ctx: typer.Context, asked: list[str]) -> None:
    refuse_result_options(ctx)
    root = ctx.find_root()
    context: Any = typer.Context(root.command, info_name="trade", obj=ctx.obj)
    for index, word in enumerate(asked):
        command = context.command
        found = getattr(command, "commands", {}).get(word)
        if found is None:
            raise _unknown(asked, index, command, context.command_path)
        real = found.load() if isinstance(found, LazyCommand) else found
        context = typer.Context(real, parent=context, info_name=word, **real.context_settings)
    print(context.get_help())


def _unknown(asked: list[str], index: int, command: Any, path: str) -> UsageProblem:
    from difflib import get_close_matches

    from tradesdk_cli.framework.topics import TOPICS
    from tradesdk_cli.text import one_line

    word, names = asked[index], list(getattr(command, "commands", {}))
    if index and not names:
        return UsageProblem(f"{path} has no verbs of its own", f"trade help {' '.join(asked[:index])}")
    known = names if index else [*TOPICS, *names]
    near = [" ".join(["trade help", *asked[:index], name]) for name in get_close_matches(word, known)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names if index else TOPICS)}"
    message = f"{path} has no verb" if index else "there is no help about"
    return UsageProblem(f"{message} {one_line(word, 60)!r}", hint)
