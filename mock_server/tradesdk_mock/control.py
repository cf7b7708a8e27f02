"""The control API `/_mock/*`: moves the mock's world from outside. For programs on this machine only."""

from __future__ import annotations

import ipaddress
import logging
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from . import keys, seedworld, trading
from .errors import ApiError, MockServerError, forbidden, internal, invalid, no_route, wrong_method
from .gaps import GapOptions
from .journal import as_json
from .validation import json_body
from .web import Answer, ClientGone, error_answer, read_content, respond
from .world import World

log = logging.getLogger("tradesdk_mock")
Body = dict[str, Any]
Action = Callable[[World, dict[str, str], Body], object]


def _is_loopback(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        where = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = where.ipv4_mapped if isinstance(where, ipaddress.IPv6Address) else None
    return (mapped or where).is_loopback


def check_local(scope: Scope) -> None:
    """403 unless a program on this machine asks, and not a web page in a browser on it.

    The peer's address keeps other machines out; the Host header, pages whose name was pointed at this machine; the
    Origin header, pages that simply send a form here.
    """
    client = scope.get("client")
    if not client or not _is_loopback(client[0]):
        raise forbidden("The control API answers to programs on this machine only.")
    for name, value in scope["headers"]:
        if name in (b"host", b"origin"):
            text = value.decode("latin-1")
            try:
                host = urlsplit(text if name == b"origin" else f"//{text}").hostname
            except ValueError:
                host = None
            if not _is_loopback(host):
                raise forbidden(f"The control API doesn't answer to {name.decode().title()} {text[:80]!r}.")


class ControlResource:
    """One control path: actions by method."""

    def __init__(self, world: World, actions: dict[str, Action] | None = None) -> None:
        self._world = world
        self._actions = actions or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = Answer(200, await self._act(scope, receive))
        except ClientGone:
            return
        except ApiError as error:
            answer = error_answer(error, self._world)
        except Exception:
            log.exception("%s %s crashed", scope["method"], scope["path"])
            answer = error_answer(internal(), self._world)
        await respond(send, answer, self._world.now())

    async def _act(self, scope: Scope, receive: Receive) -> object:
        check_local(scope)
        action = self._actions.get(scope["method"])
        if action is None:
            if not self._actions:
                raise no_route(scope["path"])
            raise wrong_method(scope["method"], sorted(self._actions))
        body: Body = {}
        if scope["method"] in ("POST", "PUT"):
            content = await read_content(scope, receive)
            # An action without arguments needs no body.
            if content != b"":
                body = json_body(scope["headers"], content)
        try:
            # One transaction, so that other processes on the same file see all of it or nothing.
            with self._world.transaction():
                return action(self._world, scope["path_params"], body)
        except (MockServerError, ValueError) as error:
            raise invalid(str(error)) from None


def _take(body: Body, name: str, kind: type | tuple[type, ...], default: object = None) -> Any:
    """A field of the body, `default` when it isn't there or null; 400 for another type."""
    value = body.get(name)
    if value is None:
        return default
    allowed = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join(each.__name__ for each in allowed)
        raise invalid(f"{name}: must be {names}")
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(f"{name}: must be finite")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(f"{name}: must be an integer of at most 64 bits")
    return value


def _only(body: Body, *names: str) -> None:
    unknown = sorted(body.keys() - set(names))
    if unknown:
        raise invalid(f"{unknown[0][:80]}: not a field of this request")


def _need(body: Body, name: str, kind: type) -> Any:
    value = _take(body, name, kind)
    if value is None:
        raise invalid(f"{name}: required")
    return value


def status(world: World, params: dict[str, str], body: Body) -> object:
    count = world.store.value
    return {
        "seed": world.seed,
        "now": world.clock.now(),
        "frozen": world.clock.frozen,
        "db": world.store.path,
        "tenants": [name for (name,) in world.store.all("SELECT name FROM tenants ORDER BY name")],
        "keys": count("SELECT count(*) FROM keys"),
        "agents": count("SELECT count(*) FROM agents"),
        "trades": count("SELECT count(*) FROM trades"),
    }


def reset(world: World, params: dict[str, str], body: Body) -> object:
    _only(body, "seed")
    world.reset(_take(body, "seed", int))
    return status(world, params, {})


def list_keys(world: World, params: dict[str, str], body: Body) -> object:
    return {"data": keys.listing(world)}


def create_key(world: World, params: dict[str, str], body: Body) -> object:
    _only(body, "name", "scope", "plan", "tenant")
    return asdict(
        keys.create(
            world,
            name=_take(body, "name", str, "bot"),
            scope=_take(body, "scope", str, "full-access"),
            plan=_take(body, "plan", str),
            tenant=_take(body, "tenant", str),
        )
    )


def change_key(world: World, params: dict[str, str], body: Body) -> object:
    key_id, verb = params["key_id"], params["verb"]
    found = [key for key in keys.listing(world) if key["id"] == key_id]
    if not found:
        raise ApiError(404, "not_found", f"There is no key {key_id[:80]!r}.")
    if verb == "rotate":
        _only(body)
        return asdict(keys.rotate(world, key_id))
    if verb == "revoke":
        _only(body)
        keys.revoke(world, key_id)
    elif verb == "expire":
        _only(body, "at")
        keys.expire(world, key_id, _take(body, "at", (int, float)))
    elif verb == "scope":
        _only(body, "scope")
        keys.set_scope(world, key_id, _need(body, "scope", str))
    else:
        raise no_route(f"/_mock/keys/{key_id}/{verb}")
    return next(key for key in keys.listing(world) if key["id"] == key_id)


def change_tenant(world: World, params: dict[str, str], body: Body) -> object:
    tenant, verb = params["tenant"], params["verb"]
    if verb == "populate":
        _only(body, "trades")
        return asdict(seedworld.populate(world, tenant, trades=_take(body, "trades", int, 250)))
    if verb != "plan":
        raise no_route(f"/_mock/tenants/{tenant}/{verb}")
    _only(body, "plan")
    keys.set_plan(world, tenant, _need(body, "plan", str))
    row = world.store.all("SELECT plan, next_plan, reset_at FROM tenants WHERE name = ?", (tenant,))[0]
    return {"tenant": tenant, "plan": row[0], "next_plan": row[1], "reset_at": row[2]}


def change_agent(world: World, params: dict[str, str], body: Body) -> object:
    agent_id, verb = params["agent_id"], params["verb"]
    if verb == "status":
        _only(body, "status")
        trading.set_status(world, agent_id, _need(body, "status", str))
    elif verb in ("start", "stop"):
        _only(body)
        (trading.start if verb == "start" else trading.stop)(world, agent_id)
    else:
        raise no_route(f"/_mock/agents/{agent_id}/{verb}")
    return {"id": agent_id, "status": world.store.value("SELECT status FROM agents WHERE id = ?", (agent_id,))}


def read_journal(world: World, params: dict[str, str], body: Body) -> object:
    return {"data": [as_json(entry) for entry in world.journal.entries()]}


def clear_journal(world: World, params: dict[str, str], body: Body) -> object:
    world.journal.clear()
    return {"data": []}


def read_clock(world: World, params: dict[str, str], body: Body) -> object:
    return {"now": world.clock.now(), "frozen": world.clock.frozen}


def change_clock(world: World, params: dict[str, str], body: Body) -> object:
    _only(body, "freeze", "set", "advance", "allow_backwards")
    freeze, to = _take(body, "freeze", bool), _take(body, "set", (int, float))
    by, backwards = _take(body, "advance", (int, float)), _take(body, "allow_backwards", bool, False)
    world.clock.move(freeze=freeze, to=to, by=by, allow_backwards=backwards)
    return read_clock(world, params, {})


def read_gaps(world: World, params: dict[str, str], body: Body) -> object:
    return {"options": world.gaps.as_dict(), "described": [asdict(info) for info in GapOptions.describe()]}


def change_gaps(world: World, params: dict[str, str], body: Body) -> object:
    return {"options": world.set_gaps(body).as_dict()}


ROUTES: list[tuple[str, dict[str, Action]]] = [
    ("/_mock/status", {"GET": status}),
    ("/_mock/reset", {"POST": reset}),
    ("/_mock/keys", {"GET": list_keys, "POST": create_key}),
    ("/_mock/keys/{key_id}/{verb}", {"POST": change_key}),
    ("/_mock/tenants/{tenant}/{verb}", {"POST": change_tenant}),
    ("/_mock/agents/{agent_id}/{verb}", {"POST": change_agent}),
    ("/_mock/journal", {"GET": read_journal, "DELETE": clear_journal}),
    ("/_mock/clock", {"GET": read_clock, "POST": change_clock}),
    ("/_mock/gaps", {"GET": read_gaps, "PUT": change_gaps}),
]
