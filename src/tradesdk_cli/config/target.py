"""Where a write or a payment goes, for whoever is about to allow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tradesdk_cli.config.credentials import host_of
from tradesdk_cli.config.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.config.settings import Settings


@dataclass(frozen=True)
class Target:
    """Where something is sent.

    Attributes:
        text: for people: `mock world default`, `profile work · api.example.com · live`.
        fields: for programs: `mode` is `mock` (in this process), `local` (a server on this machine) or `live`;
            with it `world` of a mock, otherwise `host` and, if there is one, `profile`.
    """

    text: str
    fields: dict[str, Any]


def target_of(settings: Settings, *, market: bool = False) -> Target:
    """Where requests go with these settings; `market`: those that buy market data."""
    if settings.mock:
        return Target(f"mock world {settings.world}", {"mode": "mock", "world": settings.world})
    url = settings.market_url if market else settings.base_url
    host, mode = (host_of(url), _mode_at(url)) if url else (None, "live")
    parts = [host or "no address", "this machine" if mode == "local" else "live"]
    fields: dict[str, Any] = {"mode": mode, "host": host}
    if settings.profile:
        parts.insert(0, f"profile {settings.profile}")
        fields["profile"] = settings.profile
    return Target(" · ".join(parts), fields)


def mode_of(table: Mapping[str, Any]) -> str:
    """What commands with this profile are sent to: the `mode` of a `Target`."""
    kind, address = table.get("kind", "live"), table.get("base_url")
    return _mode_at(address) if kind == "live" and isinstance(address, str) else kind


def _mode_at(url: str) -> str:
    try:
        here = is_loopback(urlsplit(url.strip()).hostname or "")
    except ValueError:
        here = False
    return "local" if here else "live"
