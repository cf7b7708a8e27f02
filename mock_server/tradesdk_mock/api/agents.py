"""GET and POST /v1/agents; GET, PATCH and DELETE /v1/agents/{agent_id}"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..core.errors import conflict, forbidden, invalid, missing, refused, unacceptable
from ..core.messages import Response
from ..core.seeding import ident
from ..trading import agent_states, engine
from ..trading.agent_states import STATUSES
from ..trading.positions import RISK
from .context import Context, Endpoint, Routes
from .pagination import page
from .validation import check_chain, check_confidence, check_max_positions, check_risk, check_text

SUMMARY = ("id", "name", "status", "chain_id", "wallet_id", "created_at")
FULL: tuple[str, ...] = (
    "id",
    "name",
    "status",
    "chain_id",
    "wallet_id",
    "risk",
    "min_confidence",
    "max_positions",
    "created_at",
    "updated_at",
)


def listing(call: Context) -> Response:
    query = call.query()
    filters = {"tenant": call.tenant, "status": query.one_of("status", STATUSES)}
    return page(call, query, table="agents", columns=SUMMARY, time="created_at", filters=filters)


def create(call: Context) -> Response:
    gaps, store = call.world.gaps, call.world.store
    from .bodies import CreateAgentBody, read_body

    body = read_body(call, CreateAgentBody)
    check_text(body.name, "name")
    chain = check_chain(body.chain_id, "chain_id", gaps)
    risk = check_risk(body.risk.given(), gaps)
    check_confidence(body.min_confidence)
    check_max_positions(body.max_positions, gaps)
    _check_wallet(call, body.wallet_id, chain)
    quota = gaps.quota(call.caller.plan)[1]
    if store.count("agents", call.tenant) >= quota:
        message = f"the {call.caller.plan} plan allows at most {quota} agents"
        raise unacceptable("agents", message) if gaps.agent_quota_status == "422" else forbidden(f"T{message[1:]}.")
    if gaps.risk_defaults == "filled":
        risk = {**RISK, **risk}
    ordinal = store.next(call.tenant, "agent")
    now = int(call.now)
    record: dict[str, Any] = {
        "id": ident("agt", call.world.seed, call.tenant, ordinal),
        "name": body.name,
        "status": "idle",
        "chain_id": chain,
        "wallet_id": body.wallet_id,
        "risk": risk,
        "min_confidence": body.min_confidence,
        "max_positions": body.max_positions,
        "created_at": now,
    }
    store.add("agents", **{**record, "risk": json.dumps(risk)}, tenant=call.tenant, updated_at=now)
    return Response(int(gaps.write_status[:3]), call.with_unknown(record))


def read(call: Context) -> Response:
    return Response(200, _full(call, _find(call)))


def update(call: Context) -> Response:
    world = call.world
    agent = _find(call)
    from .bodies import UpdateAgentBody, read_body

    body = read_body(call, UpdateAgentBody)
    given = body.model_fields_set
    if not given and world.gaps.empty_patch == "400":
        raise invalid("The body changes nothing.")
    if "name" in given:
        agent["name"] = check_text(body.name, "name")
    if "risk" in given:
        agent["risk"] = {**agent["risk"], **check_risk(body.risk.given(), world.gaps)}
    if "min_confidence" in given:
        agent["min_confidence"] = check_confidence(body.min_confidence)
    if "max_positions" in given:
        agent["max_positions"] = check_max_positions(body.max_positions, world.gaps)
    if "wallet_id" in given:
        _check_wallet(call, body.wallet_id, agent["chain_id"])
        agent["wallet_id"] = body.wallet_id
    if given:
        agent["updated_at"] = int(call.now)
        world.store.run(
            "UPDATE agents SET name = ?, risk = ?, min_confidence = ?, max_positions = ?, wallet_id = ?,"
            " updated_at = ? WHERE id = ?",
            (
                agent["name"],
                json.dumps(agent["risk"]),
                agent["min_confidence"],
                agent["max_positions"],
                agent["wallet_id"],
                agent["updated_at"],
                agent["id"],
            ),
        )
        engine.changed(world, agent["id"])
    return Response(int(world.gaps.write_status[4:]), _full(call, agent))


def delete(call: Context) -> Response:
    agent = _find(call)
    status = agent["status"]
    if status == "active" or (status != "idle" and call.world.gaps.delete_stopped == "409"):
        raise conflict(f"The agent is {status}; stop it before deleting it.")
    agent_states.close_all(call.world, agent["id"], int(call.now))
    call.world.store.run("DELETE FROM agents WHERE id = ?", (agent["id"],))
    engine.changed(call.world, agent["id"])
    return Response(204)


def _find(call: Context) -> dict[str, Any]:
    agent = call.owned("agent", FULL)
    agent["risk"] = json.loads(agent["risk"])
    return agent


def _full(call: Context, agent: dict[str, Any]) -> dict[str, Any]:
    total, wins, cents = call.world.store.all(
        "SELECT count(closed_at), count(nullif(pnl_usd > 0, 0)), total(round(pnl_usd * 100)) FROM trades"
        " WHERE tenant = ? AND agent_id = ?",
        (call.tenant, agent["id"]),
    )[0]
    stats = {
        "total_trades": total,
        "win_rate_pct": round(100.0 * wins / total, 2) if total else 0.0,
        "total_pnl_usd": cents / 100,
    }
    return call.with_unknown({**agent, "stats": call.with_unknown(stats)})


def _check_wallet(call: Context, wallet_id: str, chain: int) -> None:
    gaps = call.world.gaps
    bound = call.world.store.value("SELECT chain_id FROM wallets WHERE id = ? AND tenant = ?", (wallet_id, call.tenant))
    if bound is None:
        if gaps.unknown_wallet == "422":
            raise unacceptable("wallet_id", "no wallet of yours has this id")
        raise missing("wallet", wallet_id)
    if bound != chain:
        raise refused(gaps.wallet_chain, "wallet_id", f"the wallet is on chain {bound}, the agent on {chain}")


def _moves(status: str, *, anew: bool = False) -> Callable[[Context], Response]:
    """The handler that sets a status. `anew`: 409 if the agent already has it."""

    def move(call: Context) -> Response:
        agent_states.set_status(call.world, str(call.owned("agent", ("id",))["id"]), status, anew=anew)
        return read(call)

    return move


_MOVES = {"start": _moves("active", anew=True), "stop": _moves("idle", anew=True), "pause": _moves("paused")}
ROUTES: Routes = {
    "/v1/agents": {"GET": Endpoint(listing), "POST": Endpoint(create, needs="write")},
    "/v1/agents/{agent_id}": {
        "GET": Endpoint(read, trading=True),
        "PATCH": Endpoint(update, needs="write", trading=True),
        "DELETE": Endpoint(delete, needs="write", trading=True),
    },
    **{
        f"/v1/agents/{{agent_id}}/{verb}": {"POST": Endpoint(move, needs="write", trading=True, option=True)}
        for verb, move in _MOVES.items()
    },
}
