"""Usage errors: what is wrong with a command line, and a hint with the line that may be meant.

Nothing here is carried out, except a simple `--jq`: whoever typed it decides. Loaded when something is wrong.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import typer

from tradesdk_cli.config.entries import NAME
from tradesdk_cli.config.settings import program_of
from tradesdk_cli.errors import Problem, UsageProblem
from tradesdk_cli.explain import continued
from tradesdk_cli.framework.group import (
    ExtraArguments,
    LazyCommand,
    NotAChoice,
    UnexpectedWords,
    UnknownCommand,
    choices,
)
from tradesdk_cli.framework.params import NotThisNumber
from tradesdk_cli.framework.suggest import (
    ARGUMENT_FROM,
    ELSEWHERE,
    OPTION_WORDS,
    ROOT_WORDS,
    VALUE_WORDS,
    VERB_WORDS,
    closest,
)
from tradesdk_cli.redact import API_KEY, PRIVATE_KEY, is_secret_option, looks_secret, safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


WHOLE_LINE = "did you mean: "
"""What begins a hint with all that was typed, where it was typed."""


def program_typed(argv: Sequence[str]) -> str:
    """How the line began, as `program_of` has it. Typer may not have come to the options when something is wrong."""
    flags: dict[str, Any] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        if word == "--":
            break
        if word in ("--mock", "--no-mock"):
            flags["mock"] = word == "--mock"
        elif name in ("--world", "--profile") and NAME.fullmatch(value):
            flags[name.removeprefix("--")] = "NAME" if looks_secret(value) else value
    return program_of(flags)


def _again(argv: Sequence[str]) -> str | None:
    """The whole line, to paste. None where it holds what may be a secret."""
    for word in argv:
        if is_secret_option(word) or PRIVATE_KEY.search(word) or API_KEY.fullmatch(word):
            return None
    line = shlex.join(["trade", *argv])
    return line if line.isprintable() else None


def instead(argv: Sequence[str], path: str) -> str:
    line = _again(argv)
    return f"{WHOLE_LINE}{line}" if line else f"{path} --help"


_ALLOWED = re.compile(r" (?:--yes|--max-price \S+)")
_SYMBOL = re.compile(r"(?=.*[A-Z])[A-Z0-9]{2,}")
_ABOUT_TOKENS = (["signals"], ["market"], ["trades"], ["positions"], ["plot"])
_JQ = re.compile(r"\.(?:(?P<name>[A-Za-z_][\w.]*)|(?P<rest>\[\d*\](?:\.[A-Za-z_][\w.]*)?)?)")
_JQ_LISTS = ("trade agents list", "trade wallets list", "trade trades list", "trade positions list")
_JQ_OBJECTS = ("trade agents get", "trade trades get", "trade account show")
"""Where `--jq` is carried out: they pay and change nothing, and what they give is known."""
_SHOWN = 4


def usage_problem(error: typer.TyperException | UnexpectedWords, argv: Sequence[str], root: Any) -> Problem:
    """What is wrong with `argv`, and what may be meant. Secrets that were typed are not repeated."""
    context = getattr(error, "ctx", None)
    path, command = (context.command_path, context.command) if context is not None else _reached(argv, root)
    kind = type(error).__name__  # Typer keeps these classes to itself
    program = program_typed(argv)
    hint: str | None
    if isinstance(error, UnknownCommand):
        message, hint = _command(error, argv)
    elif kind == "NoSuchOption":
        message, hint = _option(error, argv, path)
    elif kind == "MissingParameter":
        message, hint = _missing(error, argv, path, program)
    elif isinstance(error, typer.BadParameter):
        message, hint = _value(error, argv, path)
    elif kind == "BadOptionUsage":
        message, hint = _bare_option(error, command, root, path)
    elif isinstance(error, ExtraArguments):
        message, hint = _extra(error, argv, path)
    else:
        message, hint = str(getattr(error, "message", error)), None
    hint = hint or ("trade help options" if path == "trade" else f"{path} --help")
    if not hint.startswith(WHOLE_LINE):
        hint = continued(hint, program) or ""
    return Problem(UsageProblem.exit_code, "usage", safe(message), safe(hint))


def _reached(argv: Sequence[str], root: Any) -> tuple[str, Any]:
    """The command that `argv` names, as far as it names one; Typer does not always say."""
    path, command = "trade", root
    for word in argv:
        found = getattr(command, "commands", {}).get(word)
        if found is not None:
            path, command = f"{path} {word}", found.load() if isinstance(found, LazyCommand) else found
    return path, command


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


# Commands


def _command(error: UnknownCommand, argv: Sequence[str]) -> tuple[str, str]:
    word, path, group = error.args_left[0], error.ctx.command_path, error.ctx.command
    at_root = error.ctx.parent is None
    before, after = list(argv[: len(argv) - len(error.args_left)]), error.args_left[1:]
    shown = "that" if API_KEY.fullmatch(word) else f"{word!r}"
    message = f"there is no command {shown}" if at_root else f"{path} has no verb {shown}"
    explained = ELSEWHERE.get((*path.split()[1:], word.lower()))
    if explained is not None:
        return message, explained
    if at_root and word == "trade" and after:  # pasted behind itself
        return message, instead([*before, *after], path)
    meant = _meant(group, word, after, at_root=at_root)
    if len(meant) == 1:
        words, rest = meant[0]
        return message, instead([*before, *words, *_mended(group, words, rest)], path)
    if meant:
        lines = [" ".join([*path.split(), *words]) for words, _ in meant[:_SHOWN]]
        return message, f"did you mean {either(lines)}?"
    if at_root:
        return message, "trade --help lists the commands, trade help the topics"
    return message, f"its verbs: {', '.join(group.shown)}; more: {path} --help"


_Meant = tuple[tuple[str, ...], list[str]]
"""Words in place of the unknown one, and what follows them."""


def _meant(group: Any, word: str, after: list[str], *, at_root: bool) -> list[_Meant]:
    lower, names = word.lower(), list(group.commands)
    same: list[_Meant] = [((name,), after) for name in _same(lower, names)]
    if same:
        return same
    if at_root:
        known = ROOT_WORDS.get(lower)
        if known is not None and (known[0] in names or known[0].startswith("-")):
            return [(known, after)]
        if after and not after[0].startswith("-"):  # the verb came first: `list agents`
            for noun in _same(after[0].lower(), names):
                verbs = list(_commands_of(group, (noun,)))
                verb = next(iter(_same(lower, verbs)), None)
                if verb is not None:
                    return [((noun, verb), after[1:])]
    elif (re.search(r"[_\d]", word) or lower == "id") and "get" in names:
        return [(("get",), [word, *after])]  # an id where its verb should be
    near: list[_Meant] = [((name,), after) for name in closest(lower, names)]
    alone = word == word.strip() and not word.startswith("-") and all(one.startswith("-") for one in after[:1])
    if not near and group.name == "plot" and alone:  # what is to be drawn
        return [(("agent" if re.search("[_-]", word) else "token",), [word, *after])]
    if near or not at_root:
        return near
    owners = [noun for noun in names if noun != "mock" and lower in _commands_of(group, (noun,))]
    if owners:
        return [((noun, lower), after) for noun in owners]
    return [(ROOT_WORDS[known], after) for known in closest(lower, list(ROOT_WORDS))]


def _same(word: str, names: Sequence[str]) -> list[str]:
    """The command that `word` is another form of: another number, case or program's word."""
    forms = [word, f"{word}s", f"{word}es", word.removesuffix("s"), word.replace("_", "-")]
    forms += VERB_WORDS.get(word, ())
    found = dict.fromkeys(form for form in forms if form in names)
    return list(found)[:1]


