"""Every block of the README and the pages is run, and what they show is what comes out.

- ```python``` runs against a mock server, one namespace a page (but for the code of an example, which
  tests/test_examples.py runs); a ```text``` block right below it is what it prints.
- ```console``` runs each line that begins with `$` on a terminal of 100 columns, with a mock world of the page's own;
  the lines below it are what is seen. A line `…` stands for any number of lines, and the home folder is /home/you.
- ```bash``` runs too, and nothing of it is shown. What cannot run here is listed in NOT_RUN, word by word.

With TRADE_DOCS_UPDATE=1 the pages are rewritten to show what came out.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import logging
import os
import pty
import re
import secrets
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tradesdk import Ledger, MarketClient, SystemClock, TradeClient
from tradesdk_mock import MockClock, MockServer, MockService

from ._pages import NOT_RUN, PAGES, ROOT, Block, blocks, is_right_below, name_of
from ._stock import stocked

# Noon in UTC on the day that the pages show: signals follow from the time.
SHOWN_AT = 1_795_262_400
UPDATE = os.environ.get("TRADE_DOCS_UPDATE") == "1"

OVERWRITTEN = re.compile(r"[^\n]*\r\x1b\[K")  # a line that says how far something is, and is gone at the end
CHANGES_EVERY_TIME = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)"), "<moment>"),
    (re.compile(r"\b1[789]\d{8}\b"), "<seconds>"),
    (re.compile(r'(?<=cursor: )\S+|(?<="next_cursor":")[^"]+'), "<cursor>"),
    (re.compile(r"\bpay_[0-9a-f]{24}\b"), "<payment>"),
    (re.compile(r"\b0x[0-9a-f]{64}\b"), "<nonce or transaction>"),
    (re.compile(r"(?<= signals in )\d+\.\d(?= s)"), "<time>"),
    (re.compile(r"\b\d+ ms\b"), "<time>"),
    (re.compile(r"(?m)(?<=(?:agents|itions), )(now|\d+ s ago)$"), "<age>"),  # of the board's parts, by the real clock
    (re.compile(r"(?<=took )\d+\.\d(?= s)|(?<=passed in )\d+\.\d\ds( \(.+\))?"), "<time>"),
]


def same(shown: str, seen: str) -> bool:
    """Whether `shown` is what was `seen`, but for what changes every time and what `…` leaves out."""
    for pattern, word in CHANGES_EVERY_TIME:
        shown, seen = pattern.sub(word, shown), pattern.sub(word, seen)
    parts = [re.escape(part) for part in re.split(r"(?m)^ *…\n?", shown.rstrip() + "\n")]
    return re.fullmatch("(?:.*\n)*".join(parts), seen.rstrip() + "\n") is not None


class Checked:
    """What a page shows, compared; rewritten at the end when that was asked for."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._changes: list[tuple[int, int, str, list[str]]] = []

    def compare(self, start: int, shown: list[str], seen: str, indent: str, what: str) -> None:
        if same("\n".join(shown), seen):
            return
        new = seen.rstrip().splitlines()
        if shown[:1] == ["…"] and shown[1] in new:  # only the end is shown: from the same line on, again
            new = ["…", *new[new.index(shown[1]) :]]
        if UPDATE and same("\n".join(new), seen):
            self._changes.append((start, start + len(shown), indent, new))
            return
        where = f"{name_of(self._page)}:{start + 1}"
        pytest.fail(f"{where}: this comes out of {what!r}:\n{seen}\nand this is shown:\n" + "\n".join(shown))

    def write(self) -> None:
        if self._changes:
            lines = self._page.read_text(encoding="utf-8").splitlines()
            for start, end, indent, new in sorted(self._changes, reverse=True):
                lines[start:end] = [(indent + line).rstrip() for line in new]
            self._page.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Python


def code_of(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and not block.example]


