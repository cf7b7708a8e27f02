"""What pip is told to install where a package is missing."""

from __future__ import annotations

import re
import tomllib

from ._pages import ROOT


def install(package: str) -> str:
    """The command for a package, with the bounds of `pyproject.toml`, quoted for every shell, cmd.exe too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    (found,) = {line for line in lines if re.match(rf"{package}[^a-z0-9-]", line)}
    return f'pip install "{found}"'
