"""The descriptions of operations and their arguments, read from docstrings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_ARGUMENT = re.compile(r" {4}(\w+): (.*)")


@cache
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
    import inspect  # only for descriptions, as below

    text = inspect.getdoc(function)
    if text is None:  # `python -OO` drops them
        import ast
        from textwrap import dedent

        (found,) = ast.parse(dedent(inspect.getsource(function))).body
        text = ast.get_docstring(found) if isinstance(found, ast.FunctionDef) else None
    return text or ""
