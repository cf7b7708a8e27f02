"""Command lines that cannot be meant: one line that says so, and the line that may be meant, which is never run."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import jmespath
import pytest

import tradesdk_cli
from tradesdk_cli.app import _NOUNS, command
from tradesdk_cli.explain import continued
from tradesdk_cli.framework.group import LazyCommand, TradeCommand
from tradesdk_cli.framework.suggest import OPTION_WORDS, ROOT_WORDS, VERB_WORDS, closest

from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal
from .test_help import LEAVES, ROOT

CORRECTED = [
    ("agent list", "agents list"),
    ("agents lst", "agents list"),
    ("agent lst", "agents list"),
    ("Agents list", "agents list"),
    ("agents ls", "agents list"),
    ("agents show agt_1", "agents get agt_1"),
    ("agents edit agt_1 --max-positions 2", "agents update agt_1 --max-positions 2"),
    ("agents rm agt_1", "agents delete agt_1"),
    ("agents new --name a", "agents create --name a"),
    ("wallets add --label a", "wallets connect --label a"),
    ("account info", "account show"),
    ("market price ETH", "market prices ETH"),
    ("list agents", "agents list"),
    ("show agent agt_1", "agents get agt_1"),
    ("balance wal_1", "wallets balance wal_1"),
    ("stream --chain base", "signals stream --chain base"),
    ("budget", "pay budget"),
    ("version", "--version"),
    ("auth", "login"),
    ("agents agt_1", "agents get agt_1"),
    ("plot BRETT", "plot token BRETT"),
    ("plot base-slow -n 5", "plot agent base-slow -n 5"),
    ("plot tokn BRETT", "plot token BRETT"),
    ("mock fault ad latency", "mock fault add latency"),
    ("pay ky address", "pay key address"),
    ("--mock agent list", "--mock agents list"),
    ("agents list --statu active", "agents list --status active"),
    ("agents list --status activ", "agents list --status active"),
    ("agents list --status=ACTIVE", "agents list --status=active"),
    ("agents list active", "agents list --status active"),
    ("agents list --json", "agents list -o json"),
    ("agents list --json name,id", "agents list -o json --fields name,id"),
    ("agents list --json id", "agents list -o json --fields id"),
    ("agents get agt_1 --json id,risk.stop_loss_pct", "agents get agt_1 -o json --fields id,risk.stop_loss_pct"),
    ("agents get --json agt_1", "agents get -o json agt_1"),
    ("agents get --json slow", "agents get -o json slow"),
    ("agents list -o jsonl", "agents list -o ndjson"),
    ("agents list --output=JSONL", "agents list --output=ndjson"),
    ("signals history BRETT --chain base", "signals history --token BRETT --chain base"),
    ("positions list base-slow", "positions list --agent-id base-slow"),
    ("trades list -n 3 base-slow", "trades list -n 3 --agent-id base-slow"),
    ("agents list --format csv", "agents list -o csv"),
    ("agents list --format=csv", "agents list -o csv"),
    ("agents list --jq id", "agents list --query id"),
    ("agents list --jq length", "agents list --query length"),
    ("--jq .id account show", "--query id account show"),
    ("plot agt_1 --since 7d", "plot agent agt_1 --since 7d"),
    ("agents list -limit 5", "agents list --limit 5"),
    ("agents list --count 5", "agents list --limit 5"),
    ("agents list -o jsno", "agents list -o json"),
    ("agents list -ojsno", "agents list -ojson"),
    ("--paper agents list", "--mock agents list"),
    ("agents update agt_1 --stop-loss 4", "agents update agt_1 --stop-loss-pct 4"),
    ("agents delete --force agt_1", "agents delete --yes agt_1"),
    ("trades list --agent agt_1", "trades list --agent-id agt_1"),
    ("agents get --version", "--version"),
    ("--install-completion", "completion bash"),
    ("trade agents list", "agents list"),
    ("--mock trade agents list", "--mock agents list"),
    ("versoin", "--version"),
    ("dashbord", "top"),
    ("agents get --agent-id agt_1", "agents get agt_1"),
    ("agents update agt_1 --stop-loss-pct 5%", "agents update agt_1 --stop-loss-pct 5"),
    ("agents update agt_1 --stop-loss-pct=$5", "agents update agt_1 --stop-loss-pct=5"),
    ("signals latest --chain base --min-confidence 80%", "signals latest --chain base --min-confidence 0.8"),
    ("signals latest --chain base --min-confidence 80", "signals latest --chain base --min-confidence 0.8"),
    ("agents update agt_1 --min-confidence=62.5", "agents update agt_1 --min-confidence=0.625"),
    ("mock emit --chain base --price-usd bash.05", "mock emit --chain base --price-usd 0.05"),
]


@each_of(("line", "meant"), CORRECTED)
def test_the_line_that_is_meant_stands_in_the_hint(trade: Terminal, service: Scripted, line: str, meant: str) -> None:
    run = trade(*line.split())
    assert (run.code, run.problem["code"]) == (2, "usage")
    assert run.problem["hint"] == f"did you mean: trade {meant}"
    assert service.seen == []


@each_of(
    ("line", "meant"),
    [
        ("agents list --jq .name", "agents list --query [].name"),
        ("agents --jq .name -n 2", "agents --query [].name -n 2"),
        ("agents list --jq .[].name", "agents list --query [].name"),
        ("agents list --jq=.[0]", "agents list --query [0]"),
        ("-o csv agents list --jq .[0].id", "-o csv agents list --query [0].id"),
        ("agents get base-slow --jq .stats.win_rate_pct", "agents get base-slow --query stats.win_rate_pct"),
        ("account show --jq .", "account show --query @"),
        ("wallets list --jq .label", "wallets list --query [].label"),
        ("trades list -n 2 --jq .token_symbol", "trades list -n 2 --query [].token_symbol"),
        ("positions --jq .[0].id", "positions --query [0].id"),
    ],
)
def test_a_simple_jq_path_is_taken_as_in_gh(world: Terminal, line: str, meant: str) -> None:
    run, same = world(*line.split()), world(*meant.split())
    assert (run.code, run.out) == (0, same.out)
    assert run.out.strip() not in ("", "null")


@each_of(
    "line",
    [
        "market prices ETH --max-price 0.03 --jq .price",
        "market tokens --jq .symbol",
        "signals latest --chain base --jq .token_symbol",
        "pay history --jq .id",
        "agents delete agt_1 --yes --jq .id",
        "agents update agt_1 --name calmer --yes --jq .id",
        "agents get agt_1 --jq .[0].id",
        "account usage --jq .",
    ],
)
def test_jq_is_not_taken_where_it_could_pay_change_or_select_nothing(
    trade: Terminal, service: Scripted, line: str
) -> None:
    run = trade(*line.split())
    assert (run.code, run.problem["code"], service.seen) == (2, "usage", [])
    assert "has no option --jq" in run.problem["message"]
    assert "--query takes JMESPath, for example: --query " in run.problem["hint"]


@each_of("noun", ["trades", "positions"])
def test_a_symbol_behind_a_list_that_has_no_filter_for_it(world: Terminal, noun: str) -> None:
    symbol = world(noun, "list", "-o", "json").json[0]["token_symbol"]
    hint = world(noun, "list", symbol).problem["hint"]
    assert hint.startswith("did you mean: trade ")
    found = world(*shlex.split(hint.partition(": trade ")[2]), "-o", "json")
    assert found.code == 0
    assert {row["token_symbol"] for row in found.json} == {symbol}


SAID = [
    ("fooo", "there is no command 'fooo'", "trade --help lists the commands, trade help the topics"),
    ("list", "there is no command 'list'", "did you mean trade agents list, trade wallets list, "),
    ("get agt_1", "there is no command 'get'", "trade agents get, trade trades get"),
    ("agents xyz", "trade agents has no verb 'xyz'", "its verbs: list, get, create, update, delete;"),
    ("plot pepe coin", "trade plot has no verb 'pepe'", "its verbs: token, agent;"),
    ("sell ETH", "there is no command 'sell'", "agents buy and sell, you do not"),
    ("agents get", "trade agents get needs AGENT_ID", "AGENT_ID comes from: trade agents list"),
    ("agents create --chain base", "needs --name and --wallet-id", "for example: trade agents create --name"),
    ("agents list -o", "-o needs a value", "trade agents list --help"),
    ("agents list --limit", "--limit needs a value: --limit N", "trade agents list --help"),
    ("agents list --all=1", "--all takes no value", "leave it at --all"),
    ("agents list foo bar", "'foo bar' is too much for trade agents list: it takes options only", "--help"),
    ("agents get a b", "'b' is too much for trade agents get: it takes AGENT_ID only", "--help"),
    ("agents list --chain base", "trade agents list has no option --chain", "trade agents list --help"),
    ("agents list --page 2", "no option --page", "--cursor CURSOR"),
    ("agents list --stop 2", "no option --stop", "trade agents list --help"),
    ("agents update agt_1 --tailing-stop 2", "no option --tailing-stop", "--trailing-stop-pct"),
    ("-x", "trade has no option -x", "trade --help"),
    ("agents list --color never", "no option --color", "NO_COLOR=1 turns them off"),
    ("agents list --no-retry", "no option --no-retry", "TRADE_MAX_RETRIES=0 sends every request once"),
    ("market metrics --market-url http://x", "no option --market-url", "TRADE_MARKET_BASE_URL, or keep it"),
    ("signals latest --chain eth", "--chain: 'eth' is not a chain: write base (8453) or bnb (56)", "--help"),
    ("--timeout abc agents list", "--timeout: 'abc' is not a number", "trade help options"),
    ("market metrics --yes", "no option --yes", "--max-price USD, or by a budget: trade pay budget set --per-day 5"),
    ("--mock market prices ETH -y", "no option -y", "or by a budget: trade --mock pay budget set --per-day 5"),
    ("logout --yes", "trade logout has no option --yes", "trade logout asks nothing"),
    ("agents update a --stop-loss-pct 5%", "'5%' is not a number: write 5", "--stop-loss-pct 5"),
    ("agents update a --stop-loss-pct five", "'five' is not a number", "trade agents update --help"),
    ("market prices ETH --max-price $0.05", ": $0.05 is not an amount", "leave the dollar sign out: --max-price 0.05"),
    (
        "market prices ETH --max-price -bash.05",
        ": -bash.05 is not an amount",
        "without the dollar sign: --max-price 0.05",
    ),
    (
        "market prices ETH --max-price /bin/zsh.05",
        ": /bin/zsh.05 is not an amount",
        "without the dollar sign: --max-price 0.05",
    ),
    ("market prices ETH --max-price .05", ": .05 is not an amount", "leave a dollar sign out"),
    ("market prices ETH --max-price cash.05", ": cash.05 is not an amount", "for example: --max-price 0.10"),
    ("agents list --jq map(.name)|x", "no option --jq", "--query takes JMESPath, for example: --query "),
    ("agents list --jq", "no option --jq", "--query takes JMESPath, for example: --query "),
    ("signals stream --chain base --min-confidence 1.1", "1.1 is not from 0 to 1", "--help"),
    ("signals stream --chain base --min-confidence 101", "101.0 is not from 0 to 1", "--help"),
    ("signals stream --chain base --token ETH BRETT", "'BRETT' is too much for trade signals stream", "--help"),
    ("signals latest --chain base --limit 101", "101 is not from 1 to 100", "--help"),
    ("--timeout -3 account show", "seconds above 0, at most 3600", "--timeout 10"),
]


@each_of(("line", "message", "hint"), SAID)
def test_what_is_wrong_and_what_there_is(trade: Terminal, line: str, message: str, hint: str) -> None:
    run = trade(*line.split())
    assert (run.code, run.problem["code"]) == (2, "usage")
    assert message in run.problem["message"]
    assert hint in run.problem["hint"]


BEGINNINGS: list[list[str]] = [["--mock"], ["--world", "side"], ["--profile", "work"], ["--profile=work", "--mock"], []]


def test_what_a_hint_says_to_type_goes_where_the_line_went(trade: Terminal) -> None:
    wanting = [words for words, leaf in LEAVES.items() if any(param.required for param in leaf.params)]
    assert len(wanting) > 20
    for place, words in enumerate(wanting):
        begun = BEGINNINGS[place % len(BEGINNINGS)]
        program = " ".join(["trade", *begun]).replace("--profile=", "--profile ")
        for line in ([*begun, *words], [*words, *begun]):
            hint = trade(*line).problem["hint"]
            assert hint.startswith(f"for example: {program} {' '.join(words)}"), hint
            assert hint.count("trade ") == hint.count(f"{program} "), hint
            assert "--yes" not in hint
            assert "--max-price" not in hint, "whoever pastes it may not want to pay"


@each_of(
    "line",
    [
        "agents update agt_1",
        "pay budget set",
        "pay budget --per-day 5",
        "mock fault add status status",
        "pay quote metrics ETH",
        "pay reconcile --mark paid",
        "api",
        "api GET /v1/nope",
        "agents xyz",
        "agents get a b",
        "agents list --nope",
        "list",
        "buy ETH",
    ],
)
def test_other_hints_go_where_the_line_went_too(trade: Terminal, line: str) -> None:
    for begun in (["--mock"], ["--world", "side"]):
        program = " ".join(["trade", *begun])
        hint = trade(*begun, *line.split()).problem["hint"]
        assert 0 < hint.count("trade ") == hint.count(f"{program} "), hint


def test_what_is_about_no_place_is_not_led_to_one() -> None:
    for hint in (
        "trade mock serve starts one",
        "trade help settings",
        "trade login --profile paper",
        "trade completion",
    ):
        assert continued(hint, "trade --mock") == hint
        assert continued(hint, "trade --profile work") == hint
    assert continued("then: trade login", "trade --profile work") == "then: trade --profile work login"
    assert continued("then: trade login", "trade --mock") == "then: trade login"


def test_a_key_in_the_place_of_a_profile_is_not_repeated(trade: Terminal) -> None:
    hint = trade("--profile", "sk-live-very-secret-12345", "agents", "get").problem["hint"]
    assert hint.startswith("for example: trade --profile NAME agents get AGENT_ID; ")


@each_of(
    "line",
    [
        "agent list --api-key sk-live-very-secret",
        "agents list --api-key=sk-live-very-secret",
        "agent list --private-key sk-live-very-secret",
        "agents lst sk-live-very-secret",
        "agents sk-live-very-secret",
        "sk-live-very-secret",
        "login sk-live-very-secret",
        "agents list sk-live-very-secret",
        "login 0123456789-very-secret",
    ],
)
def test_what_may_be_a_secret_is_not_repeated(trade: Terminal, line: str) -> None:
    run = trade(*line.split())
    assert run.code == 2
    assert "very-secret" not in run.out + run.err


def test_a_private_key_is_not_repeated(trade: Terminal) -> None:
    for line in (f"agent list {'ab' * 32}", f"agents list 0x{'ab' * 32}", f"agents get x 0x{'AB' * 32}"):
        assert "abababab" not in trade(*line.split()).err.lower()


def test_what_was_typed_reaches_the_terminal_as_text(trade: Terminal) -> None:
    for words in (("a\x1b[31mgents", "list"), ("agents", "l\u202est"), ("agents", "list", "--\x1b]52;c;eA==\x07")):
        run = trade(*words, tty=True)
        assert run.code == 2
        assert "\x1b]" not in run.err
        assert "\x1b[31mgents" not in run.err
        assert "\u202e" not in run.err


def test_words_with_spaces_can_be_pasted(trade: Terminal) -> None:
    run = trade("agents", "creat", "--name", "a b; rm -rf ~")
    pasted = run.problem["hint"].removeprefix("did you mean: ")
    assert shlex.split(pasted) == ["trade", "agents", "create", "--name", "a b; rm -rf ~"]


class Parsed:
    """Reads command lines to the end and runs none of them."""

    def __init__(self, trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        self._trade = trade
        monkeypatch.setattr(TradeCommand, "invoke", lambda self, ctx: None)

    def suggestion(self, *words: str) -> str | None:
        """The whole line that the hint says is meant; None when it says none."""
        run = self._trade(*words)
        last = run.err.splitlines()[-1] if run.code == 2 else ""
        hint = str(run.problem["hint"]) if last.startswith("{") else last
        return hint.partition("did you mean: ")[2] or None

    def assert_can_be_run(self, line: str) -> None:
        """What is left out of a line may still be missing in the one that is suggested; nothing in it is wrong."""
        words = shlex.split(line)
        assert words[0] == "trade"
        run = self._trade(*words[1:])
        assert run.code == 0 or " needs " in run.err, (line, run.err)
        for place, word in enumerate(words):
            if word == "--query":
                jmespath.compile(words[place + 1])


@pytest.fixture
def parsed(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> Parsed:
    return Parsed(trade, monkeypatch)


def test_what_is_suggested_can_be_run(parsed: Parsed) -> None:
    for meant in {meant: None for _, meant in CORRECTED}:
        parsed.assert_can_be_run(f"trade {meant}")


VALUES = {"--query": ".name", "--chain": "base", "--limit": "3", "--page-size": "3", "--count": "3", "--yes": None}
"""What is typed behind a foreign option, by what ours is called; else `VALUE`, or nothing where ours takes none."""


@pytest.mark.parametrize(
    "noun", [noun if noun == "wallets" else pytest.param(noun, marks=pytest.mark.long) for noun in sorted(_NOUNS)]
)
def test_what_is_suggested_for_other_programs_options_can_be_run(parsed: Parsed, noun: str) -> None:
    suggested: set[str] = set()
    for path, leaf in LEAVES.items():
        if path[0] != noun:
            continue
        options = {name: param for param in [*leaf.params, *ROOT.params] for name in param.opts}
        for word, ours in OPTION_WORDS.items():
            meant = next((one for one in ours if one.split()[0] in options), None)
            if word in options or meant is None:
                continue
            flag = getattr(options[meant.split()[0]], "is_flag", False)
            value = VALUES.get(meant, "VALUE")
            typed = [word] if flag or " " in meant or value is None else [word, value]
            line = parsed.suggestion(*path, *typed)
            if line is not None and "VALUE" not in line:
                suggested.add(line)
    for line in sorted(suggested):  # several words lead to the same line
        parsed.assert_can_be_run(line)
    assert suggested or noun in ("help", "completion")


def test_other_programs_words_lead_to_commands_that_there_are() -> None:
    root = command()
    verbs: set[str] = set()
    options: set[str] = set()
    waiting = list(root.commands.values())
    while waiting:
        found = waiting.pop()
        real = found.load() if isinstance(found, LazyCommand) else found
        options.update(name for param in real.params for name in param.opts)
        for name, below in getattr(real, "commands", {}).items():
            verbs.add(name)
            waiting.append(below)
    options.update(name for param in root.params for name in param.opts)
    for words in VERB_WORDS.values():
        assert set(words) <= verbs
    for word, ours in OPTION_WORDS.items():
        assert {one.split()[0] for one in ours} <= options, word
    for word, path in ROOT_WORDS.items():
        here = root
        for name in path:
            if not name.startswith("-"):
                here = here.commands[name]
                here = here.load() if isinstance(here, LazyCommand) else here
        assert word not in root.commands


@each_of(
    ("word", "names", "near"),
    [
        ("agens", ["agents", "account"], ["agents"]),
        ("pos", ["positions", "plot"], ["positions"]),
        ("p", ["positions", "pay"], ["positions", "pay"]),
        ("xyz", ["agents", "account"], []),
        ("--lim", ["--limit", "--list"], ["--limit"]),
        ("stp", ["stop", "step"], ["stop", "step"]),
    ],
)
def test_closest(word: str, names: list[str], near: list[str]) -> None:
    assert closest(word, names) == near


COMMAND = re.compile(
    r"(?<![\w-])(?:trade|\{program\})((?: (?:--?[a-z][\w-]*|[a-z][a-z-]*|[A-Z_]{2,}|\{\}|[a-z]+\|[a-z]+|\d+))+)"
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
            texts.append("".join("{program}" if "program" in str(one) else str(one) for one in parts))
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
@each_of("line", ["completion bash", "mcp", "mcp config claude", "help agents list"])
def test_what_prints_no_result_takes_no_option_about_one(
    trade: Terminal, tmp_path: Path, line: str, option: str
) -> None:
    words = option.replace("FILE", str(tmp_path / "a.json")).split()
    for argv in ((*words, *line.split()), (*line.split(), *words)):
        run = trade(*argv)
        assert (run.code, run.out, run.problem["code"]) == (2, "", "usage"), argv
        assert words[0] in run.problem["message"] or "--query" in run.problem["message"], run.err
    assert not (tmp_path / "a.json").exists()


@each_of(
    ("line", "field"),
    [("--mock top --once", "time"), ("--mock plot agent base-momentum", "status"), ("help exit-codes", "exit_code")],
)
def test_what_is_drawn_is_data_when_something_is_selected(trade: Terminal, line: str, field: str) -> None:
    run = trade(*line.split(), "--fields", field, "-o", "json")
    rows = run.json if isinstance(run.json, list) else [run.json]
    assert [list(row) for row in rows] == [[field]] * len(rows)
    assert trade(*line.split(), "--fields", field).out.startswith("{"), "no picture, no page"
