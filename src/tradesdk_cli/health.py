"""Checks of this machine: versions, settings, folders, files that only you should read, the shell and the terminal."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.doctor.findings import Finding
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.printer import Output

_NEEDED = ("httpx", "pydantic", "eth-account")
_EXTRAS = {
    "coincurve": ("fast", "signs payments faster"),
    "pyarrow": ("frames", "tables and Parquet"),
    "keyring": ("keyring", "keeps API keys in the system's keyring"),
    "uvicorn": ("mock", "trade mock serve"),
}
_NARROW = 60
_LOUD = ("output", "profile", "world", "timeout", "retry", "color", "fields", "verbose")


def versions() -> list[Finding]:
    """Ours, Python's, and those of the libraries."""
    from importlib.metadata import PackageNotFoundError, version

    from tradesdk import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    found: dict[str, Any] = {"trade": __version__, "python": python}
    missing = []
    for name in _NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
            missing.append(name)
    said = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    if missing:
        return [Finding("versions", "problem", f"missing: {', '.join(missing)}", "pip install tradesdk", found)]
    extras: dict[str, Any] = {}
    for name in _EXTRAS:
        try:
            extras[name] = version(name)
        except PackageNotFoundError:
            extras[name] = None
    there = [f"{name} {number}" for name, number in extras.items() if number]
    absent = [name for name, number in extras.items() if not number]
    without = "; ".join(f"without {name} ({_EXTRAS[name][1]})" for name in absent)
    names = ",".join(_EXTRAS[name][0] for name in absent)
    hint = f"if you want it: pip install 'tradesdk[{names}]'" if absent else None
    told = "; ".join(filter(None, (", ".join(there), without)))
    return [Finding("versions", "ok", said, None, found), Finding("extras", "ok", told, hint, extras)]


def settings(chosen: Settings) -> list[Finding]:
    """Which there are, and where each came from."""
    from tradesdk_cli.config.credentials import without_password

    sources = chosen.sources
    parts = []
    facts: dict[str, Any] = {}
    shown: dict[str, Any] = {"mock": f"mock world {chosen.world}"} if chosen.mock else {}
    if not chosen.mock:
        for name, title in (("base_url", "address"), ("market_url", "market data")):
            value = getattr(chosen, name)
            if value:
                shown[name] = f"{title} {without_password(value)}"
        if chosen.rpc_url:
            shown["rpc_url"] = f"node {one_line(chosen.rpc_url, 200)}"
    for name, text in shown.items():
        parts.append(f"{text} ({_source(sources.get(name))})")
    for name in _LOUD:
        if sources.get(name, "default") != "default" and not (name == "world" and chosen.mock):
            parts.append(f"{name} {_value(getattr(chosen, name))} ({_source(sources[name])})")
    for name in sorted({*sources, *shown}):
        value = None if name == "api_key" else getattr(chosen, name, None)
        if isinstance(value, str) and name.endswith("_url"):
            value = without_password(value)
        facts[name] = {"source": one_line(sources.get(name, "default"))} | (
            {} if name == "api_key" else {"value": value if not isinstance(value, tuple) else list(value)}
        )
    file = chosen.files.config_file
    facts["config_file"] = None if file is None else str(file)
    found = [Finding("settings", "ok", "; ".join(parts) or "none: every setting has its default", None, facts)]
    for warning in chosen.warnings:
        found.append(Finding("settings", "warning", one_line(warning), "trade config list --sources"))
    return found


def _source(source: str | None) -> str:
    return one_line((source or "default").removeprefix("flag "))


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return one_line(str(value))


def folders(chosen: Settings) -> list[Finding]:
    """Where settings and state are kept, and whether that can be written."""
    places: dict[str, Path] = {"state": chosen.data_folder(), "settings": chosen.config_folder()}
    facts = {name: str(path) for name, path in places.items()}
    closed = {name: path for name, path in places.items() if not _writable(path)}
    if not closed:
        return [Finding("folders", "ok", _told(places), None, facts)]
    names = " and ".join(f"{name} in {path}" for name, path in closed.items())
    hint = "TRADE_HOME chooses another folder; until then nothing is kept, and nothing can be bought"
    return [Finding("folders", "problem", f"cannot be written: {names}", hint, facts, config=True)]


