"""What the control API does, one function for a method of a path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..api.validation import Query
from ..core.errors import ApiError, invalid, no_route
from ..core.gap_options import GapOptions
from ..core.messages import Answer, Request
from ..core.request_log import as_json
from ..faults import active
from ..state import snapshots, tenants
from ..state.world import World
from ..trading import agent_states, population, signal_feed

Body = dict[str, Any]
Action = Callable[[World, Request, Body], object]
STATE = "application/vnd.sqlite3"
_TYPES = {bool: "true or false", float: "a number", int: "an integer", list: "a list", str: "text"}


def _take(body: Body, name: str, kind: type | tuple[type, ...], default: object = None) -> Any:
    """A field of the body, `default` when it isn't there or null; 400 for another type."""
    value = body.get(name)
    if value is None:
        return default
    allowed = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        # A float is never asked for without an int.
        names = [_TYPES[each] for each in allowed if each is not int or float not in allowed]
        raise invalid(f"{name}: must be {' or '.join(names)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(f"{name}: must be finite")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise invalid(f"{name}: must be an integer of at most 64 bits")
    return value


def _only(body: Body, *names: str) -> None:
    unknown = sorted(body.keys() - set(names))
    if unknown:
        there = f"it has: {', '.join(names)}" if names else "it has none"
        raise invalid(f"{unknown[0][:80]}: not a field of this request; {there}")


def _need(body: Body, name: str, kind: type | tuple[type, ...]) -> Any:
    value = _take(body, name, kind)
    if value is None:
        raise invalid(f"{name}: required")
    return value


def status(world: World, request: Request, body: Body) -> object:
    count = world.store.value
    usual = GapOptions().as_dict()
    rules = world.faults.rules()
    # Signals are made when somebody looks at them, or at what agents do: those since then are not counted.
    upto = world.store.get_meta("signals_upto")
    return {
        "seed": world.seed,
        **read_clock(world, request, {}),
        "market": world.market,
        "scenario": world.scenario,
        **read_market(world, request, {}),
        "db": world.store.path,
        "tenants": [name for (name,) in world.store.all("SELECT name FROM tenants ORDER BY name")],
        "keys": count("SELECT count(*) FROM keys"),
        "agents": count("SELECT count(*) FROM agents"),
        "trades": count("SELECT count(*) FROM trades"),
        "signals": count("SELECT count(*) FROM signals"),
        "signals_upto": None if upto is None else float(upto),
        "settlements": count("SELECT count(*) FROM settlements"),
        "streams": len(world.hub),
        "faults": len(rules),
        "gaps": {name: value for name, value in world.gaps.as_dict().items() if value != usual[name]},
        "warnings": [f"fault {rule.id} ({rule.kind}): {rule.warning}" for rule in rules if rule.warning],
    }


def reset(world: World, request: Request, body: Body) -> object:
    _only(body, "seed", "scenario", "populate")
    seed, scenario = _take(body, "seed", int), _take(body, "scenario", str)
    populated = _take(body, "populate", list, [])
    if not all(isinstance(tenant, str) for tenant in populated):
        raise invalid("populate: must be names of tenants")
    for tenant in populated:
        # Before anything is forgotten: not all of that is in the transaction.
        tenants.check_tenant(tenant)
    world.reset(seed, scenario)
    for tenant in populated:
        population.populate(world, tenant)
    return status(world, request, {})


def take_snapshot(world: World, request: Request, body: Body) -> object:
    content = snapshots.snapshot(world)
    headers = [(b"content-type", STATE.encode()), (b"content-length", b"%d" % len(content))]
    return Answer(200, headers=headers, body=content)


def restore_snapshot(world: World, request: Request, body: Body) -> object:
    if request.content is None:
        raise invalid("The body is longer than a state may be.")
    snapshots.restore(world, request.content)
    with world.transaction():
        return status(world, request, {})


def list_keys(world: World, request: Request, body: Body) -> object:
    return {"data": tenants.listing(world)}


def create_key(world: World, request: Request, body: Body) -> object:
    _only(body, "name", "scope", "plan", "tenant")
    return asdict(
        tenants.create(
            world,
            name=_take(body, "name", str, "bot"),
            scope=_take(body, "scope", str, "full-access"),
            plan=_take(body, "plan", str),
            tenant=_take(body, "tenant", str),
        )
    )


def change_key(world: World, request: Request, body: Body) -> object:
    key_id, verb = request.params["key_id"], request.params["verb"]
    found = [key for key in tenants.listing(world) if key["id"] == key_id]
    if not found:
        raise ApiError(404, "not_found", f"{tenants.no_key(key_id)}.")
    if verb == "rotate":
        _only(body)
        return asdict(tenants.rotate(world, key_id))
    if verb == "revoke":
        _only(body)
        tenants.revoke(world, key_id)
    elif verb == "expire":
        _only(body, "at")
        tenants.expire(world, key_id, _take(body, "at", (int, float)))
    elif verb == "scope":
        _only(body, "scope")
        tenants.set_scope(world, key_id, _need(body, "scope", str))
    else:
        raise no_route(f"/_mock/keys/{key_id}/{verb}")
    return next(key for key in tenants.listing(world) if key["id"] == key_id)


def change_tenant(world: World, request: Request, body: Body) -> object:
    tenant, verb = request.params["tenant"], request.params["verb"]
    if verb == "populate":
        _only(body, "trades")
        return asdict(population.populate(world, tenant, trades=_take(body, "trades", int, 250)))
    if verb != "plan":
        raise no_route(f"/_mock/tenants/{tenant}/{verb}")
    _only(body, "plan")
    tenants.set_plan(world, tenant, _need(body, "plan", str))
    row = world.store.all("SELECT plan, next_plan, reset_at FROM tenants WHERE name = ?", (tenant,))[0]
    return {"tenant": tenant, "plan": row[0], "next_plan": row[1], "reset_at": row[2]}


def change_agent(world: World, request: Request, body: Body) -> object:
    agent_id, verb = request.params["agent_id"], request.params["verb"]
    if verb == "status":
        _only(body, "status")
        agent_states.set_status(world, agent_id, _need(body, "status", str))
    elif verb in ("start", "stop"):
        _only(body)
        (agent_states.start if verb == "start" else agent_states.stop)(world, agent_id)
    else:
        raise no_route(f"/_mock/agents/{agent_id}/{verb}")
    return {"id": agent_id, "status": world.store.value("SELECT status FROM agents WHERE id = ?", (agent_id,))}


def read_journal(world: World, request: Request, body: Body) -> object:
    query = Query(request.query, world.gaps)
    query.only("after", "tenant", "limit")
    limit = query.integer("limit")
    if limit is not None and limit < 1:
        raise invalid("limit: must be at least 1")
    entries = world.journal.entries(query.text("tenant"), query.integer("after") or 0)[:limit]
    return {"data": [as_json(entry) for entry in entries], "last": world.journal.last}


def clear_journal(world: World, request: Request, body: Body) -> object:
    world.journal.clear()
    return {"data": []}


def read_clock(world: World, request: Request, body: Body) -> Body:
    clock = world.clock
    # The service's own time differs under the gap option `clock_skew`.
    return {"now": clock.now(), "service_now": world.now(), "frozen": clock.frozen, "speed": clock.speed}


def change_clock(world: World, request: Request, body: Body) -> object:
    _only(body, "freeze", "set", "advance", "speed", "allow_backwards")
    freeze, to = _take(body, "freeze", bool), _take(body, "set", (int, float))
    by, backwards = _take(body, "advance", (int, float)), _take(body, "allow_backwards", bool, False)
    speed = _take(body, "speed", (int, float))
    try:
        world.clock.move(freeze=freeze, to=to, by=by, speed=speed, allow_backwards=backwards)
    except ValueError as error:
        # The clock speaks to those who call it from Python.
        raise invalid(str(error).replace("allow_backwards=True", '"allow_backwards": true')) from None
    return read_clock(world, request, {})


def read_gaps(world: World, request: Request, body: Body) -> object:
    return {"options": world.gaps.as_dict(), "described": [asdict(info) for info in GapOptions.describe()]}


def change_gaps(world: World, request: Request, body: Body) -> object:
    return {"options": world.set_gaps(body).as_dict()}


def list_faults(world: World, request: Request, body: Body) -> object:
    return {"data": [rule.as_dict() for rule in world.faults.rules()]}


def list_fault_kinds(world: World, request: Request, body: Body) -> object:
    return {"data": [asdict(kind) for kind in active.describe()]}


def add_fault(world: World, request: Request, body: Body) -> object:
    given = dict(body)
    kind = _need(given, "kind", str)
    del given["kind"]
    return world.faults.add(kind, **given).as_dict()


def clear_faults(world: World, request: Request, body: Body) -> object:
    world.faults.clear()
    return {"data": []}


def remove_fault(world: World, request: Request, body: Body) -> object:
    fault_id = request.params["fault_id"]
    if all(rule.id != fault_id for rule in world.faults.rules()):
        raise ApiError(404, "not_found", f"There is no fault {fault_id[:80]!r}.")
    world.faults.remove(fault_id)
    return list_faults(world, request, {})


def emit_signals(world: World, request: Request, body: Body) -> object:
    names = ("chain_id", "token", "direction", "confidence", "price_usd", "timestamp", "at", "after", "count", "every")
    _only(body, *names)
    count, every = _take(body, "count", int, 1), _take(body, "every", (int, float), 0)
    if not 1 <= count <= 10_000:
        raise invalid("count: must be from 1 to 10,000")
    if not 0 <= every <= 86_400:
        raise invalid("every: must be from 0 to 86,400 seconds")
    now, at, after = world.now(), _take(body, "at", (int, float)), _take(body, "after", (int, float))
    if after is not None:
        if at is not None or after < 0:
            raise invalid("after: must be seconds from now, and not beside at")
        at = now + after
    first = now if at is None else at
    found = []
    for place in range(count):
        emitted = signal_feed.emit(
            world,
            chain_id=_take(body, "chain_id", int, 8453),
            token=_take(body, "token", str),
            direction=_take(body, "direction", str),
            confidence=_take(body, "confidence", (int, float)),
            price_usd=_take(body, "price_usd", (int, float)),
            timestamp=_take(body, "timestamp", int),
            at=at if place == 0 or not every else first + place * every,
            asked=now,
        )
        found.append(asdict(emitted))
    return {"data": found}


def fail_prices(world: World, request: Request, body: Body) -> object:
    _only(body, "price_failure")
    world.set_price_failure(_need(body, "price_failure", (bool, list)))
    return read_market(world, request, {})


def read_market(world: World, request: Request, body: Body) -> Body:
    return {"price_failure": world.price_failure()}


ACTIONS: list[tuple[str, dict[str, Action]]] = [
    ("/_mock/status", {"GET": status}),
    ("/_mock/reset", {"POST": reset}),
    ("/_mock/snapshot", {"GET": take_snapshot}),
    ("/_mock/restore", {"POST": restore_snapshot}),
    ("/_mock/keys", {"GET": list_keys, "POST": create_key}),
    ("/_mock/keys/{key_id}/{verb}", {"POST": change_key}),
    ("/_mock/tenants/{tenant}/{verb}", {"POST": change_tenant}),
    ("/_mock/agents/{agent_id}/{verb}", {"POST": change_agent}),
    ("/_mock/signals", {"POST": emit_signals}),
    ("/_mock/market", {"GET": read_market, "POST": fail_prices}),
    ("/_mock/faults", {"GET": list_faults, "POST": add_fault, "DELETE": clear_faults}),
    ("/_mock/faults/kinds", {"GET": list_fault_kinds}),
    ("/_mock/faults/{fault_id}", {"DELETE": remove_fault}),
    ("/_mock/journal", {"GET": read_journal, "DELETE": clear_journal}),
    ("/_mock/clock", {"GET": read_clock, "POST": change_clock}),
    ("/_mock/gaps", {"GET": read_gaps, "PUT": change_gaps}),
]

RAW = (take_snapshot, restore_snapshot)
"""What takes or gives bytes and not JSON, and makes its transactions itself."""