def meant_verbs(word: str, names: Sequence[str]) -> list[str]:
    """The names that `word` may stand for."""
    return _same(word, names) or closest(word, names)


def _commands_of(group: Any, words: Sequence[str]) -> Mapping[str, Any]:
    for word in words:
        found = getattr(group, "commands", {}).get(word)
        group = found.load() if isinstance(found, LazyCommand) else found
    commands: Mapping[str, Any] = getattr(group, "commands", {})
    return commands


def _mended(group: Any, words: tuple[str, ...], rest: list[str]) -> list[str]:
    """`rest` with its own first word mended too, where that is a verb and can only mean one."""
    verbs = _commands_of(group, words)
    if not verbs or not rest or rest[0].startswith("-") or rest[0] in verbs:
        return rest
    meant = meant_verbs(rest[0].lower(), list(verbs))
    return [meant[0], *rest[1:]] if len(meant) == 1 else rest


# Options


def _option(error: Any, argv: Sequence[str], path: str) -> tuple[str, str | None]:
    name: str = error.option_name
    word = next((word for word in argv if word.partition("=")[0] == name), None)
    if word is None and not name.startswith("--"):  # -limit was read as -l -i …
        word = next((word for word in argv if word.startswith(name) and not word.startswith("--")), None)
        name = word.partition("=")[0] if word else name
    known = _options_of(error.ctx)
    message = f"{path} has no option {name}"
    secret = is_secret_option(name) and not (name == "--token" and path.split()[1:2] in _ABOUT_TOKENS)
    forms = [option for option in known if option.startswith(name) and name.startswith("--")]
    if secret:
        if path.startswith("trade pay"):
            return (
                message,
                "keys never stand on a command line: trade pay key import asks for it, or reads it from a pipe",
            )
        return message, "keys never stand on a command line: export TRADE_API_KEY, or keep one: trade login"
    words = path.split()[1:]
    explained = next(
        (ELSEWHERE[key] for key in ((*words, name), (*words[:1], name), (name,)) if key in ELSEWHERE), None
    )
    if explained is not None:
        return message, explained
    if name in ("--version", "-V"):
        return message, "did you mean: trade --version"
    if f"-{name}" in known:
        meant = [f"-{name}"]
    else:
        ours = next((ours for ours in OPTION_WORDS.get(name, ()) if ours.split()[0] in known), None)
        if ours is None and word is not None and _is_argument(name, error.ctx):
            return message, instead(_with_option(argv, word, ""), path)
        meant = [ours] if ours else forms or closest(name, known)
    if len(meant) == 1 and word is not None:
        if meant == ["-o json"] and _names_fields(argv, word, error.ctx):  # as in gh
            meant = ["-o json --fields"]
        line = _with_option(argv, word, meant[0])
        reached = _reached(argv, error.ctx.command)[0] if path == "trade" else path
        if meant == ["--query"] and not _as_query(line, reached):
            return message, "--query takes JMESPath, for example: --query \"[?status=='active'].id\""
        return message, instead(line, path)
    if meant:
        return message, f"did you mean {either(meant[:_SHOWN])}?"
    if path == "trade":
        return message, "the options of a command stand after it; trade --help"
    return message, f"its options: {path} --help"


