"""The topics of `trade help TOPIC`, in the files of `help/`."""

from __future__ import annotations

from importlib.resources import files

TOPICS = ("output", "options", "settings", "environment", "payments", "streams", "times", "exit-codes")


def topic(name: str) -> tuple[str, list[str]]:
    """The title and the paragraphs of a topic.

    Lines that begin with two spaces stay as they are. A paragraph with tabs is a table of two columns.
    """
    content = files("tradesdk_cli").joinpath("help", f"{name}.txt").read_text(encoding="utf-8")
    summary, *paragraphs = content.strip("\n").split("\n\n")
    return summary, paragraphs
