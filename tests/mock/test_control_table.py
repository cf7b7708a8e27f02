"""The table of the control API: arguments are read from signatures, and the docs list every operation."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tradesdk_mock.control.http import OPERATIONS, Operation, signature

DOCS = Path(__file__).parents[2] / "docs" / "mock.md"
ALL = [(path, method, each) for path, methods in OPERATIONS.items() for method, each in methods.items()]


def fields(path: str, operation: Operation) -> list[str]:
    """What a request may say beside its path."""
    return [operation.names.get(name, name) for name in signature(operation.function)[0] if f"{{{name}}}" not in path]


@pytest.mark.parametrize(
    ("path", "operation"), [pytest.param(path, each, id=f"{method} {path}") for path, method, each in ALL]
)
def test_arguments_are_read_from_the_signature(path: str, operation: Operation) -> None:
    if operation.raw:
        return
    arguments, others = signature(operation.function)
    assert set(re.findall(r"\{(\w+)\}", path)) <= arguments.keys()
    assert operation.names.keys() <= arguments.keys()
    for name, argument in arguments.items():
        parameter = inspect.signature(operation.function).parameters[name]
        assert argument.required == (parameter.default is parameter.empty)
        assert argument.types, f"{name}: {parameter.annotation} says nothing about JSON"
    assert others == any(
        each.kind is each.VAR_KEYWORD for each in inspect.signature(operation.function).parameters.values()
    )


def test_what_a_signature_says() -> None:
    arguments, others = signature(OPERATIONS["/_mock/faults"]["POST"].function)
    assert others
    assert {name: (each.types, each.required) for name, each in arguments.items()} == {
        "kind": ((str,), True),
        "route": ((str,), False),
        "method": ((str,), False),
        "tenant": ((str,), False),
        "key": ((str,), False),
        "query": ((dict,), False),
        "paid": ((str,), False),
        "since": ((float,), False),
        "until": ((float,), False),
        "nth": ((int,), False),
        "every": ((int,), False),
        "probability": ((float,), False),
        "count": ((int,), False),
    }
    arguments, others = signature(OPERATIONS["/_mock/market"]["POST"].function)
    assert (arguments["failing"].types, others) == ((bool, list), False)
    assert signature(OPERATIONS["/_mock/reset"]["POST"].function)[0]["populate"].types == (list,)


def section() -> str:
    text = DOCS.read_text(encoding="utf-8")
    return text[text.index("## The control API") :]


def rows() -> list[tuple[list[str], str]]:
    """The paths of each row of the table, and its cell about methods."""
    found = []
    for line in section().splitlines():
        if line.startswith("| `/_mock/"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            first, *verbs = re.findall(r"`([^`]+)`", cells[0])
            found.append(([first, *(first.rpartition("/")[0] + "/" + verb for verb in verbs)], cells[1]))
    return found


def test_the_docs_list_every_operation() -> None:
    listed = {
        (path, method)
        for paths, cell in rows()
        for path in paths
        for method in re.findall(r"\b(GET|POST|PUT|DELETE)\b", cell)
    }
    assert listed == {(re.sub(r"\{\w*\}", placeholder, path), method) for path, method, _ in ALL}


def placeholder(found: re.Match[str]) -> str:
    return {"{tenant}": "NAME", "{payer}": "ADDRESS"}.get(found[0], "ID")


def test_the_docs_name_fields_that_there_are() -> None:
    named = 0
    for paths, cell in rows():
        operations = [each for each in ALL if re.sub(r"\{\w*\}", placeholder, each[0]) in paths and not each[2].raw]
        there = {field for path, _, each in operations for field in fields(path, each)}
        if any(signature(each.function)[1] for _, _, each in operations):
            continue  # it takes fields that no signature has
        for query, body in re.findall(r"[?&](\w+)=|\"(\w+)\":", cell):
            assert (query or body) in there, f"{paths[0]}: {query or body}"
            named += 1
    assert named > 20


@pytest.mark.parametrize(
    ("path", "word"), [("/_mock/clock", "clock"), ("/_mock/signals", "signals"), ("/_mock/faults", "faults")]
)
def test_the_docs_name_every_field_of_the_longest(path: str, word: str) -> None:
    line = re.search(rf"^- {word}: (.*?)[;.]$", section(), re.MULTILINE | re.DOTALL)
    assert line is not None
    assert set(re.findall(r"`(\w+)`", line[1])) == set(fields(path, OPERATIONS[path]["POST"]))
