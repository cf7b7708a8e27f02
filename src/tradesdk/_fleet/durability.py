"""Whether the settings of a fleet's server let it lose what it has answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}
"""Without these, a write that was answered may be lost, or removed later."""
ASK_SETTINGS: tuple[tuple[str, ...], ...] = (("CONFIG", "GET", "*append*"), ("CONFIG", "GET", "maxmemory-policy"))


def settings_of(replies: Sequence[Any]) -> dict[str, str] | None:
    """The settings in the replies to `ASK_SETTINGS`; None: the server does not tell them."""
    found: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, Exception) or not isinstance(reply, list):
            return None
        texts = [bytes(value).decode("utf-8", "replace") for value in reply]
        found |= zip(texts[::2], texts[1::2], strict=True)
    return found


def not_durable(settings: dict[str, str]) -> str:
    """Which settings can lose money, or an empty text."""
    wrong = [
        f"{name} is {settings.get(name, 'missing')}, not {value}"
        for name, value in SETTINGS.items()
        if settings.get(name) != value
    ]
    return "; ".join(wrong)