# Pages whose code lets agents trade for days, or imports pandas and polars.
SLOW = ("frames.md", "market.md", "mock.md", "payment-safety.md", "payments.md", "recipes.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page.name in SLOW else ()) for page in PAGES if code_of(page)],
    ids=name_of,
)
def test_python(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = list(blocks(page))
    checked = Checked(page)
    with MockServer(seed=7, clock=MockClock(SHOWN_AT)) as server, contextlib.ExitStack() as stack:
        stocked(server, SHOWN_AT, "me")
        monkeypatch.setenv("TRADE_API_KEY", "mock_full_me")
        monkeypatch.setenv("TRADE_BASE_URL", server.url)
        monkeypatch.setenv("TRADE_WALLET_KEY", "0x" + "11" * 32)
        monkeypatch.setenv("TRADE_HOME", str(tmp_path))
        if page.name == "keys.md":
            monkeypatch.delenv("TRADE_API_KEY")
            monkeypatch.delenv("TRADE_BASE_URL")
            monkeypatch.setenv("TRADE_PROFILE", "alice")
            logged_in(tmp_path, server.url, alice="mock_full_me", bob="mock_read_me")
        if page.name == "fleet.md":
            monkeypatch.setenv("TRADE_FLEET", request.getfixturevalue("postgres").url())
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where an example makes a folder
        monkeypatch.setattr(
            SystemClock, "now", lambda _: server.clock.now()
        )  # the machine's clock and the service's agree
        namespace: dict[str, object] = {"__name__": "__main__"}
        stack.callback(close_clients, namespace)
        stack.callback(logging.getLogger("tradesdk").setLevel, logging.NOTSET)
        for block in code_of(page):
            printed = run_python(block, page, namespace).replace(server.url, "http://127.0.0.1:8787")
            below = found[found.index(block) + 1 :][:1]
            if below and below[0].language == "text" and is_right_below(page, block, below[0]):
                checked.compare(below[0].start, below[0].lines, printed, below[0].indent, block.lines[0])
            else:
                assert printed == "", f"{name_of(page)}:{block.start}: nothing is shown of what this prints:\n{printed}"
    checked.write()


def logged_in(home: Path, url: str, **keys: str) -> None:
    """What `trade login` would have saved."""
    (home / "keys").mkdir()
    for name, key in keys.items():
        (home / "keys" / name).write_text(f"{key}\n", encoding="utf-8")
        (home / "keys" / name).chmod(0o600)
        with (home / "config.toml").open("a", encoding="utf-8") as config:
            config.write(f'[profiles.{name}]\nbase_url = "{url}"\nkey = "file"\n')


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    source = "\n" * block.start + block.text + "\n"  # a traceback names the line of the page
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))  # noqa: S307 - the code is this repository's own
        else:
            exec(code, namespace)  # noqa: S102 - the code is this repository's own
        for name in [name for name in namespace if name.startswith("test_")]:
            run_test(namespace.pop(name))
    return printed.getvalue()


def run_test(function: object) -> None:
    """A test that a page shows, with what the plugin would give it."""
    assert callable(function)
    parameters = inspect.signature(function).parameters.keys()
    if parameters - {"trade_mock"}:  # fixtures of the page's own: tests/test_examples.py has pytest run it
        return
    with MockService(seed=7, clock=MockClock(SHOWN_AT), signals="scripted") as mock:
        given = {"trade_mock": mock} if "trade_mock" in parameters else {}
        result = function(**given)
        if inspect.iscoroutine(result):
            asyncio.run(result)


def close_clients(namespace: dict[str, object]) -> None:
    for value in namespace.values():
        if isinstance(value, TradeClient | MarketClient | Ledger | MockService | httpx.Client):
            value.close()


# The terminal


CLI = ("docs/cli.md", "docs/cli-money.md", "docs/cli-settings.md", "docs/cli-tools.md")
# These write files, so their commands run in the home folder; all others run in the repository, beside the examples.
WRITING = (*CLI, "docs/frames.md", "docs/moving.md", "docs/recipes.md")
DRAWN = (
    "README.md",
    "docs/cli-tools.md",
)  # seen as a terminal draws them, without colors; elsewhere, in plain characters


