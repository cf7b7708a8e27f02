"""Commands of `trade mock` made from the mock's operations, with their arguments and help."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from tradesdk_cli.cli.group import Verbs, noun
from tradesdk_cli.cli.params import (
    A_TIME,
    AgentId,
    AnyChain,
    Consent,
    number,
    pairs,
    parse_span,
    unix_or_date,
    whole,
)
from tradesdk_cli.commands import mock
from tradesdk_cli.commands.lists import refuse_query
from tradesdk_cli.commands.mock.control import forget_old_state, json_of, mock_name, no_mock, send
from tradesdk_cli.errors import CliError, RefusedByMock, UsageProblem
from tradesdk_cli.output.columns import BALANCES, EMITTED, KEYS, LOG, SETTLEMENTS, SUBMISSIONS
from tradesdk_cli.run import Run, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from tradesdk_cli.output.columns import Column
    from tradesdk_mock import ControlOperation, ControlParameter


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        request: method and path of the operation.
        columns: the columns of its table; empty: all fields.
        empty: the text instead of an empty table.
        examples: the arguments of its two examples.
        look: the command that lists accepted values.
        loses: the data that it deletes; it asks first.
        alarm: the meaning of a list that is not empty; exit code 1.
        usual: the default of --limit, newest first.
    """

    request: str
    columns: tuple[Column, ...] = ()
    empty: str = "nothing"
    examples: tuple[str, str] | None = None
    look: str | None = None
    loses: str | None = None
    alarm: str | None = None
    usual: int | None = None


COMMANDS = {
    "status": Command("GET status"),
    "logs": Command(
        "GET journal",
        LOG,
        "no requests yet; only a served mock logs them: trade mock serve",
        examples=("--limit 5", "--tenant me -o json"),
        usual=20,
    ),
    "clock": Command("POST clock", examples=("", "--freeze --advance 3600")),
    "emit": Command("POST signals", EMITTED, examples=("--chain base", "--token BRETT --direction buy --after 30")),
    "fault add": Command(
        "POST faults",
        examples=(
            "status --route /v1/trades --count 2 status=503 retry_after=3",
            "drop --query-param chain=8453 --every 2 after=5 how=reset",
        ),
        look="mock fault kinds",
    ),
    "fault list": Command("GET faults", empty="no faults"),
    "fault kinds": Command("GET faults/kinds"),
    "fault remove": Command("DELETE faults/{fault_id}", empty="no faults left"),
    "fault clear": Command("DELETE faults", empty="no faults left"),
    "agent start": Command("POST agents/{agent_id}/start"),
    "agent stop": Command("POST agents/{agent_id}/stop"),
    "agent set-status": Command("POST agents/{agent_id}/status"),
    "key create": Command("POST keys", examples=("--name bot", "--name eyes --scope read-only")),
    "key list": Command("GET keys", KEYS, "no keys yet"),
    "key expire": Command("POST keys/{key_id}/expire", examples=("KEY_ID", "KEY_ID --at 1900000000")),
    "key rotate": Command("POST keys/{key_id}/rotate"),
    "key revoke": Command("POST keys/{key_id}/revoke"),
    "tenant populate": Command("POST tenants/{tenant}/populate", examples=("you", "you --trades 5000")),
    "tenant plan": Command("POST tenants/{tenant}/plan", examples=("me enterprise", "you free -o json")),
    "payments list": Command("GET payments", SETTLEMENTS, "no payment was taken"),
    "payments submissions": Command("GET payments/submissions", SUBMISSIONS, "no payment has arrived"),
    "payments check": Command(
        "GET payments/twice",
        SETTLEMENTS,
        "nothing was charged twice",
        examples=("", "--within 120"),
        alarm="charged more than once",
    ),
    "payments balances": Command("GET payments/balances", BALANCES, "no payments yet"),
    "payments balance": Command("GET payments/balances/{payer}", BALANCES),
    "payments set-balance": Command(
        "PUT payments/balances/{payer}", BALANCES, examples=("ADDRESS 12.50", "ADDRESS 0 -o json")
    ),
    "payments wallet": Command("GET payments/wallets/{owner}", examples=("ADDRESS", "ADDRESS --salt 1 -o json")),
    "payments deploy-wallet": Command("PUT payments/wallets/{owner}"),
    "payments delegate": Command("PUT payments/delegated/{address}"),
    "gaps list": Command("GET gaps"),
    "gaps set": Command(
        "PUT gaps",
        empty="all options have their defaults",
        examples=("order=oldest heartbeat=1", "order=newest"),
        look="mock gaps list",
    ),
    "reset": Command(
        "POST reset",
        loses="agents, trades, keys, signals and faults",
        examples=("--yes", "--seed 11 --populate me --dry-run"),
    ),
}


