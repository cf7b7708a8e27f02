"""What is imported when: the cost of starting is decided by it, so it is held without a stopwatch."""

import itertools
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tradesdk_cli
from tradesdk import create_keystore
from tradesdk_cli.app import command
from tradesdk_cli.cli.group import LazyCommand
from tradesdk_cli.commands.mock.operations import COMMANDS
from tradesdk_cli.completion.candidates import BETWEEN
from tradesdk_mock import MockServer

from .._seeds import one_of_each
from ._terminal import Terminal

ROOT = Path(__file__).parents[2]

HEAVY = (
    "httpx",
    "pydantic",
    "pydantic_core",
    "rich",
    "tenacity",
    "anyio",
    "eth_account",
    "eth_keys",
    "tradesdk_mock",
    "asyncio",
    "yaml",
    "jmespath",
    "tomllib",
    "tomlkit",
    "sqlite3",
    "plotext",
)
NOUNS = sorted(command().commands.keys() - {"help", "mock"})  # the one loads what it is asked about, the other: below

LOOK = """
import contextlib, io, json, os, sys
from tradesdk_cli.__main__ import main
found = []
for lines in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        for argv in lines:
            while "=" in argv[0]:
                os.environ.update([argv.pop(0).split("=", 1)])
            sys.argv[1:] = argv
            code = main()
            assert code == 0, (argv, code)
    found.append(sorted(name for name, module in sys.modules.items() if module))
print(json.dumps(found))
"""


def loaded_after(trade: Terminal, *steps: Sequence[str]) -> list[set[str]]:
    """The modules that are loaded after each step, which is some command lines; all in one fresh process."""
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", LOOK, json.dumps([[line.split() for line in lines] for lines in steps])],
        env=trade.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [set(modules) for modules in json.loads(done.stdout)]


def loaded(trade: Terminal, *lines: str) -> set[str]:
    """The modules that are loaded after these command lines, in a fresh process."""
    (modules,) = loaded_after(trade, lines)
    return modules


def heavy(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in HEAVY}


def test_version_with_other_flags_is_as_cheap(trade: Terminal) -> None:
    code = "import sys; from tradesdk_cli.__main__ import main; main(sys.argv[1:]); print('typer' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "--mock", "--version"], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines()[1] == "False"
    for words in (["-V"], ["--version", "--mock"], ["-o", "json", "--version"], ["--mock", "--version", "agents"]):
        assert trade(*words).out.startswith("trade "), words


def test_version_loads_nothing_else() -> None:
    look = (
        "import sys; before = set(sys.modules); from tradesdk_cli.__main__ import main; main(['--version']); "
        "print(*sorted(set(sys.modules) - before))"
    )
    # Without site, which may load anything by itself; and so without what is installed.
    source = str(Path(tradesdk_cli.__file__).parents[1])
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-S", "-c", look], env={"PYTHONPATH": source}, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines()[1].split() == [
        "tradesdk",
        "tradesdk._exports",
        "tradesdk._version",
        "tradesdk_cli",
        "tradesdk_cli.__main__",
    ]


@pytest.mark.long
@pytest.mark.parametrize("noun", NOUNS)
def test_help_of_a_noun_imports_that_noun_only(trade: Terminal, noun: str) -> None:
    assert_that_noun_only(loaded(trade, f"{noun} --help"), noun)


def assert_that_noun_only(modules: set[str], noun: str) -> None:
    assert heavy(modules) == set()
    commands = {name for name in modules if name.startswith("tradesdk_cli.commands.")}
    assert f"tradesdk_cli.commands.{noun}" in commands
    assert not {name for name in commands if name.split(".")[2] != noun}, "of other nouns"
    assert not {name for name in modules if name.startswith("tradesdk.")}


@pytest.mark.long
def test_help_of_every_verb_imports_nothing_heavy(trade: Terminal) -> None:
    verbs = [" ".join(words) for words, _ in verbs_of(command())]
    asked = {f"mock {verb}" for verb in COMMANDS}
    assert asked < set(verbs)
    assert len(verbs) > 60 + len(asked)
    others, those = loaded_after(
        trade, *([f"{verb} --help" for verb in verbs if (verb in asked) is last] for last in (False, True))
    )
    assert heavy(others) == set()
    mock = {"tradesdk_mock", "pydantic_core", "sqlite3"}  # whose operations have the help
    assert {name.partition(".")[0] for name in heavy(those)} == mock


