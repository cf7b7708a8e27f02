"""What is published says who made it and leads somewhere, and nothing tells users to install what is not ours yet."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from email.message import Message
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

import pytest

import tradesdk
from tradesdk_cli.__main__ import main, trade

from ._pages import PAGES, ROOT, blocks
from ._rows import each_of

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = "https://github.com/Acme/trade"
OWNED = {
    "Author-email": ["Acme <trade@acme.example>"],
    "Project-URL": [
        f"Source, {SOURCE}",
        "Documentation, https://trade.acme.example",
        f"Changelog, {SOURCE}/blob/main/CHANGELOG.md",
        f"Issues, {SOURCE}/issues",
    ],
}


def program(name: str) -> ModuleType:
    loader = SourceFileLoader(f"{name.partition('.')[0]}_under_test", str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


release = program("release")


def metadata(headers: dict[str, list[str]]) -> Message:
    told = Message()
    for name, values in {"Name": ["tradesdk"], "Version": [tradesdk.__version__], **headers}.items():
        for value in values:
            told[name] = value
    index_page = program("index_page.py").index_page
    told.set_payload(index_page((ROOT / "README.md").read_text(encoding="utf-8"), SOURCE, tradesdk.__version__))
    return told


# What users install


INSTALLER = re.compile(r"\b(?:pip3? (?:install|wheel|download)|pipx|uvx|uv (?:add|pip|tool)|poetry add|pdm add) .*")
OURS = re.compile(r"(?<![\w./-])tradesdk(?![\w/])")


def test_no_line_installs_our_name_from_an_index() -> None:
    """Who registers it before us would get our users' keys."""
    folders = ("benchmarks", "docs", "examples", "mock_server", "scripts", "skills", "src", ".github")
    files = [*ROOT.glob("*.*"), *(file for folder in folders for file in (ROOT / folder).rglob("*"))]
    texts = {".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
    wrong, seen = [], 0
    for file in files:
        if not file.is_file() or file.suffix not in texts:
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            if found := INSTALLER.search(line):
                seen += 1
                if OURS.search(found[0]):
                    wrong.append(f"{file.relative_to(ROOT)}: {line.strip()}")
    assert wrong == []
    assert seen > 30


@each_of(
    ("line", "is_ours"),
    [
        ("pip install tradesdk", True),
        ("pip install 'tradesdk[mock]'", True),
        ('pip install "tradesdk>=0.1"', True),
        ("uvx tradesdk mcp", True),
        ('pip install "../tradesdk[mock]"', False),
        ("pip install dist/tradesdk-0.1.0-py3-none-any.whl", False),
    ],
)
def test_such_a_line_is_recognized(line: str, is_ours: bool) -> None:
    found = INSTALLER.search(line)
    assert found is not None
    assert bool(OURS.search(found[0])) == is_ours


def test_pages_name_the_wheel_that_is_built() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"tradesdk-[\w.]+-py3-none-any\.whl", page.read_text("utf-8"))
    }
    assert named == {f"tradesdk-{tradesdk.__version__}-py3-none-any.whl"}


# The page on an index


def test_links_of_the_readme_lead_to_this_version() -> None:
    told = str(metadata(OWNED).get_payload())
    assert "(docs/signals.md)" not in told
    assert f"[The live stream]({SOURCE}/blob/v{tradesdk.__version__}/docs/signals.md)" in told
    assert f"({SOURCE}/blob/v{tradesdk.__version__}/docs/index.md#where-to-go)" in told
    for block in blocks(ROOT / "README.md"):
        assert block.text in told, "an example was changed"


def test_dead_links_are_found() -> None:
    page = (
        '<h2 id="tests">Tests</h2><a href="#tests">1</a><a href="https://a.example/b">2</a><a href="docs/a.md">3</a>'
        '<img src="logo.png"><a href="/x">4</a><a href="#nowhere">5</a><a name="top"></a><a href="#top">6</a>'
    )
    assert release.dead_links(page) == ["docs/a.md", "logo.png", "/x", "#nowhere"]


# Owner and addresses


def test_with_owner_and_addresses_it_is_not_refused() -> None:
    release.refuse(metadata(OWNED))


@each_of(
    ("headers", "missing"),
    [
        ({}, "no authors, no [project.urls] Source, no [project.urls] Documentation"),
        ({**OWNED, "Author-email": []}, "no authors"),
        ({**OWNED, "Project-URL": OWNED["Project-URL"][:3]}, "no [project.urls] Issues"),
        ({**OWNED, "Project-URL": [*OWNED["Project-URL"][:3], "Issues, …"]}, "no [project.urls] Issues"),
        ({**OWNED, "Project-URL": ["Source, https://acme.example", *OWNED["Project-URL"][1:]]}, "repository on GitHub"),
    ],
)
def test_without_one_of_them_it_is_refused(headers: dict[str, list[str]], missing: str) -> None:
    with pytest.raises(release.Wrong) as caught:
        release.refuse(metadata(headers))
    assert missing in str(caught.value)


def test_each_extra_is_tried() -> None:
    assert release.TRIALS.keys() == {"", *PROJECT["optional-dependencies"]}
    assert "def test_a_bot_that_is_careful(trade_mock: MockService)" in release.bot_test()


# For registries of MCP servers


def test_the_manifest_is_what_registries_take() -> None:
    """The limits of the registry's schema of 2025-12-11; and the README names it, as proof that both have one owner."""
    told = metadata(OWNED)
    manifest = release.server(told)
    assert manifest["$schema"].endswith("/2025-12-11/server.schema.json")
    assert manifest["name"] == "io.github.Acme/trade"
    assert f"<!-- mcp-name: {manifest['name']} -->" in str(told.get_payload()).splitlines()
    assert len(manifest["description"]) <= 100
    assert manifest["version"] == manifest["packages"][0]["version"] == tradesdk.__version__


def test_what_a_client_runs_is_there() -> None:
    """`uvx`, its arguments, the package, and the package's arguments: a program with the name of the package."""
    [package] = release.server(metadata(OWNED))["packages"]
    assert package["identifier"] == PROJECT["name"]
    assert PROJECT["scripts"][package["identifier"]] == f"{trade.__module__}:{trade.__name__}"
    assert [(one["type"], one["name"]) for one in package["runtimeArguments"]] == [("named", "--with")]
    extra = package["runtimeArguments"][0]["value"].removeprefix("tradesdk[").partition("]")[0]
    assert extra in PROJECT["optional-dependencies"]
    words = [one["value"] for one in package["packageArguments"]]
    assert main([*words, "--help"]) == 0
    variables = {one["name"]: one["isSecret"] for one in package["environmentVariables"]}
    assert variables == {"TRADE_BASE_URL": False, "TRADE_API_KEY": True, "TRADE_WALLET_KEY": True}


def test_help_needs_no_package() -> None:
    """A release begins in an environment that has nothing yet."""
    done = subprocess.run([sys.executable, "-I", "-S", ROOT / "scripts" / "release", "--help"], capture_output=True)
    assert done.returncode == 0, done.stderr