def app(name: str) -> Verbs:
    """The command `trade mock NAME`, or the noun with its verbs."""
    if name in ("serve", "snapshot", "restore"):  # not one operation each
        own: dict[str, Verbs] = import_module(f"{mock.__name__}.{name if name == 'serve' else 'state'}").APPS
        return own[name]
    from tradesdk_mock import control_operations

    known = {f"{each.method} {each.path}": each for each in control_operations()}
    made = Verbs() if name in COMMANDS else noun(name, mock.VERBS[name])
    for words, command in COMMANDS.items():
        if words.partition(" ")[0] == name:
            operation = known[command.request]
            needed = " ".join(
                each.choices[0] if each.choices else _metavar(each) for each in operation.parameters if each.required
            )
            first, second = command.examples or (needed, f"{needed} -o json")
            lines = (f"trade --mock mock {words} {first}".rstrip(), f"trade mock {words} {second.strip()}")
            made.verb(words.rpartition(" ")[2], *lines)(_typed(command, operation))
    return made


# From an operation to a function for Typer


def _typed(command: Command, operation: ControlOperation) -> Callable[..., None]:
    def run(ctx: typer.Context, **given: Any) -> None:
        _run(ctx, command, operation, given)

    def add(name: str, annotation: Any, default: Any) -> None:
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    found: list[inspect.Parameter] = []
    add("ctx", typer.Context, inspect.Parameter.empty)
    for each in operation.parameters:
        declared = replace(each, default=command.usual) if each.name == "limit" and command.usual else each
        add(_name(each), _declared(declared), inspect.Parameter.empty if each.required else None)
    if operation.more is not None:
        more = typer.Argument(metavar="NAME=VALUE", help=_sentence(operation.more))
        add("more", Annotated[list[str] | None, more], None)
    if command.loses is not None:
        add("consent", Consent, inspect.Parameter.empty)
    run.__annotations__ = {each.name: each.annotation for each in found}
    run.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]  # what inspect looks at first
    run.__doc__ = operation.text
    return run


def _kinds(incomplete: str) -> list[str]:
    from tradesdk_mock import fault_kinds

    return [kind.name for kind in fault_kinds() if kind.name.startswith(incomplete)]


def _micro_usd(text: str) -> int:
    from tradesdk_cli.pay.checkout import amount_of

    return amount_of("USD", text)


_KIND = typer.Argument(
    metavar="KIND", autocompletion=_kinds, help="What goes wrong; trade mock fault kinds lists them."
)
_USD = typer.Argument(metavar="USD", parser=_micro_usd, help="US dollars, such as 12.50.")
_OWN = {"AGENT_ID": AgentId, "CHAIN": AnyChain, "KIND": Annotated[str, _KIND], "USD": Annotated[int, _USD]}
"""Help by unit, where it differs from the mock's."""


def _name(each: ControlParameter) -> str:
    """Its option's name: --query is a global option already."""
    return "query_param" if each.name == "query" else each.name


def _metavar(each: ControlParameter) -> str:
    if each.choices:
        return "|".join(each.choices)
    plain: dict[tuple[type, ...], str] = {(int,): "N", (float,): "X", (dict,): "NAME=VALUE"}
    return each.unit or plain.get(each.types) or each.name.upper()


def _declared(each: ControlParameter) -> Any:
    """The annotation for Typer. A missing option is None, so the mock's default applies."""
    if each.unit in _OWN:
        return _OWN[each.unit]
    kind: Any = str
    read: dict[str, Any] = {"metavar": _metavar(each)}
    text = _sentence(each.text)
    if each.choices:
        kind, read["case_sensitive"] = Literal[tuple(each.choices)], False
    elif each.unit == "TIME":
        kind, read["parser"] = each.types[0], lambda value: each.types[0](unix_or_date(value))
        text = f"{text.removesuffix('.')}; also {A_TIME.partition(', ')[2]}."
    elif each.unit == "SECONDS":
        kind, read["parser"] = float, _seconds
        text = f"{text.removesuffix('.')}; also 30s, 10m or 2h."
    elif each.types in ((int,), (float,)):
        (kind,), read["parser"] = each.types, whole() if each.types == (int,) else number()
    elif each.types == (bool,):
        kind, read = bool, {}
    elif list in each.types or dict in each.types:
        kind = list[str]
    if each.required:
        return Annotated[kind, typer.Argument(help=text, **read)]
    if each.default not in (None, False, 0, ()):
        text += f" [default: {each.default:g}]" if each.types == (float,) else f" [default: {each.default}]"
    option = f"--{_name(each).replace('_', '-')}"
    short = ("-n",) if option == "--limit" else ()
    if kind is bool and each.default is None:
        option += f"/--no-{option[2:]}"
    return Annotated[kind | None, typer.Option(option, *short, help=text, show_default=False, **read)]


def _seconds(value: str | float) -> float:
    return parse_span(value) if str(value)[-1:].isalpha() else number()(value)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# From arguments to a request, and from its response to output