def verbs_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    for name, found in group.commands.items():
        real = found.load() if isinstance(found, LazyCommand) else found
        if hasattr(real, "commands"):
            yield from verbs_of(real, (*path, name))
        else:
            yield (*path, name), real


@pytest.mark.long
def test_what_each_step_needs(world: Terminal, shop: MockServer) -> None:
    """Each step loads more than those before it: what is not loaded after one, none of them has loaded."""
    keystore = world.home / "wallet.json"
    create_keystore(keystore, "password", "0x" + "6b" * 32, work=2)
    (world.home / "password").write_text("password")
    (world.home / "password").chmod(0o600)
    world.env |= {"TRADE_MARKET_BASE_URL": shop.url, "TRADE_KEYSTORE": str(keystore)}
    helped = ("agents create --help", "market prices --help", "mock serve --help", "help output", "help agents list")
    unpaid = ("market tokens --limit 1", "market prices ETH --dry-run", "pay quote prices ETH", "pay history")
    password = f"TRADE_KEYSTORE_PASSWORD_FILE={world.home / 'password'}"
    first, noun, verbs, _, ledger, a_list, market, paid = loaded_after(
        world,
        ["--help"],
        ["mock --help"],
        helped,
        ["config list", "config path"],
        ["pay history", "pay budget"],
        ["agents list"],
        unpaid,
        [f"{password} market prices ETH --max-price 0.03"],
    )
    assert heavy(first) == set()
    assert not {name for name in first if name.startswith("tradesdk_cli.commands") or name == "tradesdk"}
    assert_that_noun_only(noun, "mock")
    assert heavy(verbs) == set()
    assert "sqlite3" in ledger
    assert not ledger & {"httpx", "httpcore", "tradesdk._sync.market_client"}
    assert {"httpcore", "pydantic"} <= a_list
    nowhere = {"httpx", "tradesdk_cli.output.table", "rich", "tradesdk_mock", "uvicorn"}
    assert not market & {"eth_account", "coincurve", *nowhere}
    assert not paid & nowhere
    shop.payments.assert_charged(times=1)


@pytest.mark.long
def test_the_command_line_of_httpx_is_loaded_for_others_only(world: Terminal) -> None:
    """It takes as long as the rest of httpx, and is there as soon as an extra brings click."""
    assert find_spec("click")
    assert not loaded(world, "agents list -o table") & {"httpx._main", "click", "pygments", "trio", "h2"}
    code = "from tradesdk_cli.__main__ import main; main(['agents', 'list']); import httpx._main, h2; httpx._main.main"
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", code], env=world.environment(), capture_output=True, text=True, timeout=300
    )
    assert (done.stderr, done.returncode) == ("", 0)


READING = {"", "_exports", "_version", "local", "errors", "_http", "_http.parts", "_system", "_values"}
READING |= {f"_local{name}" for name in ("", ".files", ".folders", ".keys", ".origins", ".profiles")}
READING |= {"_system.interrupts", "_system.private_files", "_values.hints", "_values.text"}
"""What the SDK loads to read settings files."""


@pytest.mark.parametrize(
    "words",
    [
        "trade agents ",
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in ("trade ag", "trade -o json agents cr", "trade agents list --fields i", "trade --world ")
        ),
        pytest.param("trade --mock agents get ", marks=pytest.mark.long),
    ],
)
def test_completing_imports_nothing_heavy(trade: Terminal, words: str) -> None:
    (trade.home / "completion").mkdir()
    kept = trade.home / "completion" / "mock-default.json"
    kept.write_text('{"agents": {"agt_1": "calm"}}')
    (trade.home / "mock").mkdir()
    (trade.home / "mock" / "default.sqlite3").touch()
    code = "from tradesdk_cli.__main__ import main; main([]); import sys; print(*sys.modules, file=sys.stderr)"
    env = {"_TRADE_COMPLETE": "complete_bash", "_TRADE_WORDS": words.replace(" ", BETWEEN)}
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", code], env=trade.environment() | env, capture_output=True, text=True, timeout=300
    )
    assert len(done.stdout.splitlines()) > 1
    modules = set(done.stderr.split())
    assert heavy(modules) == set()
    needed = {"__main__", "completion", "completion.candidates"}
    if "--mock" in words or "--world" in words:  # which file it is depends on the settings
        needed |= {
            "choices",
            "config",
            "config.entries",
            "config.files",
            "config.settings",
            "errors",
            "files",
            "idcache",
            "redact",
            "text",
        }
    ours = {name.removeprefix("tradesdk_cli.") for name in modules if name.startswith("tradesdk_cli.")}
    assert ours <= needed
    sdk = {name.partition(".")[2] for name in modules if name.partition(".")[0] == "tradesdk"}
    assert sdk <= (READING if "config" in ours else set())
    assert not modules & {"typer", *(() if "config" in ours else ("dataclasses", "typing"))}