def is_typed(page: Path) -> bool:
    """Whether a page shows commands."""
    return any(block.language in ("bash", "console") and not NOT_RUN.issuperset(block.lines) for block in blocks(page))


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder whose path is as long as /home/you, so that lines with it break where they would break there."""
    while True:
        folder = Path("/tmp", secrets.token_hex(2))  # noqa: S108 - made here, for this user only
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
    yield folder
    shutil.rmtree(folder)


@pytest.mark.long  # each command is a process of its own
@pytest.mark.parametrize("page", [page for page in PAGES if is_typed(page)], ids=name_of)
def test_console(page: Path, home: Path) -> None:
    checked = Checked(page)
    prepare_world(home)
    for block in blocks(page):
        if block.language == "bash":
            for command in block.lines:
                if command not in NOT_RUN and command and not command.startswith("#"):
                    code, seen = on_terminal(command, home, name_of(page))
                    assert code == 0, f"{name_of(page)}: {command!r} ended with {code}:\n{seen}"
        elif block.language == "console":
            for command, start, shown in sessions(block):
                _, seen = on_terminal(command, home, name_of(page))
                checked.compare(start, shown, seen, block.indent, command)
    checked.write()


def prepare_world(home: Path) -> None:
    """The world that `--mock` finds, with its clock stopped."""
    file = home / "trade" / "mock" / "default.sqlite3"
    file.parent.mkdir(mode=0o700, parents=True)
    with MockService(seed=7, db=file) as mock:
        mock.clock.move(freeze=True, set=SHOWN_AT, allow_backwards=True)
        mock.reset()


def sessions(block: Block) -> Iterator[tuple[str, int, list[str]]]:
    """Each command of a console block, where its output begins, and its output."""
    number = 0
    while number < len(block.lines):
        line = block.lines[number]
        assert line.startswith("$ "), f"line {block.start + number + 1}: a console block begins with $"
        command = line.removeprefix("$ ")
        number += 1
        while command.endswith("\\"):
            command = command[:-1] + block.lines[number].strip()
            number += 1
        first = number
        while number < len(block.lines) and not block.lines[number].startswith("$ "):
            number += 1
        yield command, block.start + first, block.lines[first:number]


def on_terminal(command: str, home: Path, page: str) -> tuple[int, str]:
    """Exit code and what is seen when `command` of `page` is typed in a terminal of 100 columns."""
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {  # nothing of who runs the tests: what is shown is the same for everybody
        "PATH": os.pathsep.join(folders),
        **({"TERM": "xterm", "NO_COLOR": "1"} if page in DRAWN else {"TERM": "dumb"}),
        "LC_ALL": "C.UTF-8",
        "SHELL": "/bin/bash",
        "HOME": str(home),
        "TRADE_HOME": str(home / "trade"),
        "TRADE_MOCK": "1",
    }
    reader, terminal = pty.openpty()
    with open(reader, "rb", buffering=0) as seen, open(os.devnull, "rb") as nothing:
        try:
            termios.tcsetwinsize(terminal, (40, 100))
            process = subprocess.Popen(
                ["/bin/bash", "-c", command],
                cwd=home if page in WRITING else ROOT,
                env=env,
                stdin=nothing,
                stdout=terminal,
                stderr=terminal,
            )
        finally:
            os.close(terminal)
        with process:
            chunks = b""
            with contextlib.suppress(OSError):  # how a terminal says on Linux that nobody writes to it any more
                while chunk := seen.read(65536):
                    chunks += chunk
            code = process.wait(timeout=300)
    seen_in_the_end = OVERWRITTEN.sub("", chunks.decode().replace("\r\n", "\n"))
    return code, seen_in_the_end.replace(str(home), "/home/you")


# What holds the pages together


def test_every_block_is_of_a_kind_that_is_run_or_is_an_output() -> None:
    for page in PAGES:
        found = list(blocks(page))
        for place, block in enumerate(found):
            where = f"{name_of(page)}:{block.start}"
            # mcp: transcripts of agents, which tests/cli/test_mcp_transcript.py plays
            # sql: rights, which tests/unit/test_ledger_postgres.py grants
            # yaml: read here; ini, dockerfile, crontab: tests/test_recipes.py checks them
            known = ("python", "console", "bash", "text", "mcp", "sql", "yaml", "ini", "dockerfile", "crontab")
            assert block.language in known, f"{where}: {block.language!r}"
            if block.language == "yaml":
                assert isinstance(yaml.safe_load(block.text), dict), where
            if block.language == "text":
                assert place > 0, where
                assert found[place - 1].language == "python", f"{where}: not the output of anything"
                assert is_right_below(page, found[place - 1], block), f"{where}: not right below what prints it"


def test_nothing_is_excused_in_vain() -> None:
    shown = {line for page in PAGES for block in blocks(page) if block.language == "bash" for line in block.lines}
    assert shown >= NOT_RUN


def test_the_two_commands_of_the_readme_stand_where_ci_looks_for_them() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for mark, ending in (
        ("<!-- demo-command -->", "/trade demo"),
        ("<!-- test-command -->", "/pytest -q -n 2 --dist=worksteal"),
    ):
        place = lines.index(mark)
        assert lines[place + 1] == "```bash"
        assert lines[place + 2] in NOT_RUN
        assert lines[place + 2].endswith(ending)
        assert lines[place + 3] == "```"


def test_every_example_is_shown() -> None:
    shown = {block.example for page in PAGES for block in blocks(page)} - {""}
    examples = {file.relative_to(ROOT).as_posix() for file in (ROOT / "examples").glob("*.py")}
    assert shown == examples  # that it is their code, scripts/check says


def test_links_lead_somewhere() -> None:
    link = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
    for page in PAGES:
        for match in link.finditer(page.read_text(encoding="utf-8")):
            path, _, anchor = match["target"].partition("#")
            if path.startswith(("http:", "https:")):
                continue
            target = (page.parent / path).resolve() if path else page
            where = f"{name_of(page)}: {match['target']}"
            assert target.exists(), where
            if anchor and not anchor.startswith("tradesdk"):  # those stand in the reference, built from docstrings
                headings = re.findall(r"(?m)^#+ (.+)$", target.read_text(encoding="utf-8"))
                slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
                assert anchor in slugs, where


@pytest.mark.long
def test_the_site_builds_fetches_nothing_from_elsewhere_and_shows_nothing_private(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site is built with the docs extra")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    fetched = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
    )
    private = re.compile(r"\b_[A-Z][a-z]|tradesdk(?:_mock)?\._")
    for file in pages:
        text = file.read_text(encoding="utf-8")
        assert not fetched.search(text), file.relative_to(tmp_path)
        assert not private.search(re.sub(r"(?s)<[^>]*>", "", text)), file.relative_to(tmp_path)
    for file in tmp_path.rglob("*.css"):
        assert not re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", file.read_text(encoding="utf-8")), file
