"""The shape of the code: who may import whom, and whether the generated flavour is current.

scripts/check plays this.
"""

import ast
import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tradesdk.fleet
import tradesdk.local
import tradesdk.payments
import tradesdk.types

from .test_surface import PUBLIC

pytestmark = pytest.mark.long  # all sources are parsed

ROOT = Path(__file__).parent.parent
SDK = ROOT / "src" / "tradesdk"
CLI = ROOT / "src" / "tradesdk_cli"
MOCK = ROOT / "mock_server" / "tradesdk_mock"
PACKAGES = {"tradesdk": SDK, "tradesdk_cli": CLI, "tradesdk_mock": MOCK}

NETWORK = {"httpx", "httpcore", "h11", "httpx_sse", "certifi", "tenacity", "anyio"}
ETHEREUM = {"eth_account", "eth_keys", "coincurve", "Crypto"}
FRAMES = {"pyarrow", "pandas", "polars"}
THIRD_PARTY = {  # by what lies at the top of the SDK
    "_http": {"idna", "certifi"},
    "_async": NETWORK,
    "_sync": NETWORK,
    "payments": ETHEREUM,
    "_postgres": {"psycopg"},
    "models": {"pydantic_core"},
    "_stream": {"pydantic_core"},
    "_frames": FRAMES,
    "otel": {"opentelemetry"},
}
HTTPX_FILES = {
    *(
        f"tradesdk/{flavour}/{file}.py"
        for flavour in ("_async", "_sync")
        for file in ("client", "connection_pool", "httpx_sender")
    ),
    "tradesdk/_sync/concurrency.py",
    "tradesdk_mock/in_process/httpx_transport.py",
    "tradesdk_mock/in_process/response_stream.py",
}
MOCK_FILES = (
    "tradesdk_cli/run.py",
    "tradesdk_cli/mockworld.py",
    "tradesdk_cli/commands/mock/",
    "tradesdk_cli/demo/",
    "tradesdk_cli/probe/",
)
DECIDING = (
    "batches",
    "effects",
    "guards",
    "ledger/rules",
    "messages",
    "protocol",
    "purchase",
    "results",
    "state_machine",
)
SIGNER_FILES = {f"tradesdk/payments/signing/{file}.py" for file in ("secp256k1", "signer", "keystore")}
CLI_THIRD_PARTY = {"typer", "rich", "jmespath", "tomlkit", "platformdirs", "anyio", "filelock"}
MOCK_THIRD_PARTY = {
    "uvicorn",
    "h11",
    "pydantic",
    "pydantic_core",
    "eth_keys",
    "Crypto",
    "anyio",
}


BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True)
class Import:
    file: str  # the importing file, from its package on
    target: str  # absolute dotted name; for ``from x import y`` it is ``x.y``
    lazy: bool  # inside a function
    typing_only: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.file} imports {self.target}"


def parsed(file: Path) -> ast.Module:
    """Not kept: the trees of all files are a million objects, which each search for garbage would look at."""
    return ast.parse(file.read_text())


def imports_of(package: str) -> Iterator[Import]:
    root = PACKAGES[package]
    for file in sorted(root.rglob("*.py")):
        name = f"{package}/{file.relative_to(root).as_posix()}"
        yield from walk(parsed(file), name, lazy=False, typing_only=False)


def walk(node: ast.AST, file: str, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    statements = (each for name in BLOCKS for each in getattr(node, name, ()))
    for child in statements:  # no import is inside an expression
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(file, alias.name, lazy, typing_only)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                yield Import(file, f"{absolute(child, file)}.{alias.name}".strip("."), lazy, typing_only)
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for part in child.body:
                yield from walk(ast.Module([part], []), file, lazy=lazy, typing_only=True)
            for part in child.orelse:
                yield from walk(ast.Module([part], []), file, lazy=lazy, typing_only=typing_only)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, file, lazy=lazy or inside, typing_only=typing_only)


def absolute(node: ast.ImportFrom, file: str) -> str:
    parts = file.removesuffix(".py").split("/")
    base = parts[: len(parts) - node.level] if node.level else []
    return ".".join([*base, *filter(None, [node.module])])


@cache
def every_import() -> list[Import]:
    return [one for package in PACKAGES for one in imports_of(package)]


@cache
def alive() -> list[Import]:
    return [one for one in every_import() if not one.typing_only]


def test_imports_are_found() -> None:
    """The tests below judge what this file finds; so it must find something of each kind."""
    assert any(one.lazy for one in every_import())
    assert any(one.typing_only for one in every_import())
    assert {one.file.partition("/")[0] for one in every_import()} == set(PACKAGES)
    assert any(one.target == "tradesdk.errors.TradeError" for one in every_import())


