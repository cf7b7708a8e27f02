"""Command lines that cannot be meant: an error that says so, and one hint. Nothing of them is carried out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tradesdk_cli
from tradesdk_cli.cli.group import LazyCommand
from tradesdk_cli.cli.usage_errors import ALIASES, EXPLAINED
from tradesdk_cli.errors import LOGIN, TRADE, placed

from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal
from .test_help import LEAVES, ROOT

SAID = [
    # Typer's suggestions
    ("agent list", "No such command 'agent'. Did you mean 'agents'?", "trade --help"),
    ("agents lst", "No such command 'lst'. Did you mean 'list'?", "its verbs: list, get, create, update, delete"),
    ("mock fault ad latency", "No such command 'ad'. Did you mean 'add'?", "its verbs: add, list, "),
    ("fooo", "No such command 'fooo'.", "trade --help"),
    ("plot BRETT", "No such command 'BRETT'.", "its verbs: token, agent"),
    ("agents list --statu active", "trade agents list has no option --statu", "did you mean --status?"),
    ("agents list --xyz 2", "trade agents list has no option --xyz", "trade agents list --help"),
    ("-x", "trade has no option -x", "trade help options"),
    (
        "agents list --status activ",
        "--status: 'activ' is not one of active, idle, paused, error; did you mean active?",
        "",
    ),
    ("agents list -o jsno", "'jsno' is not one of auto, table, json, ndjson, csv, tsv; did you mean json?", ""),
    # words of other programs
    ("agents ls", "No such command 'ls'.", "did you mean trade agents list?"),
    ("agents rm agt_1", "No such command 'rm'.", "did you mean trade agents delete?"),
    ("wallets add --label a", "No such command 'add'.", "did you mean trade wallets connect?"),
    ("prices ETH", "No such command 'prices'.", "did you mean trade market prices?"),
    ("version", "No such command 'version'.", "did you mean --version?"),
    ("agents list --json", "no option --json", "did you mean -o json?"),
    ("agents list --jq .name", "no option --jq", "did you mean --query?"),
    ("market prices ETH --max-price 0.03 --jq .price", "no option --jq", "did you mean --query?"),
    ("agents list --format csv", "no option --format", "did you mean -o?"),
    ("agents delete --force agt_1", "no option --force", "did you mean --yes?"),
    ("trades list --agent agt_1", "no option --agent", "did you mean --agent-id?"),
    ("signals history --side BUY", "no option --side", "did you mean --direction?"),
    ("agents update agt_1 --wallet w", "no option --wallet", "did you mean --wallet-id?"),
    (
        "agents list --wallet w",
        "no option --wallet",
        "no filter by wallet: trade agents list --all --query",
    ),
    ("agents --status idle", "trade agents has no option --status", "its list has it: trade agents list --status"),
    ("positions --token BRETT", "no option --token", "its list has it: trade positions list --token"),
    ("agents list --token BRETT", "no option --token", "keys are never options: trade login"),
    ("--mock trades --agent a", "no option --agent", "did you mean trade --mock trades list --agent-id?"),
    ("trades --statsu open", "no option --statsu", "did you mean trade trades list --status?"),
    ("agents start agt_1", "No such command 'start'.", "on a mock with trade mock agent;"),
    ("--mock agents stop agt_1", "No such command 'stop'.", "on a mock with trade --mock mock agent;"),
    ("market metrics --yes", "no option --yes", "--max-price USD, or by a budget: trade pay budget set --per-day 5"),
    # what is missing, too much, or of another kind
    ("agents get", "trade agents get needs AGENT_ID", "see what there is: trade agents list"),
    ("--mock agents get", "trade agents get needs AGENT_ID", "see what there is: trade --mock agents list"),
    ("agents get --world side", "trade agents get needs AGENT_ID", "see what there is: trade --world side agents list"),
    ("agents create --chain base", "trade agents create needs --name", "trade agents create --help"),
    ("agents list -o", "Option '-o' requires an argument.", "trade agents list --help"),
    ("agents list --all=1", "Option '--all' does not take a value.", "trade agents list --help"),
    ("agents list foo bar", "Got unexpected extra argument(s) (foo bar)", "trade agents list --help"),
    ("agents get a b", "Got unexpected extra argument(s) (b)", "trade agents get --help"),
    ("signals latest --chain eth", "--chain: 'eth' is not a chain: write base (8453) or bnb (56)", "--help"),
    ("--timeout abc agents list", "--timeout: 'abc' is not a number", "trade help options"),
    ("agents update a --stop-loss-pct 5%", "--stop-loss-pct: '5%' is not a number", "trade agents update --help"),
    ("signals latest --chain base --min-confidence 80", "80.0 is not from 0 to 1", "--help"),
    ("signals latest --chain base --limit 101", "101 is not from 1 to 100", "--help"),
    ("market prices ETH --max-price $0.05", ": $0.05 is not an amount", "without a dollar sign"),
    ("market prices ETH --max-price bash.05", ": bash.05 is not an amount", "--max-price 0.10"),
    ("market prices ETH --max-price .05", ": .05 is not an amount", "which a shell takes for a variable"),
    ("--timeout -3 account show", "seconds above 0, at most 3600", "--timeout 10"),
    ("agents list --limit 0", "--limit: 0 is less than 1", ""),
    ("agents list --limit 1.5", "'1.5' is not a whole number", ""),
    (f"signals latest --chain base --limit {'9' * 400}", "is not from 1 to 100", ""),
    ("agents list --limit 3 --all", "exclude", ""),
    ("agents delete agt_1", "--yes is needed to delete the agent agt_1 for good: there is no terminal", ""),
    ("agents get ..", "..", ""),
    ("trades get a/b", "/", ""),
    ("signals latest --chain base --min-confidence nan", "--min-confidence: a finite number is needed, not nan", ""),
    ("signals history --chain base --since yesterday", "'yesterday' is not a time", ""),
    ("signals history --chain base --since 2026-01-01T10:00", "zone", ""),
    ("wallets connect --label l --chain base --yes", "proves", ""),
    ("wallets connect --label l --chain base --signature 0x1 --yes", "--address", ""),
    ("agents list --api-key hidden", "no option --api-key", "trade login asks for one"),
    ("mock serve --port 65536", "--port: 65536 is not from 0 to 65535", ""),
    ("mock clock --set inf", "--set: 'inf' is neither Unix seconds nor a date", ""),
    *(
        (f"agents update a --{name}-pct nan --yes", f"--{name}-pct: a finite number is needed, not nan", "")
        for name in ("position-size", "stop-loss", "trailing-stop", "take-profit")
    ),
]


@each_of(("line", "message", "hint"), SAID)
def test_what_is_wrong_and_what_there_is(
    trade: Terminal, service: Scripted, line: str, message: str, hint: str
) -> None:
    run = trade(*line.split())
    assert (run.code, run.problem["code"], run.problem["status"], service.seen) == (2, "usage", None, [])
    assert message in run.problem["message"]
    assert run.problem["hint"]
    assert hint in run.problem["hint"]


def test_words_of_other_programs_lead_to_what_there_is() -> None:
    verbs: set[str] = set(ROOT.commands)
    options = {"--version", *(name for param in ROOT.params for name in param.opts)}
    for words, leaf in LEAVES.items():
        verbs |= {*words, " ".join(words)}
        options |= {name for param in leaf.params for name in param.opts}
    for word, meant in ALIASES.items():
        assert word not in ROOT.commands
        for ours in meant:
            assert ours.split()[0] in options if ours.startswith("-") else ours in verbs, ours
    assert {noun for noun, _ in EXPLAINED} <= set(ROOT.commands)


def test_a_hint_goes_where_the_line_went() -> None:
    hint = f"see {TRADE} agents list, or {LOGIN}"
    for program, there, login in (
        ("trade", "trade", "trade login"),
        ("trade --mock", "trade --mock", "trade login"),
        ("trade --world side", "trade --world side", "trade login"),
        ("trade --profile work", "trade --profile work", "trade --profile work login"),
        ("trade --profile work --mock", "trade --profile work --mock", "trade --profile work login"),
    ):
        assert placed(hint, program) == f"see {there} agents list, or {login}"


@pytest.mark.usefixtures("worlds")
@each_of(
    "line",
    [
        "agents update agt_1",
        "pay budget set",
        "mock fault add status status",
        "pay quote metrics ETH",
        "api GET /v1/nope",
        "agents get",
        "agents stop",
    ],
)
def test_what_a_hint_says_to_type_goes_where_the_line_went(trade: Terminal, line: str) -> None:
    for begun in (["--mock"], ["--world", "side"]):
        program = " ".join(["trade", *begun])
        hint = trade(*begun, *line.split()).problem["hint"]
        assert 0 < hint.count("trade ") == hint.count(f"{program} "), hint


@each_of(
    "line",
    [
        "agent list --api-key sk-live-very-secret",
        "agents list --api-key=sk-live-very-secret",
        "agents list --private-key sk-live-very-secret",
        "pay history --wallet-key sk-live-very-secret",
        "agents lst sk-live-very-secret",
        "agents sk-live-very-secret",
        "agents list -o sk-live-very-secret",
        "sk-live-very-secret",
        "--profile sk-live-very-secret agents get",
        "login sk-live-very-secret",
        "agents list sk-live-very-secret",
        "login 0123456789-very-secret",
        *(line.format("ab" * 32) for line in ("agent list {}", "agents list 0x{}", "agents get x 0x{}")),
        f"agents get x 0x{'AB' * 32}",
    ],
)
def test_what_may_be_a_secret_is_not_repeated(trade: Terminal, line: str) -> None:
    run = trade(*line.split())
    assert run.code == 2
    assert "very-secret" not in run.out + run.err
    assert "abababab" not in run.err.lower()


@each_of(
    "line",
    [
        "trades list --since {}",
        "signals stream --chain base --since {}",
        "agents list --limit {}",
        "signals latest --chain {}",
        "agents list -o {}",
        "--timeout {} agents list",
    ],
)
@each_of("typed", ["2026-11-21T11:00:00X", "at-noon-on-2026-11-21"])
def test_a_mistyped_value_is_shown_however_long_it_is(trade: Terminal, line: str, typed: str) -> None:
    run = trade(*line.format(typed).split())
    assert run.code == 2
    assert typed in run.problem["message"]


COMMAND = re.compile(
    r"(?<![\w-])(?:trade|\{program\}|\{trade\})"
    r"((?: (?:--?[a-z][\w-]*|[a-z][a-z-]*|[A-Z_]{2,}|\{\}|[a-z]+\|[a-z]+|\d+))+)"
)


def commands_in(source: str) -> Iterator[str]:
    """The command lines in the texts of a module, without its docstrings; `{}` is what is filled in."""
    tree = ast.parse(source)
    texts: list[str] = []
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else ast.unparse(one) for one in node.values]
            texts.append(
                "".join("{program}" if "program" in str(one) or "TRADE" in str(one) else str(one) for one in parts)
            )
            skipped.update(map(id, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            texts.append(node.value)
    for text in texts:
        yield from (found[1] for found in COMMAND.finditer(text))


@pytest.mark.long
def test_every_command_that_a_text_names_is_there() -> None:
    seen = 0
    for file in sorted(Path(tradesdk_cli.__file__).parent.rglob("*.py")):
        for line in commands_in(file.read_text(encoding="utf-8")):
            words, here = line.split(), ROOT
            while words and ((words[0].startswith("--") and here is ROOT) or words[0] in getattr(here, "commands", {})):
                word = words.pop(0)
                if not word.startswith("--"):
                    found = here.commands[word]
                    here = found.load() if isinstance(found, LazyCommand) else found
            if here is ROOT:
                continue  # `trade` in a sentence
            params = [*here.params, *ROOT.params]
            options = {"--help", *(name for param in params for name in (*param.opts, *param.secondary_opts))}
            wrong = [word for word in words if word.startswith("--") and word not in options]
            assert wrong == [], (file.name, line)
            seen += 1
    assert seen > 200


@each_of("option", ["-o json", "--fields id", "-q id", "--out FILE"])
@each_of(
    "line",
    [
        "completion bash",
        "mcp",
        "mcp config claude",
        "help agents list",
        "help exit-codes",
        "top",
        "demo",
        "fleet relay --chain base",
        "account",
    ],
)
def test_what_prints_no_result_takes_no_option_about_one(
    trade: Terminal, tmp_path: Path, line: str, option: str
) -> None:
    words = option.replace("FILE", str(tmp_path / "a.json")).split()
    for argv in ((*words, *line.split()), (*line.split(), *words)):
        run = trade(*argv)
        assert (run.code, run.out, run.problem["code"]) == (2, "", "usage"), argv
        said = words[0].replace("-q", "--query")
        assert run.problem["message"].endswith(f" prints no result, so it takes no {said}"), run.err
        assert run.problem["hint"] == f"leave {said} out"
    assert not (tmp_path / "a.json").exists()


@each_of(
    ("line", "field"),
    [("--mock plot agent base-momentum", "status")],
)
def test_what_is_drawn_is_data_when_something_is_selected(trade: Terminal, line: str, field: str) -> None:
    run = trade(*line.split(), "--fields", field, "-o", "json")
    rows = run.json if isinstance(run.json, list) else [run.json]
    assert [list(row) for row in rows] == [[field]] * len(rows)
    assert trade(*line.split(), "--fields", field).out.startswith("{"), "no picture, no page"


def test_every_value_is_read_by_what_can_refuse_it() -> None:
    """A type that is called with a word, such as `int`, would raise its own error."""
    for words, leaf in LEAVES.items():
        for param in leaf.params:
            described = param.type_descriptor
            kind = str(described.annotation).removeprefix("list[").removesuffix("]")
            known = kind in ("str", "<class 'str'>", "<class 'bool'>", "<class 'pathlib.Path'>")
            assert known or described.choices or described.parameter_info.parser, (*words, param.name)