INTERRUPTED_AT = """
import os, signal, sys
from tradesdk_cli.__main__ import main  # what comes before is Python's own
how, moment, *argv = sys.argv[1:]
class Finder:
    seen = 0
    def find_spec(self, *args):
        Finder.seen += 1
        if Finder.seen == int(moment):
            if how == "signal":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
sys.argv = ["trade", *argv]
code = main()
print(Finder.seen, file=sys.stderr)
sys.exit(code)
"""


def interrupted_at(trade: Terminal, how: str, moment: int, line: str) -> subprocess.CompletedProcess[str]:
    env = trade.environment() | {"TRADE_BASE_URL": "http://127.0.0.1:9", "TRADE_API_KEY": "k"}
    if line == "TAB":
        env |= {"_TRADE_COMPLETE": "complete_bash", "COMP_WORDS": "trade agents ", "COMP_CWORD": "2"}
    return subprocess.run(  # our own interpreter
        [sys.executable, "-c", INTERRUPTED_AT, how, str(moment), *line.split()],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("how", ["signal", "exception"])
@pytest.mark.parametrize(
    ("line", "moments"),
    [
        ("agents list", (1, 40)),
        pytest.param("agents list", None, marks=pytest.mark.long),
        pytest.param("--help", None, marks=pytest.mark.long),
        pytest.param("TAB", None, marks=pytest.mark.long),
    ],
)
def test_ctrl_c_at_any_moment_of_the_start(
    trade: Terminal, how: str, line: str, moments: tuple[int, ...] | None
) -> None:
    """It comes while the n-th module is looked for."""
    if moments is None:
        whole = interrupted_at(trade, how, 10**6, line)
        last = int(whole.stderr.splitlines()[-1])
        moments = tuple(itertools.takewhile(lambda at: at < last, one_of_each(last // 10 + 1)))
    for moment in moments:
        done = interrupted_at(trade, how, moment, line)
        assert (done.returncode, "interrupted" in done.stderr) == (130, True), (moment, done.stderr)
        assert "Traceback" not in done.stderr, (moment, done.stderr)


IN_AN_ARCHIVE = """
import sys
import zipfile
sys.path[:] = [path for path in sys.path if path not in sys.argv[1].split(":")]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
del sys.argv[1]
from tradesdk_cli.__main__ import main
import tradesdk, tradesdk_cli, tradesdk_mock
assert all(".zip" in str(one.__file__) for one in (tradesdk, tradesdk_cli, tradesdk_mock))
sys.exit(main())
"""


@pytest.mark.long
def test_from_a_zip_archive(trade: Terminal) -> None:
    archive = trade.home / "trade.zip"
    roots = [ROOT / "src" / "tradesdk", ROOT / "src" / "tradesdk_cli", ROOT / "mock_server" / "tradesdk_mock"]
    with zipfile.ZipFile(archive, "w") as zipped:
        for root in roots:
            for file in root.rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    zipped.write(file, file.relative_to(root.parent))
    env = trade.environment() | {"PYTHONPATH": str(archive)}
    places = ":".join(str(root.parent) for root in roots)
    for line in ("agents --help", "help payments", "--mock agents list -o json", "mcp tools", "completion bash"):
        argv = [sys.executable, "-c", IN_AN_ARCHIVE, places, *line.split()]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
        assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
