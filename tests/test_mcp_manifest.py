"""server.json is what registries of MCP servers take, and starts the server."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import tradesdk
from tradesdk_cli.__main__ import main, trade

from ._pages import ROOT

MANIFEST: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def test_it_is_what_registries_take() -> None:
    """The limits of the registry's schema of 2025-12-11."""
    assert MANIFEST["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch("[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", MANIFEST["name"])
    assert len(MANIFEST["description"]) <= 100
    assert MANIFEST["version"] == MANIFEST["packages"][0]["version"] == tradesdk.__version__


def test_the_readme_names_it() -> None:
    """A registry looks into the package's description for the name, as proof that both have one owner."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"<!-- mcp-name: {MANIFEST['name']} -->" in lines


def test_what_a_client_runs_is_there() -> None:
    """`uvx`, its arguments, the package, and the package's arguments: a program with the name of the package."""
    [package] = MANIFEST["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package["identifier"] == project["name"]
    assert project["scripts"][package["identifier"]] == f"{trade.__module__}:{trade.__name__}"
    assert [(one["type"], one["name"]) for one in package["runtimeArguments"]] == [("named", "--with")]
    extra = package["runtimeArguments"][0]["value"].removeprefix("tradesdk[").partition("]")[0]
    assert extra in project["optional-dependencies"]
    words = [one["value"] for one in package["packageArguments"]]
    assert main([*words, "--help"]) == 0