def _run(ctx: typer.Context, command: Command, operation: ControlOperation, given: dict[str, Any]) -> None:
    if ctx.obj.get("query") is not None and any(each.name == "query" for each in operation.parameters):
        raise UsageProblem(
            f"--query selects from the result, not from requests, so {ctx.command_path} does not take it",
            "--query-param NAME=VALUE selects requests by their query",
        )
    fields = _more(command, operation, given.get("more") or ())
    for each in operation.parameters:
        value = given[_name(each)]
        if value is not None and value != [] and (value or each.default is not False):
            fields[each.name] = pairs(value, "{trade} mock fault add --help") if each.types == (dict,) else value
    usual = command.usual if "limit" not in fields else None
    if usual is not None:
        fields["limit"] = usual + 1  # one more, to see whether there are more
    ids = {name: fields.pop(name) for name in list(fields) if f"{{{name}}}" in operation.path}
    body = fields if operation.method in ("POST", "PUT") else None
    query = f"?{urlencode(fields)}" if fields and body is None else ""
    with run_of(ctx) as run:

        def answer_for(agent_id: str = "") -> dict[str, Any]:
            words = {name: quote(word, safe="") for name, word in (ids | {"agent_id": agent_id}).items()}
            try:
                return send(run, operation.method, operation.path.format(**words) + query, body)
            except RefusedByMock as error:
                from tradesdk_cli.cli.usage_errors import LISTED

                unit = operation.parameters[0].unit if ids and error.status in (404, 409) else ""
                look = command.look or LISTED.get(unit)
                error.hint = f"see what there is: {run.settings.program} {look}" if look else error.hint
                raise

        if command.loses is not None:
            from tradesdk_cli.confirm import Change, approve

            what = f"{operation.path} {mock_name(run)}: delete {command.loses}"
            change = Change(what, operation.method, f"/_mock/{operation.path}", fields or None, mock=mock_name(run))
            if not approve(run, change, **vars(given["consent"])):
                return
            answer_for()
            forget_old_state(run)
            answer = send(run, "GET", "status")
        elif "agent_id" in ids:
            from tradesdk_cli.lookup import AGENTS, reached

            answer = reached(run, AGENTS, ids["agent_id"], answer_for)
        else:
            answer = answer_for()
        _show(run, command, answer, usual)


def _more(command: Command, operation: ControlOperation, words: Iterable[str]) -> dict[str, Any]:
    """`NAME=VALUE` words; values of faults have types."""
    found: dict[str, Any] = dict(pairs(words, f"{{trade}} {command.look}"))
    for each in operation.parameters:
        if each.name in found:
            option = "the first argument" if each.required else f"an option: --{_name(each).replace('_', '-')}"
            raise UsageProblem(f"{each.name} is {option}", "{trade} mock fault add --help")
    if operation.path != "faults":
        return found
    return {name: text if name in _AS_THEY_ARE else value_of(text) for name, text in found.items()}


def _show(run: Run, command: Command, answer: dict[str, Any], usual: int | None) -> None:
    out, data = run.out, answer.get("data")
    if not isinstance(data, list):
        if not out.draws(many=False):
            out.one(answer)
        elif command.columns:
            out.many(command.columns, [[answer]], empty=command.empty)
        else:
            out.one({name: value for name, value in answer.items() if value is not None})
        return
    rows = [row for each in data for row in (each if isinstance(each, list) else [each])]
    if not all(isinstance(row, dict) for row in rows):
        raise no_mock(run)
    there_are_more = usual is not None and len(rows) > usual
    if there_are_more:
        refuse_query(out, "--limit N")
        rows = rows[-(usual or 0) :]
    if rows and not command.columns and out.draws(many=True):
        out.draw(lambda console: _each(console, rows, out.width))
    else:
        more = [f"the latest {usual}; there are more: --limit N"] if there_are_more else []
        out.many(command.columns, [rows], empty=command.empty, foot=lambda: (more, {}))
    if rows and command.alarm:
        raise CliError(f"{len(data)} {'purchase was' if len(data) == 1 else 'purchases were'} {command.alarm}")


def _each(console: Console, rows: Iterable[dict[str, Any]], width: int | None) -> None:
    """Prints items one after the other with all fields."""
    from tradesdk_cli.output.table import render_one

    for nth, row in enumerate(rows):
        if nth:
            console.print()
        render_one(console, {name: value for name, value in row.items() if value not in (None, [], {})}, width)


_AS_THEY_ARE = ("text", "base64", "raw", "header", "body")
"""Parameters of faults that are always text."""


def value_of(text: str) -> Any:
    """The value of `text`: JSON for a number, true, false, null, an object, an array or quoted text; else text."""
    try:
        return json_of(text)
    except (ValueError, RecursionError):
        return text