def _with_option(argv: Sequence[str], wrong: str, right: str) -> list[str]:
    """`argv` with `wrong` replaced; `right` may bring its value, and then takes none. Empty: only the value stays."""
    words = right.split()
    _, equals, value = wrong.partition("=")
    if equals and not words:
        words = [value]
    if equals and len(words) == 1 and right:
        words = [f"{right}={value}"] if right.startswith("--") else [right, value]
    index = list(argv).index(wrong)
    return [*argv[:index], *words, *argv[index + 1 :]]


def _names_fields(argv: Sequence[str], word: str, context: Any) -> bool:
    """Whether names of fields come after `word`, and not an argument of the command."""
    following = next(iter(argv[list(argv).index(word) + 1 :]), "")
    takes_none = all(param.param_type_name == "option" for param in context.command.get_params(context))
    return re.fullmatch(r"[a-z_.]+(,[a-z_.]+)*", following) is not None and (takes_none or "," in following)


def _as_query(line: list[str], path: str) -> bool:
    """Writes a simple jq path in `line` as JMESPath: `.name` as `name`, of each row in a list.

    False: it is neither, or nobody can say what it selects from the result of the command `path`.
    """
    place = next(place for place, word in enumerate(line) if word.partition("=")[0] == "--query")
    _, equals, value = line[place].partition("=")
    value = value if equals else line[place + 1] if place + 1 < len(line) else ""
    if found := _JQ.fullmatch(value):
        if path not in (_JQ_LISTS if found["rest"] else (*_JQ_LISTS, *_JQ_OBJECTS)):
            return False
        rows = "[]." if path in _JQ_LISTS and found["name"] else ""
        value = f"{rows}{found['name'] or found['rest'] or '@'}"
        line[place : place + 1 if equals else place + 2] = ["--query", value]
    from tradesdk_cli.output.select import Selection

    try:
        Selection(value, ())
    except UsageProblem:
        return False
    return bool(value)


def with_query_for_jq(error: Exception, argv: Sequence[str]) -> list[str] | None:
    """The line with `--query` where it has `--jq`, as in gh, with a simple path; None: it has not, or might pay."""
    if type(error).__name__ != "NoSuchOption":
        return None
    context: Any = getattr(error, "ctx", None)
    word = next((word for word in argv if word.partition("=")[0] == "--jq"), None)
    if word is None or context is None or getattr(error, "option_name", "") != "--jq":
        return None
    if context.command_path not in (*_JQ_LISTS, *_JQ_OBJECTS):
        return None
    line = _with_option(argv, word, "--query")
    before = list(line)
    return line if _as_query(line, context.command_path) and line != before else None


def _is_argument(name: str, context: Any) -> bool:
    """Whether an option has the name of something that stands there without one: --agent-id where AGENT_ID does."""
    wanted = name.removeprefix("--").replace("-", "_").upper()
    arguments = [param for param in context.command.get_params(context) if param.param_type_name == "argument"]
    return any(_name_of(param, ()) == wanted for param in arguments)


def _options_of(context: Any) -> list[str]:
    params = context.command.get_params(context)
    return [
        name
        for param in params
        if param.param_type_name == "option" and not param.hidden
        for name in (*param.opts, *param.secondary_opts)
    ]


