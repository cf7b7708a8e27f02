"""What is a secret: it may be sent, but is not shown on a screen or in a log."""

from __future__ import annotations

import re

from tradesdk_cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HIDDEN = "(not shown)"
_NAME = re.compile(
    r"(?:\w+_)?(?:private_?key|secret_?key|api_?key|wallet_?key|password|passphrase|secret|signature|mnemonic"
    r"|seed_?phrase|authorization|access_?token)",
    re.IGNORECASE,
)


def is_unspoken(name: str) -> bool:
    """Whether the field of this name, dotted or not, holds a secret."""
    return _NAME.fullmatch(name.rpartition(".")[2].replace("-", "_")) is not None


def spoken(value: Any, name: str = "") -> Any:
    """`value`, the field `name` of something, as it may be said: secrets in it, at any depth, are left out."""
    if value is not None and is_unspoken(name):
        return HIDDEN
    if isinstance(value, dict):
        return {inner: spoken(item, str(inner)) for inner, item in value.items()}
    if isinstance(value, list):
        return [spoken(item) for item in value]
    return value


PRIVATE_KEY = re.compile(r"[0-9A-Za-z]{48,}")
"""A private key, perhaps a mistyped one: no address and no id is as long."""


def safe(text: str) -> str:
    """What somebody typed, on one line; a key that was typed where it does not belong need not be repeated."""
    return PRIVATE_KEY.sub("****", one_line(text))


_API_KEY = re.compile(r"(?:sk|pk|mocksk|bearer)[_ -]", re.IGNORECASE)
_LONG_NAME = 20


def looks_secret(name: str) -> bool:
    """Whether what stands where a name belongs may be a key: it is not repeated then."""
    return _API_KEY.match(name) is not None or (len(name) >= _LONG_NAME and any(letter.isdigit() for letter in name))
