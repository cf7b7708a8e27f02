"""What is shipped: the wheel and the sdist, and what works where only the core dependencies are installed."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import tradesdk
from tradesdk_mock import MockServer

from ._requirements import install

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
PACKAGES = {"tradesdk", "tradesdk_cli", "tradesdk_mock"}


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program of this environment or of one made here, to its end."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)  # fixed words


def build(source: Path, target: Path) -> Path:
    """Build without an environment of its own, so without a network: hatchling belongs to the test extra."""
    done = run(sys.executable, "-m", "hatchling", "build", "-d", target, "-t", "sdist", "-t", "wheel", cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def sdist_in(folder: Path) -> Path:
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel_in(built)) as archive:
        yield archive


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_wheel_holds_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == PACKAGES | {f"tradesdk-{tradesdk.__version__}.dist-info"}
    for package, folder in zip(sorted(PACKAGES), ("src", "src", "mock_server"), strict=True):
        assert f"{package}/py.typed" in names
        sources = {
            f"{package}/{file.relative_to(ROOT / folder / package)}" for file in (ROOT / folder / package).rglob("*.py")
        }
        assert sources <= set(names), "a module was left out"
    tests = [name for name in names if "/test" in name]
    assert [name for name in names if name.endswith((".pyc", ".orig"))] + tests == []
    data = {"tradesdk_mock/api/openapi.yaml", "tradesdk_cli/completion/commands.json"}
    for folder in ("tradesdk_cli/help",):
        data |= {f"{folder}/{file.name}" for file in (ROOT / "src" / folder).iterdir() if file.suffix == ".txt"}
    assert len(data) > 6
    assert data <= set(names)


def test_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    told = metadata(wheel)
    assert (told["Name"], told["Version"]) == ("tradesdk", tradesdk.__version__)
    assert told["Requires-Python"] == ">=3.11"
    assert told["License-Expression"] == "MIT"
    assert told["Description-Content-Type"] == "text/markdown"
    assert str(told.get_payload()).startswith("# tradesdk\n")
    assert {"Framework :: Pytest", "Typing :: Typed"} <= set(told.get_all("Classifier", ()))
    extras = {"mock", "fast", "keyring", "frames", "test", "dev", "docs"}
    assert extras <= set(told.get_all("Provides-Extra", ()))
    info = f"tradesdk-{tradesdk.__version__}.dist-info"
    assert b"MIT License" in wheel.read(f"{info}/licenses/LICENSE")
    for name in ("trade", "tradesdk"):
        assert re.search(rf"^{name} = \S+:trade$", wheel.read(f"{info}/entry_points.txt").decode(), re.MULTILINE)


def test_server_libraries_come_with_an_extra_only(wheel: zipfile.ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist", ())
    core = {re.split(r"[^a-z0-9-]", line, maxsplit=1)[0] for line in required if "extra ==" not in line}
    assert {"httpx", "pydantic", "typer", "rich", "eth-account"} <= core
    extras = {"uvicorn", "pyyaml", "pytest", "coincurve", "keyring", "plotext", "pyarrow", "pandas", "polars"}
    assert core & (extras | {"hatchling", "build"}) == set()


def test_every_dependency_has_a_lowest_version_that_is_tested() -> None:
    """scripts/long installs these; what they leave out would be tested with its newest version only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = ("mock", "fast", "frames", "test")
    given = [*project["dependencies"], *(line for name in tested for line in extras[name])]
    named = {re.split(r"[^a-z0-9-]", line, maxsplit=1)[0] for line in given} - {"tradesdk"}
    floors = dict(line.split("==") for line in run(sys.executable, ROOT / "scripts" / "floors.py").stdout.split())
    assert named <= floors.keys()
    lowest = {
        name: floor for name, floor in floors.items() if any(line.startswith(f"{name}>={floor}") for line in given)
    }
    assert named <= lowest.keys()


