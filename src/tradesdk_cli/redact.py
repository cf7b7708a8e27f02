"""The only list of secrets: they may be sent, but are never shown or logged."""

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
_SETTING = ("token", "key_value")
_OPTION = ("token", "key")


def is_secret_field(name: str) -> bool:
    """Whether the field of this name, dotted or not, has a secret. Not a token, which is traded."""
    return _NAME.fullmatch(name.rpartition(".")[2].replace("-", "_")) is not None


def is_secret_setting(name: str) -> bool:
    """Whether a setting of this name is a key or a password."""
    return is_secret_field(name) or name.lower().replace("-", "_") in _SETTING


def is_secret_option(word: str) -> bool:
    """Whether the option, `--api-key` or `--api-key=…`, would show a secret to all users of the machine."""
    name = word.partition("=")[0]
    return name.startswith("--") and (is_secret_field(name[2:]) or name[2:] in _OPTION)


def without_secrets(value: Any, name: str = "") -> Any:
    """`value` of the field `name`, without secrets at any depth."""
    if value is not None and is_secret_field(name):
        return HIDDEN
    if isinstance(value, dict):
        return {inner: without_secrets(item, str(inner)) for inner, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value


PRIVATE_KEY = re.compile(r"[0-9A-Za-z]{48,}")
"""A private key, perhaps mistyped: longer than any address or id."""
API_KEY = re.compile(r"(?:mock|mocksk|sk|pk|ak|key|api|live)[_-]\S+", re.IGNORECASE)
"""A word that may be an API key instead of a command."""
_MADE_KEY = re.compile(r"mocksk_\w+")
_IN_URL = re.compile(r"(?<=://)(?:[^\s@]*:[^\s@]*@|[^\s/@:]*:(?!\d{1,5}(?![^/?#'\",;)\s]))[^\s'\"]*)")
"""User and password of a URL, even if it is cut before the host."""
_IN_QUERY = re.compile(r"(?<=[?&]password=)[^&\s'\"]+", re.IGNORECASE)
_KEY_AS_NAME = re.compile(r"(?:sk|pk|mocksk|bearer)[_ -]", re.IGNORECASE)
_LONG_NAME = 20


def safe(text: str) -> str:
    """Typed text on one line, without keys and passwords of URLs."""
    return PRIVATE_KEY.sub("****", _IN_QUERY.sub("****", _IN_URL.sub("****@", one_line(text))))


def without_made_keys(text: str) -> str:
    """A response of a mock's control routes, without the values of created keys."""
    return _MADE_KEY.sub("****", text)


def looks_secret(name: str) -> bool:
    """Whether a word instead of a name, unlike `live-eu`, may be a key that must not be shown."""
    return _KEY_AS_NAME.match(name) is not None or (len(name) >= _LONG_NAME and any(map(str.isdigit, name)))
