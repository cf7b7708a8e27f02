#!/usr/bin/env python3
"""Prints the lowest version that `pyproject.toml` allows of each package it names, as constraints for pip.

python scripts/floors.py >floors.txt && pip install -c floors.txt -e ".[test]"

What those packages need themselves is not pinned: pip takes the newest that fits.
"""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
FLOOR = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?\s*>=\s*(?P<floor>[^,;\s]+)")


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def floors(project: dict[str, object]) -> dict[str, str]:
    """Each package with its highest lower bound: the lowest version that all extras together allow."""
    found: dict[str, str] = {}
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    core: list[str] = project["dependencies"]  # type: ignore[assignment]
    for requirement in chain(core, *extras.values()):
        if match := FLOOR.match(requirement):
            name, floor = match["name"].lower(), match["floor"]
            found[name] = max(found.get(name, floor), floor, key=numbers)
    return found


if __name__ == "__main__":
    for name, floor in sorted(floors(tomllib.loads(PROJECT.read_text())["project"]).items()):
        print(f"{name}=={floor}")
