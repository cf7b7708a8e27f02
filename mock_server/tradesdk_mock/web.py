"""From a request to an answer: key, rate limit, scope, the endpoint itself, one transaction, one journal entry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic_core import from_json, to_json
from starlette.types import Receive, Scope, Send

from . import keys, ratelimit
from .errors import ApiError, Header, forbidden, internal, missing, no_route, wrong_method
from .journal import BODY_KEPT, JournalEntry, shortened
from .ratelimit import Verdict
from .validation import MAX_BODY, Query, json_body
from .world import World

log = logging.getLogger("tradesdk_mock")

NEW_FIELD = {"introduced_later": {"since": "next"}}
"""What the gap option `unknown_values` adds to every object."""


@dataclass(slots=True)
class Answer:
    status: int
    data: Any = None
    headers: list[Header] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One authenticated request, as an endpoint sees it."""

    world: World
    caller: keys.Caller
    scope: Scope
    content: bytes | None

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    def param(self, name: str) -> str:
        return str(self.scope["path_params"][name])

    def owned(self, kind: str, columns: Sequence[str]) -> dict[str, Any]:
        """The record that the path's `{kind}_id` names; 404 when the caller has none of this id."""
        ident = self.param(f"{kind}_id")
        found = self.world.store.records(columns, f"{kind}s WHERE id = ? AND tenant = ?", (ident, self.tenant))
        if not found:
            raise missing(kind, ident)
        return found[0]

    def query(self) -> Query:
        return Query(self.scope["query_string"], self.world.gaps)

    def json(self) -> dict[str, Any]:
        """The JSON object that was sent; 400 when it isn't one."""
        return json_body(self.scope["headers"], self.content)

    def shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record as it leaves: under the gap option `unknown_values`, with things that no client knows."""
        if self.world.gaps.unknown_values == "on":
            record.update(NEW_FIELD)
            if "status" in record:
                record["status"] = "hibernating" if "wallet_id" in record else "settling"
        return record


Handler = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`needs`: what the key must allow. `account` is a read whose scope isn't written down (a gap option)."""

    handler: Handler
    needs: Literal["read", "account", "write"] = "read"
    ready: Callable[[], bool] | None = None
    load: Callable[[], None] | None = None


Routes = list[tuple[str, dict[str, Endpoint]]]