ALLOWED_LAZILY = {
    ("tradesdk/_system/clock.py", "anyio"),  # the system's clock waits for the async flavour too
    ("tradesdk/payments/protocol.py", "pydantic_core"),  # writes what that reader read
    ("tradesdk/_system/file_lock.py", "filelock"),
    ("tradesdk/_local/folders.py", "platformdirs"),  # where a user's files live
    ("tradesdk/_values/http.py", "pydantic_core"),  # reads JSON that no model reads, without overflowing the stack
}


def test_third_party_packages_of_the_sdk() -> None:
    allowed = sys.stdlib_module_names | {"tradesdk", "pydantic"}
    wrong = [
        str(one)
        for one in alive()
        if one.file.startswith("tradesdk/")
        and one.top not in allowed | THIRD_PARTY.get(one.file.split("/")[1].removesuffix(".py"), set())
        and not (one.lazy and (one.file, one.top) in ALLOWED_LAZILY)
    ]
    assert wrong == []


def test_psycopg_is_used_by_its_documented_modules() -> None:
    """Its generators and what waits for them may change with any release."""
    used = {one.target for one in alive() if one.top == "psycopg"}
    assert used <= {"psycopg", "psycopg.Error"} | {
        f"psycopg.{module}.{name}"
        for module, names in {
            "adapt": ("Dumper", "PyFormat"),
            "conninfo": ("conninfo_to_dict", "make_conninfo"),
            "pq": ("ConnStatus", "DiagnosticField", "ExecStatus", "Format", "TransactionStatus"),
            "pq.abc": ("PGresult",),  # only as a type
        }.items()
        for name in names
    }


def test_third_party_packages_of_the_mock() -> None:
    mine = [one for one in every_import() if one.file.startswith("tradesdk_mock/")]
    extra = {
        "tradesdk_mock/api/openapi.py": {"yaml"},
        "tradesdk_mock/in_process/httpx_transport.py": {"httpx"},
        "tradesdk_mock/in_process/response_stream.py": {"httpx"},
        "tradesdk_mock/pytest_plugin.py": {"pytest"},
    }
    allowed = sys.stdlib_module_names | MOCK_THIRD_PARTY | {"tradesdk_mock"}
    assert [str(one) for one in mine if one.top not in allowed | extra.get(one.file, set())] == []


def test_cli_uses_public_names_only() -> None:
    mine = [one for one in every_import() if one.file.startswith("tradesdk_cli/")]
    public = PUBLIC | {"", "fleet", "local", "payments", "types"}
    for module in (tradesdk.fleet, tradesdk.local, tradesdk.payments, tradesdk.types):
        public |= {f"{module.__name__.partition('.')[2]}.{name}" for name in module.__all__}
    inner = [str(one) for one in mine if one.top == "tradesdk" and one.target.partition(".")[2] not in public]
    assert inner == []
    allowed = sys.stdlib_module_names | CLI_THIRD_PARTY | {"tradesdk", "tradesdk_cli", "tradesdk_mock"}
    # What the extra mcp installs: only its server needs it, and is imported when it is started.
    extra = {
        "tradesdk_cli/mcp/server.py": {"mcp", "mcp_types"},
        "tradesdk_cli/mcp/arguments.py": {"jsonschema"},
    }
    left = [one for one in mine if one.top not in allowed | extra.get(one.file, set())]
    assert [str(one) for one in left] == []
    assert [str(one) for one in mine if one.target == "tradesdk_cli.mcp.server.serve_stdio" and not one.lazy] == []


def test_cli_reaches_for_the_mock_lazily_and_in_few_rooms() -> None:
    for one in every_import():
        if one.file.startswith("tradesdk_cli/") and one.top == "tradesdk_mock":
            assert one.file.startswith(MOCK_FILES), one
            assert one.lazy or one.typing_only, f"{one} too early"
            assert one.target.count(".") <= 1, f"{one} is no public name"


def test_httpx_stays_in_its_rooms() -> None:
    files = {one.file for one in every_import() if one.top in {"httpx", "httpcore"}}
    assert files - HTTPX_FILES == set()


def test_ethereum_loads_only_when_something_is_signed() -> None:
    for one in alive():
        if one.file.startswith(("tradesdk/", "tradesdk_cli/")) and one.top in ETHEREUM:
            assert one.file in SIGNER_FILES, one
            assert one.lazy, f"{one} too early"


def test_only_stores_know_their_engine() -> None:
    """So that another store can take the place of the ledger's, or of that of approvals."""
    files = {
        one.file for one in alive() if one.top == "sqlite3" and one.file.startswith(("tradesdk/", "tradesdk_cli/"))
    }
    assert files
    stores = ("tradesdk/payments/ledger", "tradesdk_cli/mcp/approvals.py")
    assert {file for file in files if not file.startswith(stores)} == set()


