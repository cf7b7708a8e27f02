"""Writes the code of the examples into the pages.

    python scripts/examples.py            write it
    python scripts/examples.py --check    end with 1 when a page shows other code than the example has

A comment above a block names the file, and what of it is shown, in this order:

    <!-- example: examples/signal_bot.py: Book.take, run -->
"""

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = re.compile(
    r"(?ms)^(?P<head><!-- example: (?P<file>examples/\w+\.py)(?:: (?P<names>[\w., ]+))? -->\n```python\n)"
    r"(?P<code>.*?)(?P<end>^```$)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when a page is out of date")
    check = parser.parse_args().check
    wrong = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        wanted = MARK.sub(lambda mark: mark["head"] + code_of(mark["file"], mark["names"]) + mark["end"], text)
        if wanted != text:
            wrong.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(wanted, encoding="utf-8")
    if wrong and check:
        print(f"out of date: {', '.join(wrong)}; run: python scripts/examples.py", file=sys.stderr)
        return 1
    print("the examples in the pages are current")
    return 0


def code_of(file: str, names: str | None) -> str:
    """The whole file, or the functions, classes and methods (`Class.method`) that are named."""
    source = (ROOT / file).read_text(encoding="utf-8")
    if names is None:
        return source
    defined: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name] = node
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            defined |= {f"{node.name}.{each.name}": each for each in methods}
    lines = source.splitlines()
    parts: list[str] = []
    shown = ""  # the class whose methods are being shown
    for name in names.split(", "):
        if name not in defined:
            raise SystemExit(f"scripts/examples.py: {file} has no {name}")
        node = defined[name]
        decorators = getattr(node, "decorator_list", [])
        first = decorators[0].lineno if decorators else node.lineno
        code = "\n".join(lines[first - 1 : node.end_lineno])
        owner = name.rpartition(".")[0]
        if owner and owner == shown:
            parts[-1] += f"\n\n{code}"
        else:
            parts.append(f"class {owner}:\n    ...\n\n{code}" if owner else code)
        shown = owner
    return "\n\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