class Resource:
    """The ASGI application of one path: its endpoints by method. Without endpoints: a path that doesn't exist."""

    def __init__(self, world: World, endpoints: Mapping[str, Endpoint] | None = None) -> None:
        self._world = world
        self._endpoints = dict(endpoints or {})
        self._allowed = sorted(self._endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        content: bytes | None = b""
        if endpoint is not None and scope["method"] in ("POST", "PATCH"):
            try:
                content = await read_content(scope, receive)
            except ClientGone:
                return
            if endpoint.load is not None and endpoint.ready is not None and not endpoint.ready():
                # Heavy imports happen beside the event loop: other requests go on. One that fails, fails again
                # in the endpoint, and there it is answered.
                with contextlib.suppress(ImportError):
                    await asyncio.to_thread(endpoint.load)
        answer, verdict, error, caller = self._decide(scope, endpoint, content)
        world = self._world
        now = world.now()
        headers = answer.headers
        if answer.status not in (401, 404) or world.gaps.rate_headers == "always":
            headers += (
                (b"x-ratelimit-limit", b"%d" % verdict.limit),
                (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
                (b"x-ratelimit-reset", b"%d" % verdict.reset),
            )
        self._note(scope, content, answer.status, error, caller, now)
        await respond(send, answer, now)

    def _decide(
        self, scope: Scope, endpoint: Endpoint | None, content: bytes | None
    ) -> tuple[Answer, Verdict, str | None, keys.Caller | None]:
        """Never raises. What is answered has been committed."""
        world = self._world
        caller: keys.Caller | None = None
        verdict: Verdict | None = None
        failure: ApiError | None = None
        answer: Answer | None = None
        try:
            with world.transaction():
                now = world.now()
                # An error answer of the service is a result like any other: what led to it (a key made on first
                # use, a request counted) is kept. Only a crash undoes the transaction.
                try:
                    # Starlette's patterns let a newline at the end of a path pass.
                    if not scope["path"].startswith("/v1/") or scope["path"].endswith("\n"):
                        raise no_route(scope["path"])
                    caller = keys.authenticate(world, scope["headers"])
                    limit = ratelimit.per_minute(caller.plan, world.gaps)
                    verdict = world.limiter.hit(caller.key_id, limit, now)
                    self._admit(caller, verdict, now)
                    if not self._endpoints:
                        raise no_route(scope["path"])
                    if endpoint is None:
                        raise wrong_method(scope["method"], self._allowed)
                    self._permit(caller, endpoint)
                    answer = endpoint.handler(Call(world, caller, scope, content))
                except ApiError as error:
                    failure = error
        except ApiError as error:
            failure = error
        except Exception:
            log.exception("%s %s crashed", scope["method"], scope["path"])
            failure = internal()
        if failure is not None or answer is None:
            failure = failure or internal()
            answer = error_answer(failure, world)
        if verdict is None:
            verdict = ratelimit.untouched(world.gaps, world.now())
        return answer, verdict, failure.code if failure else None, caller

    def _admit(self, caller: keys.Caller, verdict: Verdict, now: float) -> None:
        """Count the request, or refuse it with 429."""
        gaps = self._world.gaps
        if not verdict.allowed:
            raise ratelimit.exceeded(verdict.reset, now, f"More than {verdict.limit} requests a minute.")
        quota = gaps.quota(caller.plan)[0]
        if gaps.request_quota == "429" and caller.requests_used >= quota:
            raise ratelimit.exceeded(caller.reset_at, now, f"The period's {quota} requests are used up.")
        caller.requests_used += 1
        self._world.store.run("UPDATE tenants SET requests_used = requests_used + 1 WHERE name = ?", (caller.tenant,))

    def _permit(self, caller: keys.Caller, endpoint: Endpoint) -> None:
        if caller.scope == "full-access" or endpoint.needs == "read":
            return
        if endpoint.needs == "write":
            raise forbidden("A read-only key can't do this; use a key with full access.")
        if self._world.gaps.read_only_account == "403":
            raise forbidden("A read-only key can't read this; use a key with full access.")

    def _note(
        self, scope: Scope, content: bytes | None, status: int, error: str | None, caller: keys.Caller | None, at: float
    ) -> None:
        body: object = None
        if content and len(content) <= BODY_KEPT:
            try:
                body = from_json(content, allow_inf_nan=False)
            except ValueError:
                body = None
        raw = shortened(scope["query_string"].decode("latin-1"))
        self._world.journal.add(
            JournalEntry(
                scope["method"],
                shortened(scope["path"]),
                dict(parse_qsl(raw, keep_blank_values=True)) if raw else {},
                caller.last4 if caller else None,
                caller.tenant if caller else None,
                status,
                at,
                error,
                body,
            )
        )


class ClientGone(Exception):
    """The client left before its request was whole: nothing is done for it."""


async def read_content(scope: Scope, receive: Receive) -> bytes | None:
    """The request's body; None when it is longer than 1 MiB, and then the rest isn't read."""
    for name, value in scope["headers"]:
        # A length that is no number never gets this far: the HTTP parser refuses it.
        if name == b"content-length" and int(value) > MAX_BODY:
            return None
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        content += message.get("body", b"")
        if len(content) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(content)


def error_answer(error: ApiError, world: World) -> Answer:
    extra = NEW_FIELD if world.gaps.unknown_values == "on" else {}
    body = {"error": {"code": error.code, "message": error.message, **extra}}
    return Answer(error.status, body, list(error.headers))


_date: tuple[int, bytes] = (-1, b"")


def http_date(now: float) -> bytes:
    global _date
    second = int(now)
    if _date[0] != second:
        _date = (second, formatdate(second, usegmt=True).encode("ascii"))
    return _date[1]


async def respond(send: Callable[[Any], Awaitable[None]], answer: Answer, now: float) -> None:
    """Send an answer; one without data has an empty body."""
    content = b"" if answer.status == 204 else to_json(answer.data)
    headers = [(b"date", http_date(now)), *answer.headers]
    if answer.status != 204:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
