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

AGENTS, WALLETS, TRADES, PAYMENTS, TOKENS = "agents", "wallets", "trades", "payments", "tokens"
_KINDS = (AGENTS, WALLETS, TRADES, PAYMENTS, TOKENS)
MOST = 400
"""Of each kind, so 2,000 in all; what was seen last stays."""
MOST_FILES = 30
"""Services, keys and worlds; those that were used last stay."""
_LARGEST = 1_000_000
_HEAD = "trade completion 1"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_UNSAFE_WORD = re.compile(r"[^A-Za-z0-9 _.,+-]+")
_SAFE_WORDS = re.compile(r"[A-Za-z0-9 _.,+-]{0,48}")

_seen: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
_gone: dict[str, set[str]] = {kind: set() for kind in _KINDS}
_whole: set[str] = set()


def safe_words(text: str) -> str:
    """`text` with nothing in it that a shell or a terminal could act on, in one short line."""
    return " ".join(_UNSAFE_WORD.sub(" ", text).split())[:48].strip()


def _words(*parts: object) -> str:
    return safe_words(", ".join(str(part) for part in parts if part not in (None, "")))


def _named(name: object, about: object) -> str:
    """A name and a word about it. A name that would be changed here is left out: a command would not find it."""
    words = f"{name}, {about}"
    return words if name and about and safe_words(words) == words else _words(about)


def _agent(row: Mapping[str, Any]) -> None:
    _add(AGENTS, row.get("id"), _named(row.get("name"), row.get("status")))


def _wallet(row: Mapping[str, Any]) -> None:
    _add(WALLETS, row.get("id"), _named(row.get("label"), CHAIN_NAMES.get(row.get("chain_id", 0))))


def _trade(row: Mapping[str, Any]) -> None:
    _add(TRADES, row.get("id"), _words(row.get("token_symbol"), row.get("direction"), row.get("status")))
    _token(row)


def _token(row: Mapping[str, Any]) -> None:
    _add(TOKENS, row.get("token_symbol"), "")


def _tokens(row: Mapping[str, Any]) -> None:
    for token in row.get("tokens") or ():
        if isinstance(token, dict):
            _add(TOKENS, token.get("symbol"), _words(token.get("name")))


def _results(row: Mapping[str, Any]) -> None:
    for token in row.get("results") or ():
        if isinstance(token, dict):
            _add(TOKENS, token.get("symbol", token.get("tokenSymbol")), "")


_READERS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "AgentSummary": _agent,
    "Agent": _agent,
    "Wallet": _wallet,
    "Trade": _trade,
    "TradeDetail": _trade,
    "Position": _token,
    "Signal": _token,
    "SupportedTokens": _tokens,
    "TopPerformers": _tokens,
    "TokenResults": _results,
}


def note(model: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Takes down what is worth completing in `rows`, items in wire form; `model` is the name of their class."""
    reader = _READERS.get(model.partition("[")[0])
    if reader is not None:
        for row in rows:
            reader(row)


def note_payment(payment_id: str, about: str) -> None:
    """The same for a payment of the ledger."""
    _add(PAYMENTS, payment_id, _words(about))


def _add(kind: str, value: object, about: str) -> None:
    if not isinstance(value, str) or _SAFE.fullmatch(value) is None:
        return
    seen = _seen[kind]
    if value in seen or len(seen) < MOST:
        seen[value] = about or seen.get(value, "")


def forget(kind: str, value: str) -> None:
    """It was deleted, or the service does not know it."""
    _seen[kind].pop(value, None)
    _gone[kind].add(value)


def all_seen(*kinds: str) -> None:
    """What this command sees of these kinds is all there is: the rest is forgotten."""
    _whole.update(kinds)


def forget_all() -> None:
    """All of it was deleted: a mock that is empty again."""
    all_seen(*_KINDS)


def forget_pending() -> None:
    """Start over: nothing was seen yet."""
    for kind in _KINDS:
        _seen[kind].clear()
        _gone[kind].clear()
    _whole.clear()


def file_of(settings: Settings) -> Path:
    """The file for what `settings` talk to. Another service, key, profile or world has another one."""
    if settings.mock:
        name = f"mock-{settings.world}"
    else:
        from hashlib import sha256

        parts = (settings.base_url, settings.market_url, settings.profile, settings.api_key)
        name = sha256("\n".join(part or "" for part in parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return settings.data_folder() / "completion" / f"{name}.tsv"


def keep(settings: Settings) -> None:
    """Writes what was seen on top of what was there. Any failure is silent."""
    if any((*_seen.values(), *_gone.values(), _whole)):
        with suppress(OSError, ValueError, CliError):
            _write(file_of(settings))
    forget_pending()


def _write(path: Path) -> None:
    old = _read(path)
    new = {kind: _merged(kind, old.get(kind, {})) for kind in _KINDS}
    if new == (old or {kind: {} for kind in _KINDS}):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = [f"{kind}\t{value}\t{about}\n" for kind, seen in new.items() for value, about in seen.items()]
    atomic_write(path, "".join([f"{_HEAD}\n", *rows]), mode=0o600, sync=False)
    files = sorted(path.parent.glob("*.tsv"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
    for forgotten in files[MOST_FILES:]:
        forgotten.unlink(missing_ok=True)


def _merged(kind: str, old: dict[str, str]) -> dict[str, str]:
    seen, gone = _seen[kind], _gone[kind]
    old = {value: about for value, about in old.items() if value not in gone and (kind not in _whole or value in seen)}
    if seen.items() <= old.items():
        return old  # nothing new: its order is as good
    merged = seen | {value: about for value, about in old.items() if value not in seen}
    return dict(list(merged.items())[:MOST])


def read(settings: Settings, kind: str) -> dict[str, str]:
    """What there is of `kind`, each with a few words about it; empty when that is not known."""
    try:
        return _read(file_of(settings)).get(kind, {})
    except CliError:
        return {}


def _read(path: Path) -> dict[str, dict[str, str]]:
    """The file; what is not as it was written is left out, for it may have been written by anything."""
    try:
        with open(path, encoding="ascii", newline="\n") as stream:
            first, *lines = stream.read(_LARGEST).split("\n")
    except (OSError, ValueError):
        return {}
    found: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    for line in lines if first == _HEAD else ():
        kind, _, rest = line.partition("\t")
        value, _, about = rest.partition("\t")
        entries = found.get(kind)
        if entries is not None and len(entries) < MOST and _SAFE.fullmatch(value) and _SAFE_WORDS.fullmatch(about):
            entries[value] = about
    return found
