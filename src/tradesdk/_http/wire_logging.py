"""Logs whole requests and responses, for debugging. Secrets are replaced by `****`.

Off by default: turn it on with `logging.getLogger("tradesdk.wire").setLevel(logging.DEBUG)`. `tradesdk` at DEBUG is not
enough, because bodies are large and show what an account has and does. `record.wire` is a dictionary:

| `event` | other fields |
|---|---|
| `request` | `method`, `url`, `headers`, `body` (None: no body), `bytes` |
| `answer` | `method`, `url`, `status`, `headers`, `body` (None: a stream), `bytes`, `seconds` |
| `failure` | `method`, `url`, `problem`, `seconds` |

`headers` is a dictionary with lower-case names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .log_events import log, wire
from .settings import spellings

HIDDEN = "****"
LONGEST_BODY = 4 * 1024
"""The most bytes of a body in a log line."""

_NAMES = re.compile(r"auth|cookie|secret|token|api[-_]?key|signature|passw", re.IGNORECASE)
_HARMLESS = {"www-authenticate", "proxy-authenticate"}
_SIGNATURE = re.compile(r"(?<![0-9a-fA-F])(0[xX])?[0-9a-fA-F]{128}(?:[0-9a-fA-F]{2})?(?![0-9a-fA-F])")
_FIELD = re.compile(
    r'("(?:signature|sig|api_?key|secret|password|passphrase|private_?key|mnemonic|authorization|access_?token)"\s*:\s*")'
    r'(?:[^"\\]|\\.)*',
    re.IGNORECASE | re.DOTALL,
)


class LoggedExchange:
    """Logs one request and its result. None of this gets into error messages."""

    def __init__(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | None,
        monotonic: Callable[[], float],
        secrets: Iterable[str] = (),
    ) -> None:
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        self._monotonic, self._began = monotonic, monotonic()
        self._secrets = sorted({*_secrets_of(pairs), *secrets}, key=len, reverse=True)
        self._about = {"method": method, "url": self._without(url)}
        self._log("request", headers=self._redacted(pairs), **self._content(body))

    def answered(self, status: int, headers: Mapping[str, str], content: bytes | None) -> None:
        pairs = self._redacted(headers.items())
        self._log("answer", status=status, headers=pairs, **self._content(content), seconds=self._seconds())

    def failed(self, problem: str) -> None:
        self._log("failure", problem=self._without(problem), seconds=self._seconds())

    def _seconds(self) -> float:
        return round(self._monotonic() - self._began, 6)

    def _redacted(self, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in pairs:
            name = name.lower()
            text = HIDDEN if is_secret(name) else self._without(value)
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        return headers

    def _content(self, content: bytes | None) -> dict[str, Any]:
        if content is None:
            return {"body": None, "bytes": 0}
        return {"body": self._without(content.decode("utf-8", "replace")), "bytes": len(content)}

    def _without(self, text: str) -> str:
        return redacted(text, self._secrets)

    def _log(self, event: str, **fields: Any) -> None:
        record = {"event": event, **self._about, **fields}
        log(wire, logging.DEBUG, "%s", _text(record), {"wire": record})


def _text(record: Mapping[str, Any]) -> str:
    where = f"{record['method']} {record['url']}"
    if record["event"] == "failure":
        return f"{where}: {record['problem']} (after {record['seconds'] * 1000:.0f} ms)"
    if record["event"] == "answer":
        where += f": {record['status']} in {record['seconds'] * 1000:.0f} ms"
    lines = [where, *(f"{name}: {value}" for name, value in record["headers"].items())]
    return "\n".join([*lines, "", cut(record["body"])] if record["body"] else lines)


def cut(body: str, most: int = LONGEST_BODY) -> str:
    """The first `most` bytes of `body`, and how many more there are."""
    content = body.encode("utf-8", "replace")
    if len(content) <= most:
        return body
    start = content[:most].decode("utf-8", "ignore")
    return f"{start}… ({len(content) - len(start.encode()):,} more bytes)"


def is_secret(name: str) -> bool:
    return name.lower() not in _HARMLESS and _NAMES.search(name) is not None


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` with `secrets` replaced by `****`, also in their JSON and URL forms.

    Also replaced: signatures of 64 or 65 bytes in hexadecimal, and values of JSON fields such as `signature`. Secrets
    of fewer than 8 characters are not replaced: they may be part of a word.
    """
    text = _FIELD.sub(rf"\g<1>{HIDDEN}", text)
    text = _SIGNATURE.sub(rf"\g<1>{HIDDEN}", text)
    forms = [form for secret in secrets for form in spellings(secret) if form not in HIDDEN]
    while found := [form for form in forms if form in text]:  # repeated: a replacement may complete another secret
        for form in found:
            text = text.replace(form, HIDDEN)
    return text


def _secrets_of(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """The values of secret headers, their words (such as KEY in `Bearer KEY`), and the values of cookies."""
    found = set()
    for name, value in pairs:
        if is_secret(name):
            found |= {value, *value.split(), *(part.partition("=")[2].strip() for part in value.split(";"))}
    return found