def _told(places: Mapping[str, Path]) -> str:
    if len(set(places.values())) == 1:
        return f"{next(iter(places.values()))} can be written"
    return "; ".join(f"{name} in {path}" for name, path in places.items()) + " can be written"


def _writable(path: Path) -> bool:
    """Whether it can be written; where it is not there, whether it could be made."""
    for folder in (path, *path.parents):
        if folder.exists():
            return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return False


def secret_files(chosen: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Whether others can read what only you should: kept keys, keystore, its password, the ledger."""
    if os.name == "nt":
        return [Finding("secret files", "skipped", "their rights are not told by a mode on this system")]
    facts = {}
    wide = []
    for path in dict.fromkeys(_secret_files(chosen, environ)):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            facts[str(path)] = f"{stat.S_IMODE(mode):04o}"
            if mode & 0o077:
                wide.append(path)
    if not facts:
        return [Finding("secret files", "skipped", "there are none yet")]
    if not wide:
        many = "1 file" if len(facts) == 1 else f"{len(facts)} files"
        return [Finding("secret files", "ok", f"{many}, readable by you only", None, facts)]
    names = ", ".join(str(path) for path in wide)
    hint = f"chmod 600 {' '.join(shlex.quote(str(path)) for path in wide)}; they may have been read: make new secrets"
    return [Finding("secret files", "problem", f"others can read {names}", hint, facts, config=True)]


def _secret_files(chosen: Settings, environ: Mapping[str, str]) -> Iterator[Path]:
    keys = chosen.config_folder() / "keys"
    if keys.is_dir():
        yield from sorted(path for path in keys.iterdir() if not path.name.startswith("."))
    yield chosen.data_folder() / "keystore.json"
    for name in ("TRADE_KEYSTORE", "TRADE_KEYSTORE_PASSWORD_FILE"):
        if environ.get(name):
            yield Path(environ[name]).expanduser()
    yield chosen.data_folder() / "ledger.sqlite3"


def completion(environ: Mapping[str, str]) -> list[Finding]:
    """Whether the shell completes `trade`."""
    from tradesdk_cli.errors import UsageProblem
    from tradesdk_cli.framework.shells import place_of, shell_of

    try:
        place = place_of(shell_of(None, environ), environ)
    except UsageProblem as problem:
        return [Finding("completion", "skipped", one_line(problem.message), problem.hint)]
    facts = {"shell": place.shell, "installed": place.loaded, "script": str(place.script)}
    if place.loaded:
        return [Finding("completion", "ok", f"{place.shell} completes trade", None, facts)]
    hint = f"trade completion install {place.shell}"
    if place.script.exists():
        said = f"{place.shell} has completion of another version, or does not load it"
        return [Finding("completion", "warning", said, hint, facts)]
    return [Finding("completion", "skipped", f"{place.shell} does not complete trade yet", hint, facts)]


def terminal(out: Output, environ: Mapping[str, str]) -> list[Finding]:
    """Width, colours and encoding."""
    encoding = (out.stdout.encoding or "unknown").lower()
    width = out.width
    colors = out.color(out.stdout)
    facts = {"terminal": out.on_terminal, "columns": width, "colors": colors, "encoding": encoding}
    parts = [
        f"{width} columns" if width is not None else "not a terminal",
        "colours" if colors else "no colours",
        encoding,
    ]
    if environ.get("TERM"):
        parts.append(f"TERM={one_line(environ['TERM'], 40)}")
    said = ", ".join(parts)
    if encoding.replace("-", "").replace("_", "") not in ("utf8", "utf8sig"):
        hint = "export LANG=C.UTF-8; until then, what cannot be shown is written as an escape"
        return [Finding("terminal", "warning", said, hint, facts)]
    if width is not None and width < _NARROW:
        return [Finding("terminal", "warning", said, f"below {_NARROW} columns, tables leave much out: -o json", facts)]
    return [Finding("terminal", "ok", said, None, facts)]