def test_sdist_can_be_built_from(built: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """A distribution packs what is in the sdist: it has the license and the tests, and gives the same wheel."""
    with tarfile.open(sdist_in(built)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/test_package.py"} <= names
        assert [name for name in names if name.split("/")[0] in {".venv", ".ci", ".git", "site", "dist", "build"}] == []
        if sys.version_info >= (3, 11, 4):
            archive.extractall(tmp_path, filter="data")
        else:  # it is our own file, and there was nothing to choose
            archive.extractall(tmp_path)  # noqa: S202
    (unpacked,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel_in(build(unpacked, tmp_path / "again"))) as again:
        assert sorted(again.namelist()) == sorted(wheel.namelist())


@pytest.mark.parametrize("mark", ["demo-command", "test-command"])
def test_readme_marks_its_commands(mark: str) -> None:
    """``.ci/run`` runs the fenced block below each mark exactly as it stands."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^<!-- {mark} -->\n+```[a-z]*\n(.+?)\n```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    assert "python3 -m venv --upgrade-deps .venv" in blocks[0]
    assert ("trade demo" if mark == "demo-command" else "pytest") in blocks[0]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and its core dependencies, away from the sources."""

    bin: Path
    home: Path

    def run(self, program: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        keep = {name: os.environ[name] for name in ("PATH", "TMPDIR", "SYSTEMROOT") if name in os.environ}
        env = keep | {"HOME": str(self.home), "TRADE_HOME": str(self.home), "PYTHONWARNINGS": "error"} | environ
        return run(self.bin / program, *arguments, cwd=self.home, env=env)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("installed")
    # Not compiled: most of what it brings is never imported here.
    install = ("install", "-q", "--no-compile", wheel_in(built))
    for command in (
        (sys.executable, "-m", "venv", "--without-pip", home / "env"),
        (sys.executable, "-m", "pip", "--python", home / "env" / "bin" / "python", *install),
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    return Installed(home / "env" / "bin", home)


ROUND_TRIP = """
import sys, tradesdk
assert "site-packages" in tradesdk.__file__
for name in dir(tradesdk):
    getattr(tradesdk, name)
signer = tradesdk.LocalSigner.from_key("0x" + "1d" * 32)
with tradesdk.TradeClient() as client:
    wallet = client.wallets.connect_with(signer, label="installed")
    assert wallet.address == signer.address
    agent = client.agents.create(name="installed", wallet_id=wallet.id, chain_id=8453)
    assert [one.id for one in client.agents.list()] == [agent.id]
assert "uvicorn" not in sys.modules
print("fine")
"""


@pytest.mark.long
def test_core_install_can_do_the_work(installed: Installed) -> None:
    assert run(sys.executable, "-m", "pip", "--python", installed.bin / "python", "check").returncode == 0
    with MockServer(seed=7) as server:
        env = {"TRADE_BASE_URL": server.url, "TRADE_API_KEY": "mock_full_installed"}
        done = installed.run("python", "-c", ROUND_TRIP, **env)
        assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)
        listed = installed.run("trade", "agents", "list", "-o", "json", **env)
        assert (listed.stderr, listed.returncode) == ("", 0)
        assert '"name": "installed"' in listed.stdout
        written = installed.run("trade", "agents", "list", "-o", "csv", **env)
        assert (written.stderr, written.returncode) == ("", 0)
        assert ",installed," in written.stdout
    assert "No module named 'yaml'" in installed.run("python", "-c", "import yaml").stderr
    version = installed.run("trade", "--version")
    assert version.returncode == 0
    assert tradesdk.__version__ in version.stdout


@pytest.mark.long
def test_the_mock_in_process_needs_no_extra(installed: Installed) -> None:
    done = installed.run("trade", "--mock", "account", "show", "-o", "json")
    assert (done.stderr, done.returncode) == ("", 0)
    assert '"plan": "pro"' in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("mock", "serve", "--port", "0"), ("demo",)], ids=" ".join)
def test_what_needs_an_extra_says_which(installed: Installed, arguments: tuple[str, ...]) -> None:
    done = installed.run("trade", *arguments)
    assert done.returncode in (2, 3)
    assert done.stdout == ""
    assert json.loads(done.stderr)["hint"] == install("uvicorn")
    assert "Traceback" not in done.stderr


FROM_AN_ARCHIVE = """
import sys, httpx, tradesdk, tradesdk_cli, tradesdk_mock
from tradesdk_cli.__main__ import main
def must(true, what):  # -OO leaves assertions out
    if not true:
        sys.exit(what)
for package in (tradesdk, tradesdk_cli, tradesdk_mock):
    must(".whl" in package.__file__, package.__file__)
for name in dir(tradesdk):
    getattr(tradesdk, name)
with tradesdk_mock.MockService(seed=7) as mock, httpx.Client(transport=mock.transport(), trust_env=False) as http:
    must(http.get(mock.url + "/openapi.json").json()["info"]["title"], "a description")
    with tradesdk.TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http) as client:
        must(client.account.get().plan == "pro", "an account")
for line in sys.argv[1:]:
    print("##", line, flush=True)
    must(main(line.split()) == 0, line)
"""


@pytest.mark.long
@pytest.mark.parametrize("option", ["-I", "-IOO"])
def test_everything_works_from_a_zip_archive(built: Path, tmp_path: Path, option: str) -> None:
    """Without docstrings, too. A wheel is such an archive."""
    code = f"import sys; sys.path.insert(0, {str(wheel_in(built))!r})\n{FROM_AN_ARCHIVE}"
    lines = ["--help", "agents list --help", "help environment", "--mock agents list", "mcp tools", "demo"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TRADE_HOME": str(tmp_path)}
    done = run(sys.executable, option, "-c", code, *lines, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "Agents, signals, market data." in done.stdout
    assert "\n  List agents" in done.stdout
    code = f"import sys; sys.path.insert(0, {str(wheel_in(built))!r}); from tradesdk_cli.__main__ import main; main([])"
    completing = env | {"_TRADE_COMPLETE": "complete_bash", "_TRADE_WORDS": "trade\x1fagen"}
    done = run(sys.executable, option, "-c", code, cwd=tmp_path, env=completing)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["agents"], "")
