"""The API key for an address. A saved key is sent only to the addresses of its profile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from tradesdk.local import KeyStore, host_of, origin_of, remove_parts
from tradesdk_cli.config.entries import PROJECT_FILE
from tradesdk_cli.config.settings import Settings, is_loopback
from tradesdk_cli.errors import ConfigProblem
from tradesdk_cli.files import atomic_write, file_errors
from tradesdk_cli.text import one_line


def key_store(settings: Settings) -> KeyStore:
    """The store of the profiles' keys."""
    return KeyStore(settings.config_folder(), settings.home)


def save_key(settings: Settings, profile: str, kind: str, key: str) -> None:
    """Saves a key, replacing an earlier one."""
    store = key_store(settings)
    if kind == "keyring":
        with store.keyring() as ring:
            ring.set_password(*store.account(profile), key)
        return
    path = store.file(profile)
    hint = "TRADE_HOME chooses another folder; to use the key unsaved: export TRADE_API_KEY"
    with file_errors(ConfigProblem, f"the key was not saved: cannot write {path}", hint):
        path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        remove_parts(str(store.folder))
        atomic_write(path, key + "\n", mode=0o600)


def remove_key(settings: Settings, profile: str, kind: str) -> bool:
    """Removes a key; True when there was one."""
    store = key_store(settings)
    if kind == "keyring":
        with store.keyring() as ring:
            if ring.get_password(*store.account(profile)) is None:
                return False
            ring.delete_password(*store.account(profile))
        return True
    path = store.file(profile)
    with file_errors(ConfigProblem, f"cannot remove {path}", f"rm {shlex.quote(str(path))}"):
        try:
            path.unlink()  # removes a link, not its target
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def service_key(settings: Settings, address: str, *, market: bool = False) -> tuple[str, str] | None:
    """The key for the service at `address`, and its source; None when there is none."""
    if settings.api_key is not None:
        _refuse_project(settings, address, settings.sources.get("market_url" if market else "base_url", ""))
        return settings.api_key, "TRADE_API_KEY"
    name, kept = settings.profile, settings.table.get("key")
    if name is None or kept is None:
        return None
    own = addresses_of(settings.table)
    if origin_of(address) not in map(origin_of, own):
        raise _elsewhere(name, own, address, settings.sources.get("market_url" if market else "base_url", ""))
    store = key_store(settings)
    if kept == "file":
        remove_parts(str(store.folder))
    return store.read(name, kept), f"profile {name} ({store.where(name, kept)})"


def addresses_of(table: Mapping[str, Any]) -> list[str]:
    """The addresses of a profile, to which its key may be sent."""
    return [str(table[name]) for name in ("base_url", "market_url") if name in table]


def refuse_http(address: str, settings: str, what: str, travels: str) -> None:
    """Refuses plain http, as the clients do, but with a hint that names our `settings` instead of their arguments."""
    origin = origin_of(address)
    if address.strip().startswith("http://") and isinstance(origin, tuple) and not is_loopback(origin[0]):
        raise ConfigProblem(
            f"{what} is not https: {travels} would be sent to {one_line(origin[0], 120)} unencrypted",
            f"use https in {settings}; http is for this machine only",
        )


def without_password(address: str) -> str:
    """The address without secrets, for people."""
    head, at, tail = address.rpartition("@")
    return one_line(f"{head.partition('://')[0]}://…@{tail}" if at and "://" in head else address, 200)


def _refuse_project(settings: Settings, address: str, source: str) -> None:
    """Refuses to send the environment's key to the address of a profile that only a project file chose."""
    if not settings.sources.get("profile", "").startswith(PROJECT_FILE) or not source.startswith("profile "):
        return
    usual = settings.saved.tables.get(settings.saved.default or "", {})
    if origin_of(address) in map(origin_of, addresses_of(usual)):
        return
    name, to = settings.profile, host_of(address)
    raise ConfigProblem(
        f"TRADE_API_KEY is not sent to {to} only because {PROJECT_FILE} says profile {name}",
        f"if it is for {to}: --profile {name} (or TRADE_PROFILE={name}); else unset TRADE_API_KEY",
    )


def _elsewhere(profile: str, addresses: list[str], address: str, source: str) -> ConfigProblem:
    own = " and ".join(dict.fromkeys(map(host_of, addresses)))
    setting = source.removeprefix("flag ") or "another setting"
    meant = f"the key is for {own}" if own else "the profile names no address of its own"
    way = f"leave {setting} out" if source.startswith("flag") else f"unset {setting}"
    if not own:
        way = f"trade config set base_url URL --profile {profile}"
    return ConfigProblem(
        f"the key of profile {profile} is not sent to {host_of(address)}, which {setting} names: {meant}",
        f"{way}, or set the key for that address: TRADE_API_KEY",
    )
