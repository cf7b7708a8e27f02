"""On top of Typer: groups imported when used, global options anywhere, no pydantic before a value needs it.

Typer checks every value with pydantic, absent ones too, which would make `trade agents --help` import it.
"""

from __future__ import annotations

import inspect
import sys
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from tradesdk_cli.errors import Interrupted, UsageProblem
from tradesdk_cli.interrupts import raise_again, say_interrupted
from tradesdk_cli.text import PLAIN, is_not_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


GLOBAL_PANEL = "Global options"
_WHOLE = 10_000


class _LightParam:
    """Leaves absent values and plain text unchecked, and says which value is not a choice."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        if value is None and not getattr(self, "required", False):
            return value
        words = value if isinstance(value, (list, tuple)) else [value]
        if self.metavar != "FILE":  # type: ignore[attr-defined]  # any bytes are the name of a file
            for word in filter(is_not_text, words):
                raise typer.BadParameter(f"{visible(word, 80)} is not UTF-8", ctx=ctx, param=self)  # type: ignore[arg-type]  # it is one
        text = _plain_text(self, value)
        if names := choices(self):
            exact = self.type_descriptor.parameter_info.case_sensitive  # type: ignore[attr-defined]  # as below
            known = names if exact else [name.lower() for name in names]
            for word in words:
                if isinstance(word, str) and (word if exact else word.lower()) not in known:
                    near = "".join(f"; did you mean {name}?" for name in get_close_matches(word, names, 1))
                    message = f"{word!r} is none of {', '.join(names)}{near}"
                    raise typer.BadParameter(message, ctx=ctx, param=self)  # type: ignore[arg-type]  # it is one
        if not text:
            return super().process_value(ctx, value)  # type: ignore[misc]  # the other base class has it
        callback = getattr(self, "callback", None)
        return text if callback is None else callback(ctx, self, text)


def choices(param: Any) -> list[str]:
    """The words that a parameter takes; empty where it takes others."""
    described = getattr(param, "type_descriptor", None)
    if described is None or not described.is_choice or described.choices is None:
        return []
    return [str(getattr(choice, "value", choice)) for choice in described.choices]


def _plain_text(param: Any, value: Any) -> str | list[str]:
    """Text for a parameter that takes any text, where pydantic would find nothing; empty when it has to look."""
    described = param.type_descriptor
    if described.annotation not in (str, list[str]) or described.parameter_info.parser is not None:
        return ""
    return value if isinstance(value, str) else list(value or ())


class LightOption(_LightParam, TyperOption):
    """An option that costs nothing when it is absent."""


class LightArgument(_LightParam, TyperArgument):
    """An argument that costs nothing when it is absent. In help it has its name, without Python's type beside it."""

    @property
    def _shown(self) -> str:
        name: str = self.metavar or str(self.name).upper()
        return name if self.nargs == 1 or name.endswith("...") else f"{name}..."

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        return [self._shown if self.required else f"[{self._shown}]"]

    def get_help_record(self, ctx: Any) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return None if record is None else (self._shown, record[1])


def _light(param: Any) -> Any:
    """The same parameter as a light one. Typer fixes the classes it makes, so its objects are taken over."""
    for ours, theirs in ((LightOption, TyperOption), (LightArgument, TyperArgument)):
        if type(param) is theirs:
            light = ours.__new__(ours)
            vars(light).update(vars(param))
            return light
    return param


def _is_global(param: Any) -> bool:
    return getattr(param, "rich_help_panel", None) == GLOBAL_PANEL


def remember(ctx: typer.Context, param: typer.CallbackParam, value: object) -> object:
    """The callback of global options. They are processed from the root to the verb, so that the later one wins."""
    if value is not None and isinstance(ctx.obj, dict):
        ctx.obj[param.name] = value
    return value