def test_what_decides_about_money_does_nothing() -> None:
    """No file, no socket, no clock: it is told what time it is."""
    files = {f"tradesdk/payments/{file}.py" for file in DECIDING}
    files |= {"tradesdk/_market.py", "tradesdk/_http/service_time.py"}
    assert files <= {one.file for one in alive()}
    doing = {"os", "io", "socket", "ssl", "sqlite3", "time", "threading", "subprocess", "pathlib", "logging"}
    assert [str(one) for one in alive() if one.file in files and one.top in doing | NETWORK | ETHEREUM] == []


def test_nothing_imports_click() -> None:
    """Typer brings its own copy; the package of that name may not be there."""
    assert [str(one) for one in every_import() if one.top == "click"] == []


def test_what_awaits_lives_in_async() -> None:
    elsewhere = {
        file.relative_to(SDK).as_posix()
        for file in SDK.rglob("*.py")
        if file.relative_to(SDK).parts[0] != "_async"
        and re.search("async|await", file.read_text())
        and any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(parsed(file)))
    }
    assert elsewhere <= {"_system/clock.py", "_http/arguments.py"}  # a clock and a decorator serve both flavours


def names_in(folder: Path) -> set[str]:
    """Files, their functions and classes, and those classes' methods, by their blocking names."""
    blocking = {
        "__aenter__": "__enter__",
        "__aexit__": "__exit__",
        "__aiter__": "__iter__",
        "__anext__": "__next__",
        "aclose": "close",
    }
    found = set()
    for file in folder.rglob("*.py"):
        here = file.relative_to(folder).as_posix()
        found.add(here)
        body = parsed(file).body
        for node in body + [inner for outer in body if isinstance(outer, ast.ClassDef) for inner in outer.body]:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = node.name.replace("Async", "").replace("_async", "")
                if name == "__await__":  # what the blocking flavour cannot have
                    continue
                found.add(f"{here}:{blocking.get(name, name)}")
    return found


def test_both_flavours_have_the_same_names() -> None:
    passed_on = ("Semaphore", "acquire", "release", "KeyedLock", "of")  # the ledger needs them, too
    threads = (  # unasync.py takes these away
        *("in_thread", "in_thread_if", "always_in_thread", "in_own_thread", "_in_own_thread"),
        "completed",
    )
    shields = (
        "shielded",
        "shielded_within",
        "note_cancellation",
        "UnderWay",
        "one",
        "over",
    )
    only_async = {f"concurrency.py:{name}" for name in (*passed_on, *threads, *shields)}
    only_async |= {"signing.py:ask_signer"}  # of blocking methods the signers' own
    assert names_in(SDK / "_async") == names_in(SDK / "_sync") | only_async


IMPORTS = re.compile(r"^ *from tradesdk\.[\w.]+ import (\([^)]*\)|.*)", re.M)


def test_tests_import_public_names_from_the_package() -> None:
    """So that moving what is inside breaks only the tests of what is inside."""
    files = [file for file in (ROOT / "tests").rglob("*.py") if file.parent.name not in ("_sync", "typing")]
    found = {
        (file.name, name)
        for file in files
        for names in IMPORTS.findall(file.read_text(encoding="utf-8"))
        for name in re.findall(r"\w+", names)
        if name in PUBLIC
    }
    assert found == set()


@pytest.mark.skipif("TRADE_SEED" in os.environ, reason="a seed was named")
def test_random_tests_draw_the_same_in_every_run(request: pytest.FixtureRequest) -> None:
    """A newcomer's first run must not fail on a rare draw."""
    jitter = random.random()
    drawn: list[int] = []

    @given(st.integers())
    def draw(number: int) -> None:
        drawn.append(number)

    draw()
    first = drawn.copy()
    drawn.clear()
    draw()
    assert drawn == first
    assert jitter == random.Random(request.node.nodeid).random()


def test_scripts_name_tests_that_exist() -> None:
    """A missing path ends pytest before it begins, and these are not run every day."""
    named = [
        path
        for script in ("long", "soak", "peers")
        for text in re.findall(r"tests/(?:[\w/.]|\{[\w,]*\})+", (ROOT / "scripts" / script).read_text())
        for path in spelled_out(text)
    ]
    assert len(named) > 30
    assert [path for path in named if not (ROOT / path.replace("/_sync", "/_async")).exists()] == []


def spelled_out(text: str) -> list[str]:
    """Each path of a text such as `tests/{a,b}.py`."""
    choice = re.search(r"\{([^}]*)\}", text)
    if choice is None:
        return [text]
    return [path for each in choice[1].split(",") for path in spelled_out(text.replace(choice[0], each, 1))]