def _bare_option(error: Any, command: Any, root: Any, path: str) -> tuple[str, str | None]:
    name: str = error.option_name
    param = next((one for one in [*command.params, *root.params] if name in (*one.opts, *one.secondary_opts)), None)
    if param is not None and param.is_flag:
        return f"{name} takes no value", f"leave it at {name}; {path} --help"
    if words := choices(param):
        return f"{name} needs a value: {either(words)}", None
    metavar = getattr(param, "metavar", None)
    return f"{name} needs a value" + (f": {name} {metavar}" if metavar else ""), None


# Values


def _name_of(param: Any, argv: Sequence[str]) -> str:
    """A parameter as it was typed: `-o` where that was it, and not `--output`."""
    if param is None:
        return "the value"
    if param.param_type_name == "argument":
        return str(param.metavar or str(param.name).upper()).removesuffix("...")
    typed = (name for name in param.opts if any(word.partition("=")[0] == name for word in argv))
    name: str = next(typed, next((name for name in param.opts if name.startswith("--")), param.opts[0]))
    return name


def _value(error: Any, argv: Sequence[str], path: str) -> tuple[str, str | None]:
    name = _name_of(error.param, argv)
    if isinstance(error, NotThisNumber) and error.meant is not None:
        words = [_swapped(word, error.value, error.meant) for word in argv]
        return f"{name}: {error.message}", instead(words, path)
    if not isinstance(error, NotAChoice):
        return f"{name}: {error.message}", None
    value, known = error.value, choices(error.param)
    # A word that stands for itself, such as the set of `pay budget set`, has no other name.
    said = f"{value!r} is not {either(known)}" if name in known else f"{name} is {either(known)}, not {value!r}"
    same = (value.lower(), VALUE_WORDS.get(value.lower()))
    near = [choice for choice in known if choice.lower() in same] or closest(value.lower(), known)
    if len(near) != 1:
        return said, None
    words = [_swapped(word, value, near[0]) for word in argv]
    return said, instead(words, path)


def _swapped(word: str, value: str, right: str) -> str:
    if word == value:
        return right
    joined = word.startswith("-") and word.endswith(value) and (word[: -len(value)].endswith("=") or word[1:2] != "-")
    return word[: -len(value)] + right if joined else word


def _missing(error: Any, argv: Sequence[str], path: str, program: str) -> tuple[str, str | None]:
    context, param = error.ctx, error.param
    if param is None or context is None:
        return error.format_message(), None
    typed = {word.partition("=")[0] for word in argv}
    wanted = [
        one
        for one in context.command.get_params(context)
        if one.required and (one is param or (one.param_type_name == "option" and not typed.intersection(one.opts)))
    ]
    names = [_name_of(one, argv) for one in wanted] or [_name_of(param, argv)]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    source = next((name for name in names if name in ARGUMENT_FROM), None)
    parts = [f"for example: {program} {example}"] if (example := _example(context.command)) else []
    parts += [f"{source} comes from: {program} {ARGUMENT_FROM[source]}"] if source else []
    return f"{path} needs {listed}", "; ".join(parts) or None


def _example(command: Any) -> str | None:
    """What stands behind `trade` in the first example; whoever pastes it is asked before it writes or pays anything."""
    lines = (command.epilog or "").splitlines()[2:]
    if not lines:
        return None
    return _ALLOWED.sub("", lines[0].strip().removeprefix("trade ").removeprefix("--mock "))


def _extra(error: ExtraArguments, argv: Sequence[str], path: str) -> tuple[str, str | None]:
    context, words, (first, *more) = error.ctx, " ".join(error.args_left), error.args_left
    params = context.command.get_params(context)
    if not more and first in argv and "login" not in path:
        for param in params:
            right = next((choice for choice in choices(param) if choice.lower() == first.lower()), None)
            if right is not None and param.param_type_name == "option":
                index = list(argv).index(first)
                flag = max(param.opts, key=len)
                line = instead([*argv[:index], flag, right, *argv[index + 1 :]], path)
                return f"{path} does not know what {first!r} is for", line
    takes = [
        piece for param in params if param.param_type_name == "argument" for piece in param.get_usage_pieces(context)
    ]
    shown = "that" if "login" in path or API_KEY.fullmatch(first) else repr(words)
    said = f"it takes {' '.join(takes)} only" if takes else "it takes options only"
    flag = next((name for name in ("--token", "--agent-id") if name in _options_of(context)), None)
    hint = None
    if flag is not None and flag not in argv and not takes and not more and first in argv and _again(argv):
        index = list(argv).index(first)  # here --token is no secret
        meant = [flag, first]
        if flag == "--agent-id" and _SYMBOL.fullmatch(first):  # no list has a filter for it
            meant = ["--query", f"[?token_symbol=='{first}']"]
        hint = f"{WHOLE_LINE}{shlex.join(['trade', *argv[:index], *meant, *argv[index + 1 :]])}"
    return f"{shown} is too much for {path}: {said}", hint
