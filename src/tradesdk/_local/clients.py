"""The settings that a client takes from a profile, named by `profile=` or TRADE_PROFILE."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from .._http.log_events import event
from .._http.settings import check_api_key
from .._values.frames import hides_locals
from ..errors import ConfigError
from .files import invalid_profile
from .folders import config_folder
from .keys import KeyStore
from .origins import host_of, origin_of
from .profiles import Profiles

Key: TypeAlias = "str | Callable[[], str] | None"


@hides_locals
def with_profile(
    profile: str | None, base_url: str | None, api_key: Key, *, of_client: str, market: bool, keyed: bool
) -> tuple[str | None, Key]:
    """Base URL and API key; the profile gives those that neither an argument nor another variable gives.

    A profile named by TRADE_PROFILE is read only if something is missing; one named by the argument is always read.
    `of_client`: the base URL of the HTTP client, which comes last; may be empty. `market`: the URL is for market data.
    `keyed`: the client needs a key.
    """
    urls = ("TRADE_MARKET_BASE_URL", "TRADE_BASE_URL") if market else ("TRADE_BASE_URL",)
    url_from = "base_url=" if base_url is not None else _first_set(*urls)
    key_from = "api_key=" if api_key is not None else _first_set("TRADE_API_KEY")
    if profile is None and url_from and (key_from or not keyed):
        return base_url, api_key
    name = os.environ["TRADE_PROFILE"].strip() if profile is None else profile
    home = os.environ.get("TRADE_HOME")
    folder = config_folder(home)
    table = Profiles.read(folder).named(name)
    if table.get("kind") == "mock":
        raise invalid_profile(
            f"profile {name} is a mock world, which only trade itself opens",
            "name the profile of a service; programs use a mock by tradesdk_mock.MockServer",
        )
    own = {which: _address(table, which, name) for which in ("base_url", "market_url") if which in table}
    if not url_from:
        base_url = (own.get("market_url") if market else None) or own.get("base_url")
        if base_url is None and not of_client:
            raise invalid_profile(
                f"profile {name} has no base URL", f"set it: trade config set base_url URL --profile {name}"
            )
    elif profile is not None and url_from.startswith("TRADE_"):
        _log_override(url_from, name)
    if not keyed:
        return base_url, api_key
    if key_from:
        if profile is not None and key_from.startswith("TRADE_"):
            _log_override(key_from, name)
        return base_url, api_key
    url = base_url or os.environ.get(url_from, "").strip() or of_client
    if origin_of(url) not in map(origin_of, own.values()):
        raise _elsewhere(name, list(own.values()), url, url_from)
    if "key" not in table:
        raise invalid_profile(
            f"profile {name} has no saved API key", f"save one: trade login --profile {name}; or set TRADE_API_KEY"
        )
    key = KeyStore(folder, folder if home else None).read(name, str(table["key"]))
    try:
        return base_url, check_api_key(key)
    except ConfigError as error:
        problem, hint = f"profile {name}: {error.message}", f"save it again: trade login --profile {name}"
    raise ConfigError(problem, code="invalid_api_key", hint=hint)  # outside of the handler, whose frames show the key


def saved_profiles() -> list[str]:
    """The names of profiles that a client can use."""
    with suppress(ConfigError, OSError):  # the commands that need the file report what is wrong with it
        found = Profiles.read(config_folder(os.environ.get("TRADE_HOME"))).tables
        return sorted(name for name, table in found.items() if table.get("kind") != "mock")
    return []


def _first_set(*variables: str) -> str:
    return next((name for name in variables if os.environ.get(name, "").strip()), "")


def _address(table: Mapping[str, Any], which: str, name: str) -> str:
    found = table[which]
    if not isinstance(found, str) or not found.strip():
        raise invalid_profile(
            f"{which} of profile {name} is not an address, such as https://api.example.com",
            f"correct it: trade config set {which} URL --profile {name}",
        )
    return found.strip()


def _elsewhere(name: str, own: list[str], url: str, url_from: str) -> ConfigError:
    hosts = " and ".join(dict.fromkeys(map(host_of, own)))
    meant = f"it is for {hosts}" if hosts else "the profile names no address"
    hint = (
        f"leave {url_from or 'its base_url'} out"
        if hosts
        else f"save it with its address: trade login --profile {name}"
    )
    if hosts and url_from.startswith("TRADE_"):
        hint = f"unset {url_from}"
    return invalid_profile(
        f"the key of profile {name} is not sent to {host_of(url)}, which {url_from or 'http_client='} names: {meant}",
        f"{hint}; or pass the key for that address as api_key=",
    )


def _log_override(variable: str, name: str) -> None:
    text = "%(variable)s is used instead of what profile %(profile)s says"
    event("profile_overridden", text, variable=variable, profile=name)
