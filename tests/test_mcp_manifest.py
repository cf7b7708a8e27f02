"""server.json is what registries of MCP servers take, and starts the server."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema  # type: ignore[import-untyped]

import tradesdk
from tradesdk_cli.__main__ import main, trade

from ._pages import ROOT

MANIFEST: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))

# What the registry's schema of 2025-12-11 asks for, of the parts that the manifest has; nothing else is let through.
ARGUMENT = {
    "type": "object",
    "required": ["type", "value"],
    "additionalProperties": False,
    "properties": {"type": {"enum": ["named", "positional"]}, "name": {"type": "string"}, "value": {"type": "string"}},
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
}
VARIABLE = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
    },
}
PACKAGE = {
    "type": "object",
    "required": ["registryType", "identifier", "transport"],
    "additionalProperties": False,
    "properties": {
        "registryType": {"const": "pypi"},
        "identifier": {"type": "string"},
        "version": {"type": "string", "minLength": 1, "not": {"const": "latest"}},
        "runtimeHint": {"type": "string"},
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "transport": {"type": "object", "required": ["type"], "properties": {"type": {"const": "stdio"}}},
        "environmentVariables": {"type": "array", "items": VARIABLE},
    },
    "dependentRequired": {"runtimeArguments": ["runtimeHint"]},
}
SERVER = {
    "type": "object",
    "required": ["$schema", "name", "description", "version"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255, "pattern": r"^\d+\.\d+\.\d+[\w.+-]*$"},
        "packages": {"type": "array", "items": PACKAGE},
    },
}


def test_it_is_what_registries_take() -> None:
    jsonschema.Draft202012Validator(SERVER).validate(MANIFEST)
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
