"""What can be seen of a value or an error, collected so that it can be searched; and services that fail."""

from __future__ import annotations

import base64
import json
import pickle
import socket
import ssl
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer

from ._clock import VirtualClock
from .cli._terminal import Terminal

HERE = Path(__file__).parent
# Nothing here speaks TLS; a bare context saves every client from loading the certificate store.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
WALLET_KEY = "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf7e5f4552091a69125d5dfcb7"


def marks(api_key: str) -> list[str]:
    """What to look for: both secrets as they are, and in the shapes that they take on their way."""
    raw = bytes.fromhex(WALLET_KEY[2:])
    return [
        api_key,
        api_key[6:-4],  # the last four may be told
        api_key.encode().hex(),
        base64.b64encode(api_key.encode()).decode()[:-6],
        WALLET_KEY[2:],
        WALLET_KEY[2:].upper(),
        str(int(WALLET_KEY, 16)),
        base64.b64encode(raw).decode()[:-4],
        repr(raw)[2:-1],
        ", ".join(map(str, raw[:8])),
    ]


def shown(value: Any) -> str:
    """``repr``, also of what is only half made when an error leaves it."""
    try:
        return repr(value)
    except Exception as error:  # the object's own affair
        return f"<{type(error).__name__}>"


class Seen:
    """Takes in values and errors, and everything that is to be seen of them."""

    def __init__(self, api_key: str) -> None:
        self.api_key = api_key
        self.secrets: list[str] = []
        """What must not be shown either, and is only known once a scenario runs."""
        self.text: list[str] = []
        self.errors = 0

    def found(self) -> list[str]:
        """The places where a secret stands."""
        texts = list(dict.fromkeys(self.text))
        whole = "\n".join(texts)  # searched at once: there are thousands of texts, and seldom a secret
        hidden = [mark for mark in (*marks(self.api_key), *self.secrets) if mark in whole]
        return [text[:2_000] for text in texts if any(mark in text for mark in hidden)]

    def __call__(self, value: Any) -> Any:
        self.text += [repr(value), str(value), f"{value}", ascii(value), repr([value])]
        for protocol in (0, pickle.HIGHEST_PROTOCOL):
            try:
                pickled = pickle.dumps(value, protocol)
            except Exception as refused:  # whatever the reason, it must not tell
                self.text.append(repr(refused))
            else:
                self.text += [pickled.decode("latin-1"), repr(pickled)]
        for inner in (getattr(value, "__dict__", {}), getattr(value, "args", ())):
            self.text.append(repr(inner))
        return value

    def error(self, error: BaseException) -> None:
        """An error, its causes and its traceback, with the locals that pytest and rich would print.

        Frames of the tests are left out: they hold the secrets themselves.
        """
        self.errors += 1
        self.text += traceback.format_exception(error)
        linked: BaseException | None = error
        while linked is not None:
            self(linked)
            for frame, _ in traceback.walk_tb(linked.__traceback__):
                if not Path(frame.f_code.co_filename).is_relative_to(HERE):
                    where = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
                    self.text += [f"{where} {name} = {shown(value)}" for name, value in frame.f_locals.items()]
            linked = linked.__cause__ or linked.__context__

    def raises(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """Calls, and takes in the error with which it must end; no frame of ours holds a secret, given or found."""
        try:
            call(*arguments, **named)
        except Exception as error:  # whichever it is, it must not tell
            self.error(error)
        else:
            raise AssertionError("no error, so there was nothing to see")

    def either(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Calls, and takes in what it gives, or the error with which it refuses."""
        try:
            value = call(*arguments)
        except Exception as error:  # whichever it is, it must not tell
            self.error(error)
        else:
            self(value)


class NowhereToConnect:
    """A port on which nobody listens, kept by a socket that never will."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._socket.close()


class Silent(NowhereToConnect):
    """Takes connections and never says a word."""

    def __init__(self) -> None:
        super().__init__()
        self._socket.listen()


LONGEST = 1 << 16
"""The most bytes of a body in these tests. With the real limit, most of the time would go into searching one answer."""


def answers() -> list[httpx.Response]:
    """Every kind of answer that ends in an error."""
    body = json.dumps({"error": {"code": "some_code", "message": "some message"}}).encode()
    found = [httpx.Response(status, content=body) for status in (400, 401, 402, 403, 404, 409, 418, 422, 429)]
    found += [httpx.Response(status, content=body) for status in (500, 501, 502, 503, 504, 599)]
    found += [httpx.Response(302, headers={"Location": "https://elsewhere.example"})]
    found += [httpx.Response(429, content=body, headers={"Retry-After": "99999"})]
    bodies = (b"", b"<html>", b"[]", b'{"id":', b"NaN", b'{"id": 5}', b" " * (LONGEST + 1), b"\xff")
    found += [httpx.Response(200, content=content) for content in bodies]
    found += [httpx.Response(200, content=b"x", headers={"Content-Encoding": "br"})]
    return found


@dataclass(frozen=True)
class Place:
    """What a scenario may use: the marked key, a server that knows it, a shell of its own."""

    key: str
    server: MockServer
    monkeypatch: pytest.MonkeyPatch
    trade: Terminal

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"api_key": self.key, "base_url": "https://service.example", "clock": VirtualClock()} | more


Scenario = Callable[[Seen, Place], None]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function