class _Ours:
    """Shared by commands and groups: light parameters, the root's global options, help in sections."""

    params: list[Any]
    _made: tuple[Any, list[Any]] | None = None
    """The root, and the parameters below it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]  # from the other base class
        except typer.TyperException as error:
            error.__dict__["ctx"] = getattr(error, "ctx", None) or ctx  # Typer does not always say where
            raise
        return left

    def get_help(self, ctx: Any) -> str:
        """As it can be printed: Typer prints UTF-8 where ASCII was asked for."""
        text: str = super().get_help(ctx)  # type: ignore[misc]  # from the other base class
        encoding = sys.stdout.encoding or "utf-8"
        return text.encode(encoding, PLAIN).decode(encoding)

    def get_short_help_str(self, limit: int = 0) -> str:
        """The whole first sentence: lists wrap it, and never cut it."""
        text: str = super().get_short_help_str(_WHOLE)  # type: ignore[misc]  # from the other base class
        return text

    def get_params(self, ctx: Any) -> list[Any]:
        root = ctx.find_root().command
        if self._made is None or self._made[0] is not root:  # asked for by the parser, and again for the values
            own = [_light(param) for param in super().get_params(ctx)]  # type: ignore[misc]  # from the other base class
            if root is not self:
                # A command's own option goes before a global one.
                taken = {name for param in own for name in param.opts}
                shared = [param for param in root.params if _is_global(param) and not taken.intersection(param.opts)]
                own += map(_light, shared)
            self._made = root, own
        return self._made[1]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not _is_global(param):
                title = "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        # On every page they would hide the command's own.
        formatter.write_paragraph()
        formatter.write_text("Global options (-o, --mock, --base-url, --timeout, …): trade help options")


class TradeCommand(_Ours, TyperCommand):
    """A verb."""

    def invoke(self, ctx: Any) -> Any:
        raise_again()
        return super().invoke(ctx)


_RESULT_OPTIONS = {"output": "-o", "fields": "--fields", "query": "--query", "out": "--out"}


def refuse_result_options(ctx: Any) -> None:
    """For what prints no result.

    Raises:
        UsageProblem: an option says how the result is printed, or where.
    """
    for name, option in _RESULT_OPTIONS.items():
        if ctx.obj.get(name) is not None:
            said = f"{ctx.command_path} prints no result, so it takes no {option}"
            raise UsageProblem(said, f"leave {option} out")


class SilentCommand(TradeCommand):
    """A verb that prints no result, and takes no options about one."""

    def invoke(self, ctx: Any) -> Any:
        refuse_result_options(ctx)
        return super().invoke(ctx)


class TradeGroup(_Ours, TyperGroup):
    """A noun, or the root."""

    lines: Mapping[str, str] = {}
    """Names that share a line of the help, separated by commas, and what it says."""

    @property
    def shown(self) -> list[str]:
        """The names of its commands, without those that only explain something."""
        return [name for name, command in self.commands.items() if not command.hidden]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shared = {names.split(", ")[0]: (names, text) for names, text in self.lines.items()}
        others = {name for names in self.lines for name in names.split(", ")[1:]}
        rows = [
            shared.get(name) or (name, self.commands[name].get_short_help_str())
            for name in self.shown
            if name not in others
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            error.__dict__["unknown"] = args[0]  # Typer says it in a text only
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


class RootGroup(TradeGroup):
    """The root. Typer would end with 130 for every `KeyboardInterrupt`, and SIGTERM raises one too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Options (-o, --mock, --profile, --version, …): trade help options")

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(say_interrupted(interrupt)) from None


class LazyCommand(TyperCommand):
    """Stands for a noun or a command whose module is imported when it is used.

    The module's `app` is the Typer app, or makes it from the name.
    """

    def __init__(self, name: str, summary: str, module: str) -> None:
        super().__init__(name=name, help=summary, rich_markup_mode=None)
        self._module = module
        self._real: Any = None

    def load(self) -> Any:
        """The real command or group. A group's module may name in `VERBS` what is imported in turn, from `FILES`."""
        if self._real is None:
            module = import_module(self._module)
            self._real = get_command(module.app if isinstance(module.app, typer.Typer) else module.app(self.name))
            add_lazily(self._real, getattr(module, "VERBS", {}), self._module, getattr(module, "FILES", {}))
        return self._real

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(_WHOLE)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent=parent, **extra)


