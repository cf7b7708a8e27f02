"""A buyer of market data for the tests: asks a world directly, without a socket."""

from __future__ import annotations

import base64
import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tradesdk_mock import GapOptions, MockClock
from tradesdk_mock.api.pipeline import Pipeline
from tradesdk_mock.core.messages import Request
from tradesdk_mock.state.world import World

from ._support import START

PER_TOKEN = ("token-signals", "token-prices", "signal-history", "token-win-rate", "token-avg-prices")
PAID = (*PER_TOKEN, "top-performers", "aggregate-metrics")
ALL = (*PAID, "supported-tokens")
JSON = (b"content-type", b"application/json")
HOST = (b"host", b"127.0.0.1:8402")
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def data(self) -> Any:
        """What was bought, out of the wrapper."""
        assert self.status == 200, self.body
        assert self.body == {"success": True, "data": self.body["data"], "error": None}
        assert isinstance(self.body["data"], dict)
        return self.body["data"]

    @property
    def error(self) -> str:
        """The text of a failure in the wrapper."""
        assert self.body == {"success": False, "data": None, "error": self.body["error"]}
        text = self.body["error"]
        assert isinstance(text, str)
        assert 0 < len(text) < 400
        assert text.isprintable()
        return text

    def offer(self) -> dict[str, Any]:
        """The offer of version 2, out of its header."""
        assert self.status == 402
        found: dict[str, Any] = json.loads(base64.b64decode(self.headers["payment-required"], validate=True))
        return found


class Market:
    """One world. `gaps` are those of the mock; unless they say otherwise, nobody has to pay."""

    def __init__(self, *, seed: int | None = None, signals: str | None = None, **gaps: object) -> None:
        self.clock = MockClock(START)
        options = GapOptions().changed(**{"paywall": "open", **gaps})
        self.world = World(seed=seed, clock=self.clock, gaps=options, market=signals)
        self.pipeline = Pipeline(self.world)
        weakref.finalize(self, self.world.close)

    def send(
        self, method: str, path: str, content: bytes | None, headers: Headers = (), client: str = "127.0.0.1"
    ) -> Answer:
        reply = self.pipeline.answer(
            Request(method, f"/v1/{path}", headers=[HOST, *headers], content=content, client=client)
        )
        assert isinstance(reply.body, bytes)
        named = {name.decode("ascii"): value.decode("ascii") for name, value in reply.headers}
        assert named["content-type"] == "application/json"
        return Answer(reply.status, named, json.loads(reply.body, parse_constant=_no_number))

    def post(self, path: str, body: object, headers: Headers = ()) -> Answer:
        return self.send("POST", path, json.dumps(body).encode(), [JSON, *headers])

    def results(self, path: str, *identifiers: str, **fields: object) -> list[dict[str, Any]]:
        """The results for some tokens."""
        found: list[dict[str, Any]] = self.post(path, {**tokens(*identifiers), **fields}).data["results"]
        return found


def tokens(*identifiers: str) -> dict[str, Any]:
    return {"tokens": [{"identifier": identifier} for identifier in identifiers]}


def good_body(path: str) -> dict[str, Any]:
    """A body that the endpoint accepts."""
    if path in PER_TOKEN:
        return tokens("BRETT")
    return {"sortBy": "ROI"} if path == "top-performers" else {}


def _no_number(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")
