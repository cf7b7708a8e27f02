"""Where the official packages and other judges live: environments, made once, then found again. Standard library only.

    python tests/peers/environments.py [--node] DIRECTORY

makes what is missing there: `v2`, `tx402`, `schemathesis`, `judges`, `mcp1` and `coinbase` (Python) and, if asked for,
`node`.
Several processes may do so at once.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
NODE_PROGRAMS = HERE / "programs" / "node"
SECONDS = 900
# Not compiled: most of what web3 brings is never imported.
PIP = ("-qq", "--disable-pip-version-check", "--no-compile")
NAMES = ("v2", "tx402", "schemathesis", "judges", "mcp1", "coinbase", "node")
# Its packages are most of what the other Python environments need: they find them there.
BASE = "v2"
STAMP = "made-from"
PACKAGES = Path("lib", "python{}.{}".format(*sys.version_info), "site-packages")


class EnvironmentFailed(RuntimeError):
    """An environment could not be made. The message ends with what the installer said."""


def make(name: str, home: Path) -> Path:
    """The environment of this name (see NAMES) in this directory, made unless it is there and current.

    Raises:
        EnvironmentFailed: the installer failed or took too long, or there is no node.
    """
    wanted = NODE_PROGRAMS / "package.json" if name == "node" else HERE / f"requirements-{name}.txt"
    below = None if name in (BASE, "node") else make(BASE, home)
    version = "" if name == "node" else f"# Python {sys.version}\n"
    recipe = version + wanted.read_text() + ("" if below is None else (below / STAMP).read_text())
    place, stamp = home / name, home / name / STAMP
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / f"{name}.lock"):
        # The stamp is written last: half an environment has none.
        if not stamp.is_file() or stamp.read_text() != recipe:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            if name == "node":
                _make_node(place, wanted)
            else:
                _make_python(place, wanted, below)
            stamp.write_text(recipe)
        if name == "node":  # modules are looked for beside the program
            for program in NODE_PROGRAMS.glob("*.mjs"):
                shutil.copy(program, place)
    return place


def python_in(place: Path) -> Path:
    return place / "bin" / "python"


def _make_python(place: Path, requirements: Path, below: Path | None) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", place)
    if below is not None:  # a path file: its own packages come first, and what they need is found there
        (place / PACKAGES / "below.pth").write_text(f"{below / PACKAGES}\n")
    # The pip of this environment: CI has a new one here, and old ones look for versions several times as long.
    command = (sys.executable, "-m", "pip", "--python", python_in(place), "install", *PIP, "-r", requirements)
    _run(*command, cwd=HERE.parents[1])  # `-e .` is our own package


def _make_node(place: Path, package: Path) -> None:
    if shutil.which("npm") is None:
        raise EnvironmentFailed("npm is not there; it comes with node 20 or newer")
    shutil.copy(package, place)
    _run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error", cwd=place)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailed(f"{' '.join(words)}: not done after {SECONDS} s") from error
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace")[-4000:]
        raise EnvironmentFailed(f"{' '.join(words)}: exit code {done.returncode}\n{said}")


@contextmanager
def locked(file: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock between processes. It goes with its holder, however that ends."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the environments of official packages and of other judges.")
    parser.add_argument("--node", action="store_true", help="the node packages too")
    parser.add_argument("directory", type=Path)
    asked = parser.parse_args()
    try:
        for name in NAMES if asked.node else NAMES[:-1]:
            make(name, asked.directory.absolute())
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
