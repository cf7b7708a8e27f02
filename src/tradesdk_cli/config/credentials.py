"""Which API key goes to an address. A key that a profile keeps goes only where that profile says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tradesdk_cli.config.entries import PROJECT_FILE
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk_cli.config.settings import Kept, Settings
    from tradesdk_cli.output.printer import Output

MOCK_KEYS = ("mock_", "mocksk_")
"""How keys of a mock begin."""


def mock_key(settings: Settings, out: Output) -> tuple[str, str]:
    """The key for the embedded mock, and where it came from.

    A key for the real service has no business there; one for a mock chooses scope, plan and tenant.
    """
    from tradesdk_cli.mockworld import KEY

    given = settings.api_key
    if given is not None and given.startswith(MOCK_KEYS):
        return given, "TRADE_API_KEY"
    if given is not None:
        out.note(f"TRADE_API_KEY is not a key of the mock: {KEY} is used instead")
    return KEY, "the mock"


def service_key(settings: Settings, address: str, *, market: bool = False) -> tuple[str, str] | None:
    """The key for the service at `address`, and where it came from; None when there is none.

    Raises:
        ConfigProblem: there is one, and it is for another address, or cannot be read.
    """
    if settings.api_key is not None:
        _refuse_project(settings, address, settings.sources.get("market_url" if market else "base_url", ""))
        return settings.api_key, "TRADE_API_KEY"
    kept = settings.kept
    if kept is None:
        return None
    if origin_of(address) not in {origin_of(own) for own in kept.addresses}:
        raise _elsewhere(kept, address, settings.sources.get("market_url" if market else "base_url", ""))
    from tradesdk_cli.config.keptkeys import kept_key, place_of

    place = place_of(settings, kept.profile, kept.place)
    found = kept_key(settings, kept.profile, kept.place)
    if found is None:
        raise ConfigProblem(
            f"profile {kept.profile} keeps its key in {place}, and there is none",
            f"keep it anew: trade login --profile {kept.profile}",
        )
    return found, f"profile {kept.profile} ({place})"


def refuse_http(address: str, settings: str, what: str, travels: str) -> None:
    """The clients refuse plain http as well, but in the words of their own arguments; here it is `settings` to correct.

    Raises:
        ConfigProblem: `travels` would travel in the open.
    """
    try:
        parts = urlsplit(address.strip())
        host = parts.hostname or ""
    except ValueError:
        return  # the client says what is wrong with it
    if parts.scheme == "http" and host and not is_loopback(host):
        shown = one_line(host, 120)
        raise ConfigProblem(
            f"{what} is not https: {travels} would travel to {shown} in the open",
            f"use https://{shown} in {settings}; http is for this machine only",
        )


def key_from_stdin() -> str:
    """The first line of standard input.

    Raises:
        UsageProblem: that is a terminal, which would show it.
        ConfigProblem: it is empty.
    """
    if sys.stdin.isatty():
        raise UsageProblem(
            "--api-key-stdin reads from a pipe, not from a terminal", "for example: pass show trade | trade …"
        )
    key = sys.stdin.readline().strip()
    if not key:
        raise ConfigProblem("standard input held no API key", "its first line is the key")
    return key


def origin_of(address: str) -> tuple[str, int | None] | str:
    """Host and port; an address that cannot be read is itself."""
    try:
        parts = urlsplit(address.strip())
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
        return (parts.hostname or "", port)
    except ValueError:
        return address


def host_of(address: str) -> str:
    """The host with its port, for people: without a user or password that somebody may have written into it."""
    try:
        parts = urlsplit(address.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    shown = f"[{host}]" if ":" in host else host
    return one_line(f"{shown}:{port}" if port else shown, 120) or "an address that cannot be read"


def without_password(address: str) -> str:
    """The address as it may be shown."""
    head, at, tail = address.rpartition("@")
    return one_line(f"{head.partition('://')[0]}://…@{tail}" if at and "://" in head else address, 200)


def _refuse_project(settings: Settings, address: str, source: str) -> None:
    """A project names a profile; the key of the environment does not go to that one's address for that alone.

    Raises:
        ConfigProblem: it would, and the usual profile is for another address.
    """
    if not settings.sources.get("profile", "").startswith(PROJECT_FILE) or not source.startswith("profile "):
        return
    files = settings.files
    usual = files.profiles.get(files.default_profile or "", {})
    if origin_of(address) in {origin_of(str(usual[field])) for field in ("base_url", "market_url") if field in usual}:
        return
    name, to = settings.profile, host_of(address)
    raise ConfigProblem(
        f"TRADE_API_KEY is not sent to {to} only because {PROJECT_FILE} says profile {name}",
        f"if it is for {to}: --profile {name} (or TRADE_PROFILE={name}); else unset TRADE_API_KEY",
    )


def _elsewhere(kept: Kept, address: str, source: str) -> ConfigProblem:
    own = " and ".join(dict.fromkeys(host_of(one) for one in kept.addresses))
    said = source.removeprefix("flag ") or "another setting"
    meant = f"the key is for {own}" if own else "the profile names no address of its own"
    way = f"leave {said} out" if source.startswith("flag") else f"unset {said}"
    if not own:
        way = f"trade config set base_url URL --profile {kept.profile}"
    return ConfigProblem(
        f"the key of profile {kept.profile} is not sent to {host_of(address)}, which {said} names: {meant}",
        f"{way}, or bring the key for that address: TRADE_API_KEY or --api-key-stdin",
    )
