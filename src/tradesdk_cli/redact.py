"""What is a secret: it may be sent, but is not shown on a screen or in a log. The only list of names of secrets."""

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
    """Whether the field of this name, dotted or not, holds a secret. A token is none: that is what is traded."""
    return _NAME.fullmatch(name.rpartition(".")[2].replace("-", "_")) is not None


def is_secret_setting(name: str) -> bool:
    """Whether a setting of this name would be a key or a password."""
    return is_secret_field(name) or name.lower().replace("-", "_") in _SETTING


def is_secret_option(word: str) -> bool:
    """Whether the value of this option, `--api-key` or `--api-key=…`, would show a secret to all on the machine."""
    name = word.partition("=")[0]
    return name.startswith("--") and (is_secret_field(name[2:]) or name[2:] in _OPTION)


def without_secrets(value: Any, name: str = "") -> Any:
    """`value`, the field `name` of something, as it may be shown: secrets in it, at any depth, are left out."""
    if value is not None and is_secret_field(name):
        return HIDDEN
    if isinstance(value, dict):
        return {inner: without_secrets(item, str(inner)) for inner, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value


PRIVATE_KEY = re.compile(r"[0-9A-Za-z]{48,}")
"""A private key, perhaps a mistyped one: no address and no id is as long."""
API_KEY = re.compile(r"(?:mock|mocksk|sk|pk|ak|key|api|live)[_-]\S+", re.IGNORECASE)
"""A word that may be an API key, where a word of a command belongs."""
_MADE_KEY = re.compile(r"mocksk_\w+")
_IN_URL = re.compile(r"(?<=://)(?:[^\s@]*:[^\s@]*@|[^\s/@:]*:(?!\d{1,5}(?![^/?#'\",;)\s]))[^\s'\"]*)")
"""User and password of a URL, also of one that was cut off before its host."""
_IN_QUERY = re.compile(r"(?<=[?&]password=)[^&\s'\"]+", re.IGNORECASE)
_KEY_AS_NAME = re.compile(r"(?:sk|pk|mocksk|bearer)[_ -]", re.IGNORECASE)
_LONG_NAME = 20


def safe(text: str) -> str:
    """What somebody typed, on one line, without keys and without passwords of URLs."""
    return PRIVATE_KEY.sub("****", _IN_QUERY.sub("****", _IN_URL.sub("****@", one_line(text))))


def without_made_keys(text: str) -> str:
    """What a mock's control routes answer, without the values of keys that the mock has made."""
    return _MADE_KEY.sub("****", text)


def looks_secret(name: str) -> bool:
    """Whether what stands where a name belongs, such as `live-eu`, may be a key: it is not repeated then."""
    return _KEY_AS_NAME.match(name) is not None or (len(name) >= _LONG_NAME and any(map(str.isdigit, name)))
