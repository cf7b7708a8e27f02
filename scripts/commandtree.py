"""Writes all commands, options and fields for completion: src/tradesdk_cli/completion/commands.json.

    python scripts/commandtree.py            write it
    python scripts/commandtree.py --check    end with 1 when it is not what the commands are now

A shell asks at every press of TAB; from this file `trade` answers without importing Typer and the commands.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import tradesdk
from tradesdk_cli.app import command
from tradesdk_cli.cli.group import LazyCommand, TradeGroup
from tradesdk_cli.output.select import names_of_model

FILE = Path(__file__).parents[1] / "src" / "tradesdk_cli" / "completion" / "commands.json"

MODELS: dict[str, Any] = {
    "agents": tradesdk.Agent,
    "agents list": tradesdk.AgentSummary,
    "wallets": tradesdk.Wallet,
    "wallets balance": tradesdk.WalletBalance,
    "trades": tradesdk.Trade,
    "trades get": tradesdk.TradeDetail,
    "positions": tradesdk.Position,
    "signals": tradesdk.Signal,
    "account": tradesdk.Account,
    "account usage": tradesdk.Usage,
}
"""What a command prints, whose fields `--fields` takes; or by noun, all its other commands."""


def commands(one: Any, parent: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each command below `one`, in its own context, by its words."""
    context = typer.Context(one, parent=parent, info_name=name, resilient_parsing=True, **one.context_settings)
    yield context.command_path.partition(" ")[2], context
    if isinstance(one, TradeGroup):
        for verb, below in one.commands.items():
            yield from commands(below.load() if isinstance(below, LazyCommand) else below, context, verb)


def described(param: Any, context: Any) -> dict[str, Any]:
    """What completion needs of an option or an argument, without defaults."""
    option = param.param_type_name == "option"
    flag = bool(getattr(param, "is_flag", False) or getattr(param, "count", False))
    names = sorted(param.opts) if "--help" in param.opts else list(param.opts)  # Typer has them in no order
    told = {
        "names": names if option else [],
        "off": list(param.secondary_opts),
        "about": first_line(param.help or "") if option else "",
        "value": "" if flag else str(param.metavar or param.name).upper().removesuffix("..."),
        "words": {
            str(item.value): str(item.help or "")
            for item in (() if flag else param.shell_complete(context, ""))
            if item.value
        },
        "many": bool(param.nargs == -1 or getattr(param, "multiple", False)),
    }
    return {name: value for name, value in told.items() if value}


def fields(model: Any) -> list[str]:
    """The names of a model's fields, without those that contain others."""
    names = list(names_of_model(model))
    return [name for name in names if not any(other.startswith(f"{name}.") for other in names)]


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def tree() -> str:
    """The text of the file: each parameter once, and a line for each command with the numbers of its parameters."""
    known: dict[str, int] = {}
    lines = []
    for words, context in commands(command(), None, "trade"):
        params = [json.dumps(described(param, context)) for param in context.command.get_params(context)]
        numbers = [known.setdefault(text, len(known)) for text in params]
        below = {
            name: first_line(one.get_short_help_str())
            for name, one in getattr(context.command, "commands", {}).items()
            if not one.hidden
        }
        entry: dict[str, Any] = {"params": numbers}
        if isinstance(context.command, TradeGroup):
            entry["commands"] = below
        lines.append(f"{json.dumps(words)}: {json.dumps(entry)}")
    shown = [f"{json.dumps(words)}: {json.dumps(fields(model))}" for words, model in MODELS.items()]
    parts = (",\n".join(part) for part in (known, lines, shown))
    return '{{"params": [\n{}\n],\n"commands": {{\n{}\n}},\n"fields": {{\n{}\n}}}}\n'.format(*parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when the file is out of date")
    wanted = tree()
    if not parser.parse_args().check:
        FILE.write_text(wanted, encoding="utf-8")
        return 0
    if FILE.is_file() and FILE.read_text(encoding="utf-8") == wanted:
        print("the commands' file is current")
        return 0
    print("the commands' file is out of date; run: python scripts/commandtree.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