def global_options(ctx: Any) -> list[tuple[str, str]]:
    """Each global option as it is typed, and what it does."""
    params = ctx.find_root().command.params
    return [record for param in params if _is_global(param) and (record := param.get_help_record(ctx)) is not None]


def add_lazily(group: Any, summaries: Mapping[str, str], package: str, files: Mapping[str, str] | None = None) -> None:
    """Adds commands to `group` whose modules are imported when they are used. `files` has modules of other names."""
    for name, summary in summaries.items():
        group.add_command(LazyCommand(name, summary, f"{package}.{(files or {}).get(name, name)}"))


class Verbs(typer.Typer):
    """The commands of a module: those of a noun, or one without verbs, whose help is its function's."""

    def __init__(self, **settings: Any) -> None:
        names = {"help_option_names": ["-h", "--help"]}
        super().__init__(rich_markup_mode=None, add_completion=False, context_settings=names, **settings)

    def callback(self, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
        add = super().callback(*arguments, **settings)
        return lambda command: add(_keep_help(command))

    def verb(
        self,
        name: str,
        *lines: str,
        hidden: bool = False,
        help: str | None = None,
        silent: bool = False,
        **shared: Callable[..., Any],
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Adds a command. `lines` are examples for its help, `shared` is for `gathered`; `silent`: it has no result."""
        made = SilentCommand if silent else TradeCommand
        add = self.command(name, cls=made, epilog=examples(*lines), hidden=hidden, help=help)

        def added(command: Callable[..., None]) -> Callable[..., None]:
            _keep_help(command)
            if shared:
                return add(gathered(**shared)(command))
            # Once: Typer would evaluate them four times.
            command.__annotations__ = get_type_hints(command, include_extras=True)
            return add(command)

        return added


def _keep_help(command: Any) -> Any:
    """`python -OO` drops docstrings, which are our help: then they are read from the source."""
    if command.__doc__ is None:
        import ast
        from textwrap import dedent

        (found,) = ast.parse(dedent(inspect.getsource(command))).body
        command.__doc__ = ast.get_docstring(found)  # type: ignore[arg-type]  # of a function, it is one
    return command


def noun(name: str, help: str) -> Verbs:
    """A group of verbs."""
    app = Verbs(name=name, help=help, cls=TradeGroup)
    app.callback(invoke_without_command=True)(_without_a_verb)
    return app


def _without_a_verb(ctx: typer.Context) -> None:
    """A noun alone lists, or shows its help."""
    if ctx.invoked_subcommand is not None or not isinstance(ctx.command, TradeGroup):
        return
    if "list" not in ctx.command.shown:
        refuse_result_options(ctx)
        print(ctx.get_help())
        return
    verb: Any = ctx.command.commands["list"]
    with verb.make_context("list", [], parent=ctx) as listing:
        listing.command.invoke(listing)


def gathered(**gathers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Lets commands share options: with `@gathered(walk=pages)`, the parameters of `pages` stand where `walk` does.

    The command gets as `walk` what `pages` makes of their values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shared = {name: _parameters(gather) for name, gather in gathers.items()}
        parameters: list[inspect.Parameter] = []
        for parameter in _parameters(command, leave=gathers):
            parameters += shared.get(parameter.name, [parameter])

        @wraps(command)
        def run(**given: Any) -> None:
            for name, gather in gathers.items():
                given[name] = gather(**{parameter.name: given.pop(parameter.name) for parameter in shared[name]})
            command(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks at first
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameters(function: Callable[..., Any], leave: Iterable[str] = ()) -> list[inspect.Parameter]:
    """The parameters, by name only, with their annotations evaluated, except those of `leave` and of what it returns.

    Those may name what only type checkers import.
    """
    left = {"return", *leave}
    function.__annotations__ = {name: note for name, note in function.__annotations__.items() if name not in left}
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


def examples(*lines: str) -> str:
    """The end of a help page. Every example is run by the tests."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
