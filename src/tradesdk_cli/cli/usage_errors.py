"""Messages and hints of usage errors, and suggestions for words of other programs. Imported on use."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tradesdk_cli.cli.group import TradeGroup
from tradesdk_cli.errors import TRADE, Problem, UsageProblem, placed
from tradesdk_cli.redact import API_KEY, is_secret_option, looks_secret, safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import typer


ALIASES: Mapping[str, tuple[str, ...]] = {
    "ls": ("list",),
    "show": ("get",),
    "describe": ("get",),
    "new": ("create",),
    "add": ("create", "connect"),
    "edit": ("update",),
    "rm": ("delete", "remove", "unset"),
    "tail": ("stream", "logs"),
    "auth": ("login",),
    "version": ("--version",),
    "prices": ("market prices",),
    "stream": ("signals stream",),
    "balance": ("wallets balance",),
    "budget": ("pay budget",),
    "--json": ("-o json",),
    "--csv": ("-o csv",),
    "--format": ("-o",),
    "--jq": ("--query",),
    "--filter": ("--query",),
    "--max": ("--limit",),
    "--page": ("--cursor",),
    "--force": ("--yes",),
    "--sandbox": ("--mock",),
    "--url": ("--base-url",),
    "--agent": ("--agent-id",),
    "--wallet": ("--wallet-id",),
    "--side": ("--direction",),
    "--start": ("--since",),
    "--end": ("--until", "--duration"),
}
"""Options of other programs, each with ours. Skipped where the command does not have ours."""

_AGENT_STATE = (
    "the API has no endpoint for it: agents are started, stopped and paused in the dashboard, on a mock with "
    f"{TRADE} mock agent; to open fewer positions: {TRADE} agents update AGENT_ID --max-positions 1"
)
_NO_WALLET_FILTER = f"the list has no filter by wallet: {TRADE} agents list --all --query \"[?wallet_id=='WALLET_ID']\""
EXPLAINED: Mapping[tuple[str, str], str] = {
    **{("agents", verb): _AGENT_STATE for verb in ("start", "stop", "pause", "resume", "--status")},
    **dict.fromkeys((("agents", "--wallet"), ("agents", "--wallet-id")), _NO_WALLET_FILTER),
    **dict.fromkeys(
        (("market", "--yes"), ("market", "-y")),
        f"a purchase is allowed by --max-price USD, or by a budget: {TRADE} pay budget set --per-day 5",
    ),
}
"""Verbs that a noun does not have, each with a hint."""

LISTED = {
    "AGENT_ID": "agents list",
    "WALLET_ID": "wallets list",
    "--wallet-id": "wallets list",
    "TRADE_ID": "trades list",
    "PAYMENT_ID": "pay history",
    "TOKEN": "market tokens",
    "KEY_ID": "mock key list",
    "FAULT_ID": "mock fault list",
}
"""The command that lists the values of an argument."""


def usage_problem(error: typer.TyperException, argv: Sequence[str], program: str) -> Problem:
    """Message and hint for a wrong `argv`.

    Possible secrets are not repeated. The value of an option, such as a time, is no secret because of its length.
    """
    context: Any = getattr(error, "ctx", None)
    path: str = "trade" if context is None else context.command_path
    message, hint = _explained(error, context, path)
    is_value = getattr(getattr(error, "param", None), "param_type_name", "") == "option"
    for word in argv:
        if API_KEY.fullmatch(word) or (looks_secret(word) and not is_value):
            message = message.replace(word, "****")
    hint = hint or ("trade help options" if path == "trade" else f"{path} --help")
    return Problem(UsageProblem.exit_code, "usage", safe(message), placed(safe(hint), program))


def _explained(error: typer.TyperException, context: Any, path: str) -> tuple[str, str | None]:
    kind, param = type(error).__name__, getattr(error, "param", None)  # Typer does not export these classes
    here = TRADE + path.removeprefix("trade")  # as typed, with the options that choose the service
    if kind == "NoSuchOption":
        return _option(error, context, path, here)
    if kind == "MissingParameter" and param is not None:
        name = _name(param)
        about = param.help and f"{name}: {param.help.removesuffix('.')}; {path} --help"
        return f"{path} needs {name}", f"see what there is: {TRADE} {LISTED[name]}" if name in LISTED else about
    if kind == "BadParameter" and param is not None:
        return f"{_name(param)}: {error.message}", None
    if context is not None and isinstance(group := context.command, TradeGroup) and context.args:
        word, noun = context.args[0], context.command_path.removeprefix("trade").strip()
        typed = {"--version": "--version"} | {one: f"{here} {one}" for one in group.commands}
        hint = EXPLAINED.get((noun, word)) or _alias(word, typed)
        return error.message, hint or (f"its verbs: {', '.join(group.list_commands(None))}" if noun else "trade --help")
    return error.format_message(), None


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or str(param.name).upper()).removesuffix("...")
    return next((str(name) for name in param.opts if name.startswith("--")), str(param.opts[0]))


def _option(error: Any, context: Any, path: str, here: str) -> tuple[str, str | None]:
    name: str = error.option_name
    message = f"{path} has no option {name}"
    command = context.command
    typed = {option: option for option in _options(command, context)}
    if isinstance(command, TradeGroup) and (lists := command.commands.get("list")):
        typed = {option: f"{here} list {option}" for option in _options(lists, context)} | typed
    if name in typed:
        return message, f"its list has it: {typed[name]}"
    if is_secret_option(name):
        keep = "trade pay key import" if path.startswith("trade pay") else "trade login"
        return message, f"keys are never options: {keep} asks for one, or reads it from a pipe"
    noun = path.split()[1:2] or [""]
    if hint := _alias(name, typed) or EXPLAINED.get((noun[0], name)):
        return message, hint
    # Options with nearly this name; one or two common letters are not enough.
    words = {option[2:]: typed[option] for option in typed if option.startswith("--")}
    near = " or ".join(words[word] for word in get_close_matches(name.lstrip("-"), words, cutoff=0.7))
    return message, f"did you mean {near}?" if near else None


def _options(command: Any, context: Any) -> list[str]:
    return [option for param in command.get_params(context) for option in param.opts if option.startswith("-")]


def _alias(word: str, known: Mapping[str, str]) -> str | None:
    """Our option for that of another program, as typed, from `known`."""
    for ours in ALIASES.get(word, ()):
        first, _, rest = ours.partition(" ")
        if first in known:
            return f"did you mean {known[first]}{rest and ' '}{rest}?"
    return None
