"""Extends Typer: groups imported on use, global options anywhere, values parsed without pydantic.

Typer parses every value with pydantic, absent ones too, so `trade agents --help` would import it.
"""

from __future__ import annotations

import inspect
import sys
from copy import copy
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.interrupts import raise_again
from tradesdk_cli.text import PLAIN, is_not_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    Opens = Callable[[typer.Context], AbstractContextManager[Any]]


GLOBAL_PANEL = "Global options"
RARE = "Rarely used"
"""The panel of commands that are last in the help."""
_WHOLE = 10_000


def _read(param: Any, word: Any) -> Any:
    if param.metavar != "FILE" and is_not_text(word):  # file names may be any bytes
        raise typer.BadParameter(f"{visible(word, 80)} is not UTF-8")
    described = param.type_descriptor
    if (parser := described.parameter_info.parser) is not None:
        return parser(word)
    if choices := {str(choice): choice for choice in described.choices or ()}:
        for text, choice in choices.items():
            if word == text or (not described.case_sensitive and word.lower() == text.lower()):
                return choice
        longer = [text for text in choices if word.lstrip("-") in text and word.startswith("-") == text.startswith("-")]
        near = "".join(f"; did you mean {name}?" for name in get_close_matches(word, choices, 1) or longer[:1])
        raise typer.BadParameter(f"{word!r} is not one of {', '.join(choices)}{near}")
    kind, *_ = get_args(described.annotation) or (described.annotation,)
    return kind(word)


class _Light:
    """Parses values in place of Typer's own parser."""

    @staticmethod
    def coerce(value: Any, param: Any, ctx: Any) -> Any:
        """The value of one word, or a list where the parameter takes several. None without a word."""
        if value is None:
            return None
        return [_read(param, word) for word in value] if isinstance(value, (list, tuple)) else _read(param, value)


class LightArgument(TyperArgument):
    """An argument whose help shows its name without a Python type."""

    @property
    def _shown(self) -> str:
        name: str = self.metavar or str(self.name).upper()
        return name if self.nargs == 1 or name.endswith("...") else f"{name}..."

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        return [self._shown if self.required else f"[{self._shown}]"]

    def get_help_record(self, ctx: Any) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return None if record is None else (self._shown, record[1])


def _is_global(param: Any) -> bool:
    return getattr(param, "rich_help_panel", None) == GLOBAL_PANEL


def remember(ctx: typer.Context, param: typer.CallbackParam, value: object) -> object:
    """The callback of global options. It runs from the root to the verb, so the last value wins."""
    if value is not None and isinstance(ctx.obj, dict):
        ctx.obj[param.name] = value
    return value


class _Ours:
    """Shared by commands and groups: parameters without pydantic, global options, help in sections."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]  # from the other base class
        except typer.TyperException as error:
            error.__dict__["ctx"] = getattr(error, "ctx", None) or ctx  # Typer does not always say where
            raise
        return left

    def get_help(self, ctx: Any) -> str:
        """The help in characters that the output can encode; Typer always prints UTF-8."""
        text: str = super().get_help(ctx)  # type: ignore[misc]  # from the other base class
        encoding = sys.stdout.encoding or "utf-8"
        return text.encode(encoding, PLAIN).decode(encoding)

    def get_short_help_str(self, limit: int = 0) -> str:
        """The whole first sentence. Lists wrap it and do not cut it."""
        text: str = super().get_short_help_str(_WHOLE)  # type: ignore[misc]  # from the other base class
        return text

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # from the other base class
        root = ctx.find_root().command
        if root is not self:
            # A command's own option goes before a global one.
            taken = {name for param in found for name in param.opts}
            found = found + [param for param in root.params if _is_global(param) and taken.isdisjoint(param.opts)]
        for param in found:
            param._runtime_param = _Light
            if type(param) is TyperArgument:  # Typer sets the class itself
                param.__class__ = LightArgument
        return found

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Typer's help without the global options, which would hide the command's own on every page."""
        TyperCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]  # a group's would list its verbs last
        formatter.write_paragraph()
        first = "" if isinstance(self, SilentCommand) else "-o, "
        formatter.write_text(f"Global options ({first}--mock, --base-url, --timeout, …): trade help options")


class TradeCommand(_Ours, TyperCommand):
    """A verb."""

    def invoke(self, ctx: Any) -> Any:
        raise_again()
        return super().invoke(ctx)


_RESULT_OPTIONS = {"output": "-o", "fields": "--fields", "query": "--query", "out": "--out", "times": "--times"}


def refuse_result_options(ctx: Any) -> None:
    """Refuses output options for a command without a result."""
    for name, option in _RESULT_OPTIONS.items():
        if ctx.obj.get(name) is not None:
            message = f"{ctx.command_path} prints no result, so it takes no {option}"
            raise UsageProblem(message, f"leave {option} out")


class SilentCommand(TradeCommand):
    """A verb without a result. It takes no output options."""

    def invoke(self, ctx: Any) -> Any:
        refuse_result_options(ctx)
        return super().invoke(ctx)


