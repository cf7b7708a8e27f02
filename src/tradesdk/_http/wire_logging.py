"""Requests and answers as they travel, for whoever looks for a fault; secrets are left out.

Off unless it is asked for: `logging.getLogger("tradesdk.wire").setLevel(logging.DEBUG)`. It is not enough that
`tradesdk` logs at DEBUG: bodies are large, and hold what an account has and does. Every record has what it says as a
dictionary as well, in `record.wire`:

| `event` | other fields |
|---|---|
| `request` | `method`, `url`, `headers`, `body` (None: there is none), `bytes` |
| `answer` | `method`, `url`, `status`, `headers`, `body` (None: a stream, which goes on), `bytes`, `seconds` |
| `failure` | `method`, `url`, `problem`, `seconds` |

`headers` is a dictionary of lower-case names. Where a secret was, there is `****`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

wire = logging.getLogger("tradesdk.wire")

HIDDEN = "****"
LONGEST_BODY = 4 * 1024
"""Bytes of a body that a log line shows."""

_SHORTEST = 8  # shorter ones are part of any word
_NAMES = re.compile(r"auth|cookie|secret|token|api[-_]?key|signature|passw|^x-payment$", re.IGNORECASE)
_HARMLESS = {"www-authenticate", "proxy-authenticate"}
_SIGNATURE = re.compile(r"(?<![0-9a-fA-F])(0[xX])?[0-9a-fA-F]{128}(?:[0-9a-fA-F]{2})?(?![0-9a-fA-F])")
_FIELD = re.compile(
    r'("(?:signature|sig|api_?key|secret|password|passphrase|private_?key|mnemonic|authorization|access_?token)"\s*:\s*")'
    r'(?:[^"\\]|\\.)*',
    re.IGNORECASE | re.DOTALL,
)


class LoggedExchange:
    """One request and what came of it, in the log. Nothing of it is ever put into a message of an error."""

    def __init__(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | None,
        monotonic: Callable[[], float],
    ) -> None:
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        self._monotonic, self._began = monotonic, monotonic()
        self._secrets = sorted(_secrets_of(pairs), key=len, reverse=True)
        self._about = {"method": method, "url": self._without(url)}
        self._log("request", headers=self._shown(pairs), **self._content(body))

    def answered(self, status: int, headers: Mapping[str, str], content: bytes | None) -> None:
        """The answer has come; `content` None is that of a stream."""
        shown = self._shown(headers.items())
        self._log("answer", status=status, headers=shown, **self._content(content), seconds=self._seconds())

    def failed(self, problem: str) -> None:
        """There is no answer."""
        self._log("failure", problem=self._without(problem), seconds=self._seconds())

    def _seconds(self) -> float:
        return round(self._monotonic() - self._began, 6)

    def _shown(self, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        shown: dict[str, str] = {}
        for name, value in pairs:
            name = name.lower()
            said = HIDDEN if is_secret(name) else self._without(value)
            shown[name] = f"{shown[name]}, {said}" if name in shown else said
        return shown

    def _content(self, content: bytes | None) -> dict[str, Any]:
        if content is None:
            return {"body": None, "bytes": 0}
        return {"body": self._without(content.decode("utf-8", "replace")), "bytes": len(content)}

    def _without(self, text: str) -> str:
        return redacted(text, self._secrets)

    def _log(self, event: str, **fields: Any) -> None:
        said = {"event": event, **self._about, **fields}
        wire.debug("%s", _Text(said), extra={"wire": said})


class _Text:
    """The same for people, made when a handler wants it."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said

    def __str__(self) -> str:
        said = self._said
        where = f"{said['method']} {said['url']}"
        if said["event"] == "failure":
            return f"{where}: {said['problem']} (after {said['seconds'] * 1000:.0f} ms)"
        if said["event"] == "answer":
            where += f": {said['status']} in {said['seconds'] * 1000:.0f} ms"
        lines = [where, *(f"{name}: {value}" for name, value in said["headers"].items())]
        if said["body"]:
            lines += ["", cut(said["body"])]
        return "\n".join(lines)


def cut(body: str, most: int = LONGEST_BODY) -> str:
    """`body`, at most `most` bytes of it, and how many there are more."""
    content = body.encode("utf-8", "replace")
    if len(content) <= most:
        return body
    shown = content[:most].decode("utf-8", "ignore")
    return f"{shown}… ({len(content) - len(shown.encode()):,} more bytes)"


def is_secret(name: str) -> bool:
    """Whether the value of a header of this name is nobody's business."""
    return name.lower() not in _HARMLESS and _NAMES.search(name) is not None


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` without `secrets`, as they are or as JSON and URLs write them, and without what is one by its looks.

    That is a signature of 64 or 65 bytes in hexadecimal, and the value of a field of JSON such as `signature`. A secret
    of fewer than 8 characters is part of any word and is left.
    """
    text = _FIELD.sub(rf"\g<1>{HIDDEN}", text)
    text = _SIGNATURE.sub(rf"\g<1>{HIDDEN}", text)
    looked = [form for secret in secrets for form in _forms(secret)]
    while found := [form for form in looked if form in text]:  # again: what is left may have grown together
        for form in found:
            text = text.replace(form, HIDDEN)
    return text


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < _SHORTEST:
        return
    for form in (secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/"), quote(secret, safe="")):
        if form not in HIDDEN:
            yield form


def _secrets_of(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """The values of the headers that are secret; of `Bearer KEY` the key, of cookies each value."""
    found = set()
    for name, value in pairs:
        if is_secret(name):
            found |= {value, *value.split(), *(part.partition("=")[2].strip() for part in value.split(";"))}
    return found
