"""GET /v1/account, GET /v1/account/usage"""

from __future__ import annotations

from ..web import Answer, Call, Endpoint, Routes


def read(call: Call) -> Answer:
    ident, email, created_at = call.world.store.all(
        "SELECT id, email, created_at FROM tenants WHERE name = ?", (call.tenant,)
    )[0]
    record = {
        "id": ident,
        "email": email,
        "plan": call.caller.plan,
        "created_at": created_at,
        "api_key_last4": call.caller.last4,
    }
    return Answer(200, call.shown(record))


def usage(call: Call) -> Answer:
    requests, agents = call.world.gaps.quota(call.caller.plan)
    record = {
        "requests": {"used": call.caller.requests_used, "limit": requests},
        "agents": {"used": agent_count(call), "limit": agents},
        "reset_at": call.caller.reset_at,
    }
    return Answer(200, call.shown(record))


def agent_count(call: Call) -> int:
    return int(call.world.store.value("SELECT count(*) FROM agents WHERE tenant = ?", (call.tenant,)))


ROUTES: Routes = [
    ("/v1/account", {"GET": Endpoint(read, needs="account")}),
    ("/v1/account/usage", {"GET": Endpoint(usage, needs="account")}),
]