class TradeGroup(_Ours, TyperGroup):
    """A noun, or the root."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of its commands in the order of the help: rare ones last."""
        return sorted(self.commands, key=lambda name: getattr(self.commands[name], "rich_help_panel", None) == RARE)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        ctx.args = args  # for the error's text; Typer has the word only in its message
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


class RootGroup(TradeGroup):
    """The root. Its help fits a small terminal."""

    lines: Mapping[str, str] = {}
    """Lines of the help: comma-separated names, and their text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shared = {name: (names, text) for names, text in self.lines.items() for name in names.split(", ")}
        rows = (
            shared.get(name) or (name, self.commands[name].get_short_help_str()) for name in self.list_commands(None)
        )
        with formatter.section("Commands"):
            formatter.write_dl(list(dict.fromkeys(rows)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Options (-o, --mock, --profile, --version, …): trade help options")


class LazyCommand(TyperCommand):
    """A placeholder for a noun or a command whose module is imported on use.

    The module's `app` is the Typer app, or a function that makes it from the name.
    """

    def __init__(self, name: str, summary: str, module: str) -> None:
        super().__init__(name=name, short_help=summary, rich_markup_mode=None)
        self._module = module
        self._real: Any = None

    def load(self) -> Any:
        """The real command or group.

        A group's module may name lazy commands in `VERBS`, which its module `operations` makes.
        """
        if self._real is None:
            module = import_module(self._module)
            self._real = get_command(module.app if isinstance(module.app, typer.Typer) else module.app(self.name))
            add_lazily(self._real, getattr(module, "VERBS", {}), f"{self._module}.operations")
        return self._real

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent=parent, **extra)


def global_options(ctx: Any) -> list[tuple[str, str]]:
    """Global options as typed, each with its help."""
    shown = [copy(param) for param in ctx.find_root().command.params if _is_global(param)]
    for param in shown:
        param.hidden = False
    return [param.get_help_record(ctx) for param in shown]


def add_lazily(group: Any, summaries: Mapping[str, str], module: str) -> None:
    """Adds commands to `group` that are imported on use from `module`, which may name the command."""
    for name, summary in summaries.items():
        group.add_command(LazyCommand(name, summary, module.format(name)))


class Verbs(typer.Typer):
    """The commands of a module: the verbs of a noun, or one command without verbs."""

    def __init__(self, opens: Opens | None = None, **settings: Any) -> None:
        """`opens` makes the `run` of commands with such a parameter."""
        self._opens = opens
        names = {"help_option_names": ["-h", "--help"]}
        super().__init__(rich_markup_mode=None, add_completion=False, context_settings=names, **settings)

    def verb(
        self,
        name: str,
        *lines: str,
        help: str | None = None,
        silent: bool = False,
        rare: bool = False,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Adds a command.

        `lines`: examples for its help. `silent`: it has no result. `rare`: last in the help.
        """
        made, panel = SilentCommand if silent else TradeCommand, RARE if rare else None
        add = self.command(name, cls=made, epilog=examples(*lines), help=help, rich_help_panel=panel)
        return lambda command: add(gathered(command, self._opens))


def noun(name: str, help: str, opens: Opens | None = None) -> Verbs:
    """A group of verbs."""
    app = Verbs(opens, name=name, help=help, cls=TradeGroup)
    app.callback(invoke_without_command=True)(_without_a_verb)
    return app


def _without_a_verb(ctx: typer.Context) -> None:
    """Without a verb, shows the help."""
    if ctx.invoked_subcommand is None:
        refuse_result_options(ctx)
        print(ctx.get_help())


def gathered(command: Callable[..., None], opens: Opens | None = None) -> Callable[..., None]:
    """Shares options between commands.

    A parameter whose type is a dataclass stands for options: its fields. A parameter `run` gets what `opens` makes of
    the context, and is closed at the end.
    """
    if command.__doc__ is None and sys.flags.optimize > 1:
        command.__doc__ = _docstring(command)
    shared: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        parameter = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        if one.name == "run":
            parameters.append(parameter.replace(name="ctx", annotation=typer.Context))
        elif is_dataclass(one.annotation):
            kind: Any = one.annotation
            fields = inspect.signature(kind, eval_str=True).parameters
            shared[one.name] = kind, list(fields)
            parameters += [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields.values()]
        else:
            parameters.append(parameter)

    @wraps(command)
    def call(**given: Any) -> None:
        for name, (options, names) in shared.items():
            given[name] = options(**{field: given.pop(field) for field in names})
        if opens is None or "run" not in command.__annotations__:
            command(**given)
        else:
            with opens(given.pop("ctx")) as given["run"]:
                command(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks at first
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _docstring(command: Callable[..., None]) -> str | None:
    """The docstring, read from the source, because `python -OO` drops it. It is the help."""
    import ast
    from textwrap import dedent

    (found,) = ast.parse(dedent(inspect.getsource(command))).body
    return ast.get_docstring(found)  # type: ignore[arg-type]  # of a function, it is one


def examples(*lines: str) -> str:
    """The end of a help page. Every example is run by the tests."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
