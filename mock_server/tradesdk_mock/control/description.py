"""The operations of the control API, read from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from textwrap import dedent

from .http import OPERATIONS, ControlParameter, Operation, signature

_ARGUMENT = re.compile(r" {4}(\w+): (.*)")


@dataclass(frozen=True, slots=True)
class ControlOperation:
    """An operation of the control API.

    Attributes:
        method: of the request.
        path: after `/_mock/`, such as `keys/{key_id}/revoke`.
        text: what it does: a sentence, and more after an empty line.
        parameters: words of the path, then fields: of the query for GET and DELETE, else of a JSON body.
        more: what any other fields of the body are; None when there may be none.
    """

    method: str
    path: str
    text: str
    parameters: tuple[ControlParameter, ...]
    more: str | None


def control_operations() -> list[ControlOperation]:
    """Every operation of the control API, except those that send or take a state file."""
    return [
        _described(method, path.removeprefix("/_mock/"), operation)
        for path, methods in OPERATIONS.items()
        for method, operation in methods.items()
        if not operation.raw
    ]


def _described(method: str, path: str, operation: Operation) -> ControlOperation:
    arguments, takes_others = signature(operation.function)
    text, texts = documented(operation.function)
    parameters = tuple(replace(each, text=texts.pop(name, "")) for name, each in arguments.items())
    return ControlOperation(method, path, text, parameters, next(iter(texts.values()), "") if takes_others else None)


def documented(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """The text of a function's docstring without examples, and the texts of its arguments."""
    about, arguments, section, name = list[str](), dict[str, str](), "", ""
    for line in _docstring(function).replace("`", "").splitlines():
        if re.fullmatch("(Args|Returns|Raises):", line):
            section = line
        elif not section and not line.startswith(" "):
            about.append(line)
        elif section == "Args:" and (found := _ARGUMENT.fullmatch(line)):
            name = found[1]
            arguments[name] = found[2]
        elif section == "Args:" and line:
            arguments[name] += f" {line.strip()}"
    return re.sub(r"\n{3,}", "\n\n", "\n".join(about).strip()), arguments


def _docstring(function: Callable[..., object]) -> str:
    text = inspect.getdoc(function)
    if text is None:  # `python -OO` drops them
        (found,) = ast.parse(dedent(inspect.getsource(function))).body
        text = ast.get_docstring(found) if isinstance(found, ast.FunctionDef) else None
    return text or ""
