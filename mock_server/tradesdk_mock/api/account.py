"""GET /v1/account, GET /v1/account/usage"""

from __future__ import annotations

from ..core.messages import Response
from .context import Context, Endpoint, Routes


def read(call: Context) -> Response:
    [tenant] = call.world.store.rows(("id", "email", "created_at"), "tenants WHERE name = ?", (call.tenant,))
    record = {
        "id": tenant["id"],
        "email": tenant["email"],
        "plan": call.caller.plan,
        "created_at": tenant["created_at"],
        "api_key_last4": call.caller.last4,
    }
    return Response(200, call.with_unknown(record))


def usage(call: Context) -> Response:
    requests, agents = call.world.gaps.quota(call.caller.plan)
    record = {
        "requests": {"used": call.caller.requests_used, "limit": requests},
        "agents": {"used": call.world.store.count("agents", call.tenant), "limit": agents},
        "reset_at": call.caller.reset_at,
    }
    return Response(200, call.with_unknown(record))


ROUTES: Routes = {
    "/v1/account": {"GET": Endpoint(read, needs="account")},
    "/v1/account/usage": {"GET": Endpoint(usage, needs="account")},
}
