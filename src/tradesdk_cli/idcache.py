"""Ids and symbols that commands printed, kept for completion: a small file for each service, key and mock world.

It holds only ids and symbols of plain letters and digits, which are safe in a shell, with short descriptions. Its
errors are ignored.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tradesdk import ConfigError
from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tradesdk_cli.config.settings import Settings

    Kept = dict[str, dict[str, str]]

MOST = 400
"""Maximum of each kind; the oldest are dropped."""
MOST_FILES = 30
"""Maximum of files; the oldest are removed."""
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_UNSAFE_WORD = re.compile(r"[^A-Za-z0-9 _.,+-]+")

_seen: Kept = {}
wanted = False
"""Whether to collect."""


def safe_words(text: str) -> str:
    """`text` in one short line, without characters that are special in a shell or a terminal."""
    return " ".join(_UNSAFE_WORD.sub(" ", text).split())[:48].strip()


def _named(name: object, about: object) -> str:
    """A name with its description.

    A name with unsafe characters is left out, as a command would not find the safe form.
    """
    words = f"{name}, {about}"
    return words if name and about and safe_words(words) == words else str(about or "")


def _trade(row: Mapping[str, Any]) -> str:
    return ", ".join(str(row[name]) for name in ("token_symbol", "direction", "status") if row.get(name))


_WITH_IDS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "AgentSummary": ("agents", lambda row: _named(row.get("name"), row.get("status"))),
    "Agent": ("agents", lambda row: _named(row.get("name"), row.get("status"))),
    "Wallet": ("wallets", lambda row: _named(row.get("label"), CHAIN_NAMES.get(row.get("chain_id", 0)))),
    "Trade": ("trades", _trade),
    "TradeDetail": ("trades", _trade),
}
"""By the name of a model: the kind, and the description of an item."""


def note(model: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Collects ids and symbols of `rows`, items in wire form; `model` is the name of their class."""
    for row in rows:
        if model in _WITH_IDS:
            kind, about = _WITH_IDS[model]
            add(kind, row.get("id"), about(row))
        add("tokens", row.get("token_symbol"))
        for tokens in (row.get("tokens"), row.get("results")):
            for token in tokens if isinstance(tokens, list) else ():
                if isinstance(token, dict):
                    add("tokens", token.get("symbol", token.get("tokenSymbol")), str(token.get("name") or ""))


def add(kind: str, value: object, about: str = "") -> None:
    """Collects an id or a symbol with its description; an empty one keeps the earlier one."""
    if not wanted or not isinstance(value, str) or _SAFE.fullmatch(value) is None:
        return
    if len(seen := _seen.setdefault(kind, {})) < MOST:
        seen[value] = safe_words(about) or seen.get(value, "")


def listen(to_collect: bool) -> None:
    """Starts over."""
    global wanted  # one command per process
    wanted = to_collect
    _seen.clear()


def clear(settings: Settings) -> None:
    """Deletes everything, after a reset of a mock."""
    file_of(settings).unlink(missing_ok=True)


def file_of(settings: Settings) -> Path:
    """The file for the service, key, profile and world of `settings`."""
    if settings.mock:
        name = f"mock-{settings.world}"
    else:
        from hashlib import sha256

        parts = (settings.base_url, settings.market_url, settings.profile, settings.api_key)
        name = sha256("\n".join(part or "" for part in parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return settings.data_folder() / "completion" / f"{name}.json"


def keep(settings: Settings) -> None:
    """Adds the collected items to the file. Errors are ignored."""
    import json

    if not _seen:
        return
    new = dict(old := _read(settings))
    for kind, seen in _seen.items():
        earlier = old.get(kind, {})
        named = {value: about or earlier.get(value, "") for value, about in seen.items()}
        new[kind] = dict(islice((named | earlier | named).items(), MOST))
    _seen.clear()
    if new == old:
        return
    with suppress(OSError, ValueError, ConfigError):
        path = file_of(settings)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(path, json.dumps(new), mode=0o600, sync=False)
        files = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        for forgotten in files[MOST_FILES:]:
            forgotten.unlink(missing_ok=True)


def read(settings: Settings, kind: str) -> dict[str, str]:
    """The items of `kind` with their descriptions; empty when there are none."""
    return _read(settings).get(kind, {})


def _read(settings: Settings) -> Kept:
    """The content of the file; empty when it is invalid."""
    import json

    try:
        found: Kept = json.loads(file_of(settings).read_bytes())
        return found if all(isinstance(about, str) for kept in found.values() for about in kept.values()) else {}
    except (ConfigError, OSError, ValueError, AttributeError, RecursionError):
        return {}
