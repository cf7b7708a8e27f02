"""What pages list is what there is: public names, options and faults of the mock, codes of errors, log events.

scripts/check plays this, with the tests that parse all sources.
"""

import ast
import re
from functools import cache
from types import ModuleType
from typing import get_args

import pytest

import tradesdk
import tradesdk.errors
import tradesdk.payments
import tradesdk.types
import tradesdk_mock
from tradesdk._http.log_events import LogEvent, LogFields
from tradesdk.errors import status_error_class
from tradesdk_mock import GapOptions, fault_kinds

from ._pages import ROOT
from ._rows import each_of

SDK = ROOT / "src" / "tradesdk"
LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")


@each_of("package", [tradesdk, tradesdk.payments, tradesdk.types, tradesdk_mock], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package: ModuleType) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"(?m)^::: (\S+)$", text))
    shown |= {f"tradesdk.{name}" for name in vars(tradesdk.errors)} if "tradesdk.errors" in shown else set()
    names = {f"{package.__name__}.{name}" for name in dir(package) if name != "__version__"}
    assert names - shown == set()


def test_the_table_of_gap_options_agrees_with_the_mock() -> None:
    page = (ROOT / "docs" / "reference" / "mock.md").read_text(encoding="utf-8")
    rows = [
        f"| `{gap.name}` | `{gap.default}` | {', '.join(f'`{other}`' for other in gap.others)} | {gap.text} |"
        for gap in GapOptions.describe()
    ]
    assert re.findall(r"(?m)^\| `.*$", page[: page.index("## Fault kinds")]) == rows


def test_the_table_of_faults_agrees_with_the_mock() -> None:
    page = (ROOT / "docs" / "reference" / "mock.md").read_text(encoding="utf-8")
    rows = []
    for kind in fault_kinds():
        parameters = ", ".join(f"`{one.name}`" for one in kind.parameters)
        rows.append(f"| `{kind.name}` | {kind.on} | {kind.text} | {parameters} |")
    table = page[page.index("## Fault kinds") :]
    assert re.findall(r"(?m)^\| `.*$", table) == rows


ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
CODE_ROWS = re.findall(r"(?m)^\| `(\w+)` \| `(\w+Error)` (?:\| [^|]+ ){3}\|$", ERRORS)
EVENT_ROWS = re.findall(r"(?m)^\| `(\w+)` \| [A-Z, ]+ \| [^|]+ \| ((?:`\w+`(?:, )?)+) \|$", ERRORS)
CLASSES = {
    name: cls
    for name, cls in vars(tradesdk.errors).items()
    if isinstance(cls, type) and issubclass(cls, tradesdk.TradeError)
}


@cache
def sources() -> list[ast.Module]:
    return [
        ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(SDK.rglob("*.py"))
        if ("_sync" not in file.parts and file.name != "errors.py") or file.parent.name == "ledger"
    ]


@cache
def calls() -> list[ast.Call]:
    return [node for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def texts(*nodes: ast.AST | None) -> set[str]:
    return {
        node.value
        for root in nodes
        if root is not None
        for node in ast.walk(root)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.long
def test_the_table_of_codes_has_every_code_once_with_its_class() -> None:
    codes = get_args(tradesdk.ErrorCode)
    assert sorted(code for code, _ in CODE_ROWS) == sorted(codes)
    assert len(set(codes)) == len(codes)
    classes = dict(CODE_ROWS)
    for name, cls in CLASSES.items():
        if not issubclass(cls, tradesdk.PaymentError) and name != "APIError":
            assert classes[cls.code] == name
    for call in calls():
        code = keyword(call, "code")
        if name_called(call) in CLASSES and isinstance(code, ast.Constant):
            assert classes[str(code.value)] == name_called(call)


@pytest.mark.long
def test_every_code_is_raised_and_every_raised_one_is_in_the_list() -> None:
    """What is given as `code=` is one of the list, as type checkers see too; and nothing in the list is left over."""
    codes = set(get_args(tradesdk.ErrorCode))
    given = set().union(*(texts(keyword(call, "code")) for call in calls() if name_called(call) in CLASSES))
    assert given - {""} <= codes
    by_status = {
        status_error_class(status, name).code for status in range(300, 600) for name in ("invalid_signature", "")
    }
    called = {name_called(call) for call in calls() if not isinstance(keyword(call, "code"), ast.Constant)}
    called |= {"APIConnectionError", "APITimeoutError"}  # made under another name, in connection_error
    by_class = {cls.code for name, cls in CLASSES.items() if name in called}
    ours = texts(*sources()) - {cls.code for cls in CLASSES.values()}
    assert codes - ours - by_status - by_class == set()


@pytest.mark.long
def test_the_table_of_log_events_agrees_with_what_is_logged() -> None:
    """Each record of the log says what happened, in fields that the page lists."""
    fields: dict[str, set[str]] = {}
    for call in calls():
        if name_called(call) == "event" and call.args and isinstance(call.args[0], ast.Constant):
            of_error = {"code", "reason"} if len(call.args) > 2 else set()
            named = {str(one.arg) for one in call.keywords} - {"level"}
            fields.setdefault(str(call.args[0].value), set()).update(of_error, named)
    assert {name: set(re.findall(r"\w+", listed)) for name, listed in EVENT_ROWS} == fields
    assert set(get_args(LogEvent)) == set(fields)
    assert set().union(*fields.values()) == set(LogFields.__annotations__)
    loggers = ("logger", "wire", "_log")
    direct = [
        call for call in calls() if name_called(call) in LEVELS and ast.unparse(call.func).split(".")[0] in loggers
    ]
    assert list(map(ast.unparse, direct)) == [], "what logging of a program raises would change a result"
