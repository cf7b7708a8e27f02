"""Ids and symbols that commands printed, kept for completion: a small file for each service, key and mock world.

It holds only what a shell may be given: ids and symbols of plain letters and digits, with a few words beside them.
Whatever goes wrong with it, commands do not mind: it is a convenience.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import CliError
from tradesdk_cli.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tradesdk_cli.config.settings import Settings

    Kept = dict[str, dict[str, str]]

MOST = 400
"""Of each kind; what was seen last stays."""
MOST_FILES = 30
"""Services, keys and worlds; those that were used last stay."""
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_UNSAFE_WORD = re.compile(r"[^A-Za-z0-9 _.,+-]+")

_seen: Kept = {}
_wanted = False


def safe_words(text: str) -> str:
    """`text` with nothing in it that a shell or a terminal could act on, in one short line."""
    return " ".join(_UNSAFE_WORD.sub(" ", text).split())[:48].strip()


def _named(name: object, about: object) -> str:
    """A name and a word about it. A name that would be changed here is left out: a command would not find it."""
    words = f"{name}, {about}"
    return words if name and about and safe_words(words) == words else str(about or "")


def _trade(row: Mapping[str, Any]) -> str:
    return ", ".join(str(row[name]) for name in ("token_symbol", "direction", "status") if row.get(name))


def _agent(row: Mapping[str, Any]) -> str:
    return _named(row.get("name"), row.get("status"))


_WITH_IDS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "AgentSummary": ("agents", _agent),
    "Agent": ("agents", _agent),
    "Wallet": ("wallets", lambda row: _named(row.get("label"), CHAIN_NAMES.get(row.get("chain_id", 0)))),
    "Trade": ("trades", _trade),
    "TradeDetail": ("trades", _trade),
}
"""By the name of a model: the kind, and what is said of one."""


def note(model: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Takes down what is worth completing in `rows`, items in wire form; `model` is the name of their class."""
    for row in rows if _wanted else ():
        if model in _WITH_IDS:
            kind, about = _WITH_IDS[model]
            add(kind, row.get("id"), about(row))
        add("tokens", row.get("token_symbol"))
        for tokens in (row.get("tokens"), row.get("results")):
            for token in tokens if isinstance(tokens, list) else ():
                if isinstance(token, dict):
                    add("tokens", token.get("symbol", token.get("tokenSymbol")), str(token.get("name") or ""))


def add(kind: str, value: object, about: str = "") -> None:
    """Takes down one id or symbol, with a few words about it; without any, those from before stay."""
    if not _wanted or not isinstance(value, str) or _SAFE.fullmatch(value) is None:
        return
    if len(seen := _seen.setdefault(kind, {})) < MOST:
        seen[value] = safe_words(about) or seen.get(value, "")


def listen(wanted: bool) -> None:
    """Start over: nothing was seen yet, and what is seen is only taken down if it is `wanted`."""
    global _wanted  # one command a process
    _wanted = wanted
    _seen.clear()


def clear(settings: Settings) -> None:
    """All of it was deleted: a mock that is empty again."""
    file_of(settings).unlink(missing_ok=True)


def file_of(settings: Settings) -> Path:
    """The file for what `settings` talk to. Another service, key, profile or world has another one."""
    if settings.mock:
        name = f"mock-{settings.world}"
    else:
        from hashlib import sha256

        parts = (settings.base_url, settings.market_url, settings.profile, settings.api_key)
        name = sha256("\n".join(part or "" for part in parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return settings.data_folder() / "completion" / f"{name}.json"


def keep(settings: Settings) -> None:
    """Writes what was seen on top of what was there. Any failure is silent."""
    if not _seen:
        return
    with suppress(OSError, ValueError, CliError):
        path = file_of(settings)
        old = _read(path)
        new = old | {kind: _merged(seen, old.get(kind, {})) for kind, seen in _seen.items()}
        if new != old:
            _write(path, new)
    _seen.clear()


def _merged(seen: dict[str, str], old: dict[str, str]) -> dict[str, str]:
    named = {value: about or old.get(value, "") for value, about in seen.items()}
    return dict([*(named | old | named).items()][:MOST])


def _write(path: Path, kept: Kept) -> None:
    import json

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_write(path, json.dumps(kept), mode=0o600, sync=False)
    files = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
    for forgotten in files[MOST_FILES:]:
        forgotten.unlink(missing_ok=True)


def read(settings: Settings, kind: str) -> dict[str, str]:
    """What there is of `kind`, each with a few words about it; empty when that is not known."""
    try:
        return _read(file_of(settings)).get(kind, {})
    except CliError:
        return {}


def _read(path: Path) -> Kept:
    """The file; nothing where it is not ours."""
    import json

    try:
        found: Kept = json.loads(path.read_bytes())
        return found if all(isinstance(about, str) for kept in found.values() for about in kept.values()) else {}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
