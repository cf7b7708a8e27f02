"""A key as `$(cat key.txt)` gives it: what an editor or a shell added is no part of it."""

from __future__ import annotations

import json

import pytest

from tradesdk import ConfigError, TradeClient

from .._answers import ACCOUNT, KEY
from .._hostile import always, answer, hostile
from .._rows import each_of

TAKEN = {
    "nothing added": "{}",
    "a line break of Windows": "{}\r\n",
    "a byte order mark": "\ufeff{}",
    "its bytes in a Latin locale": "\u00ef\u00bb\u00bf{}",
    "its bytes in the C locale": "\udcef\udcbb\udcbf{}",
    "double quotes": '"{}"',
    "single quotes": "'{}'",
    "a word processor's quotes": "\u201c{}\u201d",
    "all of them": " \ufeff'{}'\r\n",
}  # fmt: skip


@each_of("added", TAKEN.values(), ids=TAKEN)
@each_of("way", ["variable", "argument", "function"])
def test_taken_without_what_was_added(monkeypatch: pytest.MonkeyPatch, way: str, added: str) -> None:
    text = added.replace("{}", KEY)
    if way == "variable":
        monkeypatch.setenv("TRADE_API_KEY", text)
    given = {"variable": None, "argument": text, "function": lambda: text}[way]
    with hostile(always(answer(json.dumps(ACCOUNT).encode()))) as service:
        with TradeClient(api_key=given, base_url=service.url) as client:
            client.account.get()
        _, _, headers = service.visits[0].request
        assert headers["authorization"] == f"Bearer {KEY}"


@each_of(
    ("text", "reason"),
    [
        *((text, "is empty") for text in ("", " \r\n", "\ufeff", "''", '"\r\n"')),
        *((text, "a quote") for text in (f"'{KEY}", f'{KEY}"')),
        *((text, "a space, a line break") for text in (f"{KEY}\n{KEY}", f"{KEY}\u201d", f"key {KEY}")),
    ],
)
def test_refused_without_showing_it(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        TradeClient(api_key=text, base_url="http://127.0.0.1:9")
    assert caught.value.code == "invalid_api_key"
    assert KEY not in str(caught.value)
