"""What a `trade` command costs before it does anything: help, version, a completion; and a list from a server."""

import compileall
import json
import sys
import tempfile
from pathlib import Path

from _measure import Bar, Probe, finish, installed, measure, process, report

from tradesdk_mock import MockServer

ROUNDS = 25
BIN = Path(sys.executable).parent
TRADE = BIN / "trade"

NOTHING = "def main():\n    return 0\n"
TYPER_IMPORTED = "def main():\n    import typer\n"
ONE_COMMAND = """
import typer

app = typer.Typer({settings})


@app.command()
def main(name: str, formal: bool = False) -> None:
    print(f"Good day {{name}}." if formal else f"Hello {{name}}")
"""
LIST_BY_HTTPX = """
import httpx
import pydantic

url, key = {url!r}, {key!r}


def main():
    assert pydantic
    with httpx.Client() as client:
        client.get(url + "/v1/agents", headers={{"Authorization": "Bearer " + key}}).raise_for_status().json()
"""
LIST_BY_SDK = """
from tradesdk import TradeClient


def main():
    with TradeClient(api_key={key!r}, base_url={url!r}) as client:
        client.agents.list().page()
"""


def script(folder: Path, name: str, code: str, entry: str = "main") -> str:
    """A console script like the one that was installed for `trade`, in front of other code."""
    (folder / f"{name}_module.py").write_text(code)
    path = folder / name
    installed_line = "from tradesdk_cli.__main__ import trade"
    text = TRADE.read_text()
    assert installed_line in text
    path.write_text(text.replace(installed_line, f"from {name}_module import {entry} as trade"))
    path.chmod(0o755)
    return str(path)


with tempfile.TemporaryDirectory() as home, MockServer(seed=5) as server:
    folder = Path(home)
    completion = {"_TRADE_COMPLETE": "complete_bash", "_TRADE_WORDS": "\x1f".join(["trade", "agents", "l"])}
    kept = folder / "completion"
    kept.mkdir()
    agents = {f"agt_{number:024x}": "calm, idle" for number in range(400)}
    (kept / "mock-default.json").write_text(json.dumps({"agents": agents}))
    words = "\x1f".join(["trade", "--mock", "agents", "get", "agt_"])
    ids = {"_TRADE_COMPLETE": "complete_bash", "_TRADE_WORDS": words, "TRADE_HOME": home}
    nothing = script(folder, "nothing", NOTHING)
    plain = script(folder, "plain", ONE_COMMAND.format(settings="rich_markup_mode=None"), "app")
    one_command = script(folder, "one_command", ONE_COMMAND.format(settings=""), "app")
    import_typer = script(folder, "import_typer", TYPER_IMPORTED)
    key = "mock_full_bench"
    by_httpx = script(folder, "by_httpx", LIST_BY_HTTPX.format(url=server.url, key=key))
    by_sdk = script(folder, "by_sdk", LIST_BY_SDK.format(url=server.url, key=key))
    account = {"TRADE_HOME": home, "TRADE_API_KEY": key, "TRADE_BASE_URL": server.url}
    compileall.compile_dir(folder, quiet=1)

    subjects: dict[str, Probe] = {
        "script that does nothing": process([nothing]),
        "trade --version": process([str(TRADE), "--version"]),
        "one-command Typer program --help": process([one_command, "--help"]),
        "the same, without rich": process([plain, "--help"]),
        "trade --help": process([str(TRADE), "--help"]),
        "trade agents --help": process([str(TRADE), "agents", "--help"]),
        "trade signals latest --help": process([str(TRADE), "signals", "latest", "--help"]),
        "import typer": process([import_typer]),
        "trade agents l<TAB>": process([str(TRADE)], env=completion),
        "trade agents get agt_<TAB>": process([str(TRADE)], env=ids),
        "trade help exit-codes": process([str(TRADE), "help", "exit-codes"]),
        "trade agents list -o json": process([str(TRADE), "agents", "list", "-o", "json"], env=account),
        "the same list by the SDK": process([by_sdk]),
        "httpx, pydantic, one GET": process([by_httpx]),
    }
    further = {"httpie": "http", "awscli": "aws"}
    peers = [name for name in further if installed(name)]
    subjects |= {f"{further[name]} --version": process([str(BIN / further[name]), "--version"]) for name in peers}
    if "httpie" in peers:
        subjects["http --help"] = process([str(BIN / "http"), "--help"])
        get = [str(BIN / "http"), "--ignore-stdin", f"{server.url}/v1/agents", f"Authorization:Bearer {key}"]
        subjects["http GET"] = process(get)
    if "awscli" in peers:
        env = {"COMP_LINE": "aws ec", "COMP_POINT": "6"}
        subjects["aws ec<TAB>"] = process([str(BIN / "aws_completer")], env=env)

    figures = measure(subjects, rounds=ROUNDS)

finish(
    report(
        "The start of a command",
        figures,
        [
            Bar("trade --version", "script that does nothing", 1.2),
            Bar("trade --help", "one-command Typer program --help", 1.2),
            Bar("trade agents --help", "one-command Typer program --help", 1.2),
            Bar("trade signals latest --help", "one-command Typer program --help", 1.2),
            Bar("trade help exit-codes", "one-command Typer program --help", 1.2),
            Bar("trade agents l<TAB>", "import typer", 1.3),
            Bar("trade agents get agt_<TAB>", "import typer", 1.3),
            Bar("trade agents list -o json", "httpx, pydantic, one GET", 1.0),
            Bar("the same list by the SDK", "httpx, pydantic, one GET", 1.0),
            *([Bar("trade agents list -o json", "http GET", 0.8)] if "httpie" in peers else []),
        ],
        unit="ms",
        peers=["typer", *peers],
    )
)
